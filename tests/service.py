"""A service as a process of its own, to be asked, stopped and killed."""

import os
import re
import signal
import socket
import subprocess
import sys
import time as clock
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FAIL = """
import os
import sweep_service.execution.compute as computing
plain = computing.integrate_run
def broken(point, **options):
    if os.path.exists(os.environ["BROKEN"]) and options["seed"] == 13:
        raise RuntimeError("out of order")
    return plain(point, **options)
computing.integrate_run = broken
"""  # what every process of the service executes when it starts
SAYS = re.compile(rb"sweep service at (http://\S+),")
PATIENCE = 60.0  # seconds for a start: other tests use the machine too


@dataclass
class Service:
    url: str
    process: subprocess.Popen
    log: Path

    def stop(self, seconds=20.0):
        """As a person would; how it ended."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        finally:
            self.close()

    def kill(self):
        """As a full memory would: its workers are left to find out by themselves."""
        self.process.kill()
        self.process.wait()

    def close(self):
        """Leave nothing of it."""
        with suppress(ProcessLookupError):  # all of its group have gone by themselves
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def start_service(data, port=None, env=None, log=None, **options):
    """`sweep serve` on a data folder or a URL, ready; options as on the command line, such as workers=2."""
    who = {} if "scheduler" in options else {"workers": 1}
    options = {"data": data, "port": port or 0, **who, **options}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("SWEEP_", "DASK_"))}
    log = Path(log or f"{data}.log")
    with log.open("ab") as output:
        before = output.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "sweep_service.cli", "serve", *words],
            env={**plain, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", **(env or {})},
            cwd=log.parent, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    service = Service("", process, log)
    end = clock.monotonic() + PATIENCE
    while not (service.url and is_ready(service.url)):
        if said := SAYS.search(log.read_bytes(), before):  # of itself: on a port of ours may be another
            service.url = said[1].decode()
        if process.poll() is not None or clock.monotonic() > end:
            service.close()
            raise AssertionError(f"the service did not start:\n{log.read_text('utf-8')[-4000:]}")
        clock.sleep(0.05)
    return service


def breakable(folder):
    """The environment of a service whose theories with seed 13 fail while there is a file `broken`."""
    (folder / "sitecustomize.py").write_text(FAIL)
    return {"BROKEN": str(folder / "broken"), "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}


def is_ready(url):
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5.0) as answer:
            return answer.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
