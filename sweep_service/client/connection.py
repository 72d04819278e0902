"""HTTP requests to a service, with retries; error responses become the errors of this package."""

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

import httpx2

from sweep_service.client import DEFAULT_URL
from sweep_service.errors import (
    Conflict,
    Denied,
    InvalidInput,
    InvalidSpec,
    NoRoom,
    NotFound,
    Position,
    SweepError,
    TooManySweeps,
    Unreachable,
)

UNAVAILABLE = (502, 503, 504)  # the service starts or stops, or a proxy does not reach it
TOO_MANY_REQUESTS = 429  # with a field in the problem: too many sweeps
RETRY_SECONDS = 10.0  # for which a request is retried
BUSY_RETRY_SECONDS = 60.0  # the same for a service that answers, but is busy
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.2, 5.0  # between two attempts
CONNECT_TIMEOUT_SECONDS = 5.0
RESPONSE_TIMEOUT_SECONDS = 300.0  # the service needs time for a large spec
STREAM_TIMEOUT_SECONDS = 45.0  # an event stream sends a comment every 15 s
# No proxy reaches a service of this machine, whatever HTTP_PROXY says.
WITHOUT_PROXY = dict.fromkeys(("all://localhost", "all://127.0.0.1", "all://[::1]"))
PROBLEM_MEDIA_TYPE = "application/problem+json"
ERRORS: dict[int, type[SweepError]] = {401: Denied, 403: Denied, 404: NotFound, 409: Conflict}
ERRORS_WITH_FIELD: dict[int, type[InvalidInput]] = {
    413: InvalidInput,
    422: InvalidInput,
    429: TooManySweeps,
    507: NoRoom,
}

Result = TypeVar("Result")


class _Unavailable(Exception):
    """The service did not answer; `pause` is the number of seconds of its Retry-After header."""

    pause = 0.0


class _Busy(_Unavailable):
    """The service limits the rate of requests."""


@dataclass(frozen=True)
class Event:
    """An event of a sweep. Its id can be used to request only later events."""

    id: str  # "" for those that are not kept
    kind: str  # state, progress, notes, compiling or removed
    data: dict[str, Any]  # the sweep


class Connection:
    """Requests to the service at `url`. All of them are idempotent, so that they can be retried."""

    def __init__(
        self,
        url: str,
        token: str | None,
        retry_seconds: float = RETRY_SECONDS,
        busy_retry_seconds: float = BUSY_RETRY_SECONDS,
    ) -> None:
        self.retry_seconds, self.busy_retry_seconds = retry_seconds, busy_retry_seconds
        self.url = url.rstrip("/")
        if token and not (token.isascii() and token.isprintable()):
            raise InvalidInput("token", None, "must be printable ASCII")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            if not re.match(r"https?://[^/]", url):
                raise httpx2.InvalidURL("")
            self._http = httpx2.Client(
                base_url=self.url,
                headers=self.headers,
                timeout=httpx2.Timeout(RESPONSE_TIMEOUT_SECONDS, connect=CONNECT_TIMEOUT_SECONDS),
                mounts=WITHOUT_PROXY,
            )
        except httpx2.InvalidURL:
            raise InvalidInput("url", url, f"must have the form {DEFAULT_URL}") from None
        weakref.finalize(self, self._http.close)  # if the caller does not close it

    def close(self) -> None:
        self._http.close()

    def request_json(self, method: str, path: str, **options: Any) -> Any:
        """Send a request and return the JSON of its response."""
        return self._parse_json(self.request(method, path, **options))

    def request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Send a request, with retries."""
        return self._retry(lambda: self._send(method, path, **options))

    def download(self, path: str, params: Mapping[str, str], file: Path) -> None:
        """Write the body of a response to a file, with retries."""

        def download_once() -> None:
            with self._stream(path, params=params) as response, file.open("wb") as output:
                for block in response.iter_bytes():
                    output.write(block)

        self._retry(download_once)

    def poll(self, path: str, end: float) -> Iterator[Any]:
        """Retry a request until it succeeds; yields None after each failure, and last the JSON."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            requested_pause = 0.0
            try:
                response = self._send("GET", path, timeout=_timeout(end))
            except _Unavailable as error:
                requested_pause = error.pause
                yield None
            else:
                yield self._parse_json(response)
                return
            pause = _sleep(pause, end, requested_pause)

    def events(self, path: str, after: str | None, end: float) -> Iterator[Event | None]:
        """Yield events until the sweep ends; None means that the connection was lost and will be reopened."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            requested_pause = 0.0
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": after} if after else {})}
            try:
                with self._stream(path, headers=headers, timeout=_timeout(end)) as response:
                    if response.status_code == 204:
                        return
                    for event in _parse_events(_iter_lines(response.iter_bytes(), end)):
                        after, pause = event.id or after, FIRST_PAUSE_SECONDS
                        yield event
                        if event.kind == "removed":
                            return
            except _Unavailable as error:
                requested_pause = error.pause
                yield None
            pause = _sleep(pause, end, requested_pause)

    def _retry(self, attempt: Callable[[], Result]) -> Result:
        """Repeat an attempt until it succeeds or the time for retries is over."""
        pause, began = FIRST_PAUSE_SECONDS, clock.monotonic()
        while True:
            try:
                return attempt()
            except _Unavailable as error:
                is_busy = isinstance(error, _Busy)
                end = began + (self.busy_retry_seconds if is_busy else self.retry_seconds)
                requested_pause = error.pause
                if clock.monotonic() + max(pause, requested_pause) > end:
                    raise Unreachable(str(error)) from None
            pause = _sleep(pause, end, requested_pause)

    def _send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        with _transport_errors(self.url):
            return self._raise_for_status(self._http.request(method, path, **options))

    def _parse_json(self, response: httpx2.Response) -> Any:
        try:
            return response.json()
        except ValueError:
            raise Unreachable(f"{self.url} is not a sweep service: its response is not JSON") from None

    @contextmanager
    def _stream(self, path: str, **options: Any) -> Iterator[httpx2.Response]:
        with _transport_errors(self.url), self._http.stream("GET", path, **options) as response:
            yield self._raise_for_status(response)

    def _raise_for_status(self, response: httpx2.Response) -> httpx2.Response:
        """Raise the error of this package that corresponds to an error response."""
        status = response.status_code
        if response.is_success:
            return response
        response.read()
        is_problem = response.headers.get("content-type", "").partition(";")[0] == PROBLEM_MEDIA_TYPE
        problem = response.json() if is_problem else {}
        detail = problem.get("detail") or f"{self.url} answers {status} {response.reason_phrase}"
        if status in UNAVAILABLE or (status == TOO_MANY_REQUESTS and "field" not in problem):
            unavailable = _Busy(detail) if status == TOO_MANY_REQUESTS else _Unavailable(detail)
            unavailable.pause = _parse_retry_after(response.headers.get("retry-after", ""))
            raise unavailable
        if status in ERRORS_WITH_FIELD:
            raise _read_errors(problem, ERRORS_WITH_FIELD[status], detail)
        if is_problem or status in (401, 403):
            request = f" (request {problem['request_id']})" if status >= 500 else ""
            raise ERRORS.get(status, SweepError)(f"{detail}{request}")
        raise Unreachable(f"{detail}; it is not a sweep service")


def _read_errors(problem: Mapping[str, Any], error_type: type[InvalidInput], detail: str) -> InvalidInput:
    """Return the errors of an invalid request. The service does not echo values."""
    errors = []
    for item in problem.get("errors") or ():
        error = error_type(item["field"], None, item["allowed"])
        error.args = (f"{error.field}: {error.allowed}",)
        if "line" in item:
            error.position = Position(item["line"], item["column"])
        errors.append(error)
    if len(errors) > 1:
        return InvalidSpec(errors, problem.get("errors_truncated", False))
    if errors:
        return errors[0]
    error = error_type(problem.get("field", "request"), None, problem.get("allowed", detail))
    error.args = (detail,)
    return error


@contextmanager
def _transport_errors(url: str) -> Iterator[None]:
    """Turn errors of the connection into `_Unavailable`."""
    try:
        yield
    except httpx2.TransportError as error:
        raise _Unavailable(f"no service answers at {url}: {str(error) or type(error).__name__}") from None


def _timeout(end: float) -> httpx2.Timeout:
    """Return the timeout of one attempt that should end at `end`."""
    remaining = max(0.01, end - clock.monotonic())
    return httpx2.Timeout(
        min(STREAM_TIMEOUT_SECONDS, remaining), connect=min(CONNECT_TIMEOUT_SECONDS, remaining)
    )


def _sleep(pause: float, end: float, requested_pause: float = 0.0) -> float:
    """Sleep until the next attempt; returns the pause after that one."""
    if clock.monotonic() + max(pause, requested_pause) > end:
        raise TimeoutError
    clock.sleep(max(pause, requested_pause))
    return min(2 * pause, MAX_PAUSE_SECONDS)


def _parse_retry_after(text: str) -> float:
    """Parse the seconds of a Retry-After header; a proxy may send a date or nonsense, which is ignored."""
    return float(text) if re.fullmatch(r"[0-9]{1,4}", text) else 0.0


def _iter_lines(blocks: Iterable[bytes], end: float) -> Iterator[str]:
    """Split blocks into lines. Comments arrive even without events, so that the timeout is noticed."""
    rest = b""
    for block in blocks:
        if clock.monotonic() > end:
            raise TimeoutError
        *lines, rest = (rest + block).split(b"\n")
        yield from (line.rstrip(b"\r").decode() for line in lines)


def _parse_events(lines: Iterable[str]) -> Iterator[Event]:
    """Parse the subset of server-sent events that the service uses."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        elif "data" in fields:
            yield Event(fields.get("id", ""), fields.get("event", ""), json.loads(fields["data"]))
            fields = {}
