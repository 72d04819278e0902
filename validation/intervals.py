"""Rows of intervals: the share of synthetic sweeps in which the 95 % interval holds the truth."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from tests.analysis.coverage import CASES, coverage
from validation.row import Row

SWEEPS, COSTLY_SWEEPS = 4000, 500


def interval_rows(_: Path) -> Iterator[Row]:
    """Rows of all cases; those of fewer sweeps have bounds wider by three binomial standard deviations."""
    for name, case in CASES.items():
        sweeps = SWEEPS if case.cost == 1 else COSTLY_SWEEPS
        margin = 0.0 if case.cost == 1 else 3.0 * math.sqrt(0.95 * 0.05 / sweeps)
        low, high = round(case.low - margin, 3), min(round(case.high + margin, 3), 1.0)
        yield Row.inside(
            name, f"truth of {sweeps} synthetic sweeps", coverage(name, sweeps, 0), 0.95, low, high
        )
