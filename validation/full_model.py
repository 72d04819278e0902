"""Rows of the full model: the theories of its presets beside independent integrations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.physics import independent_full_model as independent
from validation.row import Row

METHOD = "four-point functions of Saad and Solla, SciPy"
IDENTITY = np.eye(2)


def full_model_rows(_: Path) -> Iterator[Row]:
    yield from _width_rows()
    yield from _giant_step_rows()
    yield from _schedule_rows()
    yield from _decay_rows()
    yield from _mean_field_rows()


def _integrate(
    regime: str, M: np.ndarray, Q: np.ndarray, times: Any, d: int = 100, **parameters: Any
) -> np.ndarray:
    """The risk of the package from given overlaps with P = I."""
    import sweep_service as ss

    init = {"kind": "overlaps", "M": M, "Q": Q, "P": IDENTITY}
    point = {"d": d, "p": len(M), "k": 2, "init": init, **parameters}
    return np.asarray(ss.integrate(point, regime=regime, times=times).risk.values)


def _width_rows() -> Iterator[Row]:
    for p in (2, 4):
        i = np.arange(p)
        M = np.where(i[:, None] % 2 == np.arange(2), 0.7 - 0.05 * i[:, None], 0.02 * (i[:, None] + 1))
        Q = M @ M.T + 0.1 * np.eye(p)
        for a, a_star, rate, gamma in ((p, 2, 0, 0.2), (p, 2, p * p, 0.2), (1, 1, 0, 0.5)):
            setting = independent.Setting(gamma, 0.01, (a_star, a_star), rate)
            start = (M, Q, np.full(p, float(a)))
            end = independent.sampled_flow(independent.erf_moments, *start, setting, [1000.0])[-1]
            layers = {"second_layer": {"scale": a}, "teacher": {"second_layer": {"scale": a_star}}}
            actual = _integrate(
                "high_dimensional", M, Q, [1000.0], gamma=gamma, noise=0.01, second_layer_rate=rate, **layers
            )
            learning = f"learned at ρ = {rate}" if rate else "fixed"
            quantity = f"R at t = 1000, SS, p = {p}, a = {a} {learning}"
            expected = independent.erf_risk(*end, setting.teacher)
            yield Row.near(quantity, METHOD, actual[-1], expected, 1e-5, relative=True)


def _giant_step_rows() -> Iterator[Row]:
    M = np.array([[0.5, 0.1], [0.15, 0.5], [0.2, 0.3]])
    Q, d, b, delta_t = M @ M.T + np.diag([0.3, 0.2, 0.25]), 400, 800, 1.5
    setting = independent.Setting(delta_t * 3 * d, 0.01, batch=b)
    path = independent.erf_map(M, Q, np.ones(3), setting, d, delta_t, 6)
    actual = _integrate(
        "high_dimensional_map", M, Q, delta_t * np.arange(1, 7), d, gamma=setting.gamma, noise=0.01, batch=b
    )
    for step, (state, risk) in enumerate(zip(path, actual, strict=True), start=1):
        expected = independent.erf_risk(*state, setting.teacher)
        yield Row.near(f"R of the map after giant step {step}", METHOD, risk, expected, 1e-6, relative=True)


def _schedule_rows() -> Iterator[Row]:
    from scipy.optimize import minimize_scalar

    M = np.array([[0.3, 0.1], [0.1, 0.3]])
    start = (M, M @ M.T + 0.3 * np.eye(2), np.ones(2))

    def final_risk(gamma: float, factor: Any = lambda t: 1.0) -> float:
        setting = independent.Setting(gamma, 0.1, factor=factor)
        path = independent.sampled_flow(independent.erf_moments, *start, setting, [10.0 * gamma])
        return float(independent.erf_risk(*path[-1], setting.teacher))

    best = minimize_scalar(final_risk, bounds=(0.2, 1.5), method="bounded")
    yield Row.near("best constant γ for 20 d samples", METHOD, 0.513, best.x, 1e-3)
    ours = _integrate("high_dimensional", *start[:2], [5.13], gamma=0.513, noise=0.1)
    yield Row.near("R after 20 d samples, best constant γ", METHOD, ours[-1], best.fun, 1e-5, relative=True)
    schedule = {"power": {"t0": 3.1, "alpha": 1.0}}
    ours = _integrate("high_dimensional", *start[:2], [22.56], gamma=2.256, noise=0.1, schedule=schedule)
    expected = final_risk(2.256, lambda t: 1.0 / (1.0 + t / 3.1))
    yield Row.near("R after 20 d samples, falling γ", METHOD, ours[-1], expected, 1e-5, relative=True)


def _decay_rows() -> Iterator[Row]:
    """R and the largest Q_ii of square students at a rate at which SGD diverges without decay."""
    M = np.array([[0.4, 0.1], [-0.2, 0.3], [0.1, -0.5], [0.2, 0.2]])
    Q = M @ M.T + 0.5 * np.eye(4)
    times = [1.0, 5.0, 20.0]
    for decay in (0.0, 1.0):
        setting = independent.Setting(1.0, decay=decay)
        path = independent.sampled_flow(independent.square_moments, M, Q, np.ones(4), setting, times)
        actual = _integrate(
            "high_dimensional", M, Q, times, gamma=1.0, activation="square", weight_decay=decay
        )
        expected = [independent.square_risk(*state, setting.teacher) for state in path]
        error = float(np.max(np.abs(actual - expected)))
        quantity = f"R at t = 1, 5, 20, SS, square, decay {decay:g}"
        yield Row.largest_error(quantity, "exact cubature over the definition, SciPy", error, 1e-6)


def _mean_field_rows() -> Iterator[Row]:
    p, d = 6, 5
    M, Q, a = independent.small_start(p, d)
    q = np.diag(Q) - np.sum(M**2, axis=1)
    setting, times = independent.Setting(1.0, rate=1.0), np.array([0.5, 2.0, 10.0])
    for name in independent.PAIRS:
        layers = {"second_layer": {"init": a}, "second_layer_rate": 1.0, "activation": name}
        actual = _integrate("mean_field", M, Q, times, d, gamma=1.0, **layers)
        expected = independent.mean_field_risk(name, M, q, a, setting, d - 2, times)
        error = float(np.max(np.abs(actual - expected)))
        quantity = f"R at t = 0.5, 2, 10, MF with learned second layer, {name}"
        # relu: 64 values of ξ in the package and 32 here
        yield Row.largest_error(quantity, "Runge-Kutta on other closed forms", error, 1e-4)
