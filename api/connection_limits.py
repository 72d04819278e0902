"""Timeouts that uvicorn lacks: for requests that never end and responses that are never read."""

from __future__ import annotations

import asyncio
import resource
from asyncio import TimerHandle

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_TIMEOUT_SECONDS = 30.0  # from the connection, or the first byte, to the end of the headers
# For a whole request. `security` answers slow bodies earlier, but only if the application reads the body.
REQUEST_TIMEOUT_SECONDS = 180.0
WRITE_TIMEOUT_SECONDS = 120.0  # without the client reading any of the pending response
MAX_NON_BODY_BYTES = 256 << 10  # of a request: headers, chunk sizes and trailers


class LimitedHttpProtocol(HttpToolsProtocol):
    """An HTTP connection with a timeout for every wait."""

    _read_timer: TimerHandle | None = None  # runs while the rest of a request is awaited
    _write_timer: TimerHandle | None = None  # runs while the client does not read
    _non_body_bytes = 0
    _in_headers = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_read_timer(HEADERS_TIMEOUT_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_read_timer()
        self._cancel_write_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._non_body_bytes += len(data)
        super().data_received(data)
        if self._non_body_bytes > MAX_NON_BODY_BYTES and not self.transport.is_closing():
            self.send_400_response("The request headers are too long.")
        if self._read_timer is None and self._is_idle():  # data that begins no request, such as empty lines
            self._start_read_timer(HEADERS_TIMEOUT_SECONDS)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._read_timer is None:
            self._start_read_timer(HEADERS_TIMEOUT_SECONDS)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_headers:  # trailers are ignored: a header that comes after the checks must not count
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._start_read_timer(REQUEST_TIMEOUT_SECONDS)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._non_body_bytes -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._cancel_read_timer()
        self._non_body_bytes, self._in_headers = 0, True
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._cancel_read_timer()
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(WRITE_TIMEOUT_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._cancel_write_timer()
        super().resume_writing()

    def _is_idle(self) -> bool:
        """Whether no response is pending and no other protocol, such as a websocket, has taken over."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return is_answered and self.transport.get_protocol() is self

    def _cancel_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _start_read_timer(self, seconds: float) -> None:
        self._cancel_read_timer()
        self._read_timer = self.loop.call_later(seconds, self.transport.abort)

    def _cancel_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None


def max_connections() -> int:
    """Return half of the files that this process may open; the store needs the others."""
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, min(soft_limit, 4096) // 2)
