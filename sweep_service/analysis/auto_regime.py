"""The regime that `auto` would choose at each point of a sweep, whether or not it was computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import init_number_names, parameter, read_init
from sweep_service.dynamics.auto import choose_regime
from sweep_service.model.initial import Start
from sweep_service.model.parameters import parameter_names
from sweep_service.model.point import Point
from sweep_service.planning.axes import INIT_PREFIX


def find_auto_regimes(dataset: xr.Dataset) -> xr.DataArray:
    """Name of the regime that `auto` would choose at each point, for the first seed.

    Equal points share one evaluation of the rule, and points with the same d, p, k and init one start.
    """
    init = read_init(dataset) or {"kind": "gaussian"}
    init_names = init_number_names(dataset)
    seed = int(dataset["seed"].values.flat[0]) if "seed" in dataset.coords else 0
    column_names = (*parameter_names(), *init_names)
    arrays = xr.broadcast(*(parameter(dataset, name) for name in column_names))
    rows = list(zip(*(array.values.ravel().tolist() for array in arrays), strict=True))
    starts: dict[tuple[Any, ...], Start] = {}

    def choose(row: tuple[Any, ...]) -> str:
        values = dict(zip(column_names, row, strict=True))
        init_numbers = {name.removeprefix(INIT_PREFIX): values.pop(name) for name in init_names}
        point = Point.parse({**values, "init": {**init, **init_numbers}})
        key = (point.d, point.p, point.k, *init_numbers.values())
        if key not in starts:
            starts[key] = point.start(seed)
        return choose_regime(point, starts[key]).regime

    choices = {row: choose(row) for row in dict.fromkeys(rows)}
    regimes = np.array([choices[row] for row in rows], dtype=object)
    return xr.DataArray(regimes.reshape(arrays[0].shape), arrays[0].coords, arrays[0].dims)
