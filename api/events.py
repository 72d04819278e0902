"""Server-sent events of a sweep. Their ids come from the ledger, so clients can resume after a restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi.sse import format_sse_event
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


def _format_event(kind: str, content: dict[str, Any], id: int | None = None) -> bytes:
    data = json.dumps(replace_nonfinite(content), allow_nan=False)
    return format_sse_event(data_str=data, event=kind, id=None if id is None else str(id))


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
                yield _format_event("removed", {"id": sweep_id})
                return
            for event, description in events:
                after = event.id
                yield _format_event(event.kind, description, event.id)
            if is_complete:
                return
            try:
                await asyncio.wait_for(changed.wait(), KEEP_ALIVE_SECONDS)
            except TimeoutError:
                yield format_sse_event(comment="keep-alive")
