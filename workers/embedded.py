"""The embedded cluster: a scheduler in this process, and worker processes on this machine.

Dask runs the code that it is sent, so other users of the machine must not reach it. All connections use TLS
with a key that exists only in these processes. The dashboard listens on a Unix socket that only this user can
open, and workers serve no HTTP.

Workers take orders from this process only: the signals that a terminal or a supervisor sends to the whole
process group are blocked in them. So they can store their checkpoints before they end.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import shutil
import signal
import tempfile
import threading
import time as clock
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from multiprocessing import resource_tracker, spawn
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Nanny, Scheduler, Security, SpecCluster, Status, Worker
from distributed.deploy.cluster import Cluster
from distributed.http.routing import RoutingApplication
from distributed.worker_memory import parse_memory_limit
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket

from sweep_service.doctor.certificates import CLOCK_SKEW, sign_certificates
from sweep_service.errors import Stopped
from sweep_service.execution.executors import UNIX_SCHEME
from sweep_service.signals import stop
from sweep_service.workers.cluster import CONNECT_TIMEOUT_SECONDS, DASK_SETTINGS
from sweep_service.workers.connection import Connection

HOST = "127.0.0.1"
NANNY_PROCESS = "Dask Worker process (from Nanny)"  # Dask's name for a worker process
MAX_SOCKET_PATH_LENGTH = 100  # the system's limit is 104 or 108
CERTIFICATE_LIFETIME = timedelta(days=3650)  # longer than any service runs
BLOCKED_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# To end, workers have this time to store their checkpoints before they are killed, and the scheduler has the
# time below. A slice of a computation takes 0.2 s.
SAVE_TIMEOUT_SECONDS = 4.0
NANNY_TIMEOUT_SECONDS = SAVE_TIMEOUT_SECONDS / 0.8  # Dask kills a worker after 0.8 of this time
CLOSE_TIMEOUT_SECONDS = 1.5
KILL_INTERVAL_SECONDS = 0.05
log = logging.getLogger(__name__)


class _PrivateHttp:
    """Serves the HTTP routes of a Dask server on a Unix socket, or nowhere, instead of on a port."""

    services: dict[str, Any]

    def start_http_server(self, routes: Any, dashboard_address: str | None, *_: Any, **__: Any) -> None:
        self.http_application = RoutingApplication(routes)
        self.http_server = HTTPServer(self.http_application)
        if dashboard_address:
            self.http_server.add_socket(bind_unix_socket(dashboard_address, mode=0o600))
            self.http_server.port = 0  # type: ignore[attr-defined]
            self.services["dashboard"] = self.http_server


class EmbeddedScheduler(_PrivateHttp, Scheduler):
    pass


class EmbeddedWorker(_PrivateHttp, Worker):
    async def close(self, *arguments: Any, **options: Any) -> Any:
        """Close, or exit at once if the nanny asks for it, as soon as tasks have stopped.

        A complete end takes a few tenths of a second of processor time, which a process of low priority may
        not get in time.
        """
        if options.get("nanny", True):
            return await super().close(*arguments, **options)
        self.status = Status.closing  # tasks see it, store their checkpoints and raise
        await asyncio.to_thread(self.executors["default"].shutdown)
        os._exit(0)


class EmbeddedCluster(SpecCluster):
    def _update_worker_status(self, op: str, msg: Any) -> None:
        """Keep the nanny of a worker that is late to come back: it starts the worker again.

        Dask would close the nanny 15 s after its worker was lost, and not replace it.
        """
        Cluster._update_worker_status(self, op, msg)


class Embedded:
    """A cluster of worker processes on this machine, with one thread each."""

    is_embedded = True
    address = "this machine"

    def __init__(
        self, workers: int | None = None, dashboard: bool = False, memory_limit: str = "auto"
    ) -> None:
        self.workers, self.memory_limit = workers or os.cpu_count() or 1, memory_limit
        self.dashboard = dashboard
        self.socket: Path | None = None  # of the dashboard
        self.local: SpecCluster | None = None
        self.nannies: list[Nanny] = []
        self.closing = False
        self.starting = threading.Lock()  # held while the cluster starts

    def connect(self) -> Client:
        with self.starting:
            if self.closing:
                raise Stopped("the cluster is closed")
            if self.local is None:
                self.local = self._start()
            return Connection(self.local, timeout=CONNECT_TIMEOUT_SECONDS, set_as_default=False, name="sweep")

    def dashboard_url(self, identity: dict[str, Any]) -> str:
        return f"{UNIX_SCHEME}://{self.socket}" if self.socket else ""

    def close(self) -> None:
        """End the workers, which store their checkpoints first, and the scheduler.

        A worker that does not end in time, or has not finished starting, is killed.
        """
        self.closing = True
        try:
            if self._wait_until_started() and self.local is not None:
                self._close_local(self.local)
        finally:  # also after a second Ctrl-C
            self._kill_workers()
            atexit.unregister(self._kill_workers)
            if self.local is not None:
                SpecCluster._instances.discard(self.local)  # otherwise Dask closes it again at exit
            if self.socket is not None:
                shutil.rmtree(self.socket.parent, ignore_errors=True)
            self.local = None

    def _start(self) -> SpecCluster:
        _keep_main_out_of_workers()
        # Before other handlers: `multiprocessing` waits at exit for children that ignore SIGTERM.
        atexit.register(self._kill_workers)
        common = {"host": HOST, "protocol": "tls://", "security": _make_security()}
        if self.dashboard:
            self.socket = _make_socket_folder() / "dashboard"
        socket = str(self.socket) if self.socket else None
        scheduler = {**common, "port": 0, "dashboard": self.dashboard, "dashboard_address": socket}
        worker = {
            **common, "nthreads": 1, "worker_class": EmbeddedWorker, "dashboard": False,
            "memory_limit": parse_memory_limit(self.memory_limit, 1, self.workers, logger=log),
            "silence_logs": logging.CRITICAL,
            "config": DASK_SETTINGS,  # for worker processes that nannies start again
        }  # fmt: skip
        with dask.config.set(DASK_SETTINGS), _blocked_signals():  # for the scheduler and the nannies
            return EmbeddedCluster(
                scheduler={"cls": EmbeddedScheduler, "options": scheduler},
                workers={i: {"cls": self._make_nanny, "options": worker} for i in range(self.workers)},
                security=common["security"],
                silence_logs=logging.CRITICAL,
            )

    def _make_nanny(self, scheduler: str, **options: Any) -> Nanny:
        if self.closing:
            raise Stopped("the cluster is closing")
        self.nannies.append(Nanny(scheduler, **options))
        return self.nannies[-1]

    def _wait_until_started(self) -> bool:
        """Make a start that is in progress fail, by killing its workers; return False if it goes on."""
        deadline = clock.monotonic() + SAVE_TIMEOUT_SECONDS
        while not self.starting.acquire(timeout=KILL_INTERVAL_SECONDS):
            self._kill_workers()
            if clock.monotonic() > deadline:
                return False
        self.starting.release()
        return True

    def _close_local(self, local: SpecCluster) -> None:
        with suppress(Exception):  # a timeout: the workers are killed, and the scheduler ends with us
            local.sync(self._close_workers, callback_timeout=NANNY_TIMEOUT_SECONDS + CLOSE_TIMEOUT_SECONDS)
            if not stop.requested:  # otherwise the scheduler ends with this process
                local.close(timeout=CLOSE_TIMEOUT_SECONDS)

    async def _close_workers(self) -> None:
        closing = asyncio.gather(
            *(nanny.close(timeout=NANNY_TIMEOUT_SECONDS) for nanny in self.nannies), return_exceptions=True
        )
        while not closing.done():
            for nanny in self.nannies:  # Dask waits without limit for a worker that starts
                if nanny.process is not None and nanny.process.status == Status.starting:
                    _kill(nanny)
            await asyncio.wait([closing], timeout=KILL_INTERVAL_SECONDS)

    def _kill_workers(self) -> None:
        for nanny in self.nannies:
            _kill(nanny)


def _kill(nanny: Nanny) -> None:
    if pid := nanny.pid:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _make_security() -> Security:
    """Make a certificate for this cluster; its key is never stored."""
    now = datetime.now(UTC).replace(microsecond=0)
    authority, certificate = (
        pem.decode() for pem in sign_certificates(now - CLOCK_SKEW, now + CERTIFICATE_LIFETIME)
    )
    roles = ("client", "scheduler", "worker")
    # The certificate includes its key.
    certificates = {f"tls_{role}_cert": certificate for role in roles}
    keys = {f"tls_{role}_key": None for role in roles}
    return Security(require_encryption=True, tls_ca_file=authority, **certificates, **keys)


def _make_socket_folder() -> Path:
    """Make a folder that only this user can enter, with a path that is short enough for a socket."""
    is_long = len(tempfile.gettempdir()) + len("/sweep-12345678/dashboard") > MAX_SOCKET_PATH_LENGTH
    return Path(tempfile.mkdtemp(prefix="sweep-", dir="/tmp" if is_long else None))


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """Block signals in this thread, in the threads that it starts, and in the processes that these start."""
    resource_tracker.ensure_running()  # first, because it unblocks signals in the thread that starts it
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def _keep_main_out_of_workers() -> None:
    """Start worker processes without the `__main__` module of this one.

    A new Python process imports the script that started it, so a script that computes a sweep without
    `if __name__ == "__main__"` would start itself again in each worker. Our workers import only this package.
    """
    prepare = spawn.get_preparation_data
    if hasattr(prepare, "without_main"):
        return

    def prepare_without_main(name: str) -> dict[str, Any]:
        data: dict[str, Any] = prepare(name)
        if name == NANNY_PROCESS:
            data.pop("init_main_from_name", None)
            data.pop("init_main_from_path", None)
        return data

    prepare_without_main.without_main = True  # type: ignore[attr-defined]
    spawn.get_preparation_data = prepare_without_main
