"""Schedulers, workers and conductors as processes that tests can kill."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Processes:
    """Processes, each in its own group so that a worker ends with its nanny; all are ended with the test."""

    def __init__(self, cwd):
        self.cwd, self.all = cwd, []

    def start(self, *arguments, path=None, env=None):
        env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **(env or {})}
        if path is not None:
            env["PYTHONPATH"] = str(path)
        log = open(self.cwd / f"process-{len(self.all):03d}.log", "wb")  # noqa: SIM115
        self.all.append(
            subprocess.Popen(
                [sys.executable, *map(str, arguments)], cwd=self.cwd, env=env, stdout=log, stderr=log,
                start_new_session=True,
            )
        )  # fmt: skip
        log.close()
        return self.all[-1]

    def scheduler(self, port):
        return self.start(
            "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port,
            "--dashboard-address", "127.0.0.1:0",
        )  # fmt: skip

    def worker(self, port, **options):
        """Start a worker with a nanny, which restarts its process when it is killed."""
        return self.start(
            "-m", "distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1",
            "--no-dashboard", "--local-directory", self.cwd / "scratch", **options,
        )  # fmt: skip

    def kill(self, process):
        with ExitStack() as stack:
            stack.callback(process.wait)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    def close(self):
        for process in self.all:
            self.kill(process)


@contextmanager
def processes(cwd):
    group = Processes(cwd)
    try:
        yield group
    finally:
        group.close()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def another_version(folder):
    """Make a copy of the package with another version."""
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "sweep_service", folder / "sweep_service", ignore=without)
    (folder / "sweep_service" / "version.py").write_text('__version__ = "0.0.0"\n')
    return folder


def without_the_package(folder):
    """Make a path on which importing the package fails."""
    (folder / "sweep_service").mkdir(parents=True)
    (folder / "sweep_service" / "__init__.py").write_text('raise ImportError("not installed here")\n')
    return folder
