"""Rows of formulas: averages, right-hand sides, the sampling term, fixed points and critical rates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.physics import independent, questions
from tests.physics.independent import SIGMAS
from tests.physics.reference import ALL_PAIRS
from tests.physics.test_fixed_points import plateau_point, plateau_spectrum
from tests.physics.test_independent_flows import (
    EXACT,
    PAIRS,
    erf_sampling_terms,
    gradient_flows,
    mean_field_flows,
    point_of,
    sampling_error,
)
from tests.physics.test_two_point_range import CORRELATIONS, largest_error
from validation.row import Row

POLAR = "integral over the definition in polar coordinates"
# Some of those that tests/physics/test_two_point_range.py walks, which takes minutes.
NORMS = [(1e-6, 1e-6), (0.01, 1.0), (1.0, 1.0), (30.0, 30.0), (1e4, 1e4), (1e-6, 1e4), (1e4, 1e-6)]


def two_point_rows(_: Path) -> Iterator[Row]:
    count = 3 * len(NORMS) * len(CORRELATIONS)
    for f, g in ALL_PAIRS:
        error = largest_error(f, g, NORMS, CORRELATIONS)
        method = f"{count} integrals on the scale of both functions"
        yield Row.largest_error(f"{f.name} with {g.name}", method, error, 1e-6, relative=True)


def flow_rows(_: Path) -> Iterator[Row]:
    for student, teacher in PAIRS:
        error = _largest_difference(*gradient_flows(student, teacher))
        yield Row.largest_error(f"dM, dQ: {student} student, {teacher} teacher", POLAR, error, 1e-8)


def mean_field_rows(_: Path) -> Iterator[Row]:
    for student, teacher in PAIRS:
        for k, D in ((2, 1), (2, 3)):
            flows = mean_field_flows("mean_field", point_of(k + D, 3, k, student, teacher), D)
            yield _mean_field_row(student, teacher, f"k = {k}, d = {k + D}", flows)
    for act in SIGMAS:
        for k, D in ((1, 2), (3, 2)):
            flows = mean_field_flows("mean_field", point_of(k + D, 3, k, act), D)
            yield _mean_field_row(act, act, f"k = {k}, d = {k + D}", flows)
        flows = mean_field_flows("mean_field_high_dimensional", point_of(9, 3, 2, act), None)
        yield _mean_field_row(act, act, "k = 2, d = ∞", flows)


def _mean_field_row(student: str, teacher: str, text: str, flows: tuple[np.ndarray, np.ndarray]) -> Row:
    quantity = f"dM, dq: {student} student, {teacher} teacher, {text}"
    return Row.largest_error(quantity, f"{POLAR}, averaged over ξ", _largest_difference(*flows), 1e-8)


def sampling_rows(_: Path) -> Iterator[Row]:
    for student, teacher in PAIRS:
        is_exact = (student, teacher) in EXACT
        limit = 1e-8 if is_exact else 0.15 if "square" in (student, teacher) else 0.03
        quantity = f"{student} student, {teacher} teacher, p = k = 1" + ("" if is_exact else ", 4096 points")
        yield Row.largest_error(quantity, POLAR, sampling_error(student, teacher), limit, relative=True)
    error = _largest_difference(*erf_sampling_terms())
    yield Row.largest_error("erf, p = 3, k = 2", "four-point function of Saad and Solla", error, 1e-12)


def fixed_point_rows(_: Path) -> Iterator[Row]:
    import sweep_service as ss

    method = "root of the flow with the three-point function of Saad and Solla"
    for k in range(1, 6):
        run = ss.integrate(plateau_point(10, k), regime="classical", times=[0.0, 1.0]).isel(time=1)
        m = independent.plateau(k)
        risk = independent.erf_risk(np.full((10, k), m), np.full((10, 10), k * m * m), np.eye(k))
        actual = run.overlap_student_teacher.values[0, 0]
        yield Row.near(f"M on the plateau, p = 10, k = {k}", method, actual, m, 1e-9)
        yield Row.near(
            f"Q on the plateau, p = 10, k = {k}", method, run.overlap_student.values[0, 1], k * m * m, 1e-9
        )
        yield Row.near(f"R on the plateau, p = 10, k = {k}", method, run.risk.item(), risk, 1e-9)
    values, expected = plateau_spectrum(10, 2)
    method = "its linearisation by differences"
    yield Row.near("leading eigenvalue, p = 10, k = 2", method, values[0], expected[0], 1e-6)
    yield Row.near("its multiplicity, p - 1", method, np.sum(abs(values - values[0]) < 1e-5), 9, 0)


def critical_rate_rows(folder: Path) -> Iterator[Row]:
    for k in range(1, 6):
        expected = independent.critical_rate(SIGMAS["erf"], k)
        actual = questions.critical_rate(folder, k, expected)
        method = "linear stability of SGD, moments of σ' by quadrature"
        yield Row.near(f"critical γ/p, p = k = {k}", method, actual, expected, 1e-4, relative=True)


def _largest_difference(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(actual - expected)))
