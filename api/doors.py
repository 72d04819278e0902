"""Who may come in: the name of the host, the origin of a page, a token, the size of what is sent.

Every request passes here, websockets included. It gets an id, which is in the response, in every problem
and in the log.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import time as clock
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.metrics import Metrics
from api.pages import STATIC, page
from api.problems import explained, problem
from api.settings import Settings

log = logging.getLogger("sweep.access")

OPEN = ("/healthz", "/readyz", "/v1/session")
LOOKING = ("GET", "HEAD", "OPTIONS")
HARMLESS = ("/v1/estimate", "/v1/session", "/v1/spec")  # a POST that changes nothing
COOKIE = "sweep_session"
LASTS = 30 * 86400  # seconds, of a session
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True)
class Token:
    secret: str
    may_change: bool


class Keys:
    """The tokens of a service, and sessions signed with them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self.tokens = tuple(Token(one.removesuffix(":read"), not one.endswith(":read")) for one in secrets)

    def find(self, secret: str) -> Token | None:
        """Compared with all of them, in a time that tells nothing."""
        found = None
        for token in self.tokens:
            if hmac.compare_digest(_digest(secret), _digest(token.secret)):
                found = token
        return found

    def session(self, token: Token) -> str:
        ends = str(int(clock.time()) + LASTS)
        return f"{ends}.{_signed(token, ends)}"

    def of_session(self, cookie: str) -> Token | None:
        ends, _, signature = cookie.partition(".")
        if not ends.isascii() or not ends.isdigit() or int(ends[:15]) < clock.time():
            return None
        found = None
        for token in self.tokens:
            if hmac.compare_digest(signature.encode(), _signed(token, ends).encode()):
                found = token
        return found


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _signed(token: Token, text: str) -> str:
    return hmac.new(_digest(token.secret), f"session {text}".encode(), "sha256").hexdigest()


class Door:
    def __init__(self, app: ASGIApp, settings: Settings, keys: Keys, metrics: Metrics) -> None:
        self.app, self.settings, self.keys, self.metrics = app, settings, keys, metrics
        names = {*LOOPBACK, settings.host, *settings.hosts}
        self.names = {name.lower() for name in names} if settings.is_loopback else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        refusal = self._refusal(scope, headers, request_id)
        if scope["type"] == "websocket":
            if refusal is None:
                await self.app(scope, receive, send)
            else:
                await _refuse_websocket(refusal, scope, receive, send)
            return
        await self._answered(scope, receive, send, request_id, refusal)

    async def _answered(
        self, scope: Scope, receive: Receive, send: Send, request_id: str, refusal: Response | None
    ) -> None:
        began, status = clock.perf_counter(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = request_id
                headers.setdefault("x-content-type-options", "nosniff")
            await send(message)

        try:
            if refusal is None:
                await self.app(scope, _limited(receive, self.settings.max_body), noted)
            else:
                await refusal(scope, receive, noted)
        except Exception as error:
            response = explained(error, request_id)
            if status:  # it has begun: all that is left is to break it off
                raise
            await response(scope, receive, noted)
        finally:
            seconds = clock.perf_counter() - began
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.seen(scope["method"], route, status, seconds)
            about = {
                "request_id": request_id, "method": scope["method"], "path": scope["path"],
                "status": status, "ms": round(1000 * seconds, 1), "event": "request",
            }  # fmt: skip
            log.info("request", extra=about)

    def _refusal(self, scope: Scope, headers: Headers, request_id: str) -> Response | None:
        name = _host(headers.get("host", ""))
        if self.names is not None and name not in self.names:  # a page elsewhere may have named us its own
            return problem(request_id, 403, "this service is reached as localhost; SWEEP_HOSTS adds names")
        method = scope.get("method", "GET")
        origin = headers.get("origin")
        acts = method not in LOOKING or scope["type"] == "websocket"
        if acts and origin is not None and _netloc(origin) != headers.get("host"):
            return problem(request_id, 403, "pages of another origin may not act here")
        length = headers.get("content-length", "").lstrip("0")[:20]
        if length.isascii() and length.isdigit() and int(length) > self.settings.max_body:
            return problem(request_id, 413, _too_large(self.settings.max_body))
        if not self.keys.tokens or scope["path"] in OPEN or scope["path"].startswith(f"{STATIC}/"):
            return None
        token = self._token(headers)
        if token is None:
            if "text/html" in headers.get("accept", ""):
                return page("login", 401)
            wanted = {"WWW-Authenticate": "Bearer"}
            return problem(request_id, 401, "a token is needed: Authorization: Bearer …", wanted)
        if not token.may_change and method not in LOOKING and scope["path"] not in HARMLESS:
            return problem(request_id, 403, "this token may only look")
        return None

    def _token(self, headers: Headers) -> Token | None:
        kind, _, secret = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.keys.find(secret.strip())
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE)
        return self.keys.of_session(cookie) if cookie is not None else None


def _host(header: str) -> str:
    """Without the port."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _too_large(most: int) -> str:
    return f"the body must have at most {most} bytes"


def _limited(receive: Receive, most: int) -> Receive:
    """A body that does not say how long it is, or says it wrong, is counted while it comes."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise HTTPException(413, _too_large(most))
        return message

    return counted


async def _refuse_websocket(refusal: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if "websocket.http.response" in scope.get("extensions", {}):
        await refusal(scope, receive, send)
    else:
        await send({"type": "websocket.close", "code": 1008})
