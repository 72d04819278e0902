"""The axes of a stored sweep: coordinates along its points, with their values."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.curves import DERIVED
from sweep_service.analysis.runs import DRAWN
from sweep_service.analysis.selection import run_dims
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.grids import POINT, axis_order
from sweep_service.planning.runs import KINDS


def point_axes(dataset: xr.Dataset) -> dict[str, AnyArray]:
    """Coordinates along the points and their values, those with one value as well.

    An axis of a product has its values as they are stored, which is the order of its points; the values of
    other designs are sorted, each once.
    """
    kind = next(kind for kind in KINDS if f"{kind}_status" in dataset)
    dims = [dim for dim in run_dims(dataset[f"{kind}_status"]) if dim not in (*DRAWN, "regime")]
    if POINT not in dims:
        return {dim: dataset[dim].values for dim in dims if dim in dataset.coords}
    along = [str(name) for name in dataset.coords if dataset[name].dims == (POINT,) and name not in DERIVED]
    return {name: np.unique(dataset[name].values) for name in sorted(along, key=axis_order)}
