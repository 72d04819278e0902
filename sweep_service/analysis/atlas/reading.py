"""Reads the values of single runs from an opened dataset, by the numbers of the runs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.quantities.interpolation import interpolate
from sweep_service.analysis.selection import compact_index
from sweep_service.numerics.types import AnyArray, Array


def run_order(all_dims: Sequence[Hashable], kind: str) -> list[str]:
    """The dimensions of a variable that number the runs of a kind, the last one varying fastest."""
    dims = [str(dim) for dim in all_dims]
    dims = dims[: dims.index("time")] if "time" in dims else dims
    if kind == "sgd" or "regime" not in dims:
        return dims
    return [dim for dim in dims if dim not in ("regime", "seed")] + ["regime", "seed"]


def read_by_number(dataset: xr.Dataset, name: str, kind: str, numbers: AnyArray) -> AnyArray:
    """The values (run, …) of runs; only the smallest block that contains them is read."""
    array = dataset[name]
    order = run_order(array.dims, kind)
    positions = np.unravel_index(numbers, tuple(array.sizes[dim] for dim in order))
    needed = [np.unique(position) for position in positions]
    block = array.isel({dim: compact_index(index) for dim, index in zip(order, needed, strict=True)})
    values = block.transpose(*order, *(dim for dim in array.dims if dim not in order)).values
    inside: Any = tuple(np.searchsorted(index, at) for index, at in zip(needed, positions, strict=True))
    return np.asarray(values[inside])


def resample(values: AnyArray, times: Array, at: Array) -> AnyArray:
    """Curves (run, time, …) at other times, by monotone cubics; recorded samples stay as they are."""
    if np.array_equal(times, at):
        return values
    position = np.minimum(np.searchsorted(times, at), len(times) - 1)
    is_recorded = times[position] == at
    result = np.moveaxis(values[:, position], 1, -1).astype(float)
    if not is_recorded.all():
        curves = np.moveaxis(values, 1, -1).astype(float)
        between = at[~is_recorded]
        with np.errstate(all="ignore"):  # values overflow just before a divergence
            result[..., ~is_recorded] = interpolate(
                times, curves, np.broadcast_to(between, (*curves.shape[:-1], len(between)))
            )
    return np.moveaxis(result, -1, 1)
