"""Two sweeps on their common points: ratios or differences of a value, with their errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from sweep_service.analysis.axes import point_axes
from sweep_service.analysis.comparison.pairing import Origins, spread
from sweep_service.analysis.curves import plain_value
from sweep_service.analysis.phase_diagram import select_for_value
from sweep_service.analysis.runs import (
    DRAW_DIMS,
    average_with_deviations,
    error_from_deviations,
    fixed_parameters,
)
from sweep_service.analysis.selection import format_values
from sweep_service.analysis.single_point import as_sweep
from sweep_service.errors import InvalidInput, LimitExceeded, unknown_name
from sweep_service.model.labels import variable_attributes
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.axes import EXPONENTS, POINT, axis_sort_key

HOW = ("ratio", "difference")
MAX_POINTS = 20_000  # in common, each of which is parsed
MIN_PAIRS = 2  # draws, for an error
SIGNIFICANT_DIGITS = 10  # in which labels agree; spaced axes differ by rounding


@dataclass(frozen=True)
class Side:
    """A value of one sweep: (point, seed, repeat), the labels of its points, and their origins."""

    values: xr.DataArray
    labels: dict[str, AnyArray]
    fixed: dict[str, Any]
    origins: Origins
    long_name: str


def compare(
    a: xr.Dataset, b: xr.Dataset, /, value: str = "sgd_risk", how: str = "ratio", **where: Any
) -> xr.Dataset:
    """Compare a value of two sweeps at the points that both have.

    Points are matched by the parameters that vary in one of the sweeps. Parameters that each sweep has once,
    but with other values, are what is compared: the attribute `differs` lists them.

    Parameters
    ----------
    a, b
        Two sweeps, or results for single points.
    value
        A number for each run, as in phase diagrams.
    how
        `ratio`, a over b, or `difference`, a minus b.
    **where
        Selections along coordinates, as for `phase_diagram`; both sweeps must have the values.

    Returns
    -------
    xr.Dataset
        At each common point `a`, `b`, the `ratio` or `difference` of the means over runs, its
        `standard_error`, `paired`, and the numbers of runs `runs_a` and `runs_b`. At points where both sweeps
        begin at the same starts, or have one seed and the same streams, runs are `paired`: only draws that
        both have count, and what they share does not add to the error.

    Raises
    ------
    InvalidInput
        If a name is unknown, or the sweeps have no point in common.
    """
    if how not in HOW:
        raise unknown_name("how", how, HOW)
    sides = [_evaluate(as_sweep(dataset), value, where) for dataset in (a, b)]
    names = _matched_names(sides)
    at = _find_common(sides, names)
    if len(at[0]) > MAX_POINTS:
        raise LimitExceeded("points", len(at[0]), f"must be at most {MAX_POINTS} in common: select some")
    columns = _compare_points(sides, at, how)
    result = xr.Dataset(
        {
            **{name: (POINT, columns[name], {"long_name": text.format(sides[0].long_name)})
               for name, text in COLUMNS.items() if name != "result"},
            how: (POINT, columns["result"], {"long_name": f"{how} of {sides[0].long_name}, a to b"}),
        },
        {name: (POINT, _column(sides[0], name)[at[0]], variable_attributes(name)) for name in names},
    )  # fmt: skip
    result.attrs = {
        "value": value,
        "how": how,
        "fixed": _shared(sides, names),
        "differs": _differing(sides, names),
    }
    return result


COLUMNS = {
    "a": "{}, mean over runs of the first sweep",
    "b": "{}, mean over runs of the second sweep",
    "result": "",
    "standard_error": "standard error of the comparison",
    "paired": "whether runs of both sweeps share their starts or streams",
    "runs_a": "runs of the first sweep",
    "runs_b": "runs of the second sweep",
}


def comparison_to_json(result: xr.Dataset) -> dict[str, Any]:
    """A comparison as plain data, point by point."""
    names = [*map(str, result.coords), *map(str, result.data_vars)]
    rows = zip(*(result[name].values.tolist() for name in names), strict=True)
    points = [dict(zip(names, row, strict=True)) for row in rows]
    return {**result.attrs, "labels": list(map(str, result.coords)), "points": points}


def _evaluate(dataset: xr.Dataset, value: str, where: Mapping[str, Any]) -> Side:
    entry, selected = select_for_value(dataset, value, where)
    if entry.is_label:
        raise InvalidInput("value", value, "must be a number for each run: labels cannot be compared")
    array = entry.compute(selected)
    dims = tuple(str(dim) for dim in array.dims if dim not in DRAW_DIMS)
    sizes = tuple(array.sizes[dim] for dim in dims)
    draws = {
        dim: np.atleast_1d(selected[dim].values)
        if dim in array.dims and dim in selected.coords
        else np.zeros(1)
        for dim in DRAW_DIMS
    }
    array = array.expand_dims([dim for dim in DRAW_DIMS if dim not in array.dims])
    numbers = array.transpose(*dims, *DRAW_DIMS).values.reshape(math.prod(sizes), *map(len, draws.values()))
    values = xr.DataArray(numbers, draws, (POINT, *DRAW_DIMS))
    axes = [name for name in point_axes(selected) if name not in EXPONENTS] if dims else []
    names = [*axes, *(["regime"] if "regime" in dims else [])]
    labels = {name: spread(selected[name].reset_coords(drop=True), dims, sizes) for name in names}
    fixed = {name: known for name, known in fixed_parameters(selected).items() if name not in labels}
    if "regime" in selected.coords and "regime" not in dims and value.startswith("ode"):
        fixed["regime"] = str(selected["regime"].values)
    origins = Origins(selected, dims, sizes)
    return Side(values, labels, fixed, origins, entry.long_name)


def _matched_names(sides: Sequence[Side]) -> list[str]:
    """Labels that vary in one of the sweeps, which both must have."""
    names = [
        name for side in sides for name, column in side.labels.items() if len(np.unique(column)) > 1
    ]  # fmt: skip
    for name in names:
        for side in sides:
            if name not in side.labels and name not in side.fixed:
                raise InvalidInput(
                    name, None, "varies in one sweep and is unknown in the other: select one value"
                )
    return sorted(dict.fromkeys(names), key=axis_sort_key)


def _column(side: Side, name: str) -> AnyArray:
    size = side.values.sizes[POINT]
    return side.labels[name] if name in side.labels else np.full(size, side.fixed[name])


def _find_common(sides: Sequence[Side], names: Sequence[str]) -> tuple[list[int], list[int]]:
    """The positions of the common points in both sweeps, in the order of the first."""
    tables = []
    for side in sides:
        columns = [[_rounded(value) for value in _column(side, name).tolist()] for name in names]
        rows = zip(*columns, strict=True) if names else iter([()] * side.values.sizes[POINT])
        tables.append({row: at for at, row in enumerate(rows)})
    common = [row for row in tables[0] if row in tables[1]]
    if not common:
        texts = [f"{name} = {format_values(_column(side, name))}" for name in names for side in sides]
        raise InvalidInput("b", None, f"has no point in common with a: {' and '.join(texts)}")
    return [tables[0][row] for row in common], [tables[1][row] for row in common]


def _rounded(value: Any) -> Any:
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if isinstance(value, float) else value


class Estimate(NamedTuple):
    """Means of both sweeps at each point, the result, its standard error, and the numbers of runs."""

    a: AnyArray
    b: AnyArray
    result: AnyArray
    standard_error: AnyArray
    runs_a: AnyArray
    runs_b: AnyArray


def _estimate(a: xr.DataArray, b: xr.DataArray, how: str, paired: bool) -> Estimate:
    """Compare means; the deviations of paired draws are subtracted, so that what they share cancels."""
    (mean_a, deviation_a, runs_a), (mean_b, deviation_b, runs_b) = map(average_with_deviations, (a, b))
    with np.errstate(all="ignore"):
        factor, scale = (mean_a / mean_b, abs(mean_b)) if how == "ratio" else (xr.ones_like(mean_a), 1.0)
        result = factor if how == "ratio" else mean_a - mean_b
        if paired:
            error = error_from_deviations(deviation_a - factor * deviation_b) / scale
        else:
            other = factor * error_from_deviations(deviation_b)
            error = (error_from_deviations(deviation_a) ** 2 + other**2) ** 0.5 / scale
    return Estimate(*(np.asarray(array) for array in (mean_a, mean_b, result, error, runs_a, runs_b)))


def _compare_points(sides: Sequence[Side], at: tuple[list[int], list[int]], how: str) -> dict[str, AnyArray]:
    """The variables of the result, by name; the result itself has the name `result`."""
    a, b = (side.values.isel(point=positions) for side, positions in zip(sides, at, strict=True))
    origins = [
        [side.origins.at(position) for position in positions]
        for side, positions in zip(sides, at, strict=True)
    ]
    estimate, is_paired = _estimate(a, b, how, paired=False), np.zeros(len(at[0]), bool)
    draws = _draws_to_pair(a, b)
    if draws is not None:
        field = "start" if draws == "seed" else "stream"
        is_shared = [
            getattr(one, field) == getattr(other, field) for one, other in zip(*origins, strict=True)
        ]
        a, b = xr.align(a, b, join="inner", exclude=("repeat",) if draws == "seed" else ())
        within = "repeat" if draws == "seed" else "seed"
        known = a.notnull().any(within) & b.notnull().any(within)
        is_paired = np.array(is_shared, bool) & (known.sum(draws).values >= MIN_PAIRS)
        if is_paired.any():
            pairs = _estimate(a.where(known), b.where(known), how, paired=True)
            estimate = Estimate(
                *(np.where(is_paired, new, old) for new, old in zip(pairs, estimate, strict=True))
            )
    return {**estimate._asdict(), "paired": is_paired}


def _draws_to_pair(a: xr.DataArray, b: xr.DataArray) -> str | None:
    """The dimension of the draws that both sweeps may share: seeds, or the repeats of one seed."""
    have_one_seed = [array.sizes["seed"] == 1 for array in (a, b)]
    if not any(have_one_seed):
        shared = np.intersect1d(a["seed"].values, b["seed"].values)
        return "seed" if len(shared) >= MIN_PAIRS else None
    same_seed = all(have_one_seed) and a["seed"].values[0] == b["seed"].values[0]
    return "repeat" if same_seed else None


def _shared(sides: Sequence[Side], names: Sequence[str]) -> dict[str, Any]:
    """Parameters with one value that both sweeps share."""
    known = [_single_values(side, names) for side in sides]
    return {name: value for name, value in known[0].items() if known[1].get(name) == value}


def _differing(sides: Sequence[Side], names: Sequence[str]) -> dict[str, list[Any]]:
    """Parameters with one value in each sweep, but another one; and structures that differ."""
    known = [_single_values(side, names) for side in sides]
    differing = {
        name: [plain_value(entry.get(name)) for entry in known]
        for name in {**known[0], **known[1]}
        if known[0].get(name) != known[1].get(name)
    }
    return dict(sorted(differing.items(), key=lambda item: axis_sort_key(item[0])))


def _single_values(side: Side, names: Sequence[str]) -> dict[str, Any]:
    single = {name: plain_value(column[0]) for name, column in side.labels.items() if name not in names}
    return {**side.fixed, **single}
