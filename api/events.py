"""Server-sent events of a sweep. Their ids are the ledger's, so a reader resumes after a restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.concurrency import run_in_threadpool

from sweep_service.api.conductor_thread import Engine
from sweep_service.errors import NotFound
from sweep_service.store.ledger import Event, State
from sweep_service.text import json_ready

KEEP_ALIVE = 15.0  # seconds after which a proxy might think that nobody is there


def news(engine: Engine, sweep: str, after: int) -> tuple[list[tuple[Event, dict[str, Any]]], bool]:
    """Events since one, each with the sweep as it is now; and whether none can follow."""
    about = engine.view(sweep)
    found = engine.ledger.events(sweep, after)
    last = found[-1] if found else None
    told = [
        (one, {**about, "state": one.state.value, "reason": one.reason, "time": one.time}) for one in found
    ]
    return told, State(about["state"]).ended and (last is None or last.state.ended)


async def stream(engine: Engine, sweep: str, after: int) -> AsyncIterator[bytes]:
    with engine.bell.listening(sweep) as rung:
        while not engine.stopping:
            rung.clear()
            try:
                found, ended = await run_in_threadpool(news, engine, sweep, after)
            except NotFound:
                yield b"event: removed\ndata: " + json.dumps({"id": sweep}).encode() + b"\n\n"
                return
            for event, about in found:
                after = event.id
                data = json.dumps(json_ready(about), allow_nan=False)
                yield f"id: {event.id}\nevent: {event.kind}\ndata: {data}\n\n".encode()
            if ended:
                return
            try:
                await asyncio.wait_for(rung.wait(), KEEP_ALIVE)
            except TimeoutError:
                yield b": still there\n\n"
