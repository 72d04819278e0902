"""HEAD wherever GET reads data: the response of GET without its body."""

from __future__ import annotations

import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Event streams have no end that a HEAD could wait for; the Zarr store answers HEAD itself, without reading.
GET_PATH = re.compile(r"/v1/(?!sweeps/[^/]*/(?:events$|zarr/)).*")


class HeadMiddleware:
    """Answers HEAD as GET; the server leaves out the body, as it sees the method that the client sent."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD" or not GET_PATH.fullmatch(scope["path"]):
            await self.app(scope, receive, send)
            return
        got: Scope = {**scope, "method": "GET"}

        async def send_without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        try:
            await self.app(got, receive, send_without_body)
        finally:
            scope["route"] = got.get("route")  # by which requests are counted
