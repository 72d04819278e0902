"""Errors as RFC 9457 problem details. One table maps errors to statuses; input is never echoed."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import compile_path

from sweep_service.api.middleware.head import GET_PATH
from sweep_service.errors import (
    DISK_FULL_ERRNOS,
    MAX_REPORTED_ERRORS,
    Conflict,
    Damaged,
    Denied,
    InUse,
    InvalidInput,
    InvalidSpec,
    LimitExceeded,
    NoRoom,
    NotFound,
    Stopped,
    StoreGone,
    SweepError,
    TooManySweeps,
    TooNew,
)
from sweep_service.text import replace_nonfinite

log = logging.getLogger(__name__)

STATUS_BY_ERROR: dict[type[Exception], int] = {  # the first match counts
    TooManySweeps: 429,
    NoRoom: 507,
    InvalidInput: 422,
    NotFound: 404,
    Conflict: 409,
    Denied: 401,
    Stopped: 503,
    TimeoutError: 503,
    InUse: 503,
    StoreGone: 503,
    Damaged: 500,
    TooNew: 500,
}
# The `type` of a problem: stable names by which programs can tell problems apart.
PROBLEM_TYPE_PREFIX = "urn:sweep-service:problem:"
PROBLEM_TYPE_BY_ERROR: dict[type[Exception], str] = {  # the first match counts
    TooManySweeps: "too-many-sweeps",
    NoRoom: "no-room",
    LimitExceeded: "limit-exceeded",
    InvalidInput: "invalid-input",
    StoreGone: "store-unavailable",
    Damaged: "damaged-data",
    TooNew: "newer-layout",
}
PROBLEM_TYPE_BY_STATUS = {  # of all other problems
    400: "malformed-request",
    401: "token-required",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    408: "slow-body",
    409: "conflict",
    413: "body-too-large",
    415: "unsupported-media-type",
    416: "range-not-satisfiable",
    422: "invalid-input",
    429: "too-many-requests",
    500: "internal-error",
    503: "unavailable",
    507: "no-room",
}
_FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.,() \[\]]{0,60}", re.ASCII)
DEFAULT_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "10"}, 503: {"Retry-After": "5"}}
MEDIA_TYPE = "application/problem+json"


class FieldError(BaseModel):
    """One error of a request: the path of a field, and what is allowed for it."""

    field: str = Field(description="Path of the field, such as axes.gamma[3]")
    allowed: str
    line: int | None = Field(default=None, description="Line in a YAML text, from 1")
    column: int | None = None


class Problem(BaseModel):
    """RFC 9457 problem details. `field` and `allowed` are those of the first of `errors`."""

    type: str = Field(description="A stable name of the kind of problem, urn:sweep-service:problem:…")
    title: str
    status: int
    detail: str
    request_id: str
    field: str | None = None
    allowed: str | None = None
    errors: list[FieldError] | None = Field(default=None, description="All errors of an invalid request")
    errors_truncated: bool | None = Field(default=None, description="Whether there are more errors")


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {
        "description": text,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status, text in (
        (400, "Malformed request"),
        (401, "A token is required"),
        (403, "Not allowed with this token or from this origin"),
        (408, "The body arrives too slowly"),
        (413, "The body is too large"),
        (422, "A field is invalid"),
        (429, "Too many requests, or too many unfinished sweeps"),
        (503, "The service is starting or stopping"),
        (507, "The disk of the service is full"),
    )
}


def responses(*more: int) -> dict[int | str, dict[str, Any]]:
    """Document the common error responses and those with the statuses in `more`."""
    texts = {
        404: "Not found",
        409: "Conflict",
        415: "The body is neither JSON nor YAML",
    }
    content = RESPONSES[422]["content"]
    return RESPONSES | {status: {"description": texts[status], "content": content} for status in more}


class SafeJsonResponse(JSONResponse):
    """Strictly valid JSON: NaN and infinities are null, and all characters are ASCII."""

    def render(self, content: Any) -> bytes:
        return json.dumps(replace_nonfinite(content), allow_nan=False, default=str).encode()


def problem_response(
    request_id: str,
    status: int,
    detail: str,
    headers: dict[str, str] | None = None,
    errors: Sequence[FieldError] = (),
    is_truncated: bool = False,
    error_type: type[Exception] | None = None,
) -> SafeJsonResponse:
    content = Problem(
        type=problem_type(status, error_type),
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        request_id=request_id,
        field=errors[0].field if errors else None,
        allowed=errors[0].allowed if errors else None,
        errors=list(errors) or None,
        errors_truncated=is_truncated or None,
    )
    return SafeJsonResponse(content.model_dump(exclude_none=True), status, headers, MEDIA_TYPE)


def problem_type(status: int, error_type: type[Exception] | None = None) -> str:
    """Return the stable name of a problem, by its error if it has a name of its own, else by its status."""
    names = (
        name
        for known, name in PROBLEM_TYPE_BY_ERROR.items()
        if error_type is not None and issubclass(error_type, known)
    )
    return PROBLEM_TYPE_PREFIX + next(names, PROBLEM_TYPE_BY_STATUS.get(status, "other"))


def error_response(error: Exception, request_id: str) -> SafeJsonResponse:
    """Convert an error of this package, or of the operating system, to a response."""
    if isinstance(error, InvalidInput):
        status = next(
            status for error_type, status in STATUS_BY_ERROR.items() if isinstance(error, error_type)
        )
        errors = [_field_error(item) for item in error.errors]
        is_truncated = isinstance(error, InvalidSpec) and error.is_truncated
        headers = DEFAULT_HEADERS.get(status)
        return problem_response(
            request_id, status, _summarise(errors, is_truncated), headers, errors, is_truncated, type(error)
        )
    if getattr(error, "errno", None) in DISK_FULL_ERRNOS or "disk is full" in str(
        error
    ):  # the message of SQLite
        return problem_response(request_id, 507, "the disk of the service is full")
    for error_type, status in STATUS_BY_ERROR.items():
        if isinstance(error, error_type):
            text = str(error) if isinstance(error, SweepError) else "the service is busy; try again"
            headers = DEFAULT_HEADERS.get(status)
            return problem_response(request_id, status, text, headers, error_type=error_type)
    log.error("unexpected", exc_info=error, extra={"request_id": request_id})
    return problem_response(request_id, 500, "internal error; search the service's log for the request id")


def _field_error(error: InvalidInput) -> FieldError:
    """Describe an error. Input is not echoed, except for keys that look like names of fields."""
    field = error.field if _FIELD_NAME.fullmatch(error.field) else error.field.partition(".")[0]
    if field.endswith("(key)") and isinstance(error.value, str) and _FIELD_NAME.fullmatch(error.value):
        field = f"{field} {error.value}"
    line, column = error.position or (None, None)
    return FieldError(field=field, allowed=error.allowed, line=line, column=column)


def _summarise(errors: Sequence[FieldError], is_truncated: bool = False) -> str:
    """Return the first error, and how many others there are."""
    first, others = errors[0], len(errors) - 1
    text = f"{first.field}: {first.allowed}"
    if first.line is not None:
        text = f"line {first.line}, column {first.column}: {text}"
    if not others:
        return text
    return f"{text} (and {'at least ' if is_truncated else ''}{others} more error{'s' if others > 1 else ''})"


def _allowed_methods(app: FastAPI, path: str) -> list[str]:
    methods: set[str] = set()
    for template, operations in app.openapi()["paths"].items():
        if compile_path(template)[0].fullmatch(path):
            methods.update(method.upper() for method in operations)
    if "GET" in methods and GET_PATH.fullmatch(path):
        methods.add("HEAD")
    return sorted(methods)


def install(app: FastAPI) -> None:
    async def handle_error(request: Request, error: Exception) -> Response:
        return error_response(error, request.state.request_id)

    async def handle_http_error(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        if error.status_code == 405:  # the router only lists the methods of the first route of a path
            headers["Allow"] = ", ".join(_allowed_methods(app, request.url.path)) or headers.get("Allow", "")
        return problem_response(request.state.request_id, error.status_code, str(error.detail), headers)

    async def handle_invalid_request(request: Request, error: RequestValidationError) -> Response:
        errors = [
            FieldError(
                field=".".join(str(name) for name in item["loc"][1:]) or str(item["loc"][0]),
                allowed=item["msg"][0].lower() + item["msg"][1:],
            )
            for item in error.errors()[:MAX_REPORTED_ERRORS]
        ]
        return problem_response(request.state.request_id, 422, _summarise(errors), errors=errors)

    app.add_exception_handler(SweepError, handle_error)
    app.add_exception_handler(OSError, handle_error)
    app.add_exception_handler(HTTPException, handle_http_error)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, handle_invalid_request)  # type: ignore[arg-type]
