"""What labels the results in a dataset: coordinates, and the regimes as numbers."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.dynamics.regimes import REGIMES
from sweep_service.model.fixed import fixed_values
from sweep_service.model.labels import variable_attributes
from sweep_service.model.parameters import Scalar
from sweep_service.model.schedule import Schedule
from sweep_service.model.structures import insert_numbers
from sweep_service.planning.axes import AUTO, POINT
from sweep_service.planning.grids import Grid
from sweep_service.planning.schema import Schema

REGIME_CODE = "regime_code"
AUTO_CODE = -1  # the codes of regimes are their positions in REGIMES, as in ode_regime


def fixed_coordinate(name: str, value: Scalar) -> xr.Variable:
    """Make a scalar coordinate; text has the type in which it is read, as Zarr 3 has none of fixed width."""
    text_type = np.dtypes.StringDType() if isinstance(value, str) else None
    return xr.Variable((), np.array(value, dtype=text_type), variable_attributes(name))


def _make_schedule_factor(grid: Grid) -> xr.Variable:
    """u(t) over the axes that are numbers of the schedule, and time."""
    axes = {name: values for name, values in grid.axes.items() if name.startswith("schedule.")}
    dims: tuple[str, ...] = (tuple(axes) if grid.is_product else (POINT,)) if axes else ()
    columns = zip(*axes.values(), strict=True)
    rows = product(*axes.values()) if grid.is_product else columns if axes else [()]
    factors = [
        Schedule.parse(insert_numbers(grid.structures, dict(zip(axes, row, strict=True)))["schedule"]).factor(
            grid.times
        )
        for row in rows
    ]
    shape = [len(values) for values in axes.values()] if grid.is_product else [len(factors)] if axes else []
    values = np.array(factors).reshape(*shape, len(grid.times))
    return xr.Variable((*dims, "time"), values, variable_attributes("schedule_factor"))


def make_coordinates(schema: Schema) -> xr.Dataset:
    """Make the coordinates of a dataset.

    These are the labels of the dimensions, delta_t and gamma/p at every point, and a scalar for each
    parameter that does not vary.
    """
    grid = schema.grid
    assert isinstance(grid, Grid)  # an outline has no points
    dims = {dim for kind in schema.variables.values() for variable in kind.values() for dim in variable.dims}
    labels: dict[str, Any] = {"seed": list(grid.seeds), "repeat": list(grid.repeats), "time": grid.times}
    labels["regime"] = np.array(grid.regimes, dtype=object)
    for dim in ("student", "student_other", "teacher"):
        labels[dim] = np.arange(schema.sizes[dim])
    labels["cosine_bin"] = (2.0 * np.arange(schema.sizes["cosine_bin"]) + 1.0) / schema.sizes[
        "cosine_bin"
    ] - 1.0
    coordinates = {
        name: xr.Variable(name, values, variable_attributes(name))
        for name, values in labels.items()
        if name in dims
    }
    for name, values in grid.axes.items():
        is_text = isinstance(values[0], str)
        column = np.array(values, dtype=object) if is_text else np.array(values)
        dim = name if grid.is_product else POINT
        coordinates[name] = xr.Variable(dim, column, variable_attributes(name))
    for name, column in (("delta_t", schema.delta_t), ("gamma_over_p", schema.gamma_over_p)):
        coordinates[name] = xr.Variable(grid.dims, column, variable_attributes(name))
    for name, value in fixed_values(grid.axes, grid.fixed, grid.structures).items():
        coordinates[name] = fixed_coordinate(name, value)
    if "schedule" in grid.structures:
        coordinates["schedule_factor"] = _make_schedule_factor(grid)
    return xr.Dataset(coords=coordinates)


def make_labels(schema: Schema) -> xr.Dataset:
    """Make everything that labels the results: the coordinates, and the regimes as numbers.

    Zarr has no text type that every reader knows, and TensorStore reads none. Such a reader finds the regimes
    by their `regime_code`. It is no coordinate, because results of different regimes could not be merged.
    """
    coordinates = make_coordinates(schema)
    if "regime" not in coordinates.dims:
        return coordinates
    meanings = {AUTO: AUTO_CODE, **{name: code for code, name in enumerate(REGIMES)}}
    attributes = {
        "long_name": "limiting theory, as a number",
        "flag_values": list(meanings.values()),
        "flag_meanings": " ".join(meanings),
    }
    codes = np.array([meanings[name] for name in coordinates["regime"].values], dtype=np.int8)
    return coordinates.assign({REGIME_CODE: xr.Variable("regime", codes, attributes)})
