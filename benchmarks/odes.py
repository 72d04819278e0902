"""Integrations of erf against SciPy's LSODA and DOP853 on a compiled right-hand side, at the same error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

import sweep_service as ss
from benchmarks.baselines import half_pair_sums, pairwise_flow
from benchmarks.harness import Row, relative_error, time_interleaved
from benchmarks.ode_baselines import overlap_flow
from sweep_service.dynamics.integrators import Integrator, lsoda
from sweep_service.dynamics.mean_field.pairwise import PairwiseFlow
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.overlap_flow import OverlapFlow, sampling
from sweep_service.dynamics.regimes import REGIMES, Flow, Setup
from sweep_service.dynamics.solve import solve
from sweep_service.model.point import Point
from sweep_service.numerics.types import Array

MIN_RATIO = 2.0
REFERENCE = Integrator("reference", lsoda, 3e-12, 3e-15)
TOLERANCES = 10.0 ** -np.arange(4.0, 12.0)
METHODS = ("LSODA", "DOP853")


class Case(NamedTuple):
    regime: str
    p: int
    last: float


CASES = (
    Case("classical_noise", 10, 1e3), Case("high_dimensional", 20, 1e2), Case("high_dimensional", 50, 20.0),
    Case("mean_field", 100, 1e2),
)  # fmt: skip
QUICK = (Case("classical_noise", 3, 1.0),)


def odes(quick: bool) -> Iterator[Row]:
    for case in QUICK if quick else CASES:
        yield from compare(case, quick)


def compare(case: Case, quick: bool) -> Iterator[Row]:
    init = {"kind": "gaussian", "teacher": "orthonormal"}
    point = {"d": 100, "p": case.p, "k": 2, "gamma": 0.05 * case.p, "noise": 1e-3, "init": init}
    times = np.concatenate([[0.0], np.geomspace(0.1, case.last, 30)])
    parsed = Point.parse(point)
    flow = REGIMES[case.regime].make_flow(Setup(parsed, parsed.start(0), 0, RegimeOptions()))
    ours = partial(ss.integrate, point, times=times, regime=case.regime, observables=[], overlaps=False)
    true = risks(flow, solve(flow, times, integrator=REFERENCE).states)
    error = relative_error(ours().risk, true)
    for method in METHODS:
        theirs = choose_tolerance(flow, method, times, true, error)
        fast, baseline = time_interleaved(ours, theirs, repeats=1 if quick else 5, budget=5.0)
        yield Row(
            f"odes/{case.regime}-p{case.p}-{method}",
            f"integrate ({fast.value.attrs['engine']})", fast.seconds,
            f"SciPy's {method} on a compiled right-hand side", baseline.seconds, error,
            relative_error(baseline.value, true), None if quick else MIN_RATIO,
            note="The loosest tolerance of the baseline that reaches our error, or else its tightest one.",
        )  # fmt: skip


def choose_tolerance(flow: Flow, method: str, times: Array, true: Array, error: float) -> Callable[[], Array]:
    """The call with the loosest tolerance at which R(t) is as accurate as ours."""
    call = partial(integrate, flow, method, times, TOLERANCES[0])
    for rtol in TOLERANCES:
        call = partial(integrate, flow, method, times, rtol)
        if relative_error(call(), true) <= error:
            break
    return call


def integrate(flow: Flow, method: str, times: Array, rtol: float) -> Array:
    """R at the times, as a user with SciPy and a compiled right-hand side computes it."""
    change = make_right_hand_side(flow)
    solution = solve_ivp(
        change, (0.0, times[-1]), flow.y0, method=method, t_eval=times, rtol=rtol, atol=1e-3 * rtol
    )
    return risks(flow, solution.y.T)


def make_right_hand_side(flow: Flow) -> Callable[[float, Array], Array]:
    """A compiled right-hand side, as a careful user would write it."""
    if isinstance(flow, PairwiseFlow):
        return partial(sum_over_pairs, flow)
    assert isinstance(flow, OverlapFlow)
    system = flow.system
    rate, noise = system.gamma_over_p if sampling in flow.terms else 0.0, system.gamma_over_p * system.noise

    def change(t: float, y: Array) -> Array:
        out = np.empty_like(y)
        overlap_flow(y, flow.p, system.P, noise, rate, out)
        return out

    return change


def sum_over_pairs(flow: PairwiseFlow, t: float, y: Array) -> Array:
    """Mean field as a compiled loop over half of the pairs at each node of ξ."""
    M, q = flow.unpack(y)
    dM, dq = pairwise_flow(M, q, flow.system.P, flow.xi.nodes, flow.xi.weights, half_pair_sums)
    return np.concatenate([dM.ravel(), dq + flow.system.noise * flow.slope_power(flow.norms(M, q))])


def risks(flow: Any, states: Array) -> Array:
    return np.array([flow.risk(y) for y in states])
