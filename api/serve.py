"""`sweep serve`: open the socket, set up logging, run the service, and stop it within seconds."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import uvicorn
from fastapi import FastAPI
from pydantic import ValidationError

from sweep_service.api import logs
from sweep_service.api.app import create_app
from sweep_service.api.conductor_thread import ConductorThread
from sweep_service.api.connection_limits import LimitedHttpProtocol, max_connections
from sweep_service.api.settings import Settings
from sweep_service.errors import InvalidInput
from sweep_service.execution.executors import describe_awaited
from sweep_service.signals import end_process, stop
from sweep_service.store.folder import DataFolder

log = logging.getLogger(__name__)


class Server(uvicorn.Server):
    """A server that ends event streams before it waits for connections to close."""

    def __init__(self, config: uvicorn.Config, conductor_thread: ConductorThread) -> None:
        super().__init__(config)
        self.conductor_thread = conductor_thread

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the handler of the command, which calls `request_exit`."""
        yield

    def request_exit(self) -> None:
        self.conductor_thread.request_stop()
        logs.silence_libraries()
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Stop also when the conductor has failed."""
        return await super().on_tick(counter) or self.conductor_thread.failed

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if stop.requested:  # before the signal handlers of this server were installed
            self.should_exit = True
            return
        await super().startup(sockets)


def serve(**options: Any) -> NoReturn:
    """Run a service until it is stopped, and exit.

    Errors that the user can correct are raised before the service listens.
    """
    try:
        settings = Settings(**options)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidInput(".".join(map(str, first["loc"])), first["input"], first["msg"].lower()) from None
    settings.require_tokens()
    folder = DataFolder(settings.data, settings.state)
    with folder.lock():  # fails early if the folder is in use or cannot be read
        folder.ledger().close()
    listener = _listener(settings)
    settings = settings.model_copy(update={"port": listener.getsockname()[1]})
    app = create_app(settings)  # before logging is configured, because importing Dask configures it too
    logs.configure_logging(settings.log, settings.log_requests)
    for weakness in settings.token_warnings():
        log.warning("%s", weakness)
    server = Server(uvicorn_config(app, settings), app.state.conductor_thread)
    stop.on_request = server.request_exit
    stop.describe_awaited = lambda: describe_awaited(server.conductor_thread.executor)
    stop.announce = _announce_stop
    print(f"sweep service at {settings.url}, data in {settings.data}", flush=True)
    try:
        server.run(sockets=[listener])
    except SystemExit:  # it could not start
        if not stop.requested:
            raise
    _exit(0 if stop.requested or not server.conductor_thread.failed else 1)


def _announce_stop(awaited: str) -> None:
    extra = {"event": "stopping", "reason": awaited}
    log.info("stopping: waiting for %s; a second signal ends it at once", awaited, extra=extra)


def _exit(code: int) -> NoReturn:
    """Exit without waiting for threads.

    All results are stored by now, and the responses that threads still compute cannot be sent any more.
    """
    logging.shutdown()
    sys.stdout.flush()
    end_process(code)


def uvicorn_config(app: FastAPI, settings: Settings, **more: Any) -> uvicorn.Config:
    """Configure uvicorn. X-Forwarded-For is trusted only from the proxies in the settings."""
    return uvicorn.Config(
        app, http=LimitedHttpProtocol, log_config=None, access_log=False, lifespan="on",
        timeout_graceful_shutdown=3, ws="websockets-sansio", ws_max_size=1 << 24, server_header=False,
        limit_concurrency=max_connections(), proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies), **more,
    )  # fmt: skip


def _listener(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it
        return listener
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or "cannot be used"
        raise InvalidInput("host, port", f"{settings.host}:{settings.port}", reason.lower()) from None
