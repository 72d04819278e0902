"""Who may come in: the name of the host, the origin of a page, a token, the size and pace of what is sent.

Every request passes here, websockets included. It gets an id, which is in the response, in every problem
and in the log.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import time as clock
import uuid
from collections.abc import Hashable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sweep_service.api.error_responses import explained, problem
from sweep_service.api.metrics import Metrics
from sweep_service.api.rate_limit import Budget, Rates, household, retry_after
from sweep_service.api.routes.pages import STATIC, page
from sweep_service.api.settings import Settings

log = logging.getLogger("sweep.access")

SESSION = "/v1/session"
PROBES = ("/healthz", "/readyz")
LOOKING = ("GET", "HEAD", "OPTIONS")
HARMLESS = ("/v1/estimate", SESSION, "/v1/spec")  # a POST that changes nothing
HEAVY = re.compile(r"/v1/sweeps/[^/]*/(data|map|contents|curves|phase-diagram|figures/[^/]*)")  # to look at
STREAM = re.compile(r"/v1/sweeps/[^/]*/events")
BETWEEN, WHOLE = 30.0, 120.0  # seconds from one piece of a body to the next, and for all of it
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


@dataclass(frozen=True)
class Visitor:
    """Whose budget a request is on: a token, or the address of who has none."""

    client: Hashable
    token: Token | None = None
    wait: float = 0.0  # seconds until a token from there is looked at again


class Door:
    def __init__(self, app: ASGIApp, settings: Settings, keys: Keys, metrics: Metrics) -> None:
        self.app, self.settings, self.keys, self.metrics = app, settings, keys, metrics
        names = {*LOOPBACK, settings.host, *settings.hosts}
        self.names = {name.lower() for name in names} if settings.is_loopback else None
        self.rates = Rates(settings.rate, settings.rate_heavy)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        address = household((scope.get("client") or ("",))[0])
        visitor = Visitor(address)
        refusal = self._refusal(scope, headers, request_id)
        if refusal is None and scope["path"] not in PROBES:  # who watches over us is always answered
            visitor = self._visitor(scope, headers, address)
            refusal = self._check(scope, headers, request_id, visitor)
        with ExitStack() as stay:
            stays = scope["type"] == "websocket" or STREAM.fullmatch(scope["path"])
            if refusal is None and stays and stay.enter_context(self.rates.held(visitor.client)):
                refusal = problem(request_id, 429, "too many streams are open", retry_after(10.0))
            if scope["type"] == "http":
                await self._answered(scope, receive, send, request_id, refusal)
            elif refusal is None:
                await self.app(scope, receive, send)
            else:
                await _refuse_websocket(refusal, scope, receive, send)

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
        """Whoever it is."""
        if len(headers.getlist("host")) > 1:  # of which a proxy may have looked at the other
            return problem(request_id, 400, "Host must be there once")
        name = _host(headers.get("host", ""))
        if self.names is not None and name not in self.names:  # a page elsewhere may have named us its own
            return problem(request_id, 403, "this service is reached as localhost; SWEEP_HOSTS adds names")
        origin = headers.get("origin")
        acts = scope["type"] == "websocket" or scope["method"] not in LOOKING
        if acts and origin is not None and _netloc(origin) != headers.get("host"):
            return problem(request_id, 403, "pages of another origin may not act here")
        length = headers.get("content-length", "").lstrip("0")[:20]
        if length.isascii() and length.isdigit() and int(length) > self.settings.max_body:
            return problem(request_id, 413, _too_large(self.settings.max_body))
        return None

    def _check(self, scope: Scope, headers: Headers, request_id: str, visitor: Visitor) -> Response | None:
        method, path, token = scope.get("method", "GET"), scope["path"], visitor.token
        seconds = visitor.wait or self._budget(method, path).take(visitor.client)
        if seconds:
            return problem(request_id, 429, "too many requests: wait a little", retry_after(seconds))
        if not self.keys.tokens or path == SESSION or path.startswith(f"{STATIC}/"):
            return None
        if token is None:
            if "text/html" in headers.get("accept", ""):
                return page("login", 401)
            wanted = {"WWW-Authenticate": "Bearer"}
            return problem(request_id, 401, "a token is needed: Authorization: Bearer …", wanted)
        if not token.may_change and method not in LOOKING and path not in HARMLESS:
            return problem(request_id, 403, "this token may only look")
        return None

    def _budget(self, method: str, path: str) -> Budget:
        is_dear = (method not in LOOKING and path != SESSION) or HEAVY.fullmatch(path)
        return self.rates.heavy if is_dear else self.rates.cheap

    def _visitor(self, scope: Scope, headers: Headers, address: str) -> Visitor:
        """Where many tokens were wrong, none is looked at for a while, or guessing would just go on.

        A cookie is signed, which nobody guesses: that of an old session, in a page left open, is no attempt.
        """
        if not self.keys.tokens:
            return Visitor(address)
        guesses = self.rates.guesses
        if scope["path"] == SESSION and scope.get("method") == "POST":
            return Visitor(address, None, guesses.take(address))
        kind, _, secret = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE)
            token = self.keys.of_session(cookie) if cookie is not None else None
            return Visitor(token or address, token)
        token = self.keys.find(secret.strip())
        if token is not None and self.rates.is_welcome(address, token):
            return Visitor(token, token)
        seconds = guesses.wait(address) if token is not None else guesses.take(address)
        if seconds:
            return Visitor(address, None, seconds)
        if token is not None:
            self.rates.welcome(address, token)
        return Visitor(token or address, token)


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
    """A body that does not say how long it is, or says it wrong, is counted while it comes; and it must come.

    What follows it is only that the client has gone, which is waited for as long as it takes.
    """
    seen, end, complete = 0, clock.monotonic() + WHOLE, False

    async def counted() -> Message:
        nonlocal seen, complete
        if complete:
            return await receive()
        try:
            async with asyncio.timeout(min(BETWEEN, end - clock.monotonic())):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, "the body comes too slowly", {"Connection": "close"}) from None
        seen += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        if seen > most:
            raise HTTPException(413, _too_large(most))
        return message

    return counted


async def _refuse_websocket(refusal: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if "websocket.http.response" in scope.get("extensions", {}):
        await refusal(scope, receive, send)
    else:
        await send({"type": "websocket.close", "code": 1008})
