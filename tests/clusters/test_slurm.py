"""Workers as SLURM jobs: the job script, and its execution."""

import json
import re
import signal
import subprocess
import sys
import time as clock
from contextlib import closing
from functools import partial
from pathlib import Path

import dask
import pytest
import xarray as xr
from typer.testing import CliRunner

from sweep_service.cli.app import app
from sweep_service.doctor.certificates import dask_settings, write_certificates
from sweep_service.errors import InvalidInput
from sweep_service.execution.task import Task
from sweep_service.planning.bundles import Bundle
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State
from sweep_service.workers.cluster import DASK_SETTINGS, Remote
from sweep_service.workers.executor import DaskExecutor
from sweep_service.workers.slurm import THREADS, worker_lifetime
from sweep_service.workers.worker_side import pickle_by_value
from tests.clusters.slurm import Queue
from tests.workers.processes import free_port
from tests.workers.test_adaptive import SOME, serial
from tests.workers.test_executor import conducting, ran, results, until

ROOT = Path(__file__).parents[2]
SLURM = ROOT / "deploy" / "slurm"


@pytest.fixture
def certificates(tmp_path, monkeypatch):
    """Certificates, configured for Dask in this process and its children."""
    folder = tmp_path / "certificates"
    write_certificates(folder)
    monkeypatch.setenv("DASK_CONFIG", str(folder))
    with dask.config.set(dask.config.merge(dask.config.config, dask_settings(folder))):
        yield folder


@pytest.fixture
def queue(tmp_path):
    result = Queue(tmp_path)
    yield result
    result.close()


def is_shell(text):
    return subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)


def seen_by_dask(exports):
    """Return the Dask settings that a worker reads from the environment of a job."""
    code = "import dask, distributed, json; print(json.dumps(dask.config.get('distributed')))"
    text = "\n".join([*exports, f'exec {sys.executable} -c "{code}"'])
    result = subprocess.run(["bash", "-e"], input=text, text=True, capture_output=True, check=True)
    return json.loads(result.stdout)


def test_job_script(certificates, tmp_path):
    arguments = ["slurm", "--show", "--partition", "short", "--account", "physics", "--cores", "4",
                 "--memory", "8GB", "--walltime", "1-02:00:00", "--directive=--constraint=avx2",
                 "--host", "127.0.0.1", "--port", "0", "--logs", str(tmp_path / "logs")]  # fmt: skip
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    text = result.stdout
    assert is_shell(text).stderr == ""
    lines = text.splitlines()
    assert {"#SBATCH -p short", "#SBATCH -A physics", "#SBATCH --cpus-per-task=4", "#SBATCH --mem=8G",
            "#SBATCH -t 1-02:00:00", "#SBATCH --constraint=avx2"} <= set(lines)  # fmt: skip
    assert {f"export {name}=1" for name in THREADS} <= set(lines)
    assert f"export DASK_CONFIG={certificates}" in lines
    (command,) = [line for line in lines if "dask worker" in line or "distributed.cli.dask_worker" in line]
    for option in (
        " tls://127.0.0.1:",
        "--nthreads 1 ",
        "--nworkers 4 ",
        "--lifetime 93300s",
        "--protocol tls://",
    ):
        assert option in f"{command} "
    items = seen_by_dask([line for line in lines if line.startswith("export ")])
    expected = {name: value for name, value in DASK_SETTINGS.items() if "nanny" not in name}
    setting = partial(dask.config.get, config={"distributed": items})
    assert {name: setting(name) for name in expected} == expected
    assert setting("distributed.comm.require-encryption")


@pytest.mark.parametrize(
    ("walltime", "seconds"), [("04:00:00", 14100), ("1-00:00:00", 86100), ("00:08:00", 240)]
)
def test_worker_closes_before_its_job_ends(walltime, seconds):
    assert worker_lifetime(walltime) == seconds


@pytest.mark.parametrize("walltime", ["4h", "00:00:30", "90", "1-2", "00:61:00"])
def test_malformed_walltime_is_refused(walltime):
    with pytest.raises(InvalidInput, match="walltime"):
        worker_lifetime(walltime)


def test_scheduler_without_certificates_is_refused():
    with pytest.raises(InvalidInput, match="sweep certificates FOLDER"):
        CliRunner().invoke(app, ["slurm", "--port", "0"], catch_exceptions=False)


def test_sbatch_script_is_shell_and_needs_an_address():
    text = (SLURM / "workers.sbatch").read_text()
    assert is_shell(text).stderr == ""
    assert {f"{name}=1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")} <= set(
        re.search(r"^export (OMP.*)$", text, re.MULTILINE)[1].split()
    )
    ran = subprocess.run(
        ["bash", SLURM / "workers.sbatch"], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ran.returncode != 0
    assert "SWEEP_SCHEDULER" in ran.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_jobs_start_for_a_sweep_and_stop_after_it(tmp_path, certificates, queue, monkeypatch):
    """The queue is simulated; scheduler, job scripts, workers, certificates and scaling are real.

    From none to one worker or more for a sweep, to all that are allowed for many short tasks, and to none.
    """
    (expected,) = serial(tmp_path / "serial", SOME)
    monkeypatch.setenv("PATH", queue.path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    address = f"tls://127.0.0.1:{free_port()}"
    log = open(tmp_path / "cluster.log", "w+")  # noqa: SIM115
    process = subprocess.Popen(
        [sys.executable, "-m", "sweep_service.cli", "slurm", "--maximum", "2", "--cores", "1",
         "--memory", "1GB", "--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--idle", "4",
         "--logs", tmp_path / "logs"],
        stdout=log, stderr=log, cwd=tmp_path,
    )  # fmt: skip
    try:
        until(lambda: f"--scheduler {address}" in (tmp_path / "cluster.log").read_text(), seconds=60.0)
        assert queue.scripts() == []
        with conducting(tmp_path / "data", Remote(address)) as conductor:
            sweep = ran(conductor, SOME)
            assert sweep.state is State.COMPLETED, queue.said()
            xr.testing.assert_identical(results(conductor, sweep.id), expected)
            assert len(queue.scripts()) >= 1
            until(lambda: queue.running() == [], seconds=120.0)
        (tmp_path / "tasks" / "sweeps").mkdir(parents=True)
        with closing(DaskExecutor(Remote(address), DataFolder(tmp_path / "tasks"))) as executor:
            executor.run = pickle_by_value(lambda *_: clock.sleep(1.0))

            def has_grown():
                while executor.has_room("sweep"):
                    task = Task(str(tmp_path / "tasks"), "sweep", Bundle((), cost=1.0, work_class="sgd/S1"))
                    executor.submit(task, 0)
                executor.poll()
                return len(queue.running()) == executor.threads == 2

            until(has_grown, seconds=120.0)
        until(lambda: queue.running() == [], seconds=120.0)
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
        log.close()
    assert code == 0, (tmp_path / "cluster.log").read_text()
    assert "Error" not in (tmp_path / "cluster.log").read_text()
