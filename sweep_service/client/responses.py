"""Responses of a service: error responses and lost connections become errors of this package."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    import httpx2

UNAVAILABLE = (502, 503, 504)  # the service starts or stops, or a proxy does not reach it
TOO_MANY_REQUESTS = 429  # with a field in the problem: too many sweeps
PROBLEM_MEDIA_TYPE = "application/problem+json"
ERRORS: dict[int, type[SweepError]] = {401: Denied, 403: Denied, 404: NotFound, 409: Conflict}
ERRORS_WITH_FIELD: dict[int, type[InvalidInput]] = {
    413: InvalidInput,
    422: InvalidInput,
    429: TooManySweeps,
    507: NoRoom,
}


class Unavailable(Exception):
    """The service did not answer; `pause` is the number of seconds of its Retry-After header."""

    pause = 0.0


class Busy(Unavailable):
    """The service limits the rate of requests."""


def check_response(response: httpx2.Response, url: str) -> httpx2.Response:
    """Return a response that was read, or raise the error of this package that corresponds to its status."""
    status = response.status_code
    if response.is_success:
        return response
    is_problem = response.headers.get("content-type", "").partition(";")[0] == PROBLEM_MEDIA_TYPE
    problem = response.json() if is_problem else {}
    detail = problem.get("detail") or f"{url} answers {status} {response.reason_phrase}"
    if status in UNAVAILABLE or (status == TOO_MANY_REQUESTS and "field" not in problem):
        unavailable = Busy(detail) if status == TOO_MANY_REQUESTS else Unavailable(detail)
        unavailable.pause = _parse_retry_after(response.headers.get("retry-after", ""))
        raise unavailable
    if status in ERRORS_WITH_FIELD:
        raise _read_errors(problem, ERRORS_WITH_FIELD[status], detail)
    if is_problem or status in (401, 403):
        request = f" (request {problem['request_id']})" if status >= 500 else ""
        raise ERRORS.get(status, SweepError)(f"{detail}{request}")
    raise Unreachable(f"{detail}; it is not a sweep service")


def parse_json(response: httpx2.Response, url: str) -> Any:
    """Parse the JSON of a response."""
    try:
        return response.json()
    except ValueError:
        raise Unreachable(f"{url} is not a sweep service: its response is not JSON") from None


@contextmanager
def transport_errors(url: str) -> Iterator[None]:
    """Turn errors of the connection into `Unavailable`."""
    import httpx2

    try:
        yield
    except httpx2.TransportError as error:
        raise Unavailable(f"no service answers at {url}: {str(error) or type(error).__name__}") from None


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


def _parse_retry_after(text: str) -> float:
    """Parse the seconds of a Retry-After header; a proxy may send a date or nonsense, which is ignored."""
    return float(text) if re.fullmatch(r"[0-9]{1,4}", text) else 0.0
