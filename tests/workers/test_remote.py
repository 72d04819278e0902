"""External schedulers and workers that join, leave and die."""

import logging
import os
import signal
import time as clock
from contextlib import closing

import numpy as np
import pytest
import xarray as xr

from sweep_service.execution.conductor import ConductorSettings
from sweep_service.planning.bundles import BundleLimits
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State
from sweep_service.workers import executor as executing
from sweep_service.workers import report as report_of
from sweep_service.workers.cluster import Remote
from sweep_service.workers.embedded import Embedded
from sweep_service.workers.report import report
from sweep_service.workers.worker_check import worker_requirements
from sweep_service.workers.worker_side import _stop_check, installed_versions, pickle_by_value, run_bundle
from tests.hold import Hold
from tests.workers.processes import ROOT, another_version, free_port, processes, without_the_package
from tests.workers.test_executor import conducting, ran, results, until

SPEC = {
    "name": "in danger",
    "axes": {
        "d": [6, 40],
        "p": [2, 8],
        "gamma": [0.1, 0.5],
        "regime": ["classical_noise", "high_dimensional"],
    },
    "fixed": {"k": 2, "noise": 1e-3},
    "seeds": {"init": 2, "repeat": 2},
    "time": {"max": 20.0, "samples": 6},
}

SHORT_BUNDLES = ConductorSettings(BundleLimits(target_seconds=0.1))


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    with conducting(tmp_path_factory.mktemp("serial"), None) as conductor:
        return results(conductor, ran(conductor, SPEC).id)


@pytest.fixture
def started(tmp_path):
    with processes(tmp_path) as result:
        yield result


def remote(port):
    return Remote(f"tcp://127.0.0.1:{port}")


@pytest.mark.parametrize("harm", [another_version, pytest.param(without_the_package, marks=pytest.mark.slow)])
def test_worker_with_other_code_is_refused(tmp_path, started, harm):
    port = free_port()
    started.scheduler(port)
    started.worker(port, path=harm(tmp_path / "other"))
    with conducting(tmp_path / "data", remote(port)) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(SPEC))

        def is_refused():
            conductor.tick()
            return conductor.executor.client and conductor.executor.read_refusals()

        (refusal, *_) = until(is_refused)
        until(lambda: (conductor.tick(), "was refused" in conductor.executor.describe_problem())[1])
        assert refusal["why"] in conductor.executor.describe_problem()
        wanted = "version of sweep_service is 0.0.0" if harm is another_version else "not installed here"
        assert wanted in refusal["why"]
        assert conductor.counts(sweep.id) == {Status.PENDING: sweep.runs}
        started.worker(port)  # one that passes the check
        assert conductor.run(sweep.id).state is State.COMPLETED


def test_worker_that_cannot_read_folder_is_refused(tmp_path, started, monkeypatch):
    port = free_port()
    started.scheduler(port)
    started.worker(port)
    with conducting(tmp_path / "data", remote(port)) as conductor:
        conductor.executor.requirements = {"root": str(tmp_path / "elsewhere"), "nonce": "1", "versions": {}}
        sweep, _ = conductor.submit(SweepSpec.parse(SPEC))
        until(lambda: (conductor.tick(), conductor.executor.client and conductor.executor.read_refusals())[1])
        assert "cannot read the data folder" in conductor.executor.read_refusals()[0]["why"]
        assert conductor.counts(sweep.id) == {Status.PENDING: sweep.runs}


@pytest.mark.slow
def test_report_lists_accepted_and_refused_workers(tmp_path, started, monkeypatch):
    port = free_port()
    started.scheduler(port)
    address, folder = f"tcp://127.0.0.1:{port}", DataFolder(tmp_path / "data")
    until(lambda: report(address, folder)["scheduler"] == address)
    (nobody,) = [check for check in report(address, folder)["checks"] if check.verdict == "wrong"]
    assert (nobody.name, nobody.found, f"dask worker {address}" in nobody.advice) == ("workers", "none", True)
    started.worker(port), started.worker(port, path=another_version(tmp_path / "other"))
    with closing(remote(port).connect()) as client:
        client.wait_for_workers(2, timeout=60)
        with folder.lock():  # like a service, whose nonce must not change
            shown = worker_requirements(folder)
            result = report(address, folder)
            assert worker_requirements(folder, fresh=False) == shown
        assert len(client.nthreads()) == 2  # the report closes no worker
        verdicts = {check.name: check.verdict for check in result["checks"]}
        assert verdicts == {"scheduler": "ok", "workers": "warning", "versions": "ok", "clocks": "ok"}
        monkeypatch.setattr(report_of, "clock", Late)
        late = report_of._check_clocks(client)
    (refused,) = result["refused"]
    assert "0.0.0" in refused["why"]
    assert refused["worker"] not in result["workers"]
    assert len(result["workers"]) == 1
    assert (late.verdict, "3 of 3 differ from this machine" in late.found) == ("warning", True)


class Late:
    """A clock that is ten seconds slow."""

    @staticmethod
    def time():
        return clock.time() - 10.0


def test_different_versions_are_reported():
    local = installed_versions(report_of.PACKAGES)
    other = {**local, "numpy": "1.0", "distributed": "2020.1"}
    (checks,) = report_of._check_versions(local, {"a": local, "b": local})
    assert checks.verdict == "ok"
    checks = report_of._check_versions({**other, "scipy": ""}, {"a": other, "b": local, "c": OSError()})
    expected = [
        ("warning", f"distributed is {local['distributed']} here, 2020.1 at a, the scheduler"),
        ("warning", f"numpy is {local['numpy']} here, 1.0 at a"),
    ]
    assert [(check.verdict, check.found) for check in checks] == expected
    assert report_of._check_versions(None, {}) == []
    patch = {**local, "python": local["python"].rpartition(".")[0] + ".99"}
    assert [check.verdict for check in report_of._check_versions(patch, {})] == ["ok"]


def first_alone(folder):
    """Compute one task at once, and the others when a file `go` exists or their worker leaves."""

    def run(*arguments):
        stopped = _stop_check()
        try:
            (folder / "first").touch(exist_ok=False)
        except FileExistsError:
            while not (folder / "go").exists() and not stopped():
                clock.sleep(0.01)
        run_bundle(*arguments)

    return pickle_by_value(run)


@pytest.mark.slow
def test_sweep_survives_lost_scheduler(tmp_path, started, expected, caplog):
    caplog.set_level(logging.INFO)
    port = free_port()
    scheduler, _ = started.scheduler(port), started.worker(port)
    with conducting(tmp_path / "data", remote(port), SHORT_BUNDLES) as conductor:
        conductor.executor.run = first_alone(tmp_path)
        sweep, _ = conductor.submit(SweepSpec.parse(SPEC))
        until(lambda: (conductor.tick(), conductor.counts(sweep.id).get(Status.DONE))[1])
        until(lambda: (conductor.tick(), events(caplog).count("worker_joined") == 1)[1])
        started.kill(scheduler)
        until(
            lambda: (conductor.tick(), "waiting for the scheduler" in conductor.executor.describe_problem())[
                1
            ]
        )
        assert not conductor.ledger.sweep(sweep.id).state.has_ended
        (tmp_path / "go").touch()
        started.scheduler(port), started.worker(port)
        assert conductor.run(sweep.id).state is State.COMPLETED
        xr.testing.assert_identical(results(conductor, sweep.id), expected)
        until(lambda: (conductor.tick(), events(caplog).count("worker_joined") == 2)[1])
    assert [name for name in events(caplog) if name.startswith("scheduler")] == [
        "scheduler_found", "scheduler_lost", "scheduler_found"
    ]  # fmt: skip


def events(caplog):
    return [record.event for record in caplog.records if hasattr(record, "event")]


@pytest.mark.slow
def test_sweep_survives_silent_scheduler(tmp_path, started, expected, monkeypatch):
    """A suspended scheduler, as behind a broken network: nothing blocks, and nothing is lost."""
    monkeypatch.setattr(executing, "SCHEDULER_TIMEOUT_SECONDS", 0.5)
    port = free_port()
    scheduler, _ = started.scheduler(port), started.worker(port)
    with conducting(tmp_path / "data", remote(port), SHORT_BUNDLES) as conductor:
        conductor.executor.run = first_alone(tmp_path)
        sweep, _ = conductor.submit(SweepSpec.parse(SPEC))
        until(lambda: (conductor.tick(), conductor.counts(sweep.id).get(Status.DONE))[1])
        os.kill(scheduler.pid, signal.SIGSTOP)
        try:
            until(lambda: (conductor.tick(), "does not answer" in conductor.executor.describe_problem())[1])
            assert conductor.executor.workers() == []
            assert not conductor.ledger.sweep(sweep.id).state.has_ended
            (tmp_path / "go").touch()
        finally:
            os.kill(scheduler.pid, signal.SIGCONT)
        assert conductor.run(sweep.id).state is State.COMPLETED
        until(lambda: (conductor.tick(), conductor.executor.describe_problem() == "")[1])
        xr.testing.assert_identical(results(conductor, sweep.id), expected)


CONDUCT = """
import sys
from sweep_service.execution.conductor import Conductor, ConductorSettings
from sweep_service.planning.bundles import BundleLimits
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.folder import DataFolder
from sweep_service.workers.cluster import Remote
from sweep_service.workers.embedded import Embedded
from sweep_service.workers.report import report
from sweep_service.workers.executor import DaskExecutor
if __name__ == "__main__":
    settings = ConductorSettings(BundleLimits(target_seconds=0.1))
    folder = DataFolder(sys.argv[1])
    cluster = Remote(sys.argv[3]) if len(sys.argv) > 3 else Embedded(2)
    with Conductor(folder, DaskExecutor(cluster, folder), settings=settings) as conductor:
        sweep, _ = conductor.submit(SweepSpec.read(sys.argv[2]))
        print(conductor.run(sweep.id).state, flush=True)
"""


class Stage:
    """A running sweep, with scheduler, workers and conductor as processes."""

    def __init__(self, started, tmp_path, rng):
        self.started, self.rng, self.port = started, rng, free_port()
        self.script = tmp_path / "conduct.py"
        self.script.write_text(CONDUCT)
        self.data, self.spec = tmp_path / "data", SweepSpec.parse(SPEC).model_dump_json()
        self.scheduler = started.scheduler(self.port)
        self.workers = [started.worker(self.port) for _ in range(2)]
        self.begin()

    def begin(self):
        address = f"tcp://127.0.0.1:{self.port}"
        self.conductor = self.started.start(self.script, self.data, self.spec, address, path=ROOT)

    def kill_something(self):
        what = self.rng.choice(["worker", "worker", "workers", "scheduler", "conductor"])
        if what == "scheduler":
            self.started.kill(self.scheduler)
            clock.sleep(self.rng.uniform(0.0, 2.0))
            self.scheduler = self.started.scheduler(self.port)
        elif what == "conductor":
            self.started.kill(self.conductor)
            self.begin()
        else:
            for at in range(2) if what == "workers" else [int(self.rng.integers(2))]:
                self.started.kill(self.workers[at])
        self.mend()

    def mend(self):
        """Start workers again, like a supervisor: they end when they lose their scheduler."""
        for at, worker in enumerate(self.workers):
            if worker.poll() is not None:
                self.workers[at] = self.started.worker(self.port)


@pytest.mark.parametrize(
    ("kills", "round"),
    [(2, 0), *(pytest.param(6, at, marks=pytest.mark.slow) for at in range(1, 10))],
)
@pytest.mark.timeout(600)
def test_dataset_does_not_depend_on_killed_processes(tmp_path, started, expected, kills, round):
    stage = Stage(started, tmp_path, np.random.default_rng(round))
    for _ in range(kills):
        clock.sleep(stage.rng.uniform(1.0, 6.0))
        stage.kill_something()

    def is_done():
        stage.mend()
        if stage.conductor.poll() is not None and stage.conductor.returncode != 0:
            log = sorted(tmp_path.glob("process-*.log"))[started.all.index(stage.conductor)]
            pytest.fail(log.read_text()[-3000:])
        return stage.conductor.poll() is not None

    until(is_done, seconds=300.0)
    with conducting(stage.data, None) as conductor:
        (sweep,) = conductor.ledger.sweeps()
        assert sweep.state is State.COMPLETED
        xr.testing.assert_identical(results(conductor, sweep.id), expected)
    left = [path.name for path in stage.data.rglob("*") if path.suffix in (".npz", ".partial", ".crumb")]
    assert left == []


@pytest.mark.slow
def test_embedded_workers_die_with_conductor_which_can_resume(tmp_path, started, expected):
    script = tmp_path / "conduct.py"
    script.write_text(CONDUCT)
    arguments = (script, tmp_path / "data", SweepSpec.parse(SPEC).model_dump_json())
    hold = Hold(tmp_path, "task:computed")
    child = started.start(*arguments, path=ROOT, env=hold.environment)
    until(hold.count)
    os.kill(child.pid, signal.SIGKILL)  # only the process, not its group
    child.wait()
    hold.release()
    group = f"pgrep -g {child.pid}"
    until(lambda: os.system(f"{group} > {os.devnull}") != 0)
    with conducting(tmp_path / "data", Embedded(2)) as conductor:
        assert ran(conductor, SPEC).state is State.COMPLETED
        (sweep,) = conductor.ledger.sweeps()
        xr.testing.assert_identical(results(conductor, sweep.id), expected)
