"""A guard against a ledger that disappears, is replaced or is damaged while a process uses it.

SQLite keeps using a file that was removed, and a new connection would create an empty one. Errors are raised
as StoreGone: a service waits with the reason, and continues if the file is put back.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from sweep_service.errors import StoreGone

RESTORE_LEDGER = (
    "put it back, or stop the process that uses it, move the file away and run sweep doctor --rebuild"
)
# Texts of SQLite. Others, such as a locked or full disk, may pass by themselves.
_DAMAGE = re.compile(r"malformed|not a database|no such (table|column)|malformed database schema")


class LedgerGuard:
    """Checks at each use that the file is the one that was opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def attach(self, engine: sa.Engine) -> None:
        """Remember the file and check it from now on."""
        self.identity = self._identify()
        sa.event.listen(engine, "do_connect", self._check_file)  # before SQLite creates an empty file
        sa.event.listen(engine, "checkout", self._check_file)
        sa.event.listen(engine, "handle_error", self._translate)

    def _identify(self) -> tuple[int, int] | None:
        try:
            stats = self.path.stat()
        except OSError:
            return None
        return stats.st_dev, stats.st_ino

    def _check_file(self, *arguments: Any) -> None:
        identity = self._identify()
        if identity != self.identity:
            change = "has disappeared" if identity is None else "was replaced"
            raise StoreGone(f"the ledger {self.path} {change}: {RESTORE_LEDGER}")

    def _translate(self, context: sa.engine.ExceptionContext) -> None:
        if _DAMAGE.search(str(context.original_exception)):
            raise StoreGone(f"the ledger {self.path} is damaged: {RESTORE_LEDGER}") from None
