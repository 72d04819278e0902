"""Requests to a service: tried again while it is away or asks for a pause, answered with our errors."""

from __future__ import annotations

import json
import re
import time as clock
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx

from sweep_service.errors import (
    Conflict,
    Denied,
    InvalidInput,
    NotFound,
    SweepError,
    TooManySweeps,
    Unreachable,
)

URL = "http://127.0.0.1:8000"  # where `sweep serve` listens
AWAY = (502, 503, 504)  # it starts, it stops, or what stands before it does not find it
BUSY = 429  # it takes no more of our requests for now; or of our sweeps, which names a field
PATIENCE = 10.0  # seconds for which a single request is tried again
LONGEST_BUSY = 60.0  # the same while it is there and asks for pauses
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0  # seconds between two attempts
CONNECT, ANSWER = 5.0, 300.0  # seconds for a connection, for an answer: a large spec takes its time
SILENCE = 45.0  # seconds without a sign of life on a stream that gives one every 15
MEDIA_TYPE = "application/problem+json"
PLAIN: dict[int, type[SweepError]] = {401: Denied, 403: Denied, 404: NotFound, 409: Conflict}
WITH_FIELD: dict[int, type[InvalidInput]] = {413: InvalidInput, 422: InvalidInput, 429: TooManySweeps}

Result = TypeVar("Result")


class _Away(Exception):
    """No answer this time; `pause` is what the service asks for."""

    pause = 0.0


class _Busy(_Away):
    """It is there, and wants us to come less often."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a sweep; what came after it can be asked for by its id."""

    id: str
    kind: str  # state, progress or removed
    data: dict[str, Any]  # the sweep


class Connection:
    """Every request of ours can be sent again without harm, so all are."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url.rstrip("/")
        if token and not (token.isascii() and token.isprintable()):
            raise InvalidInput("token", None, "must be printable ASCII")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            if not re.match(r"https?://[^/]", url):
                raise httpx.InvalidURL("")
            self._http = httpx.Client(
                base_url=self.url, headers=self.headers, timeout=httpx.Timeout(ANSWER, connect=CONNECT)
            )
        except httpx.InvalidURL:
            raise InvalidInput("url", url, f"must be such as {URL}") from None
        weakref.finalize(self, self._http.close)  # for who does not close it

    def close(self) -> None:
        self._http.close()

    def json(self, method: str, path: str, **options: Any) -> Any:
        return self._read(self.ask(method, path, **options))

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._tried(lambda: self._once(method, path, **options))

    def download(self, path: str, params: Mapping[str, str], file: Path) -> None:
        def once() -> None:
            with self._stream(path, params=params) as response, file.open("wb") as output:
                for block in response.iter_bytes():
                    output.write(block)

        self._tried(once)

    def latest(self, path: str, end: float) -> Iterator[Any]:
        """What is there, however long it takes; None says that nobody has answered yet."""
        pause = FIRST_PAUSE
        while True:
            asked = 0.0
            try:
                found = self._once("GET", path, timeout=_timeout(end))
            except _Away as error:
                asked = error.pause
                yield None
            else:
                yield self._read(found)
                return
            pause = _rest(pause, end, asked)

    def events(self, path: str, after: str | None, end: float) -> Iterator[Event | None]:
        """Until none can follow; None says that the connection was lost, and is to be made again."""
        pause = FIRST_PAUSE
        while True:
            asked = 0.0
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": after} if after else {})}
            try:
                with self._stream(path, headers=headers, timeout=_timeout(end)) as response:
                    if response.status_code == 204:
                        return
                    for event in _parsed(_lines(response.iter_bytes(), end)):
                        after, pause = event.id or after, FIRST_PAUSE
                        yield event
                        if event.kind == "removed":
                            return
            except _Away as error:
                asked = error.pause
                yield None
            pause = _rest(pause, end, asked)

    def _tried(self, once: Callable[[], Result]) -> Result:
        """What it gives, within ten seconds; a service that asks for pauses gets them."""
        pause, began = FIRST_PAUSE, clock.monotonic()
        while True:
            try:
                return once()
            except _Away as error:
                end = began + (LONGEST_BUSY if isinstance(error, _Busy) else PATIENCE)
                asked = error.pause
                if clock.monotonic() + max(pause, asked) > end:
                    raise Unreachable(str(error)) from None
            pause = _rest(pause, end, asked)

    def _once(self, method: str, path: str, **options: Any) -> httpx.Response:
        with _met(self.url):
            return self._checked(self._http.request(method, path, **options))

    def _read(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except ValueError:
            raise Unreachable(f"{self.url} answers, but not as a sweep service") from None

    @contextmanager
    def _stream(self, path: str, **options: Any) -> Iterator[httpx.Response]:
        with _met(self.url), self._http.stream("GET", path, **options) as response:
            yield self._checked(response)

    def _checked(self, response: httpx.Response) -> httpx.Response:
        """An answer that is none becomes the error that a caller of the package would meet."""
        status = response.status_code
        if response.is_success:
            return response
        response.read()
        ours = response.headers.get("content-type", "").partition(";")[0] == MEDIA_TYPE
        about = response.json() if ours else {}
        detail = about.get("detail") or f"{self.url} answers {status} {response.reason_phrase}"
        if status in AWAY or (status == BUSY and "field" not in about):
            away = _Busy(detail) if status == BUSY else _Away(detail)
            away.pause = _seconds(response.headers.get("retry-after", ""))
            raise away
        if status in WITH_FIELD:
            error = WITH_FIELD[status](about.get("field", "request"), None, about.get("allowed", detail))
            error.args = (detail,)  # the service does not echo the value
            raise error
        if ours or status in (401, 403):
            more = f" (request {about['request_id']})" if status >= 500 else ""
            raise PLAIN.get(status, SweepError)(f"{detail}{more}")
        raise Unreachable(f"{detail}, which a sweep service would not")


@contextmanager
def _met(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.TransportError as error:
        raise _Away(f"no service answers at {url}: {str(error) or type(error).__name__}") from None


def _timeout(end: float) -> httpx.Timeout:
    """Of one attempt: nobody who waits is silent for long."""
    left = max(0.01, end - clock.monotonic())
    return httpx.Timeout(min(SILENCE, left), connect=min(CONNECT, left))


def _rest(pause: float, end: float, asked: float = 0.0) -> float:
    """Wait until the next attempt, as long as we were asked to; how long to wait after that one."""
    if clock.monotonic() + max(pause, asked) > end:
        raise TimeoutError
    clock.sleep(max(pause, asked))
    return min(2 * pause, LONGEST_PAUSE)


def _seconds(text: str) -> float:
    """Of a Retry-After; what stands between us and the service may write a date, or nonsense."""
    return float(text) if re.fullmatch(r"[0-9]{1,4}", text) else 0.0


def _lines(blocks: Iterable[bytes], end: float) -> Iterator[str]:
    """Comments keep a quiet stream alive, and let us look at the clock."""
    rest = b""
    for block in blocks:
        if clock.monotonic() > end:
            raise TimeoutError
        *lines, rest = (rest + block).split(b"\n")
        yield from (line.rstrip(b"\r").decode() for line in lines)


def _parsed(lines: Iterable[str]) -> Iterator[Event]:
    """Of the standard of server-sent events what our service uses."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        elif "data" in fields:
            yield Event(fields.get("id", ""), fields.get("event", ""), json.loads(fields["data"]))
            fields = {}
