"""Rows of laws and rates: noise floors, convergence, phase retrieval, and SGD against plain NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.physics import questions, test_limits, test_long_chains
from tests.physics.independent import SIGMAS
from tests.physics.sgd_reference import run, smallest_p
from validation.row import Row


def noise_floor_rows(folder: Path) -> Iterator[Row]:
    from sweep_service.model.activations import ACTIVATIONS

    for name in SIGMAS:
        for d in (5, 40):
            expected = test_limits.floor_coefficient(SIGMAS[name], d)
            actual = test_limits.floor(ACTIVATIONS[name], d)
            method = "¼ E[σ'(λ)² ‖x‖²] by adaptive quadrature"
            quantity = f"R∞ p/(γΔ): {name}, d = {d}"
            yield Row.near(quantity, method, actual, expected, 2e-3, relative=True)
    exponents = questions.noise_floor_exponents(folder)
    for source, tolerance in (("sgd", 0.04), ("classical_noise", 1e-3)):
        actual = float(exponents[source]["exponent"])
        yield Row.near(f"exponent of R∞ in p: {source}", "the law R∞ = c γΔ/p", actual, -1.0, tolerance)


def convergence_rows(folder: Path) -> Iterator[Row]:
    result = questions.discrepancy_exponent(folder)
    yield Row.near("exponent of |SGD - SS| in δt", "theorem", float(result["exponent"]), 0.5, 0.05)
    method = "theorem, an upper bound"
    widths, dimensions = [4, 8, 16, 32, 64], [8, 16, 32, 64, 128]
    gaps = [test_limits.distance("classical", "mean_field", 6, p=p, d=5) for p in widths]
    yield Row.inside("exponent of |GF - MF| in p", method, test_limits.slope(widths, gaps), None, high=-0.5)
    regimes = ("mean_field", "mean_field_high_dimensional")
    gaps = [test_limits.distance(*regimes, 3, p=40, d=d) for d in dimensions]
    actual = test_limits.slope(dimensions, gaps)
    yield Row.inside("exponent of |MF - HDMF| in d", method, actual, None, high=-0.5)


def phase_retrieval_rows(folder: Path) -> Iterator[Row]:
    method = "M grows as e^{4t} from d^-½"
    result = questions.escape_delay(folder)
    yield Row.near("delay for each e-fold of d", method, result["b"].item(), 1 / 8, 2e-3)
    quantity = "delay for each e-fold of d, specialisation times"
    yield Row.near(quantity, method, result["delay_b"].item(), 1 / 8, 4e-3)
    random = questions.random_escape_delay(folder)
    # three standard errors
    yield Row.near("the same from 24 random starts", method, random["b"].item(), 1 / 8, 0.025)


def sgd_rows(_: Path) -> Iterator[Row]:
    for name in SIGMAS:
        point = test_long_chains.point_of(name)
        M, Q = test_long_chains.follow_inputs(point, [10_000])
        ds = run(point, [10_000], engine="S1")
        parts = ((ds.overlap_student_teacher, M), (ds.overlap_student, Q))
        error = max(float(np.max(np.abs(actual.values - expected))) for actual, expected in parts)
        quantity = f"M, Q after 10⁴ steps: {name}"
        yield Row.largest_error(quantity, "NumPy loop on the same inputs", error, 1e-10)
    for name in SIGMAS:
        yield from _law_rows(test_long_chains.point_of(name), [10, 100, 1000], ("S1", "S3"))
        yield from _law_rows(test_long_chains.wide_point_of(name), [7, 101], ("S2",))


def _law_rows(point: dict[str, Any], steps: list[int], engines: tuple[str, ...]) -> Iterator[Row]:
    """A true law is below a p-value of 1e-4 for one of some 150 numbers in one document of seventy."""
    expected = test_long_chains.ensemble_features(point, steps, 200)
    for engine in engines:
        actual = test_long_chains.simulator_features(point, steps, engine, 200)
        where = f"{point['activation']}, p = {point['p']}, d = {point['d']}"
        quantity = f"smallest p-value of Kolmogorov and Smirnov, {engine}: {where}"
        method = f"200 chains of a NumPy loop, {expected.shape[1]} numbers"
        yield Row.inside(quantity, method, smallest_p(actual, expected), None, low=1e-4)
