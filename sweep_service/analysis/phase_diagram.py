"""Phase diagrams: one value on two axes of a sweep, the rest selected or reduced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.curves import DERIVED, plain_value
from sweep_service.analysis.point_values import Value, values_of
from sweep_service.analysis.runs import DRAWN, error_of, pulled
from sweep_service.analysis.selection import listed, select
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.planning.grids import POINT
from sweep_service.planning.runs import KINDS

REDUCTIONS = ("mean", "median", "min", "max")  # over an axis that is not shown
BESIDE = ("standard_error", "runs")  # coordinates of a diagram: the error of its values, and of how many runs


def phase_diagram(
    dataset: xr.Dataset, /, x: str, y: str, value: str = "sgd_risk", **where: Any
) -> xr.DataArray:
    """A stored variable, or one of VALUES, on two axes: the mean over the runs at each place.

    Of what depends on time a run contributes its mean over the last half, t_max/2 <= t <= t_max, or
    over the selected times; a run that diverged before their end contributes nothing. A product gives
    an array (y, x), any other design one along `point`, with the coordinates `standard_error` (over
    seeds, or over the repeats of one) and `runs`. Axes that are neither x nor y must have one value, or in
    a product one of REDUCTIONS in its place: `d="max"` is the largest over all d.
    """
    over = {name: how for name, how in where.items() if isinstance(how, str) and how in REDUCTIONS}
    wanted, chosen = chosen_for(dataset, value, {name: where[name] for name in where if name not in over})
    dims = wanted.dims(chosen)
    for name, how in over.items():
        if name not in dims or name in (x, y, *DRAWN) or wanted.words:
            raise InvalidInput(
                name, how, "only numbers are reduced, over an axis of a product that is not shown"
            )
    at = _fixed(chosen, tuple(dim for dim in dims if dim not in over), x, y)
    at |= {name: [plain_value(one) for one in chosen[name].values] for name in over}
    found = reduced(wanted, chosen, over)
    found = found.rename(value).assign_attrs(value=value, x=x, y=y, at=at)
    if POINT in dims:
        found = found.isel({dim: 0 for dim in found.dims if dim != POINT}, drop=True)
        return found.assign_coords({name: chosen[name] for name in (x, y)})
    return found.isel({dim: 0 for dim in found.dims if dim not in (x, y)}, drop=True).transpose(y, x)


def chosen_for(dataset: xr.Dataset, value: str, where: Mapping[str, Any]) -> tuple[Value, xr.Dataset]:
    """What a value is, and the part of the sweep it is made of.

    Without its prefix it is SGD's, or where a regime is chosen the theory's.
    """
    known = values_of(dataset)
    kinds = reversed(KINDS) if "regime" in where else KINDS
    names = [name for name in (value, *(f"{kind}_{value}" for kind in kinds)) if name in known]
    if not names:
        raise unknown_name("value", value, known)
    wanted = known[names[0]]
    if wanted.late and "time" in dataset.dims and "time" not in where:
        where = {**where, "time": f"{float(dataset['time'][-1]) / 2!r}:"}
    return wanted, select(dataset, where)


def reduced(wanted: Value, chosen: xr.Dataset, over: Mapping[str, str] | None = None) -> xr.DataArray:
    """A value at every point: the mean over its runs, beside which their number and the error stand.

    Then over axes, of what is there. Only a mean has an error, where each place has one: of its draws, which
    are the same all along an axis, so that what a start adds everywhere does not average out.
    """
    found = wanted.computed(chosen)
    taken: dict[str, Any] = {dim: chosen.sizes[dim] for dim in wanted.dims(chosen) if dim in DRAWN}
    if any("time" in chosen[name].dims for name in wanted.needs):
        times = chosen["time"].values
        taken["time"] = {"from": float(times[0]), "to": float(times[-1]), "samples": len(times)}
    long_name = wanted.long_name
    if not wanted.words:
        found, pull, count = pulled(found)
        for dim, how in (over or {}).items():
            found, count = getattr(found, how)(dim, skipna=True), count.sum(dim)
            pull = pull.mean(dim, skipna=False) * (1.0 if how == "mean" else np.nan)
            long_name = f"{how} over {dim} of {long_name}"
        found = found.assign_coords(standard_error=error_of(pull), runs=count)
    found.attrs = {"long_name": long_name, "units": wanted.units, "reduced": taken}
    return found


def as_plain(diagram: xr.DataArray) -> dict[str, Any]:
    """A phase diagram for JSON: `form: grid` with rows over y and columns over x, or `form: points`."""
    about = diagram.attrs
    axes = {name: _about(diagram[about[name]]) for name in ("x", "y")}
    value = {**_about(diagram), "name": about["value"]}
    found = {**axes, "value": value, "at": about["at"], "reduced": about["reduced"]}
    beside = {name: diagram[name] for name in BESIDE if name in diagram.coords}
    if POINT in diagram.dims:
        columns = {"x": diagram[about["x"]], "y": diagram[about["y"]], "value": diagram, **beside}
        return {"form": "points", **found, "points": rows(columns)}
    for axis in axes.values():
        axis["values"] = diagram[axis["name"]].values.tolist()
    value |= {name: column.values.tolist() for name, column in {"values": diagram, **beside}.items()}
    return {"form": "grid", **found}


def rows(columns: Mapping[str, xr.DataArray]) -> list[dict[str, Any]]:
    """Columns along the points, point by point."""
    table = zip(*(column.values.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in table]


def _fixed(dataset: xr.Dataset, dims: tuple[str, ...], x: str, y: str) -> dict[str, Any]:
    """What is the same everywhere; anything that is neither on an axis nor the same is refused."""
    on_points = [str(name) for name in dataset.coords if dataset[name].dims == (POINT,)]
    axes = on_points if POINT in dims else [dim for dim in dims if dim not in DRAWN]
    for field, name in (("x", x), ("y", y)):
        if name not in axes:
            raise unknown_name(field, name, axes)
    if x == y:
        raise InvalidInput("y", y, "must differ from x")
    at: dict[str, Any] = {}
    for name in [dim for dim in dims if dim not in (x, y, POINT, *DRAWN)]:
        if dataset.sizes[name] > 1:
            raise InvalidInput(
                name,
                None,
                f"is neither x nor y: select one of {listed(dataset[name].values)}, "
                f"or one of {', '.join(REDUCTIONS)} over all of them",
            )
        at[name] = plain_value(dataset[name].values[0])
    if POINT in dims:
        at |= _fixed_on_points(dataset, [name for name in on_points if name not in (x, y)], x, y)
    return at


def _fixed_on_points(dataset: xr.Dataset, names: list[str], x: str, y: str) -> dict[str, Any]:
    """Other coordinates may vary along the points, but not while x and y stay."""
    at: dict[str, Any] = {}
    columns = {name: dataset[name].values.tolist() for name in (x, y, *names)}
    places = set(zip(columns[x], columns[y], strict=True))
    for name in names:
        if len(set(columns[name])) == 1:
            at[name] = columns[name][0]
        elif name not in DERIVED and len(set(zip(columns[x], columns[y], columns[name], strict=True))) > len(
            places
        ):
            there = listed(dataset[name].values)
            raise InvalidInput(name, None, f"differs where {x} and {y} do not: select one of {there}")
    return at


def _about(array: xr.DataArray) -> dict[str, Any]:
    name, about = str(array.name), array.attrs
    return {"name": name, "long_name": about.get("long_name", name), "units": about.get("units", "1")}
