"""Integration to t = 10⁴ by the default integrator, against explicit Euler with the step of public code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import sweep_service as ss
from benchmarks.baselines import euler_closed, euler_three_point
from benchmarks.harness import Row, relative_error, time_interleaved
from sweep_service.dynamics.compiled_overlap_flow import SmallFlow
from sweep_service.dynamics.integrators import Integrator, lsoda
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES, Setup
from sweep_service.dynamics.solve import solve
from sweep_service.model.point import Point

INIT = {"kind": "gaussian", "teacher": "orthonormal"}
POINT = {"d": 100, "p": 10, "k": 2, "gamma": 0.05, "noise": 1e-3, "init": INIT}
REGIME = "classical_noise"
EULER_STEP = 1e-3
MIN_RATIO = 1000.0
REFERENCE = Integrator("reference", lsoda, 3e-12, 3e-15)
LOOSE = Integrator("loose", lsoda, 1e-6, 1e-9)


def euler(quick: bool) -> Iterator[Row]:
    end, stretch = (10.0, 1_000) if quick else (1e4, 200_000)
    flow = make_small_flow(POINT)
    stops = np.unique(np.round(np.geomspace(1e-2, end, 61) / EULER_STEP).astype(np.int64))
    times, scale = stops * EULER_STEP, int(stops[-1]) / stretch

    def risks(states: Any) -> Any:
        return np.array([flow.risk(y) for y in states])

    def ours() -> Any:
        return ss.integrate(POINT, times=times, regime=REGIME)

    def loose() -> Any:
        return risks(solve(flow, times, integrator=LOOSE).states)

    def literature(steps: int = stretch) -> Any:
        start = flow.overlaps(flow.y0)
        return euler_three_point(start.M, start.Q, start.P, flow.sizes.noise, EULER_STEP, steps)

    def same(*stops: int) -> Any:
        at = np.array(stops or (stretch,))
        return euler_closed(flow.sizes, flow.work, flow.y0, EULER_STEP, at)

    ours(), loose(), literature(1), same(1)  # compile
    fast, rough, slow, short = time_interleaved(ours, loose, literature, same, repeats=2 if quick else 5)
    (whole,) = time_interleaved(lambda: same(*stops), repeats=1)
    same_seconds = min(whole.seconds, scale * short.seconds)  # a busy machine may have slowed down either
    true = risks(solve(flow, times, integrator=REFERENCE).states)
    error, coarse = relative_error(fast.value.risk, true), relative_error(risks(whole.value), true)
    engine, floor = f"integrate ({fast.value.attrs['engine']})", None if quick else MIN_RATIO
    printed, compiled = (
        f"Euler {EULER_STEP:g} to t = {end:g} with {baseline}"
        for baseline in ("p n² three-point terms", "the flow of the package")
    )
    yield Row(
        "euler/three-point", engine, fast.seconds, printed, scale * slow.seconds,
        error, coarse, floor, coarse,
        note=f"Euler is timed over {stretch} of its {stops[-1]} steps and scaled; its error is that of "
        "euler/same-flow, the same equation run whole. Errors are those of R(t) against LSODA at 3e-12.",
    )  # fmt: skip
    yield Row(
        "euler/same-flow", engine, fast.seconds, compiled, same_seconds,
        error, coarse, note=f"Only the integrator differs. The whole run took {whole.seconds:.3g} s.",
    )  # fmt: skip
    yield Row(
        "euler/loose", "LSODA 1e-6/1e-9", rough.seconds, compiled, same_seconds,
        relative_error(rough.value, true), coarse, floor, coarse,
        note="`solve` and the risks, without a dataset, at ten times the accuracy of Euler.",
    )  # fmt: skip


def make_small_flow(point: Any) -> SmallFlow:
    """The flow that `integrate` builds for a narrow student."""
    point = Point.parse(point)
    flow = REGIMES[REGIME].make_flow(Setup(point, point.start(0), 0, RegimeOptions()))
    assert isinstance(flow, SmallFlow)
    return flow
