"""Phase diagrams: one value on two axes of a sweep, with the other axes selected or reduced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.curves import DERIVED_COORDINATES, plain_value
from sweep_service.analysis.error_bars.prediction import add_prediction
from sweep_service.analysis.point_values import Value, available_values
from sweep_service.analysis.runs import (
    DRAW_DIMS,
    average_with_deviations,
    error_from_deviations,
    fixed_parameters,
    select_last_half,
    sort_dataset,
)
from sweep_service.analysis.selection import format_values, require_axis, select
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.numerics.time_average import late_samples
from sweep_service.planning.axes import POINT
from sweep_service.planning.runs import KINDS

REDUCTIONS = ("mean", "median", "min", "max")  # over an axis that is not shown
STATISTICS = ("standard_error", "runs")  # coordinates of a diagram: error and number of runs of each value


def phase_diagram(
    dataset: xr.Dataset, /, x: str, y: str, value: str = "sgd_risk", **where: Any
) -> xr.DataArray:
    """Evaluate a value on two axes of the sweep: the mean over the runs of each point.

    If the value depends on time, each run contributes its time average over [t_max/2, t_max], or from the
    first to the last of the selected times. A run that diverged before their end contributes nothing.

    Parameters
    ----------
    x, y
        Names of the two axes.
    value
        A stored variable such as `sgd_risk`, or a derived value such as `discrepancy`. Without the prefix
        `sgd_` or `ode_` it refers to SGD, or to the theory if a regime is selected.
    **where
        Selections along coordinates: a number, a text, a sequence of them, or a string such as `0.1,0.2` or
        `0.01:1`. Each other axis must have one value; in a product it may be reduced instead, by `mean`,
        `median`, `min` or `max`: `d="max"` is the largest over all d.

    Returns
    -------
    xr.DataArray
        (y, x) for a product, else (point,), with the coordinates `standard_error` (over seeds, or over the
        repeats of a single seed) and `runs`.

    Raises
    ------
    InvalidInput
        If a name is unknown or another axis has several values.
    """
    reductions = {name: how for name, how in where.items() if isinstance(how, str) and how in REDUCTIONS}
    where = {name: wanted for name, wanted in where.items() if name not in reductions}
    entry, selected = select_for_value(dataset, value, where)
    dims = entry.dims(selected)
    for name, how in reductions.items():
        if name not in dims or name in (x, y, *DRAW_DIMS) or entry.is_label:
            raise InvalidInput(
                name, how, "must be an axis of a product that is not shown, and the value a number"
            )
    at = _find_constants(selected, tuple(dim for dim in dims if dim not in reductions), x, y)
    at |= {name: [plain_value(number) for number in selected[name].values] for name in reductions}
    diagram = reduce_runs(entry, selected, reductions)
    diagram = diagram.rename(value).assign_attrs(value=value, x=x, y=y, at=at)
    diagram.attrs["fixed"] = fixed_parameters(selected)
    if POINT in dims:
        diagram = diagram.isel({dim: 0 for dim in diagram.dims if dim != POINT}, drop=True)
        return diagram.assign_coords({name: selected[name] for name in (x, y)})
    return diagram.isel({dim: 0 for dim in diagram.dims if dim not in (x, y)}, drop=True).transpose(y, x)


def select_for_value(dataset: xr.Dataset, value: str, where: Mapping[str, Any]) -> tuple[Value, xr.Dataset]:
    """The entry of a value, and the selected part of the dataset from which it is computed.

    A value without a prefix refers to SGD, or to the theory if a regime is selected.
    """
    values = available_values(dataset)
    kinds = reversed(KINDS) if "regime" in where else KINDS
    names = [name for name in (value, *(f"{kind}_{value}" for kind in kinds)) if name in values]
    if not names:
        raise unknown_name("value", value, values)
    entry = values[names[0]]
    dataset = add_prediction(sort_dataset(dataset))  # before another regime is selected
    if entry.late_function is not None and "time" in dataset.dims and "time" not in where:
        return replace(entry, function=entry.late_function), select(select_last_half(dataset), where)
    return entry, select(dataset, where)


def reduce_runs(
    entry: Value, dataset: xr.Dataset, reductions: Mapping[str, str] | None = None
) -> xr.DataArray:
    """A value at every point: the mean over its runs, with their number and the standard error.

    Then the value is reduced over axes, ignoring NaN. Only a mean over an axis has an error, and only if each
    position along the axis has one. The error is that of the per-draw means along the axis: a seed may have
    the same start along the whole axis, and its contribution does not average out.
    """
    result = entry.compute(dataset)
    reduced: dict[str, Any] = {dim: dataset.sizes[dim] for dim in entry.dims(dataset) if dim in DRAW_DIMS}
    if any("time" in dataset[name].dims for name in entry.needs):
        times = dataset["time"].values
        if entry.function is entry.late_function:
            times = times[late_samples(times, 0.5)]
        reduced["time"] = {"from": float(times[0]), "to": float(times[-1]), "samples": len(times)}
    long_name = entry.long_name
    if not entry.is_label:
        result, deviations, count = average_with_deviations(result)
        for dim, how in (reductions or {}).items():
            result, count = getattr(result, how)(dim, skipna=True), count.sum(dim)
            deviations = deviations.mean(dim, skipna=False) * (1.0 if how == "mean" else np.nan)
            long_name = f"{how} over {dim} of {long_name}"
        result = result.assign_coords(standard_error=error_from_deviations(deviations), runs=count)
    units = {} if entry.units == "1" else {"units": entry.units}  # plots would label it "[1]"
    result.attrs = {"long_name": long_name, **units, "reduced": reduced}
    return result


def diagram_to_json(diagram: xr.DataArray) -> dict[str, Any]:
    """A phase diagram as plain data: `form: grid` with rows over y and columns over x, or `form: points`."""
    attributes = diagram.attrs
    axes = {name: _describe(diagram[attributes[name]]) for name in ("x", "y")}
    value = {**_describe(diagram), "name": attributes["value"]}
    context = {name: attributes[name] for name in ("at", "fixed", "reduced")}
    content = {**axes, "value": value, **context}
    statistics = {name: diagram[name] for name in STATISTICS if name in diagram.coords}
    if POINT in diagram.dims:
        columns = {
            "x": diagram[attributes["x"]],
            "y": diagram[attributes["y"]],
            "value": diagram,
            **statistics,
        }
        return {"form": "points", **content, "points": columns_to_rows(columns)}
    for axis in axes.values():
        axis["values"] = diagram[axis["name"]].values.tolist()
    value |= {name: column.values.tolist() for name, column in {"values": diagram, **statistics}.items()}
    return {"form": "grid", **content}


def columns_to_rows(columns: Mapping[str, xr.DataArray]) -> list[dict[str, Any]]:
    """One dictionary for each point, from columns along the points."""
    table = zip(*(column.values.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in table]


def _find_constants(dataset: xr.Dataset, dims: tuple[str, ...], x: str, y: str) -> dict[str, Any]:
    """Coordinates that have one value. Raises if another one is neither x nor y."""
    on_points = [str(name) for name in dataset.coords if dataset[name].dims == (POINT,)]
    axes = on_points if POINT in dims else [dim for dim in dims if dim not in DRAW_DIMS]
    for field, name in (("x", x), ("y", y)):
        require_axis(field, name, axes)
    if x == y:
        raise InvalidInput("y", y, "must differ from x")
    constants: dict[str, Any] = {}
    for name in [dim for dim in dims if dim not in (x, y, POINT, *DRAW_DIMS)]:
        if dataset.sizes[name] > 1:
            raise InvalidInput(
                name,
                None,
                f"is neither x nor y: select one of {format_values(dataset[name].values)}, "
                f"or reduce over all of them by {', '.join(REDUCTIONS)}",
            )
        constants[name] = plain_value(dataset[name].values[0])
    if POINT in dims:
        constants |= _find_point_constants(dataset, [name for name in on_points if name not in (x, y)], x, y)
    return constants


def _find_point_constants(dataset: xr.Dataset, names: list[str], x: str, y: str) -> dict[str, Any]:
    """Coordinates along the points that have one value. Others may vary only together with x and y."""
    constants: dict[str, Any] = {}
    columns = {name: dataset[name].values.tolist() for name in (x, y, *names)}
    pairs = set(zip(columns[x], columns[y], strict=True))
    for name in names:
        if len(set(columns[name])) == 1:
            constants[name] = columns[name][0]
        elif name not in DERIVED_COORDINATES:
            triples = set(zip(columns[x], columns[y], columns[name], strict=True))
            if len(triples) > len(pairs):
                values = format_values(dataset[name].values)
                raise InvalidInput(
                    name, None, f"differs between points of equal {x} and {y}: select one of {values}"
                )
    return constants


def _describe(array: xr.DataArray) -> dict[str, Any]:
    name, attributes = str(array.name), array.attrs
    return {
        "name": name,
        "long_name": attributes.get("long_name", name),
        "units": attributes.get("units", "1"),
    }
