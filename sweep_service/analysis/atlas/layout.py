"""The layout of a dataset of the atlas: the position of each run, the common times, and the coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.atlas.columns import MISSING, Column
from sweep_service.analysis.atlas.runs import DERIVED, Runs, point_names
from sweep_service.analysis.curves import plain_value
from sweep_service.analysis.selection import RELATIVE_TOLERANCE, format_values
from sweep_service.errors import InvalidInput
from sweep_service.model.labels import variable_attributes
from sweep_service.model.parameters import PARAMETERS
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.axes import CORE_AXES, EXPONENTS, POINT
from sweep_service.planning.runs import Kind
from sweep_service.validation import read_times

INTERNAL = ("structures",)  # a digest
TEXT_TYPE = np.dtypes.StringDType()


@dataclass(frozen=True)
class Layout:
    """Where each run is: the number of its point, and positions among seeds, repeats and regimes."""

    points: AnyArray
    first: AnyArray  # a row of each point
    seeds: Column
    repeats: Column
    regimes: Column
    times: Array

    def dims(self, kind: str) -> tuple[str, ...]:
        return (POINT, "seed", "repeat") if kind == "sgd" else (POINT, "regime", "seed")

    @property
    def sizes(self) -> dict[str, int]:
        columns = {"seed": self.seeds, "repeat": self.repeats, "regime": self.regimes}
        sizes = {name: len(column.values) for name, column in columns.items()}
        return {POINT: len(self.first), **sizes, "time": len(self.times)}

    def positions(self, kind: Kind, chosen: AnyArray) -> tuple[AnyArray, ...]:
        """The indices of runs along the dimensions of their kind."""
        columns = {"seed": self.seeds, "repeat": self.repeats, "regime": self.regimes}
        codes = {name: column.codes for name, column in columns.items()} | {POINT: self.points}
        return tuple(codes[dim][chosen] for dim in self.dims(kind))


def make_layout(runs: Runs, rows: AnyArray, times: Array, by_sweep: bool) -> Layout:
    """Number the points in ascending order of their labels."""
    names = [*CORE_AXES, *(name for name in point_names() if name not in CORE_AXES)]
    names += ["sweep"] if by_sweep else []
    points = runs.points(rows, ["sweep"] if by_sweep else [])
    _, first = np.unique(points, return_index=True)
    order = np.lexsort([runs.column(name, rows[first]).codes for name in reversed(names)])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    seeds, repeats, regimes = (runs.column(name, rows).drop_unused() for name in ("seed", "repeat", "regime"))
    return Layout(rank[points], rows[first[order]], seeds, repeats, regimes, times)


def common_times(sampled: Sequence[Array], longest: Array, times: Sequence[float] | None) -> Array:
    """The given times, which all runs must reach; by default those of the finest of the sampled grids."""
    end = float(longest.min())
    if times is None:
        inside = [grid[grid <= end * (1 + RELATIVE_TOLERANCE)] for grid in sampled]
        finest = max(inside, key=len)
        return finest if finest[-1] >= end * (1 - RELATIVE_TOLERANCE) else np.append(finest, end)
    given = read_times(np.asarray(times, dtype=float))
    if given[-1] > end * (1 + RELATIVE_TOLERANCE):
        ends = format_values(longest)
        allowed = f"must be at most {end:g}, which all selected runs reach: their t_max are {ends}"
        raise InvalidInput("times", float(given[-1]), allowed)
    return np.minimum(given, end)


def make_coordinates(runs: Runs, rows: AnyArray, layout: Layout, by_sweep: bool) -> dict[str, xr.Variable]:
    """Labels of the dimensions and of the points; a label with one value is a scalar."""
    labels = {"seed": layout.seeds.values, "repeat": layout.repeats.values, "regime": layout.regimes.values}
    coordinates = {
        name: xr.Variable(name, values, variable_attributes(name))
        for name, values in labels.items()
        if len(values)
    }
    coordinates["time"] = xr.Variable("time", layout.times, variable_attributes("time"))
    shown = [name for name in (*point_names(), *EXPONENTS, *DERIVED) if name not in INTERNAL]
    for name in [*shown, *(["sweep"] if by_sweep else [])]:
        column = runs.column(name, layout.first)
        if (column.codes == MISSING).all():
            continue
        coordinates[name] = _coordinate(name, column)
    return coordinates


def _coordinate(name: str, column: Column) -> xr.Variable:
    attributes: dict[str, Any] = (
        {"long_name": "id of the sweep"} if name == "sweep" else variable_attributes(name)
    )
    along_points = name in (*CORE_AXES, *DERIVED, "sweep") or column.varies
    if along_points:
        values = column.decode()
        return xr.Variable(POINT, values.astype(object) if values.dtype.kind in "OU" else values, attributes)
    value = plain_value(column.decode()[0])
    text = isinstance(value, str)
    if not text and name in PARAMETERS and PARAMETERS[name].kind == "integer":
        value = int(value)
    return xr.Variable((), np.array(value, dtype=TEXT_TYPE if text else None), attributes)
