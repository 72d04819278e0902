"""Processes that are restarted when they end, as by a supervisor with `restart: always`."""

import os
import signal
import subprocess
import sys
import threading
import time as clock
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
MARK = "SWEEP_TEST_MARK"  # in the environment of every process, to find those that are left
NOT_OURS = ("SWEEP_", "DASK_")
# sitecustomize.py of every process: when the module of tasks is imported, workers get another interval
# between checkpoints and log a line at the begin and the end of every task. Not earlier, because its imports
# take seconds.
SITE = """
import importlib.util, json, os, sys, time

class OnImport:
    def find_spec(self, name, path=None, target=None):
        if name != "sweep_service.execution.task":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (load(module), patch(module))
        return spec

def patch(tasks):
    import sweep_service.simulators.run as simulation
    simulation.CHECKPOINT_INTERVAL_SECONDS = float(os.environ.get("SAVE_EVERY", "30"))
    run, log = tasks.run_task, os.open(os.environ["TASKS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    def run_and_log(task, stopped=None):
        from distributed import get_worker
        about = {"worker": get_worker().name, "sweep": task.sweep_id, "bundle": task.bundle.key}
        for what in ("begun", "ended"):
            if what == "ended":
                run(task, stopped)
            os.write(log, (json.dumps({**about, "what": what, "time": time.time()}) + "\\n").encode())
    tasks.run_task = run_and_log

sys.meta_path.insert(0, OnImport())
"""


@dataclass
class Kept:
    """A process and its command."""

    command: list
    env: dict = field(default_factory=dict)
    process: subprocess.Popen | None = None
    starts: int = 0

    @property
    def pid(self):
        return self.process.pid

    def is_up(self):
        return self.process is not None and self.process.poll() is None


class Supervisor:
    """Started processes, which end with their children when it is closed."""

    def __init__(self, cwd):
        self.cwd, self.mark = Path(cwd), uuid.uuid4().hex
        self.kept, self.lock, self.closing = dict[str, Kept](), threading.Lock(), threading.Event()
        self.temporary = self.cwd / "tmp"
        self.temporary.mkdir(parents=True)
        (self.cwd / "sitecustomize.py").write_text(SITE)
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def keep(self, name, *arguments, before=(), env=None):
        """Start a Python command; `before` is put before the interpreter."""
        with self.lock:
            self.kept[name] = Kept([*before, sys.executable, *map(str, arguments)], env or {})
            self._start(name)

    def scheduler(self, host="127.0.0.1", port=8786, **options):
        self.keep(
            "scheduler", "-m", "distributed.cli.dask_scheduler", "--host", host, "--port", port,
            "--no-dashboard", **options,
        )  # fmt: skip

    def worker(self, name, scheduler, host="127.0.0.1", **options):
        """Start a worker with a nanny, which restarts its process when it is killed."""
        self.keep(
            name, "-m", "distributed.cli.dask_worker", scheduler, "--host", host, "--nthreads", "1",
            "--no-dashboard", "--name", name, **options,
        )  # fmt: skip

    def service(self, port, *cluster, **options):
        """Start a service; `cluster` is `--scheduler ADDRESS` or `--workers NUMBER`."""
        self.keep(
            "service", "-m", "sweep_service.cli", "serve", "--data", self.data, "--port", port, *cluster,
            **options,
        )  # fmt: skip

    @property
    def data(self):
        return self.cwd / "data"

    @property
    def tasks(self):
        return self.cwd / "tasks"

    def log(self, name):
        return self.cwd / f"{name}.log"

    def _start(self, name):
        kept = self.kept[name]
        plain = {key: value for key, value in os.environ.items() if not key.startswith(NOT_OURS)}
        env = {
            **plain, "PYTHONPATH": f"{self.cwd}{os.pathsep}{ROOT}", "OPENBLAS_NUM_THREADS": "1",
            "TASKS": str(self.tasks), "TMPDIR": str(self.temporary),
            "DASK_TEMPORARY_DIRECTORY": str(self.temporary), MARK: self.mark, **kept.env,
        }  # fmt: skip
        with self.log(name).open("ab") as output:
            kept.process = subprocess.Popen(
                kept.command, cwd=self.cwd, env=env, stdout=output, stderr=output, start_new_session=True
            )
        kept.starts += 1

    def _watch(self):
        while not self.closing.wait(0.1):
            with self.lock:
                for name, kept in self.kept.items():
                    if not kept.is_up() and not self.closing.is_set():
                        self._start(name)

    def everyone(self):
        """Find every process with our mark in its environment."""
        processes = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    processes.append(process)
        return processes

    def stop(self, seconds=30.0):
        """Ask all processes to end; return those that did not end."""
        self.closing.set()
        self.thread.join()
        for kept in self.kept.values():
            if kept.is_up():
                kept.process.send_signal(signal.SIGTERM)
        end = clock.monotonic() + seconds
        for kept in self.kept.values():
            with suppress(subprocess.TimeoutExpired):
                kept.process.wait(max(0.1, end - clock.monotonic()))
        while (left := self.everyone()) and clock.monotonic() < end:
            clock.sleep(0.2)
        return left

    def close(self):
        self.closing.set()
        self.thread.join()
        for process in self.everyone():
            with suppress(psutil.Error):
                process.kill()
        for kept in self.kept.values():
            if kept.process is not None:
                kept.process.kill()
                kept.process.wait()
