"""A proxy for the Dask dashboard, pages and websockets, behind the access control of the service."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

import httpx2
from fastapi import APIRouter, Request
from starlette.background import BackgroundTask
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import WebSocketException
from websockets.typing import Origin, Subprotocol

from sweep_service.api.conductor_thread import ConductorThread
from sweep_service.api.dashboard_paths import page_path, socket_path
from sweep_service.errors import NotFound, Stopped
from sweep_service.execution.executors import UNIX_SCHEME

router = APIRouter(include_in_schema=False)

# Headers that are not forwarded: those of the connection itself, and secrets of this service.
DROPPED_HEADERS = (
    "host",
    "connection",
    "keep-alive",
    "transfer-encoding",
    "upgrade",
    "authorization",
    "cookie",
    "origin",
    "date",
    "server",
)
SOCKET_HOST = "dashboard"  # host name in requests to a Unix socket
TIMEOUT_SECONDS = 10.0


def _dashboard_url(service: ConductorThread) -> str:
    """Return the dashboard's current URL; it changes with the scheduler."""
    url = service.dashboard
    if not url:
        raise Stopped("no dashboard, because there is no scheduler at the moment")
    return url


def _split_socket(url: str) -> tuple[str, str | None]:
    """Return a URL for requests, and the Unix socket of an embedded scheduler's dashboard."""
    parts = urlsplit(url)
    return (f"http://{SOCKET_HOST}", parts.path) if parts.scheme == UNIX_SCHEME else (url, None)


def _socket_client(unix_socket: str) -> httpx2.AsyncClient:
    """Return a client that need not be closed, because it keeps no connection."""
    limits = httpx2.Limits(max_keepalive_connections=0)
    transport = httpx2.AsyncHTTPTransport(uds=unix_socket, verify=False, limits=limits)
    return httpx2.AsyncClient(transport=transport, timeout=TIMEOUT_SECONDS, trust_env=False)


@router.get("/dask", response_model=None)
@router.get("/dask/", response_model=None)
async def front() -> Response:
    return RedirectResponse("/dask/status")


@router.get("/dask/{path:path}", response_model=None)
async def page(request: Request, path: str) -> Response:
    service: ConductorThread = request.app.state.conductor_thread
    headers = [(name, value) for name, value in request.headers.items() if name not in DROPPED_HEADERS]
    target = page_path(path)
    if target is None:
        raise NotFound("no such page of the dashboard")
    base, unix_socket = _split_socket(_dashboard_url(service))
    try:
        url = httpx2.URL(base).copy_with(path=target, query=request.url.query.encode())
        client = request.app.state.http if unix_socket is None else _socket_client(unix_socket)
        answer = await client.send(client.build_request("GET", url, headers=headers), stream=True)
    except (httpx2.HTTPError, httpx2.InvalidURL):  # an invalid URL comes from a redirect
        raise Stopped("the dashboard does not respond") from None
    response_headers = {name: value for name, value in answer.headers.items() if name not in DROPPED_HEADERS}
    if "location" in response_headers:  # relative to the dashboard's root, which is /dask here
        response_headers["location"] = f"/dask/{_path(response_headers['location']).lstrip('/')}"
    return StreamingResponse(
        answer.aiter_raw(),
        answer.status_code,
        response_headers,
        background=BackgroundTask(answer.aclose),
    )


def _path(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:
        return ""


@router.websocket("/dask/{path:path}")
async def live(socket: WebSocket, path: str) -> None:
    service: ConductorThread = socket.app.state.conductor_thread
    target_path = socket_path(path)
    if target_path is None:
        await socket.close(1008)
        return
    if not service.dashboard:
        await socket.close(1013)  # try again later
        return
    base, unix_socket = _split_socket(service.dashboard)
    host = urlsplit(base).netloc
    protocols = [name.strip() for name in socket.headers.get("sec-websocket-protocol", "").split(",") if name]
    query = f"?{socket.url.query}" if socket.url.query else ""
    open_socket = connect if unix_socket is None else partial(unix_connect, unix_socket)
    try:
        async with open_socket(
            uri=f"ws://{host}{target_path}{query}",
            subprotocols=[Subprotocol(name) for name in protocols] or None,
            origin=Origin(f"http://{host}"),
            max_size=None,
            proxy=None,  # the dashboard is reached directly, whatever HTTP_PROXY says
        ) as upstream:
            await socket.accept(upstream.subprotocol)
            await _relay(socket, upstream)
    except (OSError, WebSocketException):
        with suppress(RuntimeError):
            await socket.close(1011)


async def _relay(socket: WebSocket, upstream: ClientConnection) -> None:
    """Forward messages in both directions until either side closes."""

    async def forward_to_client() -> None:
        async for message in upstream:
            await (socket.send_text(message) if isinstance(message, str) else socket.send_bytes(message))

    async def forward_to_dashboard() -> None:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            await upstream.send(message["bytes"] if message.get("bytes") is not None else message["text"])

    tasks = [asyncio.create_task(forward_to_client()), asyncio.create_task(forward_to_dashboard())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    with suppress(RuntimeError, WebSocketDisconnect):
        await socket.close()
