"""Where the workers are: in an embedded cluster of processes, or behind the address of a scheduler."""

from __future__ import annotations

import logging
import os
import ssl
from multiprocessing import spawn
from typing import Any, Protocol

import dask
from distributed import Client, LocalCluster, Security
from distributed.comm.addressing import parse_address

from sweep_service.errors import InvalidInput
from sweep_service.validation import scheduler_address
from sweep_service.workers.connection import Connection, Stranger

NANNY_PROCESS = "Dask Worker process (from Nanny)"  # what Dask calls the process of a worker
CONNECT = 5.0  # seconds to wait for a scheduler before saying that it is not there
# A worker that does not answer is given up, and a new process starts with one thread in every library.
SETTINGS = {
    "distributed.scheduler.worker-ttl": "2 minutes",
    "distributed.nanny.pre-spawn-environ.NUMBA_NUM_THREADS": 1,
    # Where all cores compute, what watches them costs: Dask would sample every stack each 10 ms.
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "500ms",
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
    # Ctrl-C in a terminal reaches every process; it is ours to stop the workers. And as they fill all
    # cores, they step back for who conducts them, so that the service answers while they compute. (That
    # in dask_setup, as Dask imports this text twice.)
    "distributed.worker.preload": [
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN); dask_setup = lambda _: os.nice(5)"
    ],
}


class Cluster(Protocol):
    address: str
    is_ours: bool  # to be closed, however long its start takes

    def connect(self) -> Client:
        """A new client; OSError if there is no scheduler now."""

    def close(self) -> None: ...


class Remote:
    """A scheduler that somebody else runs; its workers may come and go."""

    is_ours = False

    def __init__(self, address: str) -> None:
        self.address = scheduler_address(address)
        _require_certificates(self.address)

    def connect(self) -> Client:
        return Connection(self.address, timeout=CONNECT, set_as_default=False, name="sweep")

    def close(self) -> None:
        """It is not ours to close."""


class Embedded:
    """Processes on this machine, with one thread each."""

    is_ours = True

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or os.cpu_count() or 1
        self.address = "this machine"
        self.local: LocalCluster | None = None

    def connect(self) -> Client:
        if self.local is None:
            _keep_main_out_of_workers()
            with dask.config.set(SETTINGS):  # for the scheduler and the nannies
                self.local = LocalCluster(
                    n_workers=self.workers, threads_per_worker=1, processes=True, host="127.0.0.1",
                    dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
                    config=SETTINGS,  # which a nanny has for a new process when the old one has died
                )  # fmt: skip
        return Connection(self.local, timeout=CONNECT, set_as_default=False, name="sweep")

    def close(self) -> None:
        if self.local is not None:
            self.local.close(timeout=10.0)
            self.local = None


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


def _require_certificates(address: str) -> None:
    """What Dask is told of TLS must fit the address: it must not come out as a plain connection."""
    security = Security()  # as the settings of Dask have it
    is_plain = parse_address(address)[0] not in ("tls", "wss")
    if is_plain and security.require_encryption:
        raise InvalidInput("scheduler", address, "is not encrypted, but Dask is told to be: tls://host:8786")
    try:
        is_known = security.get_connection_args("client")["ssl_context"] is not None
    except OSError as error:
        told = security.get_tls_config_for_role("client")
        files = f"{told['ca_file']} and {told['cert']}"
        raise InvalidInput("scheduler", address, f"needs {files}: {error.strerror or error}") from None
    if not is_plain and not is_known:
        raise InvalidInput(
            "scheduler",
            address,
            "needs certificates: `sweep certificates FOLDER` makes them, DASK_CONFIG=FOLDER names them",
        )


def refusal(error: BaseException | None) -> str:
    """What about a connection that failed is not just a matter of time, in brackets."""
    while error is not None:
        match error:
            case ssl.SSLCertVerificationError():
                return f" (it has a certificate that ours do not know: {error.verify_message})"
            case ssl.SSLError(reason="WRONG_VERSION_NUMBER"):
                return " (it does not speak TLS)"
            case ssl.SSLError() | FileNotFoundError() | PermissionError():
                return f" (the certificates cannot be used: {error.strerror or error})"
            case Stranger():
                return " (what is there is no Dask scheduler that we understand)"
            case ConnectionResetError():
                return " (it hangs up: it may want TLS)"
        error = error.__cause__ or error.__context__
    return ""
