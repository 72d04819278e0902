"""The regime that `auto` would choose at each point of a sweep, whether or not it was computed."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import parameter, read_spec
from sweep_service.dynamics.auto import choose_regime, compare_with_thresholds
from sweep_service.model.parameters import parameter_names
from sweep_service.model.point import Point
from sweep_service.planning.axes import INIT_PREFIX


def find_auto_regimes(dataset: xr.Dataset) -> xr.DataArray:
    """Name of the regime that `auto` would choose at each point, for the first seed.

    Points on the same side of every threshold share one evaluation of the rule, and one start if the rule
    depends on the start there.
    """
    init = read_spec(dataset).get("init", {"kind": "gaussian"})
    init_names = [str(name) for name in dataset.coords if str(name).startswith(INIT_PREFIX)]
    seed = int(dataset["seed"].values[0]) if "seed" in dataset.coords else 0
    column_names = (*parameter_names(), *init_names)
    arrays = xr.broadcast(*(parameter(dataset, name) for name in column_names))
    columns = dict(zip(column_names, (array.values.ravel() for array in arrays), strict=True))
    d, p, gamma, noise = (columns[name] for name in ("d", "p", "gamma", "noise"))
    large_step, narrow, *others = compare_with_thresholds(gamma / (p * d), p, gamma / p, noise)
    needs_start = ~(large_step | narrow)
    table = [
        large_step,
        narrow,
        *others,
        *(np.where(needs_start, columns[name], 0) for name in ("d", "p", "k", *init_names)),
    ]
    _, first_rows, inverse = np.unique(
        np.column_stack(table).astype(float), axis=0, return_index=True, return_inverse=True
    )

    def choose(row: int) -> str:
        values = {name: np.asarray(column[row]).item() for name, column in columns.items()}  # texts are str
        init_numbers = {name.removeprefix(INIT_PREFIX): values.pop(name) for name in init_names}
        point = Point.parse({**values, "init": {**init, **init_numbers}})
        return choose_regime(point, point.start(seed)).regime

    regimes = np.array([choose(row) for row in first_rows], dtype=object)
    return xr.DataArray(regimes[inverse.ravel()].reshape(arrays[0].shape), arrays[0].coords, arrays[0].dims)
