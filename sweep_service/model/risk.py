"""The excess risk R = ½ E[(f* - f)²], without the label noise: the paper's population risk is R + Δ/2."""

from __future__ import annotations

import numpy as np

from sweep_service.model.closed_forms import ClosedForm, value_pair
from sweep_service.model.overlaps import Overlaps
from sweep_service.model.two_point import Pairs, TwoPoint
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.types import Array


def risk(overlaps: Overlaps, pairs: Pairs, width: int | None = None) -> float:
    """R = ½ [ΣF(Q)/p² - 2 ΣF(M)/(pk) + ΣF(P)/k²], F being the average E[σσ] of each pair.

    `width` is p if the overlaps are those of a collapsed student, which has fewer rows.
    """
    M, Q, P = overlaps.M, overlaps.Q, overlaps.P
    p, k = width or len(M), len(P)
    a, b = np.diag(Q).copy(), np.diag(P).copy()
    return float(
        0.5
        * (
            pairs.students.values(a, a, Q).sum() / p**2
            - 2.0 * pairs.mixed.values(a, b, M).sum() / (p * k)
            + teacher_power(P, pairs.teachers)
        )
    )


def risks(M: Array, Q: Array, P: Array, pairs: Pairs, width: int) -> Array:
    """R of many states at once: M (time, rows, k), Q (time, rows, rows)."""
    if isinstance(pairs.students, ClosedForm) and isinstance(pairs.mixed, ClosedForm):
        teacher = teacher_power(P, pairs.teachers)
        return _closed_risks(pairs.students.code, pairs.mixed.code, M, Q, np.diag(P).copy(), teacher, width)
    return np.array([risk(Overlaps(m, q, P), pairs, width) for m, q in zip(M, Q, strict=True)])


@kernel()
def _closed_risks(students, mixed, M, Q, b, teacher, width):
    times, rows, k = M.shape
    values = np.empty(times)
    for t in range(times):
        inside, across = 0.0, 0.0
        for i in range(rows):
            a = Q[t, i, i]
            for j in range(i):
                inside += 2.0 * value_pair(students, a, Q[t, j, j], Q[t, i, j])
            inside += value_pair(students, a, a, a)
            for r in range(k):
                across += value_pair(mixed, a, b[r], M[t, i, r])
        values[t] = 0.5 * (inside / width**2 - 2.0 * across / (width * k) + teacher)
    return values


def teacher_power(P: Array, teachers: TwoPoint) -> float:
    """E[f*²] = ΣF(P)/k²; half of it is the risk of a student that outputs zero."""
    b = np.diag(P).copy()
    return float(teachers.values(b, b, P).mean())
