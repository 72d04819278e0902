"""The paths of the Dask dashboard that the service forwards.

The dashboard has a proxy of its own, which reaches other machines. So a path is forwarded only if it is one
of the pages below, exactly as written: a path with dots, empty components, backslashes or a second encoding
is no page, whatever a later program would make of it.
"""

from __future__ import annotations

import re
from urllib.parse import quote

_PAGE = (
    "status|workers|tasks|system|profile|profile-server|graph|groups|hardware|shuffle|stealing|exceptions"
    "|events|counters|gpu|individual(-[a-z]+)+"
)
_FILE = r"[A-Za-z0-9_-][A-Za-z0-9_.-]*"
# An address of a worker, such as tls://10.0.0.5:4711, or the key of a task, which may contain any text.
_ADDRESS = r"[a-z]+://[A-Za-z0-9_.:\[\]-]+"
_TASK = r"[^/\\%\x00-\x1f\x7f]+"
_PAGES = re.compile(
    "|".join(
        (
            _PAGE,
            rf"statics?(/{_FILE})+",
            "info",
            r"info/main/(workers|exceptions|logs)\.html",
            rf"info/(worker|logs|call-stacks)/{_ADDRESS}\.html",
            rf"info/(task|call-stack)/{_TASK}\.html",
            r"json/(index\.html|(counts|identity)\.json)",
            r"individual-plots\.json",
            "health",
            "metrics",
        )
    )
)
_SOCKETS = re.compile(rf"({_PAGE})/ws|eventstream")


def page_path(path: str) -> str | None:
    """Return the encoded path of a page of the dashboard, from one that was decoded once; None for others."""
    return f"/{quote(path)}" if _PAGES.fullmatch(path) else None


def socket_path(path: str) -> str | None:
    """Return the path of a websocket of the dashboard; None for others."""
    return f"/{path}" if _SOCKETS.fullmatch(path) else None
