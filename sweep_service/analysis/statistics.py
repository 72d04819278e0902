"""Conversion between labelled arrays and plain ones, and means with standard errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import DRAW_DIMS, draw_dims
from sweep_service.analysis.selection import run_dims
from sweep_service.numerics.types import AnyArray, Array


def point_dims(array: xr.DataArray) -> tuple[str, ...]:
    """The dimensions of the points, and `regime`."""
    return tuple(dim for dim in run_dims(array) if dim not in DRAW_DIMS)


def group_by_draw(array: xr.DataArray) -> Array:
    """The values as a plain array (…points, draws, runs of a draw), then time if the array has it."""
    dims, (independent, shared) = point_dims(array), draw_dims(array)
    trailing = [dim for dim in ("time",) if dim in array.dims]
    sizes = [math.prod(array.sizes[dim] for dim in group) for group in (independent, shared)]
    values = array.transpose(*dims, *independent, *shared, *trailing).values
    return values.reshape(*values.shape[: len(dims)], *sizes, *(array.sizes[dim] for dim in trailing))


def finite_mean(values: Array, axis: int | tuple[int, ...] = -1) -> Array:
    """Mean of the finite values along axes."""
    finite = np.isfinite(values)
    with np.errstate(all="ignore"):  # sums overflow just before a divergence
        return np.sum(values, axis=axis, where=finite) / np.sum(finite, axis=axis)


def average(values: Array, axis: int = -1) -> tuple[Array, Array, AnyArray]:
    """Mean of the finite values, its standard error sd/√n, and n."""
    finite, mean = np.isfinite(values), finite_mean(values, axis)
    count = np.sum(finite, axis=axis)
    with np.errstate(all="ignore"):
        squares = np.sum((values - np.expand_dims(mean, axis)) ** 2, axis=axis, where=finite)
        error = np.sqrt(squares / np.where(count > 1, count * (count - 1.0), np.nan))
    return mean, error, count


def average_over_draws(values: Array, axis: int = -2) -> tuple[Array, Array, AnyArray, AnyArray]:
    """Mean over draws (`axis`) and their runs (`axis` + 1), its standard error, and both counts: runs, draws.

    The runs of a draw share a start, so the error measures the scatter of the draws, as in
    `average_over_runs`.
    """
    finite, mean = np.isfinite(values), finite_mean(values, (axis, axis + 1))
    runs, draws = np.sum(finite, axis=(axis, axis + 1)), np.sum(finite.any(axis=axis + 1), axis=axis + 1)
    with np.errstate(all="ignore"):
        deviation = np.sum(values - np.expand_dims(mean, (axis, axis + 1)), axis=axis + 1, where=finite)
        scale = draws / np.where(draws > 1, draws - 1.0, np.nan)
        error = np.sqrt(np.sum(deviation**2, axis=axis + 1) * scale) / runs
    return mean, error, runs, draws


def align_to_points(parameter: xr.DataArray, dims: Sequence[str]) -> AnyArray:
    """A parameter as an array that broadcasts over the points; for a random teacher, its mean over seeds."""
    if "seed" in parameter.dims and "seed" not in dims:
        parameter = parameter.mean("seed")
    return parameter.expand_dims([dim for dim in dims if dim not in parameter.dims]).transpose(*dims).values


def build_dataset(
    like: xr.DataArray, dims: Sequence[str], variables: Mapping[str, tuple[Any, str]]
) -> xr.Dataset:
    """A dataset of variables (values, long name) on the same dimensions, with the coordinates of `like`."""
    coords = {name: coord for name, coord in like.coords.items() if set(coord.dims) <= set(dims)}
    return xr.Dataset(
        {
            name: (tuple(dims), values, {"long_name": long_name})
            for name, (values, long_name) in variables.items()
        },
        coords,
    )
