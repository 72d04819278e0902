"""Sweeps on real Dask clusters: the same bits wherever they are computed, and no task too many."""

import json
import os
import re
import time as clock
from collections import Counter
from contextlib import closing, contextmanager
from functools import partial

import numpy as np
import pytest
import xarray as xr
from dask.utils import key_split
from distributed import Future, LocalCluster

from sweep_service.execution import executors
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.execution.task import DEADLY, Task
from sweep_service.planning import bundles as bundling
from sweep_service.planning.bundles import Bundle
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State
from sweep_service.workers import cluster as clusters
from sweep_service.workers import executor as executing
from sweep_service.workers.cluster import Embedded, Remote
from sweep_service.workers.executor import LEAST, MOST, DaskExecutor, label
from sweep_service.workers.worker_side import shipped
from tests.cli.commands import until

SPEC = {
    "name": "on Dask",
    "axes": {
        "d": [6, 40],
        "p": [2, 30],
        "gamma": [0.1, 2.0],
        "regime": ["classical_noise", "auto", "mean_field"],
    },
    "fixed": {"k": 2, "noise": 1e-3},
    "seeds": {"init": 2, "repeat": 2},
    "time": {"max": 2.0, "samples": 6},
}  # fmt: skip


@contextmanager
def conducting(root, cluster):
    folder = DataFolder(root)
    executor = SerialExecutor() if cluster is None else DaskExecutor(cluster, folder)
    with Conductor(folder, executor) as conductor:
        yield conductor


def results(conductor, sweep):
    with xr.open_zarr(conductor.folder.dataset_path(sweep), chunks=None) as found:
        found = found.load().drop_vars(["sgd_seconds", "ode_seconds"], errors="ignore")
    return found.drop_attrs()


def ran(conductor, spec):
    sweep, _ = conductor.submit(SweepSpec.parse(spec))
    return conductor.run(sweep.id)


def test_the_bits_do_not_depend_on_where_they_are_computed(tmp_path):
    found = []
    for name, cluster in (("serial", None), ("one", Embedded(1)), ("two", Embedded(2))):
        with conducting(tmp_path / name, cluster) as conductor:
            sweep = ran(conductor, SPEC)
            assert sweep.state is State.COMPLETED
            found.append(results(conductor, sweep.id))
            assert not list((tmp_path / name / "sweeps").glob("*.parts"))
    for other in found[1:]:
        xr.testing.assert_identical(found[0], other)
    assert set(np.unique(found[0].ode_status)) <= {Status.DONE, Status.DIVERGED, Status.SKIPPED}


@pytest.fixture(scope="module")
def cluster():
    """Two workers for all of the tests below that leave them as they are."""
    embedded = Embedded(2)
    embedded.connect().close()
    yield Borrowed(embedded)
    embedded.close()


class Borrowed:
    """A cluster that outlives its executors."""

    is_ours = False

    def __init__(self, cluster):
        self.cluster, self.address = cluster, cluster.address

    def connect(self):
        return self.cluster.connect()

    def close(self): ...


@pytest.fixture
def conductor(tmp_path, cluster):
    with conducting(tmp_path / "data", cluster) as conductor:
        yield conductor


ENDLESS = {
    "axes": {"d": 1000, "p": 8, "gamma": 0.01}, "fixed": {"k": 2}, "time": {"max": 1e3, "samples": 2},
    "observables": ["risk"],
}  # fmt: skip
assert ENDLESS["time"]["max"] * 1000 * 8 / 0.01 > 5e8  # steps


def busy(conductor):
    return sum(map(len, conductor.executor.client.call_stack().values()))


def is_simulating(conductor):
    """Is a worker in the loop of a simulation, where it asks whether it is still wanted?"""
    return "simulators/run.py" in str(conductor.executor.client.call_stack())


def test_cancelling_stops_running_kernels(conductor):
    sweep, _ = conductor.submit(SweepSpec.parse(ENDLESS))

    def is_running():
        conductor.tick()
        return busy(conductor)

    until(is_running)
    assert conductor.cancel(sweep.id).state is State.CANCELLED
    until(lambda: not busy(conductor))  # long before it would end; `make bench` has the seconds
    assert conductor.counts(sweep.id) == {Status.CANCELLED: 1}
    assert ran(conductor, SPEC).state is State.COMPLETED  # the workers are there for others


def test_stopping_saves_what_a_long_run_has(tmp_path):
    with conducting(tmp_path, Embedded(1)) as conductor:
        ran(conductor, {**ENDLESS, "time": {"max": 1.0, "samples": 1}})  # compiles its kernels
        conductor.submit(SweepSpec.parse(ENDLESS))

        until(lambda: (conductor.tick(), is_simulating(conductor))[1])
    assert list(tmp_path.glob("sweeps/*.parts/*.checkpoint"))
    assert not list(tmp_path.glob("sweeps/*.parts/*.crumb"))


def test_a_window_is_submitted_and_never_the_whole_sweep(conductor, monkeypatch):
    monkeypatch.setattr(bundling, "AIM", 0.0)  # a bundle is a run
    sweep, _ = conductor.submit(SweepSpec.parse({**SPEC, "seeds": 6}))
    most = 0
    while not conductor.ledger.sweep(sweep.id).state.ended:
        conductor.tick()
        most = max(most, len(conductor.executor.flights))
    assert conductor.ledger.totals(sweep.id)["bundles_left"] == 0
    assert LEAST * 2 <= most <= MOST * 2 + 1
    assert conductor.counts(sweep.id)[Status.DONE] > 100


def test_a_small_sweep_does_not_stand_behind_a_large_one(conductor, monkeypatch):
    monkeypatch.setattr(bundling, "AIM", 0.05)
    large, _ = conductor.submit(SweepSpec.parse({**SPEC, "seeds": 40}))
    for _ in range(10):
        conductor.tick()
    small, _ = conductor.submit(
        SweepSpec.parse({**SPEC, "axes": {**SPEC["axes"], "d": 7, "p": 4}, "seeds": 1})
    )
    before = Counter(flight.task.sweep for flight in conductor.executor.flights.values())
    assert before[large.id] > 0
    while not conductor.ledger.sweep(small.id).state.ended:
        conductor.tick()
    assert not conductor.ledger.sweep(large.id).state.ended
    assert conductor.cancel(large.id).state is State.CANCELLED


def test_a_higher_priority_goes_first(conductor, monkeypatch):
    monkeypatch.setattr(bundling, "AIM", 0.05)
    low, _ = conductor.submit(SweepSpec.parse({**SPEC, "seeds": 30}), priority=0)
    high, _ = conductor.submit(SweepSpec.parse({**SPEC, "seeds": [100, 101]}), priority=1)
    order, submit = [], conductor.executor.submit

    def noted(task, priority):
        order.append((task.sweep, priority))
        submit(task, priority)

    monkeypatch.setattr(conductor.executor, "submit", noted)
    while not conductor.ledger.sweep(high.id).state.ended:
        conductor.tick()
    conductor.cancel(low.id)
    first = [sweep for sweep, _ in order[: sum(sweep == high.id for sweep, _ in order)]]
    assert set(first) == {high.id}
    assert min(p for sweep, p in order if sweep == high.id) > max(p for sweep, p in order if sweep == low.id)


@pytest.mark.parametrize("name", ["phase diagram", "2 layers", "", "αβγ!", "a-b-c"])
def test_tasks_of_a_sweep_and_an_engine_have_one_colour(name):
    def prefix(sweep, key, work):
        task = Task("data", f"20260101-000000-{sweep}", Bundle((), 0.0, work), name)
        return key_split(f"{label(task)}-{key}-17")

    same = {prefix("0badcafe", f"{at:032x}", "sgd/S1") for at in range(3)}
    odes = {prefix("0badcafe", "0" * 32, work) for work in ("ode/small", "ode/small-sampling")}
    others = {prefix("0badcafe", "0" * 32, "sgd/S2"), prefix("12345678", "0" * 32, "sgd/S1")}
    assert len(same) == len(odes) == 1
    assert len(same | odes | others) == 4
    start = "_".join(re.findall(r"\w+", name)) or "0badcafe"
    assert all(one.startswith((f"S1_{start}", f"ODE_{start}")) for one in same | odes)  # bars show 12 letters


def test_a_task_that_raises_is_tried_again_and_then_given_up(tmp_path, cluster, monkeypatch):
    """Its plan cannot be read by a worker, but can by us: we have read it."""
    with conducting(tmp_path, cluster) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse({**SPEC, "seeds": 1}))
        conductor.folder.plan(sweep.id)
        spec = tmp_path / "sweeps" / f"{sweep.id}.json"
        spec.write_text("{}")
        ended = conductor.run(sweep.id)
        assert ended.state is State.INCOMPLETE
        assert set(conductor.counts(sweep.id)) == {Status.FAILED}
        capsule = json.loads(next((tmp_path / "sweeps" / f"{sweep.id}.failures").iterdir()).read_text())
        assert "InvalidInput" in capsule["error"]


POISON = {
    "axes": {
        "d": [5, 6, 7, 8, 9], "p": [2, 3], "gamma": {"log": [0.01, 0.1, 10]}, "regime": "classical_noise",
    },
    "fixed": {"k": 1, "noise": 1e-3}, "simulate": False, "seeds": 5, "time": {"max": 0.1, "samples": 2},
}  # fmt: skip


@pytest.mark.slow
def test_a_run_that_kills_its_worker_fails_alone(tmp_path, monkeypatch):
    """500 runs, of which one takes its worker along whenever it is computed."""
    monkeypatch.setenv("SWEEP_FAULT", "run:ode-123")
    with conducting(tmp_path, Embedded(2)) as conductor:
        sweep = ran(conductor, POISON)
        assert sweep.runs == 500
        assert sweep.state is State.INCOMPLETE
        assert conductor.counts(sweep.id) == {Status.DONE: 499, Status.FAILED: 1}
        assert conductor.folder.dataset(sweep.id).status("ode")[123] == Status.FAILED
        (capsule,) = (tmp_path / "sweeps" / f"{sweep.id}.failures").iterdir()
        assert json.loads(capsule.read_text())["error"] == DEADLY
        assert json.loads(capsule.read_text())["number"] == 123
    monkeypatch.delenv("SWEEP_FAULT")
    with conducting(tmp_path, None) as conductor:
        assert conductor.run(conductor.retry(sweep.id).id).state is State.COMPLETED


@pytest.fixture
def two(tmp_path, monkeypatch):
    """An executor with two workers in this process. A task ends when there is a file named as its sweep."""
    monkeypatch.setattr(executing, "_welcome", lambda *_: None)  # what warms kernels would outlive them
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, host="127.0.0.1", protocol="tcp",
            dashboard_address=None,
        ) as local,
        closing(DaskExecutor(Remote(local.scheduler_address), DataFolder(tmp_path))) as executor,
    ):  # fmt: skip
        executor.folder.objects.prepare()

        def wait(passport, sweep, jobs):
            while not (tmp_path / sweep).exists():
                clock.sleep(0.01)

        executor.run = shipped(wait)
        until(lambda: (executor.room(""), executor.threads == 2)[1])
        yield executor, local
        for name in ("a", "b"):  # threads outlive what Dask has given up
            (tmp_path / name).touch()


def sent(executor, sweep):
    """The future of a task."""
    executor.submit(Task("data", sweep, Bundle((), 1.0, "sgd/S1")), 0)
    return list(executor.flights.values())[-1].future


def received(executor):
    return [(receipt.sweep, receipt.result) for receipt in executor.poll()]


def test_a_worker_that_goes_after_a_task_takes_no_other_along(tmp_path, two):
    """Dask loses what it holds of the task, which is nothing: its part is where it was written."""
    executor, local = two
    client, scheduler, first, _ = executor.client, local.scheduler, sent(executor, "a"), sent(executor, "b")
    until(lambda: len({one.processing_on for one in scheduler.tasks.values()} - {None}) == 2)
    where = scheduler.tasks[first.key].processing_on.name
    (tmp_path / "a").touch()
    until(lambda: first.status == "finished")
    (tmp_path / "a").unlink()
    local.sync(local.workers[where].close)
    until(lambda: first.status == "lost")
    until(lambda: received(executor) == [("a", "done")])
    assert executor.client is client
    (tmp_path / "b").touch()
    until(lambda: received(executor) == [("b", "done")])


def test_a_task_that_somebody_cancels_takes_no_other_along(tmp_path, two):
    executor, local = two
    client, first, _ = executor.client, sent(executor, "a"), sent(executor, "b")
    until(lambda: len(local.scheduler.tasks) == 2)
    with closing(Remote(local.scheduler_address).connect()) as other:
        other.cancel([Future(first.key, other)], force=True)
        until(lambda: received(executor) == [("a", "lost")])
    assert executor.client is client
    (tmp_path / "b").touch()
    until(lambda: received(executor) == [("b", "done")])


def test_what_has_ended_without_a_part_is_computed_again(tmp_path, monkeypatch):
    """Nothing else may keep a receipt from being believed."""
    with conducting(tmp_path, None) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(SPEC))
        plain, gone = executors.run_task, []

        def forgetful(task, stopped):
            if task.bundle.key in gone:
                plain(task, stopped)
            gone.append(task.bundle.key)

        monkeypatch.setattr(executors, "run_task", forgetful)
        assert conductor.run(sweep.id).state is State.COMPLETED
        assert set(Counter(gone).values()) == {2}


def test_without_a_scheduler_a_sweep_waits_and_says_so(tmp_path):
    with conducting(tmp_path, Remote("tcp://127.0.0.1:1")) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(SPEC))
        conductor.tick()
        assert conductor.executor.note() == "waiting for the scheduler at tcp://127.0.0.1:1"
        assert conductor.ledger.sweep(sweep.id).state is State.QUEUED


def test_nothing_is_started_for_a_sweep_that_is_there(tmp_path):
    with conducting(tmp_path, None) as conductor:
        ran(conductor, SPEC)
    with conducting(tmp_path, Embedded(2)) as conductor:
        assert ran(conductor, SPEC).state is State.COMPLETED
        assert conductor.executor.client is None


def test_workers_have_one_thread_in_every_library(conductor):
    conductor.executor.room("")
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    found = conductor.executor.client.run(lambda: {name: os.environ.get(name) for name in names})
    assert len(found) == 2
    assert all(set(one.values()) == {"1"} for one in found.values())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_that_needs_more_memory_than_there_is_fails_alone(tmp_path, monkeypatch):
    """Its worker's nanny ends it, like any other death."""
    small = partial(clusters.LocalCluster, memory_limit="900MB")
    monkeypatch.setattr(clusters, "LocalCluster", small)
    spec = {
        "points": [{"d": 20, "p": 4, "gamma": 0.1}, {"d": 12_000, "p": 8000, "gamma": 0.1}],
        "fixed": {"k": 1}, "time": {"max": 1e-6, "samples": 1}, "observables": ["risk"],
    }  # fmt: skip
    with conducting(tmp_path, Embedded(1)) as conductor:
        sweep = ran(conductor, spec)
        assert sweep.state is State.INCOMPLETE
        assert conductor.folder.dataset(sweep.id).status("sgd").tolist() == [Status.DONE, Status.FAILED]
