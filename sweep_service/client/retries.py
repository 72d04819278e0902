"""Requests that are repeated while the service does not answer. All of them are idempotent."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep_service.client.responses import Busy, Unavailable
from sweep_service.client.steps import Operation, Save, Send, Sleep
from sweep_service.errors import Unreachable

if TYPE_CHECKING:
    import httpx2

RETRY_SECONDS = 10.0  # for which a request is retried
BUSY_RETRY_SECONDS = 60.0  # the same for a service that answers, but is busy
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.2, 5.0  # between two attempts
CONNECT_TIMEOUT_SECONDS = 5.0
STREAM_TIMEOUT_SECONDS = 45.0  # an event stream sends a comment every 15 s


class Pauses:
    """The growing pauses between attempts, until `end` on the monotonic clock."""

    def __init__(self, end: float = math.inf) -> None:
        self.end, self.seconds = end, FIRST_PAUSE_SECONDS

    def restart(self) -> None:
        """Begin with a short pause again, after an attempt that succeeded."""
        self.seconds = FIRST_PAUSE_SECONDS

    def sleep(self, requested_seconds: float = 0.0) -> Operation[None]:
        """Sleep until the next attempt. Raises `TimeoutError` if the end is earlier."""
        seconds = max(self.seconds, requested_seconds)
        if clock.monotonic() + seconds > self.end:
            raise TimeoutError
        yield Sleep(seconds)
        self.seconds = min(2 * self.seconds, MAX_PAUSE_SECONDS)


def send(method: str, path: str, **options: Any) -> Operation[httpx2.Response]:
    """Send a request until it is answered or the time for retries is over."""
    return (yield from _retry(Send(method, path, options)))


def download(path: str, params: Mapping[str, str], file: Path) -> Operation[None]:
    """Write the body of a response to a file, with retries."""
    yield from _retry(Save(path, params, file))


def _retry(attempt: Send | Save) -> Operation[Any]:
    """Repeat an attempt until it succeeds or the time for retries is over."""
    pauses, began = Pauses(), clock.monotonic()
    while True:
        try:
            return (yield attempt)
        except Unavailable as error:
            pauses.end = began + (BUSY_RETRY_SECONDS if isinstance(error, Busy) else RETRY_SECONDS)
            reason, requested_seconds = str(error), error.pause
        try:
            yield from pauses.sleep(requested_seconds)
        except TimeoutError:
            raise Unreachable(reason) from None


def timeout_until(end: float) -> httpx2.Timeout:
    """Return the timeout of one attempt that should end at `end`."""
    import httpx2

    remaining = max(0.01, end - clock.monotonic())
    return httpx2.Timeout(
        min(STREAM_TIMEOUT_SECONDS, remaining), connect=min(CONNECT_TIMEOUT_SECONDS, remaining)
    )
