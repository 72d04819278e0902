"""Samples as plain arrays and results as labelled ones: how every definition begins and ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import DRAWN, draws
from sweep_service.analysis.selection import run_dims
from sweep_service.numerics.types import AnyArray, Array


def point_dims(array: xr.DataArray) -> tuple[str, ...]:
    """The dimensions that number points, and `regime`."""
    return tuple(dim for dim in run_dims(array) if dim not in DRAWN)


def by_run(array: xr.DataArray) -> Array:
    """(…points, draws, runs of each, time), the last where there is a time."""
    dims, (independent, shared) = point_dims(array), draws(array)
    after = [dim for dim in ("time",) if dim in array.dims]
    sizes = [math.prod(array.sizes[dim] for dim in some) for some in (independent, shared)]
    values = array.transpose(*dims, *independent, *shared, *after).values
    return values.reshape(*values.shape[: len(dims)], *sizes, *(array.sizes[dim] for dim in after))


def mean_over(values: Array, axis: int | tuple[int, ...] = -1) -> Array:
    """Mean of what is finite along axes."""
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


def over_draws(values: Array, axis: int = -2) -> tuple[Array, Array, AnyArray, AnyArray]:
    """Of draws, and along the next axis the runs of each: mean, standard error, and the numbers of both.

    The runs of a draw share a start, so the error is of the scatter of the draws, as in `over_runs`.
    """
    there, mean = np.isfinite(values), mean_over(values, (axis, axis + 1))
    count, number = np.sum(there, axis=(axis, axis + 1)), np.sum(there.any(axis=axis + 1), axis=axis + 1)
    with np.errstate(all="ignore"):
        away = np.sum(values - np.expand_dims(mean, (axis, axis + 1)), axis=axis + 1, where=there)
        scale = number / np.where(number > 1, number - 1.0, np.nan)
        error = np.sqrt(np.sum(away**2, axis=axis + 1) * scale) / count
    return mean, error, count, number


def resampled(random: np.random.Generator, number: int, times: int) -> AnyArray:
    """Places (times, number - 1) of draws, with replacement.

    One fewer than there are, so that means of them scatter by the standard error, and not by √(1 - 1/S) of
    it (Rao and Wu 1988).
    """
    return random.integers(number, size=(times, number - 1))


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
