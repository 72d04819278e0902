"""Measure the calibration: the time of each class of work on this machine over the predicted time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.dynamics.compiled_overlap_flow import MAX_COMPILED_WIDTH
from sweep_service.dynamics.integrate import integrate
from sweep_service.dynamics.prices import price_regime
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import Stopped
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.point import Point
from sweep_service.numerics.blas import one_blas_thread
from sweep_service.planning.costs import (
    RECORDING_WORK_CLASS,
    Calibration,
    SgdCost,
)
from sweep_service.simulators.simulate import simulate
from sweep_service.store.folder import DataFolder

_INIT = {"kind": "gaussian", "orthonormal_teacher": True}
REPEATS = 3
LONG_ENOUGH_SECONDS = 0.25  # longer measurements are not repeated
RECORDED_SAMPLES = 60
ODE_TIMES = [0.0, *np.geomspace(0.01, 1.0, 10)]
# Longer, because a quadrature is checked first, and because most of a short one is overhead.
MEAN_FIELD_TIMES = [4.0 * time for time in ODE_TIMES]
UNSAMPLED_TIMES = [10.0 * time for time in ODE_TIMES]
BACKGROUND_POINT = {"d": 300, "p": 10, "k": 2, "gamma": 0.5, "init": _INIT}
RECORDING_POINT = {"d": 5, "p": 300, "k": 2, "gamma": 0.5, "init": _INIT}
# One point for each simulator (with steps and chains) and for each kind of flow. All take a few seconds.
SGD_CASES: Sequence[tuple[dict[str, Any], int, int]] = (
    ({"d": 5, "p": 8, "k": 2, "gamma": 0.05, "init": _INIT}, 200_000, 8),
    ({"d": 120, "p": 100, "k": 2, "gamma": 0.5, "init": _INIT}, 20_000, 1),
    ({"d": 300, "p": 10, "k": 2, "gamma": 0.5, "init": _INIT}, 100_000, 8),
    ({"d": 12, "p": 100, "k": 2, "gamma": 1.0, "activation": "square", "init": _INIT}, 300_000, 8),
)


def _point(activation: str, p: int, k: int = 2, teacher: str | None = None) -> dict[str, Any]:
    rates = {"d": 200, "p": p, "k": k, "gamma": 0.2 * p, "noise": 1e-3, "init": _INIT}
    return {**rates, "activation": activation, "teacher_activation": teacher or activation}


WIDE = MAX_COMPILED_WIDTH + 4  # students whose flows of (M, Q) are products of matrices
ODE_CASES: Sequence[tuple[dict[str, Any], str]] = (
    *((_point(name, 12), "classical_noise") for name in ACTIVATIONS),
    *((_point(name, WIDE), "classical_noise") for name in ACTIVATIONS),
    *((_point(name, 12), "high_dimensional") for name in ACTIVATIONS),
    *((_point(name, WIDE) | {"gamma": 2.0}, "high_dimensional") for name in ACTIVATIONS),  # relu is stiff
    (_point("erf", 12), "high_dimensional_map"),
    (_point("erf", 90) | {"gamma": 2.0}, "high_dimensional"),
    (_point("erf", 4, teacher="tanh"), "high_dimensional"),
    (_point("erf", 12, teacher="relu"), "high_dimensional"),
    (_point("erf", WIDE, teacher="relu") | {"gamma": 2.0}, "high_dimensional"),
    *((_point(name, 30, k=3, teacher="erf"), "mean_field") for name in ACTIVATIONS),
    (_point("erf", 150, k=1), "mean_field"),
    (_point("tanh", 100, k=1), "mean_field"),
    (_point("square", 70, k=1, teacher="erf"), "mean_field"),
    (_point("erf", 70, k=1), "mean_field"),
    (_point("square", 200), "mean_field"),
)


def compile_kernels() -> None:
    """Compile the kernels of every simulator and kind of flow into the cache, for the build of an image."""
    for point, _, chains in SGD_CASES:
        for count in (1, chains):
            simulate(point, times=[0.0, 0.1], seed=list(range(count)))
    for point, regime in ODE_CASES:
        integrate(point, times=[0.0, 0.1], regime=regime)


def measure(
    folder: DataFolder,
    sgd_cases: Sequence[tuple[dict[str, Any], int, int]] = SGD_CASES,
    ode_cases: Sequence[tuple[dict[str, Any], str]] = ODE_CASES,
    repeats: int = REPEATS,
) -> dict[str, float]:
    """Measure the factor of each class of work, and store the calibration in the folder.

    That of a flow compares the time of as many evaluations as there were, so that it is the speed of this
    machine alone: how many evaluations a trajectory needs depends on the point.
    """
    factors = dict(folder.calibration().factors)
    with all_cores_busy():
        for parameters, steps, chains in sgd_cases:
            point = Point.parse(parameters)
            times = [0.0, steps * point.delta_t]
            seconds, _ = _measure_seconds(partial(simulate, point, seed=list(range(chains))), times, repeats)
            cost = SgdCost(point, steps, samples=2)
            factors[cost.work_class] = seconds / (chains * cost.seconds(chains))
        point = Point.parse(RECORDING_POINT)
        times = [step * point.delta_t for step in range(RECORDED_SAMPLES)]
        cost = SgdCost(point, RECORDED_SAMPLES, RECORDED_SAMPLES)
        seconds, _ = _measure_seconds(partial(simulate, point), times, repeats)
        recording = seconds - factors[cost.work_class] * cost.stepping_seconds(chains=1)
        factors[RECORDING_WORK_CLASS] = recording / cost.recording_seconds(chains=1)
        for parameters, regime in ode_cases:
            point = Point.parse(parameters)
            entry = REGIMES[regime]
            times = ODE_TIMES if entry.sampled else MEAN_FIELD_TIMES if entry.mean_field else UNSAMPLED_TIMES
            seconds, result = _measure_seconds(partial(integrate, point, regime=regime), times, repeats)
            price = price_regime(point, regime)
            factors[price.work_class] = seconds / price.seconds_of(result.attrs["evaluations"], len(times))
    calibration = Calibration({name: round(value, 4) for name, value in factors.items()})
    folder.put_calibration(calibration)
    return dict(calibration.factors)


def _measure_seconds(
    call: Callable[..., xr.Dataset], times: list[float], repeats: int
) -> tuple[float, xr.Dataset]:
    """Return the least processor time of some calls, as sweeps store it, and the last result."""
    result, seconds = call(times=times[:2]), list[float]()  # the first call imports and compiles
    while len(seconds) < repeats and sum(seconds) < LONG_ENOUGH_SECONDS:
        result = call(times=times)
        seconds.append(float(np.sum(result.attrs["seconds"])))
    return min(seconds), result


@contextmanager
def all_cores_busy() -> Iterator[None]:
    """Keep the other cores busy, as in a sweep: they share caches, clock rates and memory bandwidth."""
    finished = threading.Event()

    def work() -> None:
        with suppress(Stopped):
            simulate(BACKGROUND_POINT, times=[0.0, 1e9], stopped=finished.is_set)

    threads = [threading.Thread(target=work, daemon=True) for _ in range((os.cpu_count() or 1) - 1)]
    with one_blas_thread():  # set once here, because each thread would restore the old value when it ends
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            finished.set()
            for thread in threads:
                thread.join()
