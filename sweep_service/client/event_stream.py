"""The events of a sweep, read from a stream that is opened again when it is lost."""

from __future__ import annotations

import json
import time as clock
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sweep_service.client.responses import Unavailable
from sweep_service.client.retries import Pauses, timeout_until
from sweep_service.client.steps import OpenStream, Operation, ReadBlock

REMOVED = "removed"  # the kind of the event after which no other can follow


@dataclass(frozen=True)
class Event:
    """An event of a sweep. Its id can be used to request only later events."""

    id: str  # "" for those that are not kept
    kind: str  # state, progress, notes, compiling or removed
    data: dict[str, Any]  # the sweep


class EventReader:
    """Reads the events at `path` after the one with the id `after`, until `end` on the monotonic clock."""

    def __init__(self, path: str, after: str | None, end: float) -> None:
        self.path, self.after, self.end = path, after, end
        self.has_ended = False  # no further event can follow
        self._pauses = Pauses(end)
        self._pause: float | None = None  # requested before the next attempt to open the stream
        self._is_open = False
        self._parser = EventParser()
        self._received: deque[Event] = deque()

    def read(self) -> Operation[Event | None]:
        """Return the next event; None if the connection was lost, or if the events have ended."""
        try:
            while not self._received:
                if not self._is_open:
                    yield from self._open()
                if self.has_ended:
                    return None
                yield from self._read_block()
        except Unavailable as error:
            self._is_open, self._pause = False, error.pause
            return None
        event = self._received.popleft()
        self.after = event.id or self.after
        self.has_ended = event.kind == REMOVED
        self._pauses.restart()
        return event

    def _open(self) -> Operation[None]:
        if self._pause is not None:
            yield from self._pauses.sleep(self._pause)
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": self.after} if self.after else {})}
        response = yield OpenStream(self.path, {"headers": headers, "timeout": timeout_until(self.end)})
        self._parser = EventParser()
        self._is_open, self.has_ended = True, response.status_code == 204

    def _read_block(self) -> Operation[None]:
        block = yield ReadBlock()
        if clock.monotonic() > self.end:  # comments arrive even without events, so that this is noticed
            raise TimeoutError
        if block is None:
            self._is_open, self._pause = False, 0.0
        else:
            self._received.extend(self._parser.parse(block))


class EventParser:
    """Parses the subset of server-sent events that the service uses, from blocks of any size."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, str] = {}

    def parse(self, block: bytes) -> Iterator[Event]:
        """Yield the events that this block completes."""
        *lines, self._rest = (self._rest + block).split(b"\n")
        return self._parse_lines(line.rstrip(b"\r").decode() for line in lines)

    def _parse_lines(self, lines: Iterable[str]) -> Iterator[Event]:
        for line in lines:
            if line:
                name, _, value = line.partition(":")
                self._fields[name] = value.removeprefix(" ")
            elif "data" in self._fields:
                fields, self._fields = self._fields, {}
                yield Event(fields.get("id", ""), fields.get("event", ""), json.loads(fields["data"]))
