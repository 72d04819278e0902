"""The regime that `auto` would choose at each point of a sweep, whether or not it was computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import number_coordinates, parameter, read_structures
from sweep_service.dynamics.auto import choose_regime
from sweep_service.model.initial import Start
from sweep_service.model.parameters import parameter_names
from sweep_service.model.point import Point
from sweep_service.model.structures import insert_numbers


def find_auto_regimes(dataset: xr.Dataset) -> xr.DataArray:
    """Name of the regime that `auto` would choose at each point, for the first seed.

    Equal points share one evaluation of the rule, and points with the same d, p, k and init one start.
    """
    structures, number_names = read_structures(dataset), number_coordinates(dataset)
    seed = int(dataset["seed"].values.flat[0]) if "seed" in dataset.coords else 0
    column_names = (*parameter_names(), *number_names)
    arrays = xr.broadcast(*(parameter(dataset, name) for name in column_names))
    rows = list(zip(*(array.values.ravel().tolist() for array in arrays), strict=True))
    starts: dict[tuple[Any, ...], Start] = {}

    def choose(row: tuple[Any, ...]) -> str:
        values = dict(zip(column_names, row, strict=True))
        numbers = {name: values.pop(name) for name in number_names}
        point = Point.parse({**values, **insert_numbers(structures, numbers)})
        key = (point.d, point.p, point.k, *numbers.values())
        if key not in starts:
            starts[key] = point.start(seed)
        return choose_regime(point, starts[key]).regime

    choices = {row: choose(row) for row in dict.fromkeys(rows)}
    regimes = np.array([choices[row] for row in rows], dtype=object)
    return xr.DataArray(regimes.reshape(arrays[0].shape), arrays[0].coords, arrays[0].dims)
