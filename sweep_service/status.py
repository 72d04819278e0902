"""How a run ended, as stored in `*_status` arrays (CF flag values)."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """The order is part of the stored format: append, never reorder."""

    PENDING, DONE, DIVERGED, FAILED, CANCELLED, SKIPPED = range(6)

    @property
    def label(self) -> str:
        return self.name.lower()
