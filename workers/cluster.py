"""Clusters: what an executor needs of them, and an external scheduler. `embedded` has the other kind."""

from __future__ import annotations

import ssl
from typing import Any, Protocol
from urllib.parse import urlsplit

from distributed import Client, Security
from distributed.comm.addressing import parse_address

from sweep_service.errors import InvalidInput
from sweep_service.validation import read_scheduler_address
from sweep_service.workers.connection import Connection, NotAScheduler

CONNECT_TIMEOUT_SECONDS = 5.0
DASK_SETTINGS = {
    # Replace a worker that does not respond.
    "distributed.scheduler.worker-ttl": "2 minutes",
    "distributed.nanny.pre-spawn-environ.NUMBA_NUM_THREADS": 1,
    # All cores compute, so monitoring is expensive: Dask would sample every stack each 10 ms.
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "500ms",
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
    # Ctrl-C in a terminal reaches every process, but the parent stops the workers. They also lower their
    # priority, so that the service stays responsive while they use all cores. (In dask_setup, because Dask
    # executes this text twice.)
    "distributed.worker.preload": [
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN); dask_setup = lambda _: os.nice(5)"
    ],
}


class Cluster(Protocol):
    address: str
    is_embedded: bool  # an embedded cluster is started, and must be closed, by this process

    def connect(self) -> Client:
        """Return a new client; raise OSError if there is no scheduler now."""

    def dashboard_url(self, identity: dict[str, Any]) -> str:
        """Return the URL of the dashboard of the scheduler that identified itself so; "" without one."""

    def close(self) -> None: ...


class Remote:
    """An external scheduler, whose workers may join and leave."""

    is_embedded = False

    def __init__(self, address: str) -> None:
        self.address = read_scheduler_address(address)
        _require_certificates(self.address)

    def connect(self) -> Client:
        return Connection(self.address, timeout=CONNECT_TIMEOUT_SECONDS, set_as_default=False, name="sweep")

    def dashboard_url(self, identity: dict[str, Any]) -> str:
        port = identity.get("services", {}).get("dashboard")
        host = urlsplit(identity.get("address", "")).hostname
        return f"http://{f'[{host}]' if ':' in host else host}:{port}" if port and host else ""

    def close(self) -> None:
        """Do nothing: the cluster was not started here."""


def _require_certificates(address: str) -> None:
    """Refuse an address that contradicts Dask's TLS settings, so that no connection is plain by mistake."""
    security = Security()  # reads the configuration of Dask
    is_plain = parse_address(address)[0] not in ("tls", "wss")
    if is_plain and security.require_encryption:
        raise InvalidInput(
            "scheduler", address, "must be encrypted, as Dask's settings require: use tls://host:8786"
        )
    try:
        has_certificates = security.get_connection_args("client")["ssl_context"] is not None
    except OSError as error:
        tls = security.get_tls_config_for_role("client")
        files = f"{tls['ca_file']} and {tls['cert']}"
        raise InvalidInput("scheduler", address, f"needs {files}: {error.strerror or error}") from None
    if not is_plain and not has_certificates:
        raise InvalidInput(
            "scheduler",
            address,
            "needs certificates: create them with `sweep certificates FOLDER` and set DASK_CONFIG=FOLDER",
        )


def explain_failure(error: BaseException | None) -> str:
    """Explain, in parentheses, a failed connection that waiting will not cure; "" if it may."""
    while error is not None:
        match error:
            case ssl.SSLCertVerificationError():
                return f" (its certificate is not trusted: {error.verify_message})"
            case ssl.SSLError(reason="WRONG_VERSION_NUMBER"):
                return " (it does not speak TLS)"
            case ssl.SSLError() | FileNotFoundError() | PermissionError():
                return f" (the certificates cannot be used: {error.strerror or error})"
            case NotAScheduler():
                return " (it is no Dask scheduler of a compatible version)"
            case ConnectionResetError():
                return " (it closes the connection; it may require TLS)"
        error = error.__cause__ or error.__context__
    return ""
