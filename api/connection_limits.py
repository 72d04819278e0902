"""Connections, where uvicorn leaves them open: requests that never end, and answers that nobody reads."""

from __future__ import annotations

import asyncio
import resource
from asyncio import TimerHandle

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 30.0  # from the connection, or the first byte, to the end of the headers
MESSAGE_SECONDS = 180.0  # of a whole request: the door answers slow bodies before, if anybody reads them
STALLED_SECONDS = 120.0  # without any of what waits to be sent being taken
MOST_BESIDE = 256 << 10  # bytes of a request that are not its body: headers, sizes of chunks, trailers


class Line(HttpToolsProtocol):
    """A connection whose every wait ends."""

    _waiting: TimerHandle | None = None  # for the rest of a request
    _stalled: TimerHandle | None = None
    _beside = 0
    _in_head = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        self._move()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._beside += len(data)
        super().data_received(data)
        if self._beside > MOST_BESIDE and not self.transport.is_closing():
            self.send_400_response("The headers of a request must be shorter.")
        if self._waiting is None and self._is_idle():  # what has come is no request yet: empty lines, say
            self._wait(HEAD_SECONDS)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._waiting is None:
            self._wait(HEAD_SECONDS)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # a trailer is too late to say anything
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._wait(MESSAGE_SECONDS)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._beside -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._rest()
        self._beside, self._in_head = 0, True
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._rest()
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._move()
        super().resume_writing()

    def _is_idle(self) -> bool:
        """Nothing is being answered, and nothing else, such as a websocket, has taken over."""
        answered = self.cycle is None or self.cycle.response_complete
        return answered and self.transport.get_protocol() is self

    def _move(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _wait(self, seconds: float) -> None:
        self._rest()
        self._waiting = self.loop.call_later(seconds, self.transport.abort)

    def _rest(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


def most_connections() -> int:
    """Half of the files that this process may open: the store needs some, whoever knocks."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, min(soft, 4096) // 2)
