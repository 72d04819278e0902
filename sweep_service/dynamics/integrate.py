"""`integrate`: one point, one limiting theory, one labelled dataset."""

from __future__ import annotations

import json
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.dynamics.auto import Choice, choose, theory_warnings
from sweep_service.dynamics.mean_field import MeanFieldFlow
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES, Flow, Setup
from sweep_service.dynamics.solve import Trajectory, solve
from sweep_service.errors import unknown_name
from sweep_service.model.labels import WIDEST_STORED, labelled
from sweep_service.model.observables import OBSERVABLES, States, chosen, observe
from sweep_service.model.overlaps import inside_norms
from sweep_service.model.point import Point
from sweep_service.numerics.blas import one_blas_thread
from sweep_service.numerics.jit import working_time
from sweep_service.numerics.types import Array
from sweep_service.validation import increasing_times, seeds, switch

# A mean-field quadrature is refined while it errs by more than this many times the flow's precision.
QUADRATURE = 100.0
REFINEMENTS = 3
# Attributes that become lists along `seed`, in its order.
PER_RUN = ("seed", "status", "steps", "evaluations", "seconds", "quadrature_error")


def integrate(
    point: Mapping[str, Any] | Point,
    *,
    times: Sequence[float] | Array,
    regime: str = "auto",
    seed: int | Sequence[int] = 0,
    regime_options: Mapping[str, Any] | None = None,
    observables: Sequence[str] | None = None,
    overlaps: bool | None = None,
    stopped: Callable[[], bool] | None = None,
) -> xr.Dataset:
    """Integrate a limiting theory of SGD.

    `point` holds d, p, k, gamma and optionally noise, activation, teacher_activation, init. `times`
    are increasing, in units where one SGD step is γ/(pd). `regime` is a name of `REGIMES`, or auto.
    A sequence of seeds adds the dimension `seed`. `observables` are names of `OBSERVABLES`; `overlaps`
    keeps M and Q (or q): by default up to p = 256. `stopped` is asked at every evaluation and ends the
    call with `Stopped`.
    """
    point = Point.parse(point)
    keep = point.p <= WIDEST_STORED if overlaps is None else switch(overlaps, "overlaps")
    if not isinstance(regime, str) or (regime != "auto" and regime not in REGIMES):
        raise unknown_name("regime", regime, ("auto", *REGIMES))
    given: dict[str, Any] = {
        "times": increasing_times(times), "regime": regime, "options": RegimeOptions.parse(regime_options),
        "observables": chosen(observables), "overlaps": keep, "stopped": stopped,
    }  # fmt: skip
    starts = seeds(seed)
    runs = [_dataset(integrate_run(point, seed=one, **given), given["times"]) for one in starts]
    if isinstance(seed, numbers.Real):
        return runs[0]
    return _along_seed(runs, starts)


@dataclass(frozen=True)
class Integration:
    """What one seed gave: arrays by name with their dimensions, time first."""

    variables: dict[str, tuple[tuple[str, ...], Array]]
    setup: Setup
    choice: Choice
    flow: Flow
    path: Trajectory
    quadrature_error: float
    seconds: float


def integrate_run(
    point: Point,
    *,
    times: Array,
    regime: str,
    seed: int,
    options: RegimeOptions,
    observables: Sequence[str],
    overlaps: bool,
    stopped: Callable[[], bool] | None = None,
) -> Integration:
    """`integrate` of one seed on arguments that were read before, without labels: what a worker stores."""
    with one_blas_thread():
        setup = Setup(point, point.start(seed), seed, options)
        choice = choose(point, setup.start) if regime == "auto" else Choice(regime, "asked for")
        began = working_time()
        flow, path, error = _solve_finely(setup, choice.regime, times, stopped)
        risk = np.array([flow.risk(y) if np.all(np.isfinite(y)) else np.nan for y in path.states])
        states, kept = _states(flow, path, risk, setup.start.overlaps.P)
        unit = "particle" if REGIMES[choice.regime].particles else "student"
        variables = {
            name: (("time", *(unit if dim == "student" else dim for dim in OBSERVABLES[name].dims)), values)
            for name, values in observe(states, observables).items()
        }
        if overlaps:
            variables["overlap_student_teacher"] = (("time", unit, "teacher"), states.M)
            variables |= {name: (("time", unit, *others), values) for name, (others, values) in kept.items()}
        return Integration(variables, setup, choice, flow, path, error, working_time() - began)


def _dataset(found: Integration, times: Array) -> xr.Dataset:
    setup, path, regime = found.setup, found.path, found.choice.regime
    point, P = setup.point, setup.start.overlaps.P
    warnings = [*point.init.warnings, *theory_warnings(point, regime)]
    attributes = {
        "seed": setup.seed,
        "regime": regime,
        "regime_reason": found.choice.reason,
        "regime_options": json.dumps(setup.options.content()),
        "engine": path.integrator,
        "flow": type(found.flow).__name__,
        "sampling_term": getattr(found.flow.system, "variance_method", "none"),
        "status": path.status.label,
        "steps": path.steps,
        "evaluations": path.evaluations,
        "quadrature_error": found.quadrature_error,
        "seconds": found.seconds,
        "warnings": "\n".join(warnings),
    }
    variables = {**found.variables, "overlap_teacher": (("teacher", "teacher_other"), P)}
    return labelled(variables, {"time": times}, point, attributes)


def _solve_finely(
    setup: Setup, regime: str, times: Array, stopped: Callable[[], bool] | None
) -> tuple[Flow, Trajectory, float]:
    """Integrate; again on a finer quadrature where a mean-field flow went beyond what its own resolves."""
    flow = REGIMES[regime].flow(setup)
    if not isinstance(flow, MeanFieldFlow):
        return flow, solve(flow, times, stopped=stopped), 0.0
    flow, _ = resolved(flow, [flow.y0, flow.learnt])
    path = solve(flow, times, stopped=stopped)
    finite = path.states[np.all(np.isfinite(path.states), axis=1)]
    finer, error = resolved(flow, [*finite[-1:]])
    if finer is not flow:
        flow, path = finer, solve(finer, times, stopped=stopped)
    return flow, path, error


def resolved(flow: MeanFieldFlow, states: list[Array]) -> tuple[MeanFieldFlow, float]:
    """The flow on a quadrature fine enough at these states, and the error left, relative to |f(y0)|."""
    scale = max(float(np.max(np.abs(flow(flow.y0)))), 1e-300)
    error = 0.0
    for _ in range(REFINEMENTS):
        finer = flow.refined()
        if finer is None:
            break
        error = max((float(np.max(np.abs(flow(y) - finer(y)))) for y in states), default=0.0) / scale
        if error <= QUADRATURE * flow.precision:
            break
        flow = finer
    return flow, error


def _states(
    flow: Any, path: Trajectory, risk: Array, P: Array
) -> tuple[States, dict[str, tuple[tuple[str, ...], Array]]]:
    """The trajectory as observables see it, and what is stored beside M: Q, or q in mean field."""
    if isinstance(flow, MeanFieldFlow):
        both = [flow.state(y) for y in path.states]
        M, q = np.array([M for M, _ in both]), np.array([q for _, q in both])
        q[~np.all(np.isfinite(path.states), axis=1)] = np.nan
        return States(risk, M, inside_norms(M, P) + q, P, orthogonal_norms=q), {"orthogonal_norm": ((), q)}
    all_overlaps = [flow.overlaps(y) for y in path.states]
    M, Q = np.array([o.M for o in all_overlaps]), np.array([o.Q for o in all_overlaps])
    return States.of(risk, M, Q, P), {"overlap_student": (("student_other",), Q)}


def _along_seed(runs: list[xr.Dataset], starts: tuple[int, ...]) -> xr.Dataset:
    """One dataset along `seed`; attributes that differ between seeds become lists in its order."""
    joined = xr.concat(
        runs, xr.Variable("seed", list(starts)), coords="minimal", compat="override", combine_attrs="override"
    )
    attributes = {}
    for name in runs[0].attrs:
        values = [run.attrs[name] for run in runs]
        per_run = name in PER_RUN or any(value != values[0] for value in values)
        attributes[name] = values if per_run else values[0]
    joined.attrs = attributes
    joined["seed"].attrs = {"long_name": "seed of the initial condition", "units": "1"}
    return joined
