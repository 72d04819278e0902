"""The excess risk R = ½ E[(f* - f)²], without the label noise: the paper's population risk is R + Δ/2."""

from __future__ import annotations

import numpy as np

from sweep_service.model.averages.closed_forms import ClosedForm, value_pair
from sweep_service.model.averages.two_point import Pairs, TwoPoint
from sweep_service.model.overlaps import Overlaps
from sweep_service.model.second_layer import Readout
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.types import Array


def risk(
    overlaps: Overlaps,
    pairs: Pairs,
    width: int | None = None,
    readout: Readout | None = None,
    power: float | None = None,
) -> float:
    """R = ½ [ΣF(Q)/p² - 2 ΣF(M)/(pk) + ΣF(P)/k²], F being the average E[σσ] of each pair.

    With a readout each sum has the weights a_i a_j, a_i a*_r or a*_r a*_s. `width` is p if the overlaps are
    those of a collapsed student, which has fewer rows. `power` is the `teacher_power`, if it is known.
    """
    M, Q, P = overlaps.M, overlaps.Q, overlaps.P
    p, k = width or len(M), len(P)
    a, b = np.diag(Q).copy(), np.diag(P).copy()
    inside, across = pairs.students.values(a, a, Q), pairs.mixed.values(a, b, M)
    if readout is None:
        students, mixed, teacher = inside.sum(), across.sum(), None
    else:
        student, teacher = readout
        students, mixed = student @ inside @ student, student @ across @ teacher
    if power is None:
        power = teacher_power(P, pairs.teachers, teacher)
    return float(0.5 * (students / p**2 - 2.0 * mixed / (p * k) + power))


def risks(
    M: Array,
    Q: Array,
    P: Array,
    pairs: Pairs,
    width: int,
    second_layers: Array | None = None,
    teacher: Array | None = None,
) -> Array:
    """R of many states: M (time, rows, k), Q (time, rows, rows), second layers (time, rows) and a* (k)."""
    if isinstance(pairs.students, ClosedForm) and isinstance(pairs.mixed, ClosedForm):
        codes, b, power = (
            (pairs.students.code, pairs.mixed.code),
            np.diag(P).copy(),
            teacher_power(P, pairs.teachers, teacher),
        )
        if second_layers is None or teacher is None:
            return _closed_risks(*codes, M, Q, b, power, width)
        return _closed_weighted_risks(*codes, M, Q, b, power, width, second_layers, teacher)
    readouts = (
        [None] * len(M)
        if second_layers is None or teacher is None
        else [Readout(second_layer, teacher) for second_layer in second_layers]
    )
    states = zip(M, Q, readouts, strict=True)
    return np.array([risk(Overlaps(m, q, P), pairs, width, readout) for m, q, readout in states])


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


@kernel()
def _closed_weighted_risks(students, mixed, M, Q, b, teacher, width, second_layers, weights):
    """`_closed_risks` with second layers (time, rows) and the weights a* of the teacher."""
    times, rows, k = M.shape
    values = np.empty(times)
    for t in range(times):
        inside, across = 0.0, 0.0
        for i in range(rows):
            a, own = Q[t, i, i], second_layers[t, i]
            for j in range(i):
                inside += 2.0 * own * second_layers[t, j] * value_pair(students, a, Q[t, j, j], Q[t, i, j])
            inside += own * own * value_pair(students, a, a, a)
            for r in range(k):
                across += own * weights[r] * value_pair(mixed, a, b[r], M[t, i, r])
        values[t] = 0.5 * (inside / width**2 - 2.0 * across / (width * k) + teacher)
    return values


def teacher_power(P: Array, teachers: TwoPoint, weights: Array | None = None) -> float:
    """E[f*²] = ΣF(P)/k², with the weights a* if given; a student that outputs zero has half of it as risk."""
    b = np.diag(P).copy()
    values = teachers.values(b, b, P)
    return float(values.mean() if weights is None else weights @ values @ weights / len(P) ** 2)
