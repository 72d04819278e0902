"""The full state at p = 100: the default integrator against SciPy's on the same right-hand side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import sweep_service as ss
from benchmarks.harness import Row, relative_error, time_interleaved
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES, Setup
from sweep_service.model.point import Point

REGIME = "classical_noise"
INIT = {"kind": "gaussian", "teacher": "orthonormal"}
# LSODA switches to its dense Jacobian of 5250 columns near t = 200; to t = 1000 it would take minutes.
LSODA_END = 300.0


def wide(quick: bool) -> Iterator[Row]:
    p, end, lsoda_end = (40, 10.0, 3.0) if quick else (100, 1e3, LSODA_END)
    parameters = {"d": 10 * p, "p": p, "k": 2, "gamma": 0.5, "noise": 1e-3, "init": INIT}
    point = Point.parse(parameters)
    flow = REGIMES[REGIME].make_flow(Setup(point, point.start(0), 0, RegimeOptions()))
    times = np.unique(np.append(np.geomspace(1e-2, end, 51), lsoda_end))
    early = times[times <= lsoda_end]

    def ours(at: Any = times) -> Any:
        return ss.integrate(parameters, times=at, regime=REGIME)

    def scipy(method: str, rtol: float, at: Any = times) -> Any:
        path = solve_ivp(
            lambda t, y: flow(y), (0.0, at[-1]), flow.y0, method, t_eval=at, rtol=rtol, atol=1e-3 * rtol
        )
        return np.array([flow.risk(y) for y in path.y.T])

    ours(early[:1])
    true = scipy("DOP853", 1e-12)
    full, shorter, rk45, lsoda = time_interleaved(
        ours,
        lambda: ours(early),
        lambda: scipy("RK45", 1e-6),
        lambda: scipy("LSODA", 1e-10, early),
        repeats=1 if quick else 3,
    )
    engine = f"integrate ({full.value.attrs['engine']})"
    yield Row(
        f"wide/rk45-p{p}", engine, full.seconds, f"RK45 1e-6/1e-9 to t = {end:g}", rk45.seconds,
        relative_error(full.value.risk, true), relative_error(rk45.value, true),
        note="Errors are those of R(t) against DOP853 at 1e-12.",
    )  # fmt: skip
    yield Row(
        f"wide/lsoda-p{p}", engine, shorter.seconds, f"LSODA 1e-10/1e-13 to t = {lsoda_end:g}", lsoda.seconds,
        relative_error(shorter.value.risk, true[: len(early)]),
        relative_error(lsoda.value, true[: len(early)]),
    )  # fmt: skip
