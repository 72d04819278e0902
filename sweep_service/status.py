"""The status of a run, as stored in `*_status` arrays (CF flag values)."""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from typing import Any

import numpy as np


class Status(IntEnum):
    """Outcome of a run. The order is part of the stored format: append, never reorder."""

    PENDING, DONE, DIVERGED, FAILED, CANCELLED, SKIPPED = range(6)

    @property
    def label(self) -> str:
        return self.name.lower()


def count_statuses(values: Any) -> Counter[Status]:
    """Count how often each status occurs in an array of stored values."""
    statuses, counts = np.unique(values, return_counts=True)
    return Counter({Status(int(status)): int(n) for status, n in zip(statuses, counts, strict=True)})
