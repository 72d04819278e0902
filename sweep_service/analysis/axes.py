"""The axes of a stored sweep: coordinates along its points, with their values."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.curves import DERIVED_COORDINATES
from sweep_service.analysis.runs import DRAW_DIMS
from sweep_service.analysis.selection import run_dims
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.axes import POINT, axis_sort_key
from sweep_service.planning.runs import KINDS


def point_axes(dataset: xr.Dataset) -> dict[str, AnyArray]:
    """Coordinates along the points with their values, including axes with a single value.

    The values of a product axis keep their stored order, which is the order of the points. For other
    designs they are sorted and unique.
    """
    kind = next(kind for kind in KINDS if f"{kind}_status" in dataset)
    dims = [dim for dim in run_dims(dataset[f"{kind}_status"]) if dim not in (*DRAW_DIMS, "regime")]
    if POINT not in dims:
        return {dim: dataset[dim].values for dim in dims if dim in dataset.coords}
    names = [
        str(name)
        for name in dataset.coords
        if dataset[name].dims == (POINT,) and name not in DERIVED_COORDINATES
    ]
    return {name: np.unique(dataset[name].values) for name in sorted(names, key=axis_sort_key)}
