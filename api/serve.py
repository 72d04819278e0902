"""`sweep serve`: settings, a socket, logs, and an end within seconds of being asked for one."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time as clock
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import ValidationError

from sweep_service.api import logs
from sweep_service.api.app import create_app
from sweep_service.api.conductor_thread import Engine
from sweep_service.api.connection_limits import Line, most_connections
from sweep_service.api.settings import Settings
from sweep_service.errors import InvalidInput
from sweep_service.signals import stop
from sweep_service.store.folder import DataFolder


class Server(uvicorn.Server):
    """Streams of events never end by themselves: they are told, before the connections are waited for."""

    def __init__(self, config: uvicorn.Config, engine: Engine) -> None:
        super().__init__(config)
        self.engine = engine

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.engine.hush()
        logs.end()
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Ends also when nobody conducts any more."""
        return await super().on_tick(counter) or self.engine.failed

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if stop.asked:  # in the seconds before this one could hear it
            self.should_exit = True
            return
        await super().startup(sockets)


def serve(**given: Any) -> int:
    """Until it is told to end. Errors that are the caller's to mend are raised before it listens."""
    try:
        settings = Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidInput(".".join(map(str, first["loc"])), first["input"], first["msg"].lower()) from None
    settings.require_door()
    folder = DataFolder(settings.data, settings.state)
    with folder.lock():  # is it ours to serve, and can we read it?
        folder.ledger().close()
    listener = _listener(settings)
    settings = settings.model_copy(update={"port": listener.getsockname()[1]})
    app = create_app(settings)  # before the logs are set up: Dask sets up its own when it is imported
    logs.begin(settings.log)
    server = Server(configured(app, settings), app.state.engine)
    print(f"sweep service at {settings.url}, its data in {settings.data}", flush=True)
    server.run(sockets=[listener])
    return _left(0 if (server.started or server.should_exit) and not server.engine.failed else 1)


def _left(code: int) -> int:
    """All that is stored is safe by now: threads with answers for nobody must not keep the process."""
    end = clock.monotonic() + 1.0
    others = [one for one in threading.enumerate() if one is not threading.current_thread()]
    busy = [one for one in others if not one.daemon]
    for thread in busy:
        thread.join(max(0.0, end - clock.monotonic()))
    if any(thread.is_alive() for thread in busy):
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)
    return code


def configured(app: FastAPI, settings: Settings, **more: Any) -> uvicorn.Config:
    """How we listen: to nobody's word on whom they speak for, unless we are told whose."""
    return uvicorn.Config(
        app, http=Line, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=3,
        ws="websockets-sansio", ws_max_size=1 << 24, server_header=False,
        limit_concurrency=most_connections(), proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies), **more,
    )  # fmt: skip


def _listener(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it
        return listener
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or "cannot be used"
        raise InvalidInput("host, port", f"{settings.host}:{settings.port}", why.lower()) from None
