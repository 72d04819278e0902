"""Health, metrics and login sessions of the service."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from sweep_service.api.error_responses import SafeJsonResponse, responses
from sweep_service.api.models import Health, Ready, Session
from sweep_service.api.routes.sweeps import Body, Service, request_body
from sweep_service.api.security import COOKIE, SESSION_SECONDS, Authenticator
from sweep_service.errors import Denied, InvalidInput
from sweep_service.version import __version__

router = APIRouter(tags=["service"])


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz")
async def health() -> Health:
    """Check that the process responds."""
    return Health(status="ok")


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", response_model=None, responses={200: {"model": Ready}, 503: {"model": Ready}})
async def ready(request: Request, service: Service) -> Response:
    """Check that the service accepts sweeps. Callers with a token learn more, such as why sweeps wait."""
    is_alive = service.is_alive
    content = Ready(status="ready" if is_alive else "stopping")
    if request.state.token is not None or not get_authenticator(request).tokens:
        content.version, content.threads = __version__, service.threads
        content.waiting, content.refused = service.wait_reason, service.refused_workers
    return SafeJsonResponse(content.model_dump(exclude_none=True), 200 if is_alive else 503)


@router.get(
    "/metrics",
    response_model=None,
    responses=responses() | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(request: Request) -> Response:
    """Return metrics for Prometheus."""
    return Response(request.app.state.metrics.text(), media_type=CONTENT_TYPE_LATEST)


def get_authenticator(request: Request) -> Authenticator:
    return request.app.state.authenticator


@router.post(
    "/v1/session",
    openapi_extra=request_body("Token", {"token": "one of SWEEP_TOKENS"}),
    response_model=None,
    responses=responses(415) | {200: {"model": Session, "description": "Sets a session cookie"}},
)
def log_in(
    request: Request, authenticator: Annotated[Authenticator, Depends(get_authenticator)], body: Body
) -> Response:
    """Exchange a token for a cookie, which the page, its events and the dashboard use."""
    token = authenticator.find_token(_read_token(body))
    if token is None:
        raise Denied("unknown token")
    response = SafeJsonResponse(Session(may_change=token.may_change).model_dump())
    secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https:")
    session = authenticator.create_session(token)
    response.set_cookie(COOKIE, session, SESSION_SECONDS, httponly=True, samesite="strict", secure=secure)
    return response


@router.delete("/v1/session", status_code=204, responses=responses())
def log_out(response: Response) -> None:
    """Delete the cookie."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


def _read_token(body: bytes) -> str:
    try:
        content: Any = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or not isinstance(content.get("token"), str):
        raise InvalidInput("token", None, "must be a string in a JSON object")
    return content["token"]
