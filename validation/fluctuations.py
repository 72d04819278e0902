"""Rows of the fluctuations of SGD: their theory beside another integration, SGD and exact equations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sweep_service.dynamics.fluctuations.adjoint.backward_sweep import integrate_risk_variances
from sweep_service.dynamics.fluctuations.adjoint.products import matrix_products
from tests.physics import test_fluctuations as cases
from validation.row import Row

METHOD = "integration with a fixed step and other Sobol points"
SGD = "SGD of another implementation"
STD_TOLERANCE, SGD_STD_TOLERANCE = 0.015, 0.05  # relative: of the Sobol points of D, and of SGD at finite d
SHIFT_TOLERANCE = 1.2e-6  # 1 % of the largest shift


def fluctuation_rows(_: Path) -> Iterator[Row]:
    predicted = cases.golden_prediction()
    yield from _std_rows(predicted.std * np.sqrt(1.0 / 100.0))
    yield from _shift_rows(predicted.shift / 20.0)
    yield from _exact_rows()


def _std_rows(std: np.ndarray) -> Iterator[Row]:
    numbers = zip(cases.GOLDEN_TIMES, std, cases.GOLDEN_STD, cases.SGD_STD, strict=True)
    for t, ours, expected, measured in numbers:
        quantity = f"sd R, d = 50, t = {t:g}"
        yield Row.near(quantity, METHOD, ours, expected, STD_TOLERANCE, relative=True)
        yield Row.near(f"{quantity}, of SGD", SGD, ours, measured, SGD_STD_TOLERANCE, relative=True)


def _shift_rows(shift: np.ndarray) -> Iterator[Row]:
    golden = (cases.GOLDEN_SHIFT, cases.SGD_SHIFT, cases.SGD_SHIFT_ERROR)
    for t, ours, expected, measured, error in zip(cases.GOLDEN_TIMES, shift, *golden, strict=True):
        quantity = f"shift of R, d = 10, t = {t:g}"
        yield Row.near(quantity, METHOD, ours, expected, SHIFT_TOLERANCE)
        tolerance = round(3.0 * error + 0.01 * cases.LARGEST_SHIFT, 8)  # of SGD, and of the Sobol points
        yield Row.near(f"{quantity}, of SGD", SGD, ours, measured, tolerance)


def _exact_rows() -> Iterator[Row]:
    constant, _ = cases.constant_of_theorem()
    quantity = "E sup |∇R·ξ|/R(0), start of rates, 4000 paths"
    # three standard errors of both, and 1 % for the Sobol points
    yield Row.near(quantity, METHOD, constant, 0.524, 0.018)
    noise = cases.make_noise(cases.BASE)
    products = matrix_products(noise.linear, noise.diffusion)
    adjoint = integrate_risk_variances(noise.flow, products, np.array([2.0]))[0] ** 0.5
    forward = cases.predict(cases.BASE, [2.0]).std[0]
    # both follow their own mesh
    yield Row.near(
        "sd R/√δt, t = 2, by the adjoint", "forward integration of Σ", adjoint, forward, 7e-3, relative=True
    )
    expected, ours = cases.stationary_covariance()
    error = float(np.max(np.abs(ours - expected)) / np.max(np.abs(expected)))
    yield Row.largest_error("Σ at a noise floor", "Lyapunov's equation", error, 1e-2, relative=True)
