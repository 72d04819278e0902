"""Cross-origin reading (CORS): pages of the origins in SWEEP_ORIGINS may read `/v1/…`, with GET and HEAD.

Credentials are never allowed: a browser sends no cookie of the service with such a request, or hides the
response from the page. A page that knows a token may send it in the Authorization header.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

from sweep_service.errors import InvalidInput

READING_METHODS = ("GET", "HEAD")
READABLE_PATH = re.compile(r"/v1/.*|/openapi\.json")
ALLOWED_HEADERS = "Authorization, If-None-Match, If-Range, Last-Event-ID, Range"
EXPOSED_HEADERS = (
    "Accept-Ranges, Content-Disposition, Content-Length, Content-Range, ETag, Last-Modified, Retry-After, "
    "X-Request-ID"
)
PREFLIGHT_SECONDS = 600  # for which a browser keeps the answer


def read_origin(text: str) -> str:
    """Return an origin as browsers send it; raises for anything that is not exactly one."""
    try:
        parts = urlsplit(text)
        is_origin = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_origin = False
    if not is_origin or text != f"{parts.scheme}://{parts.netloc}" or re.search(r"[*@\s]", text):
        allowed = "must be origins such as https://viewer.example or http://localhost:3000, without a path"
        raise InvalidInput("origins", text, allowed)
    return text.lower()


class CrossOriginReading:
    """Which requests of pages of other origins may be read; none by default."""

    def __init__(self, origins: Collection[str]) -> None:
        self.origins = frozenset(origins)

    def allows(self, method: str, path: str, headers: Headers) -> bool:
        """Whether a page may read the response to a request."""
        is_readable = method in READING_METHODS and READABLE_PATH.fullmatch(path)
        return bool(is_readable) and headers.get("origin", "") in self.origins

    def answer_preflight(self, method: str, path: str, headers: Headers) -> Response | None:
        """Return the answer to a browser that asks before it sends a request; None if it does not ask."""
        requested = headers.get("access-control-request-method")
        if method != "OPTIONS" or requested is None or not self.allows(requested, path, headers):
            return None
        response = Response(status_code=204)
        self.add_headers(response.headers, headers)
        response.headers["Access-Control-Allow-Methods"] = ", ".join(READING_METHODS)
        response.headers["Access-Control-Allow-Headers"] = ALLOWED_HEADERS
        response.headers["Access-Control-Max-Age"] = str(PREFLIGHT_SECONDS)
        return response

    def add_headers(self, response: MutableHeaders, request: Headers) -> None:
        """Let the page that sent the request read the response."""
        response["Access-Control-Allow-Origin"] = request["origin"]
        response["Access-Control-Expose-Headers"] = EXPOSED_HEADERS

    def add_vary(self, method: str, path: str, response: MutableHeaders) -> None:
        """Tell caches that responses differ between origins."""
        if self.origins and method in (*READING_METHODS, "OPTIONS") and READABLE_PATH.fullmatch(path):
            response.add_vary_header("Origin")
