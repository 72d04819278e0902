"""The law of the noise floor, R∞ = c γΔ/p for small γ/p, of the solution that the runs reach.

c = (u/4b) (1/p) Σ_i [a_i² E[σ'(λ_i)² ‖x‖²] + (ρ/d) E[σ(λ_i)²]], with λ_i ~ N(0, Q_ii). It holds where the
student represents the teacher, without weight decay. If both second layers are fixed and of one magnitude,
the solution follows from the teacher. Otherwise a_i and Q_ii are needed: those that are known, else those
that are stored, averaged over the last half of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.floor_law.late_state import LateState
from sweep_service.analysis.runs import (
    DRAW_DIMS,
    drop_padding,
    evaluate_at_points,
    evaluate_on_teachers,
    number_coordinates,
    parameter,
    read_structures,
    teacher_overlap,
    teacher_second_layer,
)
from sweep_service.dynamics.overlap_flow import radial_derivative
from sweep_service.model.activations import find_activation
from sweep_service.model.averages.two_point import TwoPoint, make_pairs
from sweep_service.model.initial import Shape
from sweep_service.model.point import Point, read_start
from sweep_service.model.realisable import explain_floor
from sweep_service.model.second_layer import SecondLayer
from sweep_service.model.structures import SECOND_LAYER, insert_numbers, split_teacher
from sweep_service.numerics.types import Array

NO_LAYER = "the learned second layer is not known: add second_layer, or its mean and spread, to observables"
NO_NORMS = "the norms Q_ii are not known: add overlaps or mean_norm to the observables"
ROUNDING = 1e-9  # of equal norms
VALUES_PER_CALL = 16  # of E[σ²], which is computed as the diagonal of a matrix of pairs
# Parameters of a point, without d and start, that decide whether there is a law.
NAMES = ("p", "k", "batch", "weight_decay", "second_layer_rate", "activation", "teacher_activation")


def noise_coefficient(dataset: xr.Dataset, source: str = "sgd") -> xr.DataArray:
    """c of the law R∞ = c γΔ/p at the points, the mean over the runs of a source; NaN where there is none."""
    has_law = explain_missing_law(dataset, source) == ""
    even = _evaluate(dataset, _is_even)
    coefficient = _coefficient_of_teachers(dataset)
    if bool((has_law & ~even).any()):
        coefficient = coefficient.where(even, _coefficient_of_runs(dataset, source))
    return coefficient.where(has_law) * _evaluate(dataset, partial(_rate, _last_time(dataset)))


def explain_missing_law(dataset: xr.Dataset, source: str = "sgd") -> xr.DataArray:
    """Why the noise floor of the runs of a source has no law at each point; "" where it has one."""
    stored = LateState(dataset, source)
    P = teacher_overlap(dataset)
    norms = np.diagonal(P.values, axis1=P.get_axis_num("teacher"), axis2=P.get_axis_num("teacher_other"))
    has_equal_norms = bool(np.all(np.nanmax(norms, axis=-1) - np.nanmin(norms, axis=-1) < ROUNDING))
    return _evaluate(dataset, partial(_explain, stored.has_layer, stored.has_norms, has_equal_norms))


def _explain(has_layer: bool, has_norms: bool, has_equal_norms: bool, point: Point) -> str:
    if point["weight_decay"]:
        return "weight decay moves the student away from the solution"
    if point.activation is not point.teacher_activation:
        return "student and teacher have different activations"
    if _is_even(point):
        return ""
    if reason := explain_floor(point):
        return reason
    if point.second_layer_rate and not has_layer and not _is_one_to_one(point):
        return NO_LAYER
    follow = point.activation.odd and has_equal_norms
    if has_norms or follow or _is_one_to_one(point) or _ignores_norms(point):
        return ""
    return NO_NORMS


def _is_even(point: Point) -> bool:
    """Whether the second layers are fixed, and of one magnitude."""
    student, teacher = point.second_layer.magnitude, point.teacher_second_layer.magnitude
    return not point.second_layer_rate and student is not None and student == teacher


def _is_one_to_one(point: Point) -> bool:
    """Whether each neuron learns one teacher with its a*: σ is odd, so that w and a are known up to signs."""
    return point.second_layer_rate > 0.0 and point.activation.odd and point.p == point.k


def _ignores_norms(point: Point) -> bool:
    """Whether E[σ'²] does not depend on the norm, as for relu, and nothing else does."""
    powers = make_pairs(point.activation, point.activation).students.slope_power(np.array([0.5, 2.0]))
    return point.second_layer_rate == 0.0 and bool(np.isclose(*powers))


def _rate(last: float, point: Point) -> float:
    """u/b at the end."""
    return float(point.schedule.factor(np.asarray(last))) / point["batch"]


def _last_time(dataset: xr.Dataset) -> float:
    is_constant = read_structures(dataset).get("schedule", "constant") == "constant"
    return 0.0 if is_constant else float(dataset["time"].max())


def _evaluate(
    dataset: xr.Dataset, function: Callable[[Point], Any], dims: Sequence[str] = ()
) -> xr.DataArray:
    """A function of a point, in which d, the start and the overlaps of the teacher do not matter."""
    structures = read_structures(dataset)

    def evaluate(**values: Any) -> Any:
        scalars = {name: values.pop(name) for name in NAMES}
        given = insert_numbers(structures, values)
        chosen = {name: given[name] for name in (SECOND_LAYER, "schedule") if name in given}
        teacher = split_teacher(given.get("teacher", {}))[1]
        return function(
            Point.parse({**scalars, **chosen, "d": scalars["k"], "gamma": 1.0, "teacher": teacher})
        )

    numbers = [name for name in number_coordinates(dataset) if not name.startswith("init.")]
    return evaluate_at_points(dataset, [*NAMES, *numbers], evaluate, dims)


# ---- a of one magnitude


def _coefficient_of_teachers(dataset: xr.Dataset) -> xr.DataArray:
    """¼ a² E[σ'² ‖x‖²], the mean over neurons with the norms of the teachers in equal shares."""

    def squared_slopes(P: Array, name: str, s: float = 1.0) -> Array:
        act, a = find_activation(name), s * np.diag(drop_padding(P))
        return 0.25 * np.diag(make_pairs(act, act).students.slopes(a, a, np.diag(a))[0])

    def leading_term(P: Array, name: str) -> float:
        return float(np.mean(squared_slopes(P, name)))

    def norm_correction(P: Array, name: str) -> float:
        """d times the contribution of the fluctuations of ‖x‖²."""
        return float(np.mean(radial_derivative(lambda s: squared_slopes(P, name, s), 1)))

    activation = parameter(dataset, "activation")
    leading = evaluate_on_teachers(dataset, leading_term, activation)
    correction = evaluate_on_teachers(dataset, norm_correction, activation)
    squares = _evaluate(dataset, lambda point: (point.second_layer.magnitude or 0.0) ** 2)
    return (leading + correction / parameter(dataset, "d")) * squares


# ---- other second layers


def _coefficient_of_runs(dataset: xr.Dataset, source: str) -> xr.DataArray:
    """The coefficient without u/b from a and Q_ii of each run, averaged over runs."""
    stored, is_fixed = LateState(dataset, source), parameter(dataset, "second_layer_rate") == 0.0
    teacher_norms = _norms_of_teachers(dataset)
    norms = stored.norms() if stored.has_norms else teacher_norms.mean("student")
    cases = []
    if bool(is_fixed.any()):
        cases.append((is_fixed, _fixed_squares(dataset), norms))
    if stored.has_layer:
        cases.append((~is_fixed, stored.squares(), norms))
    if not (stored.has_layer and stored.has_norms) and bool((~is_fixed).any()):
        weights = teacher_second_layer(dataset)
        squares = xr.ones_like(teacher_norms) if weights is None else weights.rename(teacher="student") ** 2
        cases.append((_evaluate(dataset, _is_one_to_one), squares, teacher_norms))
    coefficient = xr.DataArray(np.nan)
    for applies, squares, norms_of_case in cases:  # the last case that applies counts
        coefficient = _weigh(dataset, squares, norms_of_case).where(applies, coefficient)
    return coefficient.mean([dim for dim in DRAW_DIMS if dim in coefficient.dims])


def _norms_of_teachers(dataset: xr.Dataset) -> xr.DataArray:
    """P_rr, as the norms of as many neurons."""
    P = teacher_overlap(dataset)
    axes = P.get_axis_num("teacher"), P.get_axis_num("teacher_other")
    outer = [dim for dim in P.dims if dim not in ("teacher", "teacher_other")]
    coords = {dim: P[dim] for dim in outer if dim in P.coords}
    return xr.DataArray(np.diagonal(P.values, axis1=axes[0], axis2=axes[1]), coords, [*outer, "student"])


def _fixed_squares(dataset: xr.Dataset) -> xr.DataArray:
    """a_i² (…, student) of second layers that stay as they begin."""
    structures = {"init": {"kind": "planted"}, **read_structures(dataset)}
    size = max(int(parameter(dataset, "p").max()), dataset.sizes.get("student", 0))

    def draw(p: int, k: int, d: int, seed: int = 0, **numbers: float) -> Array:
        given, shape = insert_numbers(structures, numbers), Shape(d, p, k)
        layer = SecondLayer.parse(given.get(SECOND_LAYER, {}), SECOND_LAYER, p, "p")
        rng = np.random.default_rng(0)  # of numbers that are given, which do not use it
        if layer.is_random:
            rng = read_start(given, shape)[0].second_layer_streams(shape, seed)[0]
        return np.pad(layer.draw(p, rng) ** 2, (0, size - p), constant_values=np.nan)

    names = ["p", "k", "d", "seed", *number_coordinates(dataset)]
    return evaluate_at_points(dataset, names, draw, ("student",))


def _weigh(dataset: xr.Dataset, squares: xr.DataArray, norms: xr.DataArray) -> xr.DataArray:
    """¼ times the mean over neurons of a_i² E[σ'² ‖x‖²] + (ρ/d) E[σ²]; if only means are given, at them."""
    d, rate = parameter(dataset, "d"), parameter(dataset, "second_layer_rate")
    activation = parameter(dataset, "activation")
    result = xr.DataArray(np.nan)
    for name in np.unique(activation.values):
        act = find_activation(str(name))
        pair = make_pairs(act, act).students
        slopes = _map_finite(pair.slope_power, norms)
        correction = _map_finite(partial(_norm_correction, pair), norms)
        values = _map_finite(partial(_value_power, pair), norms) if bool((rate > 0.0).any()) else 0.0
        terms = squares * (slopes + correction / d) + rate / d * values
        mean = terms.mean("student") if "student" in terms.dims else terms
        result = (0.25 * mean).where(activation == name, result)
    return result


def _norm_correction(pair: TwoPoint, norms: Array) -> Array:
    """d times the contribution of the fluctuations of ‖x‖² to E[σ'² ‖x‖²]."""
    return radial_derivative(lambda s: pair.slope_power(s * norms), 1)


def _map_finite(function: Callable[[Array], Array], norms: xr.DataArray) -> xr.DataArray:
    """A function of norms, NaN where they are."""
    values = norms.values
    finite = np.isfinite(values)
    result = np.full(values.shape, np.nan)
    result[finite] = function(np.maximum(values[finite], 0.0))
    return norms.copy(data=result)


def _value_power(pair: TwoPoint, norms: Array) -> Array:
    """E[σ²] at norms."""
    parts = np.split(norms, range(VALUES_PER_CALL, len(norms), VALUES_PER_CALL))
    return np.concatenate([np.diag(pair.values(q, q, np.diag(q))) for q in parts])
