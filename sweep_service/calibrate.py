"""How fast is this machine: each kind of work done once, against what the formulas say."""

from __future__ import annotations

from sweep_service.costs import Calibration, ode_seconds, ode_work, sgd_seconds, sgd_work
from sweep_service.dynamics.integrate import integrate
from sweep_service.kernels import working_time
from sweep_service.point import Point
from sweep_service.simulators.simulate import simulate
from sweep_service.store.folder import DataFolder

_START = {"kind": "gaussian", "orthonormal_teacher": True}
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
    ({"d": 10, "p": 100, "k": 2, "gamma": 0.1, "init": _START}, "mean_field"),
    ({"d": 10, "p": 100, "k": 3, "gamma": 0.1, "init": _START}, "mean_field"),
    ({"d": 10, "p": 200, "k": 2, "gamma": 0.1, "activation": "square", "init": _START}, "mean_field"),
)


def measure(folder: DataFolder) -> dict[str, float]:
    """Measured over predicted, by class of work; kept in the folder for estimates to come."""
    plain, factors = Calibration(), dict(folder.calibration().factors)
    for given, steps, chains in SGD:
        point = Point.parse(given)
        times, many = [0.0, steps * point.delta_t], list(range(chains))
        simulate(point, times=[0.0, point.delta_t], seed=many)  # the first call in a process imports
        began = working_time()
        simulate(point, times=times, seed=many)
        factors[sgd_work(point)] = (working_time() - began) / (
            chains * sgd_seconds(point, steps, 2, chains, plain)
        )
    for given, regime in ODE:
        point = Point.parse(given)
        integrate(point, times=[0.0, 0.1], regime=regime)
        began = working_time()
        integrate(point, times=[0.0, 1.0, 10.0], regime=regime)
        factors[ode_work(point, regime)] = (working_time() - began) / ode_seconds(
            point, regime, 10.0, 3, plain
        )
    known = Calibration({name: round(value, 4) for name, value in factors.items()})
    folder.put_calibration(known)
    return dict(known.factors)
