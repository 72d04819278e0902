"""`integrate`: a limiting theory at one point, as a labelled dataset."""

from __future__ import annotations

import json
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.dynamics.auto import RegimeChoice, choose_regime, collect_regime_warnings
from sweep_service.dynamics.fluctuations.predict import predict_fluctuations
from sweep_service.dynamics.fluctuations.requirements import any_with_fluctuations, require_fluctuations
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.overlap_flow import OverlapFlow
from sweep_service.dynamics.regimes import REGIMES, Flow, Setup
from sweep_service.dynamics.solve import Trajectory, solve
from sweep_service.errors import OutOfRange, unknown_name
from sweep_service.model.initial import Start
from sweep_service.model.labels import (
    FLUCTUATIONS,
    LEFT_OUT_OVERLAPS,
    MAX_WIDTH_WITH_OVERLAPS,
    label_dataset,
    label_variable,
)
from sweep_service.model.observables import OBSERVABLES, States, observe, select_observables
from sweep_service.model.overlaps import inside_norms
from sweep_service.model.point import Point
from sweep_service.numerics.blas import one_blas_thread
from sweep_service.numerics.jit import thread_work_seconds
from sweep_service.numerics.types import Array
from sweep_service.status import DivergedQuantity
from sweep_service.validation import read_bool, read_seeds, read_times

# A mean-field quadrature is refined while its error exceeds this multiple of the flow's precision.
MAX_QUADRATURE_ERROR = 100.0
MAX_REFINEMENTS = 3
# A larger error of the finest quadrature, relative to |f(y0)|, is refused: curves would visibly differ.
MAX_UNRESOLVED_ERROR = 1e-4
SLOW_RATE = 1e-3  # per unit of time: slower changes of a state are not resolved relative to their own rate
# Attributes that become lists in the order of `seed`.
PER_SEED_ATTRIBUTES = (
    "seed",
    "status",
    "diverged_quantity",
    "steps",
    "evaluations",
    "seconds",
    "quadrature_error",
)

RUN_COORDINATES = ("seed", "regime", "status")
AUTO = "auto"


def integrate(
    point: Mapping[str, Any] | Point,
    *,
    times: Sequence[float] | Array,
    regime: str = AUTO,
    seed: int | Sequence[int] = 0,
    regime_options: Mapping[str, Any] | None = None,
    observables: Sequence[str] | None = None,
    overlaps: bool | None = None,
    fluctuations: bool = False,
    stopped: Callable[[], bool] | None = None,
) -> xr.Dataset:
    """Integrate the ODEs of a limiting theory of SGD.

    Parameters
    ----------
    point : mapping or Point
        d, p, k, gamma and optionally noise, activation, teacher_activation and init.
    times : sequence of float
        Strictly increasing times >= 0, in units in which one SGD step takes γ/(pd).
    regime : str, default "auto"
        Name of a regime (a key of `REGIMES`), or "auto" to choose one by the documented rule.
    seed : int or sequence of int, default 0
        Seed of the initial condition. A sequence adds the dimension `seed`.
    regime_options : mapping, optional
        Switches of the theory and sizes of quadratures, see `RegimeOptions`.
    observables : sequence of str, optional
        Names of `OBSERVABLES`. The risk is always recorded. By default, the default observables.
    overlaps : bool, optional
        Whether to keep M and Q (q in mean field). By default they are kept up to p = 256.
    fluctuations : bool, default False
        Whether to predict how SGD's risk scatters and how far its mean is off, as numbers that do not depend
        on d: `risk_std` times √δt, `risk_shift` times δt, and `nonlinearity`, which times √δt should be at
        most 0.3. For the regime `high_dimensional`.
    stopped : callable, optional
        Called at every evaluation; when it returns true, the call raises `Stopped`.

    Returns
    -------
    xarray.Dataset
        Observables and overlaps over `time`, with the parameters, the `regime` and the `status` of each seed
        (`done` or `diverged`) as coordinates; `ds.sweep` has its analyses. Attributes record the parameters,
        the regime and why it was chosen, the integrator, the status, the quantity that diverged, and any
        warnings.

    Raises
    ------
    InvalidInput
        If an argument is not usable.
    RegimeUndefined
        If the regime does not exist at this point.
    IntegrationFailed
        If the integrator failed although the solution is finite.
    Stopped
        If `stopped` returned true.
    """
    point = Point.parse(point)
    keep = point.p <= MAX_WIDTH_WITH_OVERLAPS if overlaps is None else read_bool(overlaps, "overlaps")
    if not isinstance(regime, str) or (regime != AUTO and regime not in REGIMES):
        raise unknown_name("regime", regime, (AUTO, *REGIMES))
    arguments: dict[str, Any] = {
        "times": read_times(times), "regime": regime,
        "options": replace(
            RegimeOptions.parse(regime_options), fluctuations=read_bool(fluctuations, "fluctuations")
        ),
        "observables": select_observables(observables), "overlaps": keep, "stopped": stopped,
    }  # fmt: skip
    if fluctuations:
        require_fluctuations(point, (regime,))
    start_seeds = read_seeds(seed)
    integrations = (integrate_run(point, seed=start_seed, **arguments) for start_seed in start_seeds)
    runs = [_build_dataset(integration, arguments["times"]) for integration in integrations]
    dataset = runs[0] if isinstance(seed, numbers.Real) else _concatenate_seeds(runs, start_seeds)
    return dataset if keep or overlaps is not None else dataset.assign_attrs(LEFT_OUT_OVERLAPS)


@dataclass(frozen=True)
class Integration:
    """The result of one seed: arrays by name with their dimensions, time first."""

    variables: dict[str, tuple[tuple[str, ...], Array]]
    setup: Setup
    choice: RegimeChoice
    flow: Flow
    path: Trajectory
    quadrature_error: float
    seconds: float

    @property
    def diverged_quantity(self) -> DivergedQuantity:
        """The quantity whose entry is the largest, or not finite, in the state that diverged."""
        if self.path.last is None:
            return DivergedQuantity.NONE
        if np.all(np.isnan(self.path.last)):
            return DivergedQuantity.DERIVATIVE
        return self.flow.diverged_quantity(self.path.last)


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
    """Integrate one seed on validated arguments and return plain arrays, as workers store them."""
    with one_blas_thread():
        setup = Setup(point, point.start(seed), seed, options)
        choice = choose_regime(point, setup.start) if regime == AUTO else RegimeChoice(regime, "requested")
        began = thread_work_seconds()
        flow, path, error = _solve_refined(setup, choice.regime, times, stopped)
        risk = np.array([flow.risk(y) if np.all(np.isfinite(y)) else np.nan for y in path.states])
        states, student_overlaps = _collect_states(flow, path, risk, setup.start)
        unit = "particle" if REGIMES[choice.regime].particles else "student"
        variables = {
            name: (("time", *(unit if dim == "student" else dim for dim in OBSERVABLES[name].dims)), values)
            for name, values in observe(states, observables).items()
        }
        if overlaps:
            variables["overlap_student_teacher"] = (("time", unit, "teacher"), states.M)
            variables |= {
                name: (("time", unit, *dims), values) for name, (dims, values) in student_overlaps.items()
            }
        if options.fluctuations and any_with_fluctuations((regime,)):
            variables |= _predict_fluctuations(setup, flow, times, stopped)
        return Integration(variables, setup, choice, flow, path, error, thread_work_seconds() - began)


def _predict_fluctuations(
    setup: Setup, flow: Flow, times: Array, stopped: Callable[[], bool] | None
) -> dict[str, tuple[tuple[str, ...], Array]]:
    assert isinstance(flow, OverlapFlow)
    student, teacher = setup.point.activation, setup.point.teacher_activation
    predicted = predict_fluctuations(flow, student, teacher, setup.options.qmc_points, times, stopped)
    values = (predicted.std, predicted.shift, predicted.nonlinearity)
    return {name: (("time",), value) for name, value in zip(FLUCTUATIONS, values, strict=True)}


def _build_dataset(integration: Integration, times: Array) -> xr.Dataset:
    setup, path, regime = integration.setup, integration.path, integration.choice.regime
    point, P = setup.point, setup.start.overlaps.P
    warnings = [*point.init.warnings, *collect_regime_warnings(point, regime)]
    attributes = {
        "seed": setup.seed,
        "regime": regime,
        "regime_reason": integration.choice.reason,
        "regime_options": json.dumps(setup.options.content()),
        "engine": path.integrator,
        "flow": type(integration.flow).__name__,
        "sampling_term": getattr(integration.flow.system, "variance_method", "none"),
        "status": path.status.label,
        "diverged_quantity": integration.diverged_quantity.label,
        "steps": path.steps,
        "evaluations": path.evaluations,
        "quadrature_error": integration.quadrature_error,
        "seconds": integration.seconds,
        "warnings": "\n".join(warnings),
    }
    variables = {**integration.variables, "overlap_teacher": (("teacher", "teacher_other"), P)}
    dataset = label_dataset(variables, {"time": times}, point, attributes)
    return dataset.assign_coords(
        {name: label_variable(name, (), attributes[name]) for name in RUN_COORDINATES}
    )


def _solve_refined(
    setup: Setup, regime: str, times: Array, stopped: Callable[[], bool] | None
) -> tuple[Flow, Trajectory, float]:
    """Integrate, and repeat on a finer quadrature if a mean-field flow reached states it does not resolve."""
    flow = REGIMES[regime].make_flow(setup)
    if flow.final_state_guess is None:
        return flow, solve(flow, times, stopped=stopped), 0.0
    flow, error = refine_quadrature(flow, [flow.y0, flow.final_state_guess])
    _check_resolution(setup, regime, flow, error)
    path = solve(flow, times, stopped=stopped)
    finite = path.states[np.all(np.isfinite(path.states), axis=1)]
    finer, error = refine_quadrature(flow, [*finite[-1:]])
    _check_resolution(setup, regime, finer, error)
    if finer is not flow:
        flow, path = finer, solve(finer, times, stopped=stopped)
    return flow, path, error


def _check_resolution(setup: Setup, regime: str, flow: Flow, error: float) -> None:
    """Refuse states that not even the finest quadrature resolves; `error` is relative to |f(y0)|.

    At a start close to a fixed point f(y0) vanishes, and the size of the state is the scale instead.
    """
    rate = _initial_rate(flow)
    relative = error * rate / max(rate, SLOW_RATE * float(np.max(np.abs(flow.y0))))
    if relative > MAX_UNRESOLVED_ERROR:
        point = setup.point
        raise OutOfRange(
            f"{regime} with p = {point.p} and the activation {point.activation.name} is not accurate at "
            f"these norms: its quadrature errs by {relative:.1e}, at most {MAX_UNRESOLVED_ERROR:g} is "
            "allowed; use smaller norms, or a smaller p, where averages over pairs of neurons are used"
        )


@np.errstate(all="ignore")  # as in `refine_quadrature`
def _initial_rate(flow: Flow) -> float:
    """|f(y0)| at the time of the largest learning rate, because a rate of zero would hide any error."""
    return max(float(np.max(np.abs(flow(flow.y0, _busiest_time(flow))))), 1e-300)


def _busiest_time(flow: Flow) -> float:
    return max((0.0, *flow.breaks), key=flow.system.rate_factor)


@np.errstate(all="ignore")  # at a kink, or at states that diverge, as in `solve`
def refine_quadrature(flow: Flow, states: list[Array]) -> tuple[Flow, float]:
    """Refine a flow until its quadrature resolves these states.

    Returns the flow and its remaining error relative to |f(y0)|.
    """
    t, scale, error = _busiest_time(flow), _initial_rate(flow), 0.0
    for _ in range(MAX_REFINEMENTS):
        finer = flow.refine()
        if finer is None:
            break
        error = max((float(np.max(np.abs(flow(y, t) - finer(y, t)))) for y in states), default=0.0) / scale
        # NaN: no quadrature resolves a state without finite rates, and rules of many nodes take long to make.
        if np.isnan(error) or error <= MAX_QUADRATURE_ERROR * flow.precision:
            break
        flow = finer
    return flow, error


def _collect_states(
    flow: Flow, path: Trajectory, risk: Array, start: Start
) -> tuple[States, dict[str, tuple[tuple[str, ...], Array]]]:
    """The trajectory as input of observables, and the variable stored beside M: Q, or q in mean field."""
    rows, P = [flow.state(y) for y in path.states], start.overlaps.P
    readout = getattr(flow.system, "readout", start.readout)  # of particles, where these replace neurons
    M, Q, q, learned = (_stack_rows(column) for column in zip(*rows, strict=True))
    stored: dict[str, tuple[tuple[str, ...], Array]]
    if q is not None:
        q[~np.all(np.isfinite(path.states), axis=1)] = np.nan
        states = States(risk, M, inside_norms(M, P) + q, P, orthogonal_norms=q)
        stored = {"orthogonal_norm": ((), q)}
    else:
        states, stored = States.of(risk, M, Q, P), {"overlap_student": (("student_other",), Q)}
    if readout is not None:
        second_layers = np.tile(readout.student, (len(rows), 1)) if learned is None else learned
        states = replace(states, second_layers=second_layers, teacher_second_layer=readout.teacher)
    return states, stored


def _stack_rows(rows: Sequence[Array | None]) -> Any:
    return None if rows[0] is None else np.array(rows)


def _concatenate_seeds(runs: list[xr.Dataset], start_seeds: tuple[int, ...]) -> xr.Dataset:
    """Concatenate datasets along `seed`; attributes of single seeds, or that differ, become lists.

    Where `auto` chose several regimes, the coordinate `regime` is `auto`, as in a stored sweep.
    """
    joined = xr.concat(
        [run.drop_vars(RUN_COORDINATES) for run in runs],
        label_variable("seed", ("seed",), list(start_seeds)),
        coords="minimal",
        compat="override",
        combine_attrs="override",
    )
    attributes = {}
    for name in runs[0].attrs:
        values = [run.attrs[name] for run in runs]
        per_run = name in PER_SEED_ATTRIBUTES or any(value != values[0] for value in values)
        attributes[name] = values if per_run else values[0]
    joined.attrs = attributes
    regimes = {run.attrs["regime"] for run in runs}
    return joined.assign_coords(
        regime=label_variable("regime", (), regimes.pop() if len(regimes) == 1 else AUTO),
        status=label_variable("status", ("seed",), attributes["status"]),
    )
