"""Errors as RFC 9457 problem details. One table knows HTTP; what was sent is never echoed."""

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
    NO_ROOM,
    Conflict,
    Damaged,
    Denied,
    InUse,
    InvalidInput,
    NotFound,
    Stopped,
    StoreGone,
    SweepError,
    TooManySweeps,
    TooNew,
)
from sweep_service.text import json_ready

log = logging.getLogger(__name__)

STATUS: dict[type[Exception], int] = {  # the first that fits
    TooManySweeps: 429,
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
_NAMES = re.compile(r"[A-Za-z][A-Za-z0-9_.,() \[\]]{0,60}", re.ASCII)
HINTS = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "10"}, 503: {"Retry-After": "5"}}
MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """RFC 9457, with the field that is to blame and what it may be."""

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
        (400, "The request cannot be read"),
        (401, "A token is needed"),
        (403, "Not with this token, or not from this origin"),
        (408, "The body comes too slowly"),
        (413, "The body is too large"),
        (422, "A field is not usable"),
        (429, "Too many requests, or sweeps that have not ended"),
        (503, "The service starts or stops"),
    )
}


def responses(*more: int) -> dict[int | str, dict[str, Any]]:
    """The common ones, and these."""
    texts = {
        404: "Nothing of that name",
        409: "Conflict",
        415: "Neither JSON nor YAML",
    }
    content = RESPONSES[422]["content"]
    return RESPONSES | {status: {"description": texts[status], "content": content} for status in more}


class Json(JSONResponse):
    """What Python holds, as JSON that every reader takes: NaN is null, all letters are ASCII."""

    def render(self, content: Any) -> bytes:
        return json.dumps(json_ready(content), allow_nan=False, default=str).encode()


def problem(
    request_id: str,
    status: int,
    detail: str,
    headers: dict[str, str] | None = None,
    field: str | None = None,
    allowed: str | None = None,
) -> Json:
    found = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        request_id=request_id,
        field=field,
        allowed=allowed,
    )
    return Json(found.model_dump(exclude_none=True), status, headers, MEDIA_TYPE)


def explained(error: Exception, request_id: str) -> Json:
    """An error of ours, or of the machine, as a response."""
    if isinstance(error, InvalidInput):
        status = next(status for kind, status in STATUS.items() if isinstance(error, kind))
        # Of what was sent nothing is repeated but names of keys that could be ours.
        field = error.field if _NAMES.fullmatch(error.field) else error.field.partition(".")[0]
        if field.endswith("(key)") and isinstance(error.value, str) and _NAMES.fullmatch(error.value):
            field = f"{field} {error.value}"
        text = f"{field}: {error.allowed}"
        return problem(request_id, status, text, HINTS.get(status), field=field, allowed=error.allowed)
    if getattr(error, "errno", None) in NO_ROOM or "disk is full" in str(error):  # as SQLite says it
        return problem(request_id, 507, "there is no room on the disk of the service")
    for kind, status in STATUS.items():
        if isinstance(error, kind):
            text = str(error) if isinstance(error, SweepError) else "the service is busy: try again"
            return problem(request_id, status, text, HINTS.get(status))
    log.error("unexpected", exc_info=error, extra={"request_id": request_id})
    return problem(request_id, 500, "an error of the service; its log has more under the request id")


def _methods(app: FastAPI, path: str) -> list[str]:
    found: set[str] = set()
    for template, operations in app.openapi()["paths"].items():
        if compile_path(template)[0].fullmatch(path):
            found.update(method.upper() for method in operations)
    return sorted(found)


def install(app: FastAPI) -> None:
    async def ours(request: Request, error: Exception) -> Response:
        return explained(error, request.state.request_id)

    async def http(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        if error.status_code == 405:  # the router knows but the first route of a path
            headers["Allow"] = ", ".join(_methods(app, request.url.path)) or headers.get("Allow", "")
        return problem(request.state.request_id, error.status_code, str(error.detail), headers)

    async def unusable(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        allowed = first["msg"][0].lower() + first["msg"][1:]
        return problem(request.state.request_id, 422, f"{field}: {allowed}", field=field, allowed=allowed)

    app.add_exception_handler(SweepError, ours)
    app.add_exception_handler(OSError, ours)
    app.add_exception_handler(HTTPException, http)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, unusable)  # type: ignore[arg-type]
