"""Errors as RFC 9457 problem details. One table maps errors to statuses; input is never echoed."""

from __future__ import annotations

import json
import logging
import re
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import compile_path

from sweep_service.errors import (
    DISK_FULL_ERRNOS,
    Conflict,
    Damaged,
    Denied,
    InUse,
    InvalidInput,
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
_FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.,() \[\]]{0,60}", re.ASCII)
DEFAULT_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "10"}, 503: {"Retry-After": "5"}}
MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """RFC 9457 problem details, with the field that was rejected and what is allowed for it."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    request_id: str
    field: str | None = None
    allowed: str | None = None


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
    field: str | None = None,
    allowed: str | None = None,
) -> SafeJsonResponse:
    content = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        request_id=request_id,
        field=field,
        allowed=allowed,
    )
    return SafeJsonResponse(content.model_dump(exclude_none=True), status, headers, MEDIA_TYPE)


def error_response(error: Exception, request_id: str) -> SafeJsonResponse:
    """Convert an error of this package, or of the operating system, to a response."""
    if isinstance(error, InvalidInput):
        status = next(
            status for error_type, status in STATUS_BY_ERROR.items() if isinstance(error, error_type)
        )
        # Input is not echoed, except for keys that look like names of fields.
        field = error.field if _FIELD_NAME.fullmatch(error.field) else error.field.partition(".")[0]
        if field.endswith("(key)") and isinstance(error.value, str) and _FIELD_NAME.fullmatch(error.value):
            field = f"{field} {error.value}"
        return problem_response(
            request_id,
            status,
            f"{field}: {error.allowed}",
            DEFAULT_HEADERS.get(status),
            field=field,
            allowed=error.allowed,
        )
    if getattr(error, "errno", None) in DISK_FULL_ERRNOS or "disk is full" in str(
        error
    ):  # the message of SQLite
        return problem_response(request_id, 507, "the disk of the service is full")
    for error_type, status in STATUS_BY_ERROR.items():
        if isinstance(error, error_type):
            text = str(error) if isinstance(error, SweepError) else "the service is busy; try again"
            return problem_response(request_id, status, text, DEFAULT_HEADERS.get(status))
    log.error("unexpected", exc_info=error, extra={"request_id": request_id})
    return problem_response(request_id, 500, "internal error; search the service's log for the request id")


def _allowed_methods(app: FastAPI, path: str) -> list[str]:
    methods: set[str] = set()
    for template, operations in app.openapi()["paths"].items():
        if compile_path(template)[0].fullmatch(path):
            methods.update(method.upper() for method in operations)
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
        first = error.errors()[0]
        field = ".".join(str(name) for name in first["loc"][1:]) or str(first["loc"][0])
        allowed = first["msg"][0].lower() + first["msg"][1:]
        return problem_response(
            request.state.request_id, 422, f"{field}: {allowed}", field=field, allowed=allowed
        )

    app.add_exception_handler(SweepError, handle_error)
    app.add_exception_handler(OSError, handle_error)
    app.add_exception_handler(HTTPException, handle_http_error)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, handle_invalid_request)  # type: ignore[arg-type]
