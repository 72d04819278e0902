"""Sweeps through a real SLURM: `sbatch`, a node that is lost, and the queue's time limit in a long run."""

import os
import signal
import subprocess
import sys
import time as clock
from contextlib import contextmanager
from pathlib import Path

import pytest
import xarray as xr

import sweep_service as ss
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.ledger import State
from sweep_service.workers.cluster import Remote
from tests.clusters.controller import NODES, Controller
from tests.clusters.test_slurm import certificates  # noqa: F401
from tests.workers.processes import free_port
from tests.workers.test_adaptive import SOME, serial
from tests.workers.test_executor import conducting, ran, results, until

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("certificates")]

MANY = {
    "axes": {"d": 400, "p": [4, 6, 8], "gamma": [0.05, 0.1]},
    "fixed": {"k": 2, "noise": 1e-3, "activation": "relu"},
    "seeds": {"init": 2, "repeat": 2},
    "time": {"max": 60.0, "samples": 3},
    "observables": ["risk"],
}  # some bundles of a few seconds, so that a node is lost in the middle
LONG = {
    "axes": {"d": 400, "p": 8, "gamma": 0.05},
    "fixed": {"k": 2, "noise": 1e-3},
    "time": {"max": 1.0, "samples": 3},
    "observables": ["risk"],
}
JOB_MINUTES = 1  # the least that SLURM knows
LONG_SECONDS = 120.0  # of one run: a job lasts a minute, and SLURM looks at limits every half minute


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    controller = Controller(tmp_path_factory.mktemp("slurm") / "controller")
    try:
        controller.start()
        yield controller
    finally:
        controller.close()


@pytest.fixture(autouse=True)
def settings(slurm, monkeypatch):
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@contextmanager
def head_node(folder, *options):
    """Run `sweep slurm`, and yield the address of its scheduler."""
    address = f"tls://127.0.0.1:{free_port()}"
    with open(folder / "head.log", "w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "sweep_service.cli", "slurm", "--maximum", "2", "--cores", "1",
             "--memory", "1GB", "--host", "127.0.0.1", "--port", address.rpartition(":")[2],
             "--partition", "short", "--idle", "6", "--logs", folder / "logs", *options],
            stdout=log, stderr=log, cwd=folder,
        )  # fmt: skip
        try:
            until(lambda: f"--scheduler {address}" in (folder / "head.log").read_text(), seconds=90.0)
            yield address
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
    assert code == 0, (folder / "head.log").read_text()


def read_job_logs(folder):
    return "\n".join(file.read_text()[-2000:] for file in sorted((folder / "logs").glob("*")))


def test_sweep_through_sbatch(slurm, tmp_path):
    (expected,) = serial(tmp_path / "serial", SOME)
    before = set(slurm.jobs())
    with (
        head_node(tmp_path) as address,
        conducting(tmp_path / "data", Remote(address)) as conductor,
    ):
        sweep = ran(conductor, SOME)
        assert sweep.state is State.COMPLETED, read_job_logs(tmp_path)
        xr.testing.assert_identical(results(conductor, sweep.id), expected)
        jobs = set(slurm.jobs()) - before
        assert jobs
        until(lambda: slurm.running() == {}, seconds=120.0)  # idle jobs end
    assert {state for number, (state, _) in slurm.jobs().items() if number in jobs} <= {
        "COMPLETED", "CANCELLED", "COMPLETING",
    }  # fmt: skip


def test_lost_node_costs_nothing_but_time(slurm, tmp_path):
    (expected,) = serial(tmp_path / "serial", MANY)
    with (
        head_node(tmp_path, "--minimum", "2") as address,
        conducting(tmp_path / "data", Remote(address)) as conductor,
    ):
        sweep_id = conductor.submit(SweepSpec.parse(MANY))[0].id

        def both_compute():
            conductor.step()
            return set(slurm.running()) == set(NODES) and conductor.executor.threads == 2

        until(both_compute, seconds=200.0)
        for _ in range(10):  # tasks have started on both
            conductor.step()
            clock.sleep(0.1)
        assert conductor.ledger.sweep(sweep_id).state is State.RUNNING
        assert slurm.lose_node("n1") >= 3  # its daemon, the job's, and the worker
        sweep = conductor.run(sweep_id)
        assert sweep.state is State.COMPLETED, read_job_logs(tmp_path)
        xr.testing.assert_identical(results(conductor, sweep.id), expected)
        until(lambda: slurm.node_states()["n1"] == "DOWN", seconds=120.0)
    slurm.start_node("n1")
    until(lambda: slurm.node_states()["n1"] == "IDLE", seconds=120.0)


def test_long_run_outlives_the_time_limit_of_its_jobs(slurm, tmp_path):
    """No job lives as long as the run takes, so it ends only if checkpoints carry it from job to job."""
    point = {"d": 400, "p": 8, "k": 2, "gamma": 0.05, "noise": 1e-3}
    ss.simulate(point, times=[0.1])  # compiles
    began = clock.perf_counter()
    ss.simulate(point, times=[20.0])
    rate = 20.0 / (clock.perf_counter() - began)
    spec = {**LONG, "time": {"max": float(f"{rate * LONG_SECONDS:.3g}"), "samples": 3}}
    (tmp_path / "long.yaml").write_text(str(spec).replace("'", '"'))
    reference = subprocess.Popen(
        [sys.executable, "-m", "sweep_service.cli", "run", "long.yaml", "--serial", "--no-figure",
         "--data", "serial"],
        cwd=tmp_path, env={**os.environ, "NO_COLOR": "1"}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    before = set(slurm.jobs())
    try:
        with (
            head_node(tmp_path, "--walltime", "00:20:00", f"--directive=--time={JOB_MINUTES}") as address,
            conducting(tmp_path / "data", Remote(address)) as conductor,
        ):
            sweep = ran(conductor, spec)
            ended = [state for number, (state, _) in slurm.jobs().items() if number not in before]
            assert sweep.state is State.COMPLETED, read_job_logs(tmp_path)
            assert "TIMEOUT" in ended, ended
            found = results(conductor, sweep.id)
        assert reference.wait(600) == 0
    finally:
        reference.kill()
        reference.wait()
        reference.stdout.close()
    with xr.open_zarr(ss.sweeps(tmp_path / "serial")[0]["path"], chunks=None) as expected:
        xr.testing.assert_equal(found.sgd_risk, expected.sgd_risk.load())
    assert found.sgd_risk.notnull().all()
