"""`integrate`: one point, one limiting theory, one labelled dataset."""

from __future__ import annotations

import json
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.arrays import Array
from sweep_service.dynamics.auto import Choice, choose, theory_warnings
from sweep_service.dynamics.mean_field import MeanFieldFlow
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES, Flow, Setup
from sweep_service.dynamics.solve import Trajectory, solve
from sweep_service.errors import unknown_name
from sweep_service.fields import increasing_times, seeds, switch
from sweep_service.kernels import working_time
from sweep_service.labels import WIDEST_STORED, labelled
from sweep_service.model.observables import OBSERVABLES, States, chosen, observe
from sweep_service.model.overlaps import inside_norms
from sweep_service.point import Point
from sweep_service.threads import one_blas_thread

# Raised when, and only when, a regime gives other numbers than before: results are reused by it.
ODE_VERSION = 1
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
    options = RegimeOptions.parse(regime_options)
    names = chosen(observables)
    keep = point.p <= WIDEST_STORED if overlaps is None else switch(overlaps, "overlaps")
    at, starts = increasing_times(times), seeds(seed)
    if not isinstance(regime, str) or (regime != "auto" and regime not in REGIMES):
        raise unknown_name("regime", regime, ("auto", *REGIMES))
    runs = []
    with one_blas_thread():
        for one in starts:
            setup = Setup(point, point.start(one), one, options)
            choice = choose(point, setup.start) if regime == "auto" else Choice(regime, "asked for")
            runs.append(_run(setup, choice, at, names, keep, stopped))
    if isinstance(seed, numbers.Real):
        return runs[0]
    return _along_seed(runs, starts)


def _run(
    setup: Setup,
    choice: Choice,
    times: Array,
    names: Sequence[str],
    keep: bool,
    stopped: Callable[[], bool] | None,
) -> xr.Dataset:
    began = working_time()
    flow, path, error = _solve_finely(setup, choice.regime, times, stopped)
    risk = np.array([flow.risk(y) if np.all(np.isfinite(y)) else np.nan for y in path.states])
    states, kept = _states(flow, path, risk, setup.start.overlaps.P)
    unit = "particle" if choice.regime == "mean_field_pde" else "student"
    variables = {
        name: (("time", *(unit if dim == "student" else dim for dim in OBSERVABLES[name].dims)), values)
        for name, values in observe(states, names).items()
    }
    if keep:
        variables["overlap_student_teacher"] = (("time", unit, "teacher"), states.M)
        variables |= {name: (("time", unit, *others), values) for name, (others, values) in kept.items()}
    variables["overlap_teacher"] = (("teacher", "teacher_other"), setup.start.overlaps.P)
    point = setup.point
    found = [*point.init.warnings, *theory_warnings(point, choice.regime)]
    return labelled(
        variables,
        {"time": times},
        point,
        {
            "seed": setup.seed,
            "regime": choice.regime,
            "regime_reason": choice.reason,
            "regime_options": json.dumps(setup.options.content()),
            "engine": path.integrator,
            "flow": type(flow).__name__,
            "sampling_term": getattr(flow.system, "variance_method", "none"),
            "status": path.status.label,
            "steps": path.steps,
            "evaluations": path.evaluations,
            "quadrature_error": error,
            "seconds": working_time() - began,
            "warnings": "\n".join(found),
        },
    )


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
