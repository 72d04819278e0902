"""Adaptive clusters, whose workers start for a sweep and stop after it."""

import logging
import time as clock
from contextlib import closing, contextmanager
from importlib import import_module

import pytest
import xarray as xr
from distributed import LocalCluster

from sweep_service.errors import Stopped
from sweep_service.execution.conductor import DEFAULT_SETTINGS
from sweep_service.execution.task import Task
from sweep_service.planning.bundles import Bundle
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State
from sweep_service.workers.cluster import Remote
from sweep_service.workers.executor import DaskExecutor
from sweep_service.workers.worker_side import pickle_by_value, run_bundle
from tests.workers.test_executor import conducting, ran, results, until

SOME = {
    "axes": {"d": 6, "p": [2, 8], "gamma": 0.1, "regime": "classical_noise"},
    "fixed": {"k": 2, "noise": 1e-3},
    "seeds": {"init": 2, "repeat": 2},
    "time": {"max": 5.0, "samples": 6},
}
MORE = {**SOME, "seeds": {"init": 3, "repeat": 2}}
ONE_RUN = {
    "axes": {"d": 400, "p": 8, "gamma": 0.05}, "fixed": {"k": 2, "noise": 1e-3},
    "time": {"max": 5.0, "samples": 3}, "observables": ["risk"],
}  # fmt: skip
OFTEN = {"interval": "100 ms", "wait_count": 3}  # the default is once a second


@contextmanager
def adaptive():
    with LocalCluster(
        n_workers=0, threads_per_worker=1, processes=True, host="127.0.0.1",
        dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
    ) as cluster:  # fmt: skip
        cluster.adapt(minimum=0, maximum=2, **OFTEN)
        yield cluster


def count_workers(cluster):
    return len(cluster.scheduler.workers)


def serial(root, *specs):
    with conducting(root, None) as conductor:
        return [results(conductor, ran(conductor, spec).id) for spec in specs]


@pytest.mark.slow
def test_workers_start_for_a_sweep_and_stop_after_it(tmp_path):
    with adaptive() as cluster, conducting(tmp_path / "data", Remote(cluster.scheduler_address)) as conductor:
        for spec, expected in zip((SOME, MORE), serial(tmp_path / "serial", SOME, MORE), strict=True):
            assert count_workers(cluster) == 0
            sweep = ran(conductor, spec)  # completes only if a worker starts
            assert sweep.state is State.COMPLETED
            xr.testing.assert_identical(results(conductor, sweep.id), expected)
            until(lambda: count_workers(cluster) == 0)


@pytest.mark.slow
def test_short_tasks_make_cluster_grow(tmp_path):
    """Enough work must be submitted for Dask to start a second worker."""
    with (
        adaptive() as cluster,
        closing(DaskExecutor(Remote(cluster.scheduler_address), DataFolder(tmp_path))) as executor,
    ):
        (tmp_path / "sweeps").mkdir()
        executor.run = pickle_by_value(lambda *_: clock.sleep(1.0))

        def has_grown():
            while executor.has_room("sweep"):
                executor.submit(Task(str(tmp_path), "sweep", Bundle((), cost=1.0, work_class="sgd/S1")), 0)
            executor.poll()
            return count_workers(cluster) == 2

        until(has_grown, seconds=120.0)


def stay_once(reached):
    """Return a task whose first attempt stays between its last two records until it is stopped."""

    def run(*arguments):
        loop = import_module("sweep_service.simulators.run").ChainLoop
        advance = loop._advance

        def stay(self, first, group, until):
            if until == self.record_steps[-1] and not reached.exists():
                reached.touch()
                while not self.stopped():
                    clock.sleep(0.01)
            advance(self, first, group, until)

        loop._advance = stay
        run_bundle(*arguments)

    return pickle_by_value(run)


@pytest.mark.slow
def test_run_resumes_after_busy_worker_leaves(tmp_path, monkeypatch):
    (expected,) = serial(tmp_path / "serial", ONE_RUN)
    with adaptive() as cluster, conducting(tmp_path / "data", Remote(cluster.scheduler_address)) as conductor:
        conductor.executor.run = stay_once(tmp_path / "reached")
        sweep, _ = conductor.submit(SweepSpec.parse(ONE_RUN))
        parts = tmp_path / "data" / "sweeps" / f"{sweep.id}.parts"
        monkeypatch.setattr(conductor.ledger, "count_attempt", lambda *what: pytest.fail(f"blamed: {what}"))
        until(lambda: (conductor.tick(), (tmp_path / "reached").exists())[1])
        cluster.adapt(minimum=0, maximum=0, interval="100 ms", wait_count=1)
        until(lambda: (conductor.tick(), count_workers(cluster) == 0)[1])
        until(lambda: (conductor.tick(), list(parts.glob("*.checkpoint")))[1])
        cluster.adapt(minimum=0, maximum=2, **OFTEN)
        assert conductor.run(sweep.id).state is State.COMPLETED
        xr.testing.assert_identical(results(conductor, sweep.id), expected)


def test_bundle_is_not_blamed_for_leaving_workers(tmp_path):
    """However often workers leave: here each stops before Dask notices."""
    left = tmp_path / "left"
    left.mkdir()

    def stop_first(*arguments):
        tries = len(list(left.iterdir()))
        if tries <= DEFAULT_SETTINGS.max_attempts:
            (left / str(tries)).touch()
            raise Stopped("asked to stop")
        run_bundle(*arguments)

    spec = {**SOME, "axes": {"d": 6, "p": 2, "gamma": 0.1}}
    with adaptive() as cluster, conducting(tmp_path / "data", Remote(cluster.scheduler_address)) as conductor:
        conductor.executor.run = pickle_by_value(stop_first)
        assert ran(conductor, spec).state is State.COMPLETED
    assert len(list(left.iterdir())) > DEFAULT_SETTINGS.max_attempts
