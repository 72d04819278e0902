"""Which theory `auto` would choose at the points of a sweep, whether or not it was computed."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import parameter, spec_of
from sweep_service.dynamics.auto import choose, sides
from sweep_service.model.parameters import names
from sweep_service.model.point import Point
from sweep_service.planning.grids import INIT


def auto_regimes(dataset: xr.Dataset) -> xr.DataArray:
    """Its name at each point, for the first of the starts.

    The rule is asked once for all points on the same sides of its borders, with one start where that counts.
    """
    init = spec_of(dataset).get("init", {"kind": "gaussian"})
    numbers = [str(name) for name in dataset.coords if str(name).startswith(INIT)]
    seed = int(dataset["seed"].values[0]) if "seed" in dataset.coords else 0
    known = (*names(), *numbers)
    arrays = xr.broadcast(*(parameter(dataset, name) for name in known))
    columns = dict(zip(known, (one.values.ravel() for one in arrays), strict=True))
    d, p, gamma, noise = (columns[name] for name in ("d", "p", "gamma", "noise"))
    large, narrow, *others = sides(gamma / (p * d), p, gamma / p, noise)
    counts = ~(large | narrow)  # where the start does
    table = [
        large,
        narrow,
        *others,
        *(np.where(counts, columns[name], 0) for name in ("d", "p", "k", *numbers)),
    ]
    _, first, inverse = np.unique(
        np.column_stack(table).astype(float), axis=0, return_index=True, return_inverse=True
    )

    def chosen(row: int) -> str:
        values = {name: column[row].item() for name, column in columns.items()}
        given = {name.removeprefix(INIT): values.pop(name) for name in numbers}
        point = Point.parse({**values, "init": {**init, **given}})
        return choose(point, point.start(seed)).regime

    words = np.array([chosen(row) for row in first], dtype=object)
    return xr.DataArray(words[inverse.ravel()].reshape(arrays[0].shape), arrays[0].coords, arrays[0].dims)
