"""The status of a run and the quantity that diverged, as stored in arrays of CF flag values."""

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


class DivergedQuantity(IntEnum):
    """The quantity by which a run diverged. The order is part of the stored format: append, never reorder."""

    NONE = 0  # the run did not diverge, or an older version computed it
    OVERLAP_STUDENT = 1  # Q
    OVERLAP_STUDENT_TEACHER = 2  # M
    ORTHOGONAL_NORM = 3  # q
    DERIVATIVE = 4  # the right-hand side of the ODE is not finite although the state is
    SECOND_LAYER = 5  # a

    @property
    def label(self) -> str:
        return self.name.lower()


def count_statuses(values: Any) -> Counter[Status]:
    """Count how often each status occurs in an array of stored values."""
    statuses, counts = np.unique(values, return_counts=True)
    return Counter({Status(int(status)): int(n) for status, n in zip(statuses, counts, strict=True)})
