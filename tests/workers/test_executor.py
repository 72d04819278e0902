"""Sweeps on real Dask clusters: identical results, and a bounded number of tasks."""

import json
import os
import re
import time as clock
from collections import Counter
from contextlib import closing, contextmanager

import numpy as np
import pytest
import xarray as xr
from dask.utils import key_split
from distributed import Future, LocalCluster

from sweep_service.execution import executors
from sweep_service.execution.conductor import Conductor, ConductorSettings
from sweep_service.execution.executors import SerialExecutor
from sweep_service.execution.task import DEATH_MESSAGE, Task
from sweep_service.planning.bundles import Bundle, BundleLimits
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State
from sweep_service.workers import executor as executing
from sweep_service.workers.cluster import Remote
from sweep_service.workers.embedded import Embedded
from sweep_service.workers.executor import DaskExecutor, dashboard_label
from sweep_service.workers.window import MAX_TASKS_PER_THREAD, MIN_TASKS_PER_THREAD
from sweep_service.workers.worker_side import pickle_by_value
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
def conducting(root, cluster, settings=None):
    folder = DataFolder(root)
    executor = SerialExecutor() if cluster is None else DaskExecutor(cluster, folder)
    with Conductor(folder, executor, settings=settings) as conductor:
        yield conductor


def results(conductor, sweep):
    with xr.open_zarr(conductor.folder.dataset_path(sweep), chunks=None) as dataset:
        dataset = dataset.load().drop_vars(["sgd_seconds", "ode_seconds"], errors="ignore")
    return dataset.drop_attrs()


def ran(conductor, spec):
    sweep, _ = conductor.submit(SweepSpec.parse(spec))
    return conductor.run(sweep.id)


def test_results_do_not_depend_on_executor(tmp_path):
    items = []
    for name, cluster in (("serial", None), ("one", Embedded(1)), ("two", Embedded(2))):
        with conducting(tmp_path / name, cluster) as conductor:
            sweep = ran(conductor, SPEC)
            assert sweep.state is State.COMPLETED
            items.append(results(conductor, sweep.id))
            assert not list((tmp_path / name / "sweeps").glob("*.parts"))
    for other in items[1:]:
        xr.testing.assert_identical(items[0], other)
    assert set(np.unique(items[0].ode_status)) <= {Status.DONE, Status.DIVERGED, Status.SKIPPED}


@pytest.fixture(scope="module")
def cluster():
    """Two workers for tests that do not change them."""
    embedded = Embedded(2)
    embedded.connect().close()
    yield Borrowed(embedded)
    embedded.close()


class Borrowed:
    """A cluster that executors do not close."""

    is_embedded = False

    def __init__(self, cluster):
        self.cluster, self.address = cluster, cluster.address

    def connect(self):
        return self.cluster.connect()

    def dashboard_url(self, identity):
        return self.cluster.dashboard_url(identity)

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
    """Whether a worker is in the loop of a simulation, where it checks for cancellation."""
    return "simulators/run.py" in str(conductor.executor.client.call_stack())


def test_cancelling_stops_running_kernels(conductor):
    sweep, _ = conductor.submit(SweepSpec.parse(ENDLESS))

    def is_running():
        conductor.tick()
        return busy(conductor)

    until(is_running)
    assert conductor.cancel(sweep.id).state is State.CANCELLED
    until(lambda: not busy(conductor))  # long before its end; `make bench` measures the time
    assert conductor.counts(sweep.id) == {Status.CANCELLED: 1}
    assert ran(conductor, SPEC).state is State.COMPLETED  # the workers are free again


def test_stopping_writes_checkpoint(tmp_path):
    with conducting(tmp_path, Embedded(1)) as conductor:
        ran(conductor, {**ENDLESS, "time": {"max": 1.0, "samples": 1}})  # compiles the kernels
        conductor.submit(SweepSpec.parse(ENDLESS))

        until(lambda: (conductor.tick(), is_simulating(conductor))[1])
    assert list(tmp_path.glob("sweeps/*.parts/*.checkpoint"))
    assert not list(tmp_path.glob("sweeps/*.parts/*.crumb"))


def test_only_a_window_of_bundles_is_submitted(conductor, monkeypatch):
    settings = ConductorSettings(BundleLimits(target_seconds=0.0))  # one run per bundle
    monkeypatch.setattr(conductor, "settings", settings)
    sweep, _ = conductor.submit(SweepSpec.parse({**SPEC, "seeds": 6}))
    most = 0
    while not conductor.ledger.sweep(sweep.id).state.has_ended:
        conductor.tick()
        most = max(most, len(conductor.executor.in_flight))
    assert conductor.ledger.totals(sweep.id)["bundles_left"] == 0
    assert MIN_TASKS_PER_THREAD * 2 <= most <= MAX_TASKS_PER_THREAD * 2 + 1
    assert conductor.counts(sweep.id)[Status.DONE] > 100


def test_small_sweep_does_not_wait_for_large_one(conductor, monkeypatch):
    monkeypatch.setattr(conductor, "settings", ConductorSettings(BundleLimits(target_seconds=0.05)))
    large, _ = conductor.submit(SweepSpec.parse({**SPEC, "seeds": 40}))
    for _ in range(10):
        conductor.tick()
    small, _ = conductor.submit(
        SweepSpec.parse({**SPEC, "axes": {**SPEC["axes"], "d": 7, "p": 4}, "seeds": 1})
    )
    before = Counter(flight.task.sweep_id for flight in conductor.executor.in_flight.values())
    assert before[large.id] > 0
    while not conductor.ledger.sweep(small.id).state.has_ended:
        conductor.tick()
    assert not conductor.ledger.sweep(large.id).state.has_ended
    assert conductor.cancel(large.id).state is State.CANCELLED


def test_higher_priority_goes_first(conductor, monkeypatch):
    monkeypatch.setattr(conductor, "settings", ConductorSettings(BundleLimits(target_seconds=0.05)))
    low, _ = conductor.submit(SweepSpec.parse({**SPEC, "seeds": 30}), priority=0)
    high, _ = conductor.submit(SweepSpec.parse({**SPEC, "seeds": [100, 101]}), priority=1)
    order, submit = [], conductor.executor.submit

    def noted(task, priority):
        order.append((task.sweep_id, priority))
        submit(task, priority)

    monkeypatch.setattr(conductor.executor, "submit", noted)
    while not conductor.ledger.sweep(high.id).state.has_ended:
        conductor.tick()
    conductor.cancel(low.id)
    first = [sweep for sweep, _ in order[: sum(sweep == high.id for sweep, _ in order)]]
    assert set(first) == {high.id}
    assert min(p for sweep, p in order if sweep == high.id) > max(p for sweep, p in order if sweep == low.id)


@pytest.mark.parametrize("name", ["phase diagram", "2 layers", "", "αβγ!", "a-b-c"])
def test_tasks_of_sweep_and_engine_have_one_colour(name):
    def prefix(sweep, key, work):
        task = Task("data", f"20260101-000000-{sweep}", Bundle((), 0.0, work), name)
        return key_split(f"{dashboard_label(task)}-{key}-17")

    same = {prefix("0badcafe", f"{at:032x}", "sgd/S1") for at in range(3)}
    odes = {prefix("0badcafe", "0" * 32, work) for work in ("ode/small", "ode/small-sampling")}
    others = {prefix("0badcafe", "0" * 32, "sgd/S2"), prefix("12345678", "0" * 32, "sgd/S1")}
    assert len(same) == len(odes) == 1
    assert len(same | odes | others) == 4
    start = "_".join(re.findall(r"\w+", name)) or "0badcafe"
    assert all(
        item.startswith((f"S1_{start}", f"ODE_{start}")) for item in same | odes
    )  # progress bars show 12 characters


def test_failing_task_is_retried_and_then_abandoned(tmp_path, cluster, monkeypatch):
    """Workers cannot read the plan; the conductor has read it before."""
    with conducting(tmp_path, cluster) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse({**SPEC, "seeds": 1}))
        conductor.folder.plan(sweep.id)
        spec = tmp_path / "sweeps" / f"{sweep.id}.json"
        spec.write_text("{}")
        ended = conductor.run(sweep.id)
        assert ended.state is State.INCOMPLETE
        assert set(conductor.counts(sweep.id)) == {Status.FAILED}
        record = json.loads(next((tmp_path / "sweeps" / f"{sweep.id}.failures").iterdir()).read_text())
        assert "differs from its copy in the dataset" in record["error"]


POISON = {
    "axes": {
        "d": [5, 6, 7, 8, 9], "p": [2, 3], "gamma": {"log": [0.01, 0.1, 10]}, "regime": "classical_noise",
    },
    "fixed": {"k": 1, "noise": 1e-3}, "simulate": False, "seeds": 5, "time": {"max": 0.1, "samples": 2},
}  # fmt: skip


@pytest.mark.slow
def test_run_that_kills_its_worker_fails_alone(tmp_path, monkeypatch):
    """500 runs, one of which kills its worker."""
    monkeypatch.setenv("SWEEP_FAULT", "run:ode-123")
    with conducting(tmp_path, Embedded(2)) as conductor:
        sweep = ran(conductor, POISON)
        assert sweep.runs == 500
        assert sweep.state is State.INCOMPLETE
        assert conductor.counts(sweep.id) == {Status.DONE: 499, Status.FAILED: 1}
        assert conductor.folder.dataset(sweep.id).status("ode")[123] == Status.FAILED
        (record,) = (tmp_path / "sweeps" / f"{sweep.id}.failures").iterdir()
        assert json.loads(record.read_text())["error"] == DEATH_MESSAGE
        assert json.loads(record.read_text())["number"] == 123
    monkeypatch.delenv("SWEEP_FAULT")
    with conducting(tmp_path, None) as conductor:
        assert conductor.run(conductor.retry(sweep.id).id).state is State.COMPLETED


@pytest.fixture
def two(tmp_path, monkeypatch):
    """An executor with two workers in this process. A task ends when a file with its sweep id exists."""
    monkeypatch.setattr(executing, "_register_plugin", lambda *_: None)  # its threads would outlive the test
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, host="127.0.0.1", protocol="tcp",
            dashboard_address=":0",
        ) as local,
        closing(DaskExecutor(Remote(local.scheduler_address), DataFolder(tmp_path))) as executor,
    ):  # fmt: skip
        executor.folder.objects.prepare()

        def wait(passport, sweep, jobs):
            while not (tmp_path / sweep).exists():
                clock.sleep(0.01)

        executor.run = pickle_by_value(wait)
        until(lambda: (executor.has_room(""), executor.threads == 2)[1])
        yield executor, local
        for name in ("a", "b"):  # threads continue after Dask has dropped their tasks
            (tmp_path / name).touch()


def sent(executor, sweep):
    """Submit a task and return its future."""
    executor.submit(Task("data", sweep, Bundle((), 1.0, "sgd/S1")), 0)
    return list(executor.in_flight.values())[-1].future


def received(executor):
    return [(receipt.sweep_id, receipt.result) for receipt in executor.poll()]


def test_worker_lost_after_task_affects_no_other_task(tmp_path, two):
    """Dask loses the result of the task, which is empty: the part is in the store."""
    executor, local = two
    client, scheduler, first, _ = executor.client, local.scheduler, sent(executor, "a"), sent(executor, "b")
    until(lambda: len({task.processing_on for task in scheduler.tasks.values()} - {None}) == 2)
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


def test_task_cancelled_elsewhere_affects_no_other_task(tmp_path, two):
    executor, local = two
    client, first, _ = executor.client, sent(executor, "a"), sent(executor, "b")
    until(lambda: len(local.scheduler.tasks) == 2)
    with closing(Remote(local.scheduler_address).connect()) as other:
        other.cancel([Future(first.key, other)], force=True)
        until(lambda: received(executor) == [("a", "lost")])
    assert executor.client is client
    (tmp_path / "b").touch()
    until(lambda: received(executor) == [("b", "done")])


def test_ended_task_without_part_is_computed_again(tmp_path, monkeypatch):
    """A receipt alone does not count as a result."""
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


def test_sweep_waits_without_scheduler(tmp_path):
    with conducting(tmp_path, Remote("tcp://127.0.0.1:1")) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(SPEC))
        conductor.tick()
        assert conductor.executor.describe_problem() == "waiting for the scheduler at tcp://127.0.0.1:1"
        assert conductor.ledger.sweep(sweep.id).state is State.QUEUED


def test_no_cluster_is_started_for_existing_sweep(tmp_path):
    with conducting(tmp_path, None) as conductor:
        ran(conductor, SPEC)
    with conducting(tmp_path, Embedded(2)) as conductor:
        assert ran(conductor, SPEC).state is State.COMPLETED
        assert conductor.executor.client is None


def test_workers_have_one_thread_in_every_library(conductor):
    conductor.executor.has_room("")
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    items = conductor.executor.client.run(lambda: {name: os.environ.get(name) for name in names})
    assert len(items) == 2
    assert all(set(item.values()) == {"1"} for item in items.values())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_run_that_exceeds_memory_fails_alone(tmp_path):
    """Its worker's nanny kills it, which counts like any other death."""
    spec = {
        "points": [{"d": 20, "p": 4, "gamma": 1e-5}, {"d": 12_000, "p": 8000, "gamma": 0.1}],
        "fixed": {"k": 1}, "time": {"max": 1e-6, "samples": 1}, "observables": ["risk"],
    }  # fmt: skip
    with conducting(tmp_path, Embedded(1, memory_limit="900MB")) as conductor:
        sweep = ran(conductor, spec)
        assert sweep.state is State.INCOMPLETE
        assert conductor.folder.dataset(sweep.id).status("sgd").tolist() == [Status.DONE, Status.FAILED]


@pytest.mark.slow  # the worker compiles
def test_workers_report_that_they_compile(tmp_path, monkeypatch):
    monkeypatch.setenv("SWEEP_KERNEL_CACHE", str(tmp_path / "kernels"))
    spec = {
        **SPEC, "axes": {"d": 6, "p": 2, "gamma": [0.1, 0.2], "regime": "classical"}, "simulate": False,
    }  # fmt: skip
    reported = []
    with conducting(tmp_path / "data", Embedded(1)) as conductor:
        conductor.executor.on_compiling = lambda: reported.append(set(conductor.executor.compiling))
        sweep, _ = conductor.submit(SweepSpec.parse(spec))
        assert conductor.run(sweep.id).state is State.COMPLETED
        assert reported[0] == {sweep.id}
        assert conductor.executor.compiling == frozenset()
        cached = sorted(path.name for path in (tmp_path / "kernels").rglob("*.nbc"))
        assert cached
        reported.clear()
        again, _ = conductor.submit(SweepSpec.parse({**spec, "time": {"max": 3.0, "samples": 6}}))
        assert conductor.run(again.id).state is State.COMPLETED
    assert reported == []
    assert sorted(path.name for path in (tmp_path / "kernels").rglob("*.nbc")) == cached
