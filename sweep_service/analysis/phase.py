"""Phase diagrams: one value on two axes of a sweep, the rest selected or reduced."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.curves import DERIVED, plain_value
from sweep_service.analysis.stored import DRAWN, has_ended
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.grids import POINT
from sweep_service.runs import KINDS
from sweep_service.selection import blocks, listed, run_dims, select
from sweep_service.status import Status
from sweep_service.store.layout import TITLES

ROOM = 1 << 23  # numbers read at once: 64 MB


@dataclass(frozen=True)
class Value:
    """One number of each run, NaN where it has none; `needs` is the variable whose runs they are."""

    needs: str
    long_name: str
    units: str
    of: Callable[[xr.Dataset], xr.DataArray]


def phase_diagram(
    dataset: xr.Dataset, /, x: str, y: str, value: str = "sgd_risk", **where: Any
) -> dict[str, Any]:
    """A stored variable, or one of VALUES, on two axes: the mean over the runs at each place.

    Of what depends on time a run contributes its mean over the last half, t_max/2 <= t <= t_max, or
    over the selected times; a run that diverged before their end contributes nothing. A product gives
    `form: grid` with rows over y and columns over x; any other design `form: points`. Axes that are
    neither x nor y must have one value.
    """
    known = _known(dataset)
    if value not in known:
        raise unknown_name("value", value, known)
    if "time" in dataset.dims and "time" not in where:
        where = {**where, "time": f"{float(dataset['time'][-1]) / 2!r}:"}
    chosen, wanted = select(dataset, where), known[value]
    array = chosen[wanted.needs]
    at = _fixed(chosen, run_dims(array), x, y)
    drawn = [dim for dim in run_dims(array) if dim in DRAWN]
    numbers = _of_each_run(chosen, wanted)
    with np.errstate(all="ignore"):  # sums overflow just before a divergence
        count = numbers.count(drawn)
        mean = numbers.sum(drawn, skipna=True) / count.where(count > 0)
    reduced: dict[str, Any] = {dim: array.sizes[dim] for dim in drawn}
    if "time" in array.dims:
        times = array["time"].values
        reduced["time"] = {"from": float(times[0]), "to": float(times[-1]), "samples": len(times)}
    found = {
        "x": _about(chosen, x),
        "y": _about(chosen, y),
        "value": {"name": value, "long_name": wanted.long_name, "units": wanted.units},
        "at": at,
        "reduced": reduced,
    }
    return _points(chosen, found, mean, count) if POINT in array.dims else _grid(chosen, found, mean, count)


def _known(dataset: xr.Dataset) -> dict[str, Value]:
    """What has, or can be made, one number for each run."""
    found: dict[str, Value] = {}
    for name, array in dataset.data_vars.items():
        kind, trailing = str(name).partition("_")[0], array.dims[len(run_dims(array)) :]
        if kind in KINDS and trailing in ((), ("time",)) and "flag_meanings" not in array.attrs:
            long_name, units = array.attrs.get("long_name", str(name)), array.attrs.get("units", "1")
            found[str(name)] = Value(str(name), long_name, units, partial(_stored, kind, str(name)))
    return found | {name: value for name, value in VALUES.items() if value.needs in dataset}


def _stored(kind: str, name: str, dataset: xr.Dataset) -> xr.DataArray:
    """The mean over time, if the run has a value at each of them."""
    array = dataset[name].where(has_ended(dataset, dataset[name], kind))
    return array.mean("time", skipna=False) if "time" in array.dims else array


def _diverged(kind: str, dataset: xr.Dataset) -> xr.DataArray:
    status = dataset[f"{kind}_status"]
    return (status == Status.DIVERGED).astype(float).where(has_ended(dataset, status, kind))


VALUES = {
    f"{kind}_diverged": Value(
        f"{kind}_status",
        f"share of ended runs that diverged ({TITLES[kind]})",
        "1",
        partial(_diverged, kind),
    )
    for kind in KINDS
}


def _of_each_run(dataset: xr.Dataset, value: Value) -> xr.DataArray:
    """Computed block by block, as all samples of all runs may be more than memory holds."""
    array = dataset[value.needs]
    sizes = {dim: array.sizes[dim] for dim in run_dims(array)}
    numbers = np.empty(tuple(sizes.values()))
    for where in blocks(sizes, ROOM * math.prod(sizes.values()) // array.size):
        with np.errstate(all="ignore"):
            numbers[tuple(where.values())] = value.of(dataset.isel(where)).transpose(*sizes).values
    return xr.DataArray(numbers, dims=tuple(sizes))


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
                name, None, f"is neither x nor y: select one of {listed(dataset[name].values)}"
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


def _about(dataset: xr.Dataset, name: str) -> dict[str, Any]:
    about = dataset[name].attrs
    return {"name": name, "long_name": about.get("long_name", name), "units": about.get("units", "1")}


def _grid(
    dataset: xr.Dataset, found: dict[str, Any], mean: xr.DataArray, count: xr.DataArray
) -> dict[str, Any]:
    x, y = found["x"]["name"], found["y"]["name"]
    for axis in (found["x"], found["y"]):
        axis["values"] = dataset[axis["name"]].values.tolist()
    flat = {dim: 0 for dim in mean.dims if dim not in (x, y)}
    found["value"]["values"] = mean.isel(flat).transpose(y, x).values.tolist()
    found["value"]["runs"] = count.isel(flat).transpose(y, x).values.tolist()
    return {"form": "grid", **found}


def _points(
    dataset: xr.Dataset, found: dict[str, Any], mean: xr.DataArray, count: xr.DataArray
) -> dict[str, Any]:
    flat = {dim: 0 for dim in mean.dims if dim != POINT}
    columns = {
        "x": dataset[found["x"]["name"]].values.tolist(),
        "y": dataset[found["y"]["name"]].values.tolist(),
        "value": mean.isel(flat).values.tolist(),
        "runs": count.isel(flat).values.tolist(),
    }
    points = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {"form": "points", **found, "points": points}
