"""Samples as plain arrays and results as labelled ones: how every definition begins and ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.stored import DRAWN
from sweep_service.arrays import AnyArray, Array
from sweep_service.selection import run_dims


def point_dims(array: xr.DataArray) -> tuple[str, ...]:
    """The dimensions that number points, and `regime`."""
    return tuple(dim for dim in run_dims(array) if dim not in DRAWN)


def by_run(array: xr.DataArray) -> Array:
    """(…points, runs, time)."""
    dims = point_dims(array)
    drawn = [dim for dim in run_dims(array) if dim in DRAWN]
    values = array.transpose(*dims, *drawn, "time").values
    return values.reshape(*values.shape[: len(dims)], -1, values.shape[-1])


def mean_over(values: Array, axis: int = -1) -> Array:
    """Mean of what is finite along an axis."""
    there = np.isfinite(values)
    with np.errstate(all="ignore"):  # sums overflow just before a divergence
        return np.sum(values, axis=axis, where=there) / np.sum(there, axis=axis)


def over(values: Array, axis: int = -1) -> tuple[Array, Array, AnyArray]:
    """That mean, its standard error sd/√n, and n."""
    there, mean = np.isfinite(values), mean_over(values, axis)
    count = np.sum(there, axis=axis)
    with np.errstate(all="ignore"):
        squares = np.sum((values - np.expand_dims(mean, axis)) ** 2, axis=axis, where=there)
        error = np.sqrt(squares / np.where(count > 1, count * (count - 1.0), np.nan))
    return mean, error, count


def at(parameter: xr.DataArray, dims: Sequence[str]) -> AnyArray:
    """A parameter as an array that broadcasts over points; of a random teacher, the mean over seeds."""
    if "seed" in parameter.dims and "seed" not in dims:
        parameter = parameter.mean("seed")
    return parameter.expand_dims([dim for dim in dims if dim not in parameter.dims]).transpose(*dims).values


def described(
    like: xr.DataArray, dims: Sequence[str], variables: Mapping[str, tuple[Any, str]]
) -> xr.Dataset:
    """Values with their long names on some dimensions, with the coordinates that `like` has there."""
    coords = {name: one for name, one in like.coords.items() if set(one.dims) <= set(dims)}
    return xr.Dataset(
        {
            name: (tuple(dims), values, {"long_name": about, "units": "1"})
            for name, (values, about) in variables.items()
        },
        coords,
    )
