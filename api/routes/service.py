"""The service itself: is it well, who may come in, what is where."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from sweep_service.api.error_responses import Json, responses
from sweep_service.api.models import Health, Ready, Session
from sweep_service.api.routes.sweeps import Body, Here, takes
from sweep_service.api.security import COOKIE, LASTS, Keys
from sweep_service.errors import Denied, InvalidInput
from sweep_service.version import __version__

router = APIRouter(tags=["service"])


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz")
async def health() -> Health:
    """The process answers."""
    return Health(status="ok")


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", response_model=None, responses={200: {"model": Ready}, 503: {"model": Ready}})
async def ready(engine: Here) -> Response:
    """It takes sweeps; and whether something keeps them from going on."""
    alive = engine.is_alive
    about = Ready(
        status="ready" if alive else "stopping",
        version=__version__,
        threads=engine.threads,
        waiting=engine.waiting,
        refused=engine.refused,
    )
    return Json(about.model_dump(), 200 if alive else 503)


@router.get(
    "/metrics",
    response_model=None,
    responses=responses() | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(request: Request) -> Response:
    """For Prometheus."""
    return Response(request.app.state.metrics.text(), media_type=CONTENT_TYPE_LATEST)


def keys_of(request: Request) -> Keys:
    return request.app.state.keys


Locks = Annotated[Keys, Depends(keys_of)]


@router.post(
    "/v1/session",
    openapi_extra=takes("Token", {"token": "one of SWEEP_TOKENS"}),
    response_model=None,
    responses=responses(415) | {200: {"model": Session, "description": "With a cookie"}},
)
def log_in(request: Request, keys: Locks, body: Body) -> Response:
    """A token becomes a cookie, for the page, its events and the dashboard."""
    token = keys.find(_token(body))
    if token is None:
        raise Denied("that is no token of this service")
    response = Json(Session(may_change=token.may_change).model_dump())
    secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https:")
    response.set_cookie(COOKIE, keys.session(token), LASTS, httponly=True, samesite="strict", secure=secure)
    return response


@router.delete("/v1/session", status_code=204, responses=responses())
def log_out(response: Response) -> None:
    """Forget the cookie."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


def _token(body: bytes) -> str:
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("token"), str):
        raise InvalidInput("token", None, "must be a text in a JSON object")
    return found["token"]
