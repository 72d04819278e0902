"""The excess risk R = ½ E[(f* - f)²], without the label noise: the paper's population risk is R + Δ/2."""

from __future__ import annotations

import numpy as np

from sweep_service.arrays import Array
from sweep_service.model.overlaps import Overlaps
from sweep_service.model.two_point import Pairs, TwoPoint


def risk(overlaps: Overlaps, pairs: Pairs) -> float:
    """R = ½ [ΣF(Q)/p² - 2 ΣF(M)/(pk) + ΣF(P)/k²], F the average E[σσ] of each pair."""
    M, Q, P = overlaps.M, overlaps.Q, overlaps.P
    a, b = np.diag(Q).copy(), np.diag(P).copy()
    return 0.5 * (
        pairs.students.values(a, a, Q).mean()
        - 2.0 * pairs.mixed.values(a, b, M).mean()
        + teacher_power(P, pairs.teachers)
    )


def teacher_power(P: Array, teachers: TwoPoint) -> float:
    """E[f*²] = ΣF(P)/k²; half of it is the risk of a student that answers zero."""
    b = np.diag(P).copy()
    return float(teachers.values(b, b, P).mean())
