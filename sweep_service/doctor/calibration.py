"""How fast is this machine: each kind of work done once, against what the formulas say."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np

from sweep_service.dynamics.integrate import integrate
from sweep_service.errors import Stopped
from sweep_service.model.point import Point
from sweep_service.numerics.blas import one_blas_thread
from sweep_service.numerics.jit import working_time
from sweep_service.planning.costs import RECORDING, Calibration, SgdCost, ode_seconds, ode_work
from sweep_service.simulators.simulate import simulate
from sweep_service.store.folder import DataFolder

_START = {"kind": "gaussian", "orthonormal_teacher": True}
REPEATS = 2
SAMPLES = 60
TIMES = [0.0, *np.geomspace(0.01, 10.0, 30)]
COMPANY = {"d": 300, "p": 10, "k": 2, "gamma": 0.5, "init": _START}
RECORDED = {"d": 5, "p": 300, "k": 2, "gamma": 0.5, "init": _START}
# One point for each engine and each kind of flow, small enough that all take a few seconds.
SGD = (
    ({"d": 5, "p": 8, "k": 2, "gamma": 0.05, "init": _START}, 200_000, 8),
    ({"d": 120, "p": 100, "k": 2, "gamma": 0.5, "init": _START}, 20_000, 1),
    ({"d": 300, "p": 10, "k": 2, "gamma": 0.5, "init": _START}, 100_000, 1),
    ({"d": 5, "p": 300, "k": 2, "gamma": 1.0, "activation": "square", "init": _START}, 200_000, 1),
)
ODE = (
    ({"d": 100, "p": 8, "k": 2, "gamma": 0.1, "noise": 1e-3, "init": _START}, "classical_noise"),
    ({"d": 100, "p": 8, "k": 2, "gamma": 2.0, "noise": 1e-3, "init": _START}, "high_dimensional"),
    ({"d": 200, "p": 60, "k": 2, "gamma": 0.1, "noise": 1e-3, "init": _START}, "classical_noise"),
    ({"d": 200, "p": 40, "k": 2, "gamma": 4.0, "noise": 1e-3, "init": _START}, "high_dimensional"),
    ({"d": 10, "p": 100, "k": 2, "gamma": 1.0, "init": _START}, "mean_field"),
    ({"d": 10, "p": 100, "k": 3, "gamma": 1.0, "init": _START}, "mean_field"),
    ({"d": 10, "p": 200, "k": 2, "gamma": 1.0, "activation": "square", "init": _START}, "mean_field"),
)


def measure(folder: DataFolder) -> dict[str, float]:
    """Measured over predicted, by class of work; kept in the folder for estimates to come."""
    plain, factors = Calibration(), dict(folder.calibration().factors)
    with all_cores_busy():
        for given, steps, chains in SGD:
            point = Point.parse(given)
            times = [0.0, steps * point.delta_t]
            took = _least(partial(simulate, point, seed=list(range(chains))), times)
            cost = SgdCost(point, steps, samples=2)
            factors[cost.work] = took / (chains * cost.seconds(chains))
        point = Point.parse(RECORDED)
        times = [step * point.delta_t for step in range(SAMPLES)]
        cost = SgdCost(point, SAMPLES, SAMPLES)
        took = _least(partial(simulate, point), times) - cost.stepping(chains=1)
        factors[RECORDING] = took / cost.recording(chains=1)
        for given, regime in ODE:
            point = Point.parse(given)
            took = _least(partial(integrate, point, regime=regime), TIMES)
            factors[ode_work(point, regime)] = took / ode_seconds(point, regime, TIMES[-1], len(TIMES), plain)
    known = Calibration({name: round(value, 4) for name, value in factors.items()})
    folder.put_calibration(known)
    return dict(known.factors)


def _least(call: Callable[..., object], times: list[float]) -> float:
    """Processor seconds of a call, of a few; the first one in a process imports, which none after it does."""
    call(times=times[:2])
    took = []
    for _ in range(REPEATS):
        began = working_time()
        call(times=times)
        took.append(working_time() - began)
    return min(took)


@contextmanager
def all_cores_busy() -> Iterator[None]:
    """As they are in a sweep: cores that share caches, clocks and memory are slower together."""
    enough = threading.Event()

    def work() -> None:
        with suppress(Stopped):
            simulate(COMPANY, times=[0.0, 1e9], stopped=enough.is_set)

    others = [threading.Thread(target=work, daemon=True) for _ in range((os.cpu_count() or 1) - 1)]
    with one_blas_thread():  # here already, as threads that end would each restore what they found
        for other in others:
            other.start()
        try:
            yield
        finally:
            enough.set()
            for other in others:
                other.join()
