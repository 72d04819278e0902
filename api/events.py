"""Server-sent events of a sweep. Their ids come from the ledger, so clients can resume after a restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.concurrency import run_in_threadpool

from sweep_service.api.conductor_thread import ConductorThread
from sweep_service.errors import NotFound
from sweep_service.store.ledger import Event, State
from sweep_service.text import replace_nonfinite

KEEP_ALIVE_SECONDS = 15.0  # proxies may close a connection that is silent for longer


def read_events(
    service: ConductorThread, sweep_id: str, after: int
) -> tuple[list[tuple[Event, dict[str, Any]]], bool]:
    """Return events with larger ids, each with the sweep as it is now, and whether none can follow."""
    description = service.describe(sweep_id)
    events = service.ledger.events(sweep_id, after)
    last = events[-1] if events else None
    pairs = [
        (event, {**description, "state": event.state.value, "reason": event.reason, "time": event.time})
        for event in events
    ]
    return pairs, State(description["state"]).has_ended and (last is None or last.state.has_ended)


def _format_event(kind: str, description: dict[str, Any]) -> bytes:
    data = json.dumps(replace_nonfinite(description), allow_nan=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()


async def stream(service: ConductorThread, sweep_id: str, after: int) -> AsyncIterator[bytes]:
    """Send the events of a sweep until it ends or is removed, or the service stops."""
    was_compiling = False
    with service.notifier.subscribe(sweep_id) as changed:
        while not service.stopping:
            changed.clear()
            is_compiling = sweep_id in service.executor.compiling
            try:
                events, is_complete = await run_in_threadpool(read_events, service, sweep_id, after)
                if is_compiling != was_compiling and not events:
                    yield _format_event("compiling", await run_in_threadpool(service.describe, sweep_id))
                was_compiling = is_compiling
            except NotFound:
                yield b"event: removed\ndata: " + json.dumps({"id": sweep_id}).encode() + b"\n\n"
                return
            for event, description in events:
                after = event.id
                yield f"id: {event.id}\n".encode() + _format_event(event.kind, description)
            if is_complete:
                return
            try:
                await asyncio.wait_for(changed.wait(), KEEP_ALIVE_SECONDS)
            except TimeoutError:
                yield b": keep-alive\n\n"
