"""The Dask dashboard behind the same door: its pages, and the websockets by which they live."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
from fastapi import APIRouter, Request
from starlette.background import BackgroundTask
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException
from websockets.typing import Origin, Subprotocol

from sweep_service.api.conductor_thread import Engine
from sweep_service.errors import NotFound, Stopped

router = APIRouter(include_in_schema=False)

# What a connection is about itself is not passed on; nor are secrets of this service.
OURS = (
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


# With which a scheduler leads to other machines.
ELSEWHERE = re.compile(r"/*proxy(/.*)?", re.DOTALL)


def _target(engine: Engine) -> str:
    """Where the dashboard is now; it moves when the scheduler is another."""
    found = engine.dashboard
    if not found:
        raise Stopped("there is no scheduler, and so no dashboard, at the moment")
    return found


@router.get("/dask", response_model=None)
@router.get("/dask/", response_model=None)
async def front() -> Response:
    return RedirectResponse("/dask/status")


@router.get("/dask/{path:path}", response_model=None)
async def page(request: Request, path: str) -> Response:
    client: httpx.AsyncClient = request.app.state.http
    engine: Engine = request.app.state.engine
    headers = [(name, value) for name, value in request.headers.items() if name not in OURS]
    if ELSEWHERE.fullmatch(path):
        raise NotFound("no such page of the dashboard")
    try:
        url = httpx.URL(_target(engine)).copy_with(path=f"/{path}", query=request.url.query.encode())
    except httpx.InvalidURL:
        raise NotFound("no such page of the dashboard") from None
    try:
        answer = await client.send(client.build_request("GET", url, headers=headers), stream=True)
    except (httpx.HTTPError, httpx.InvalidURL):  # the latter of where it would send us
        raise Stopped("the dashboard does not answer") from None
    there = {name: value for name, value in answer.headers.items() if name not in OURS}
    if "location" in there:  # of its own root, which is not ours
        there["location"] = f"/dask/{_path(there['location']).lstrip('/')}"
    return StreamingResponse(answer.aiter_raw(), answer.status_code, there, background=_closing(answer))


def _path(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:
        return ""


def _closing(answer: httpx.Response) -> BackgroundTask:
    return BackgroundTask(answer.aclose)


@router.websocket("/dask/{path:path}")
async def live(socket: WebSocket, path: str) -> None:
    engine: Engine = socket.app.state.engine
    if ELSEWHERE.fullmatch(path):
        await socket.close(1008)
        return
    if not engine.dashboard:
        await socket.close(1013)  # try again later
        return
    target = urlsplit(engine.dashboard)
    asked = [part.strip() for part in socket.headers.get("sec-websocket-protocol", "").split(",") if part]
    query = f"?{socket.url.query}" if socket.url.query else ""
    try:
        async with connect(
            f"ws://{target.netloc}/{path}{query}",
            subprotocols=[Subprotocol(part) for part in asked] or None,
            origin=Origin(f"http://{target.netloc}"),
            max_size=None,
        ) as other:
            await socket.accept(other.subprotocol)
            await _both_ways(socket, other)
    except (OSError, WebSocketException):
        with suppress(RuntimeError):
            await socket.close(1011)


async def _both_ways(socket: WebSocket, other: ClientConnection) -> None:
    """Until one of them ends it."""

    async def out() -> None:
        async for message in other:
            await (socket.send_text(message) if isinstance(message, str) else socket.send_bytes(message))

    async def back() -> None:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            await other.send(message["bytes"] if message.get("bytes") is not None else message["text"])

    ways = [asyncio.create_task(out()), asyncio.create_task(back())]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
    with suppress(RuntimeError, WebSocketDisconnect):
        await socket.close()
