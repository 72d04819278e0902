"""A service in a process of its own, which tests can stop and kill."""

import os
import re
import signal
import socket
import subprocess
import sys
import time as clock
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BREAK_SEED_13 = """
import os
import sweep_service.execution.compute as compute
original = compute.integrate_run
def broken(point, **options):
    if os.path.exists(os.environ["BROKEN"]) and options["seed"] == 13:
        raise RuntimeError("out of order")
    return original(point, **options)
compute.integrate_run = broken
"""  # sitecustomize.py, which every process of the service executes when it starts
STARTED = re.compile(rb"sweep service at (http://\S+),")
START_TIMEOUT_SECONDS = 100.0  # other tests use the machine too


@dataclass
class Service:
    """A running service."""

    url: str
    process: subprocess.Popen
    log: Path

    def stop(self, seconds=20.0):
        """Stop the service with SIGTERM and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        finally:
            self.close()

    def kill(self):
        """Kill only the main process, as the kernel does when memory is full."""
        self.process.kill()
        self.process.wait()

    def close(self):
        """Kill all processes of the service."""
        with suppress(ProcessLookupError):  # the whole process group has ended
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def start_service(data, port=None, env=None, log=None, **options):
    """Start `sweep serve` and wait until it is ready; options as on the command line, such as workers=2."""
    workers = {} if "scheduler" in options else {"workers": 1}
    options = {"data": data, "port": port or 0, **workers, **options}
    arguments = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("SWEEP_", "DASK_"))
    }
    log = Path(log or f"{data}.log")
    with log.open("ab") as output:
        before = output.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "sweep_service.cli", "serve", *arguments],
            env={**inherited, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", **(env or {})},
            cwd=log.parent, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    service = Service("", process, log)
    end = clock.monotonic() + START_TIMEOUT_SECONDS
    while not (service.url and is_ready(service.url)):
        if started := STARTED.search(log.read_bytes(), before):  # the port alone may be that of another
            service.url = started[1].decode()
        if process.poll() is not None or clock.monotonic() > end:
            service.close()
            raise AssertionError(f"the service did not start:\n{log.read_text('utf-8')[-4000:]}")
        clock.sleep(0.05)
    return service


def breakable_environment(folder):
    """The environment of a service whose ODE runs with seed 13 fail while the file `broken` exists."""
    (folder / "sitecustomize.py").write_text(BREAK_SEED_13)
    return {"BROKEN": str(folder / "broken"), "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}


def is_ready(url):
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5.0) as response:
            return response.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def free_port():
    (port,) = free_ports(1)
    return port


def free_ports(count):
    """Return different ports: one that is not used yet might be found twice."""
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in servers]
