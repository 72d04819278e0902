"""Access control: host name, origin, token, rate, and size and speed of request bodies.

Every request passes this middleware, websockets included. It gets an id, which is in the response, in every
problem and in the log.
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

from sweep_service.api.error_responses import error_response, problem_response
from sweep_service.api.logs import ACCESS_LOGGER
from sweep_service.api.metrics import Metrics
from sweep_service.api.middleware.cross_origin import CrossOriginReading
from sweep_service.api.rate_limit import ClientLimits, RateLimiter, RateLimits, client_network, retry_after
from sweep_service.api.routes.pages import STATIC, page
from sweep_service.api.settings import Settings
from sweep_service.api.tokens import Token, parse_token

log = logging.getLogger(ACCESS_LOGGER)

SESSION_PATH = "/v1/session"
PROBES = ("/healthz", "/readyz")
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
READ_ONLY_POSTS = ("/v1/estimate", "/v1/seeds", SESSION_PATH, "/v1/spec")
HEAVY_GETS = re.compile(r"/v1/sweeps/[^/]*/(data|map|contents|curves|seeds|phase-diagram|figures/[^/]*)")
STREAM_PATH = re.compile(r"/v1/sweeps/[^/]*/events")
COOKIE = "sweep_session"
SESSION_SECONDS = 30 * 86400
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Authenticator:
    """Checks the tokens of a service, and session cookies signed with them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self.tokens = tuple(map(parse_token, secrets))

    def find_token(self, secret: str) -> Token | None:
        """Compare a secret with all tokens, in constant time."""
        match = None
        for token in self.tokens:
            if hmac.compare_digest(_digest(secret), _digest(token.secret)):
                match = token
        return match

    def create_session(self, token: Token) -> str:
        """Return the value of a session cookie: when it expires, and a signature."""
        expires = str(int(clock.time()) + SESSION_SECONDS)
        return f"{expires}.{_sign(token, expires)}"

    def find_session_token(self, cookie: str) -> Token | None:
        """Return the token that signed a session cookie, unless it has expired."""
        expires, _, signature = cookie.partition(".")
        if not expires.isascii() or not expires.isdigit() or int(expires[:15]) < clock.time():
            return None
        match = None
        for token in self.tokens:
            if hmac.compare_digest(signature.encode(), _sign(token, expires).encode()):
                match = token
        return match


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _sign(token: Token, text: str) -> str:
    return hmac.new(_digest(token.secret), f"session {text}".encode(), "sha256").hexdigest()


@dataclass(frozen=True)
class Caller:
    """The sender of a request. Its rate is counted by token, or by address without one."""

    client: Hashable
    token: Token | None = None
    lockout_seconds: float = 0.0  # until tokens from its address are checked again


class SecurityMiddleware:
    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        authenticator: Authenticator,
        metrics: Metrics,
        client_limits: ClientLimits,
    ) -> None:
        self.app, self.settings, self.authenticator, self.metrics = app, settings, authenticator, metrics
        self.client_limits = client_limits
        host_names = {*LOOPBACK, settings.host, *settings.hosts}
        self.host_names = {name.lower() for name in host_names} if settings.is_loopback else None
        self.rate_limits = RateLimits(settings.rate, settings.rate_heavy, client_limits)
        self.cross_origin = CrossOriginReading(settings.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        proposed_id = headers.get("x-request-id", "")
        request_id = proposed_id if _REQUEST_ID.fullmatch(proposed_id) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        address = client_network((scope.get("client") or ("",))[0])
        caller = Caller(address)
        refusal = self._check_request(scope, headers, request_id)
        if refusal is None and scope["type"] == "http":  # browsers ask without a token
            refusal = self.cross_origin.answer_preflight(scope["method"], scope["path"], headers)
        if refusal is None:
            caller = self._identify(scope, headers, address)
            if scope["path"] not in PROBES:  # probes need no token and have no rate limit
                refusal = self._check_caller(scope, headers, request_id, caller)
        scope["state"]["token"] = caller.token
        scope["state"]["client"] = caller.client
        with ExitStack() as stack:
            is_stream = scope["type"] == "websocket" or STREAM_PATH.fullmatch(scope["path"])
            if refusal is None and is_stream:
                is_excess = stack.enter_context(self.rate_limits.open_stream(caller.client))
                if is_excess:
                    refusal = problem_response(
                        request_id, 429, "too many open streams; close some", retry_after(10.0)
                    )
            if scope["type"] == "http":
                await self._respond(scope, receive, send, request_id, refusal)
            elif refusal is None:
                await self.app(scope, receive, send)
            else:
                await _refuse_websocket(refusal, scope, receive, send)

    async def _respond(
        self, scope: Scope, receive: Receive, send: Send, request_id: str, refusal: Response | None
    ) -> None:
        """Send the response of the application, or the refusal; log and count the request."""
        began, status = clock.perf_counter(), 0
        request_headers, method, path = Headers(scope=scope), scope["method"], scope["path"]

        async def send_with_headers(message: Message) -> None:
            """Add the request id, and note the status for the log."""
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = request_id
                headers.setdefault("x-content-type-options", "nosniff")
                self.cross_origin.add_vary(method, path, headers)
                if self.cross_origin.allows(method, path, request_headers):
                    self.cross_origin.add_headers(headers, request_headers)
            await send(message)

        try:
            if refusal is None:
                limited = _limit_body(receive, self.settings.max_body, self.client_limits)
                await self.app(scope, limited, send_with_headers)
            else:
                await refusal(scope, receive, send_with_headers)
        except Exception as error:
            response = error_response(error, request_id)
            if status:  # the response has started and can only be aborted
                raise
            await response(scope, receive, send_with_headers)
        finally:
            seconds = clock.perf_counter() - began
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.record_request(scope["method"], route, status, seconds)
            fields = {
                "request_id": request_id, "method": scope["method"], "path": scope["path"],
                "status": status, "ms": round(1000 * seconds, 1), "event": "request",
            }  # fmt: skip
            log.info("request", extra=fields)

    def _check_request(self, scope: Scope, headers: Headers, request_id: str) -> Response | None:
        """Return the refusal of a request that no caller may send; None if it passes."""
        if len(headers.getlist("host")) > 1:  # a proxy may have checked the other one
            return problem_response(request_id, 400, "send exactly one Host header")
        host_name = _host_name(headers.get("host", ""))
        # Against DNS rebinding: another site's name may resolve to this address.
        if self.host_names is not None and host_name not in self.host_names:
            return problem_response(
                request_id, 403, "use localhost as host name, or add the name to SWEEP_HOSTS"
            )
        origin = headers.get("origin")
        is_action = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        if is_action and origin is not None and _netloc(origin) != headers.get("host"):
            return problem_response(request_id, 403, "pages of another origin may only read")
        length = headers.get("content-length", "").lstrip("0")[:20]
        if length.isascii() and length.isdigit() and int(length) > self.settings.max_body:
            return problem_response(request_id, 413, _too_large(self.settings.max_body))
        return None

    def _check_caller(
        self, scope: Scope, headers: Headers, request_id: str, caller: Caller
    ) -> Response | None:
        """Return the refusal of a request that exceeds a rate or lacks permission; None if it passes."""
        method, path, token = scope.get("method", "GET"), scope["path"], caller.token
        seconds = caller.lockout_seconds or self._rate_limiter(method, path).take(caller.client)
        if seconds:
            return problem_response(
                request_id, 429, "too many requests; wait and try again", retry_after(seconds)
            )
        if not self.authenticator.tokens or path == SESSION_PATH or path.startswith(f"{STATIC}/"):
            return None
        if token is None:
            if "text/html" in headers.get("accept", ""):
                return page("login", 401)
            challenge = {"WWW-Authenticate": "Bearer"}
            return problem_response(
                request_id, 401, "a token is required: send Authorization: Bearer …", challenge
            )
        if not token.may_change and method not in SAFE_METHODS and path not in READ_ONLY_POSTS:
            return problem_response(request_id, 403, "this token is read-only")
        return None

    def _rate_limiter(self, method: str, path: str) -> RateLimiter:
        is_heavy = (method not in SAFE_METHODS and path != SESSION_PATH) or HEAVY_GETS.fullmatch(path)
        return self.rate_limits.heavy if is_heavy else self.rate_limits.light

    def _identify(self, scope: Scope, headers: Headers, address: str) -> Caller:
        """Find the token of a request.

        After too many wrong tokens from an address no new one is checked for a while, which ends guessing.
        A wrong cookie does not count: signatures cannot be guessed, and a page left open sends an old one.
        """
        if not self.authenticator.tokens:
            return Caller(address)
        guesses = self.rate_limits.token_guesses
        if scope["path"] == SESSION_PATH and scope.get("method") == "POST":
            return Caller(address, None, guesses.take(address))
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE)
            token = self.authenticator.find_session_token(cookie) if cookie is not None else None
            return Caller(token or address, token)
        token = self.authenticator.find_token(secret.strip())
        if token is not None and self.rate_limits.is_trusted(address, token):
            return Caller(token, token)
        seconds = guesses.seconds_to_wait(address) if token is not None else guesses.take(address)
        if seconds:
            return Caller(address, None, seconds)
        if token is not None:
            self.rate_limits.trust(address, token)
        return Caller(token or address, token)


def _host_name(header: str) -> str:
    """Return a Host header without the port."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _too_large(max_bytes: int) -> str:
    return f"the body must have at most {max_bytes} bytes"


def _limit_body(receive: Receive, max_bytes: int, limits: ClientLimits) -> Receive:
    """Limit the size and duration of a request body, whatever its Content-Length says.

    After the body only a disconnect can follow, which is awaited without a timeout.
    """
    received, deadline, is_complete = 0, clock.monotonic() + limits.body_seconds, False

    async def receive_limited() -> Message:
        nonlocal received, is_complete
        if is_complete:
            return await receive()
        try:
            async with asyncio.timeout(min(limits.body_chunk_seconds, deadline - clock.monotonic())):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, "the body arrives too slowly", {"Connection": "close"}) from None
        received += len(message.get("body", b""))
        is_complete = not message.get("more_body", False)
        if received > max_bytes:
            raise HTTPException(413, _too_large(max_bytes))
        return message

    return receive_limited


async def _refuse_websocket(refusal: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if "websocket.http.response" in scope.get("extensions", {}):
        await refusal(scope, receive, send)
    else:
        await send({"type": "websocket.close", "code": 1008})
