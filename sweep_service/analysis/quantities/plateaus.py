"""Plateaus: intervals in which a curve is flat on logarithmic axes."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import MIN_RELATIVE_RISK, null_risk, read_runs
from sweep_service.analysis.statistics import (
    align_to_points,
    build_dataset,
    finite_mean,
    group_by_draw,
    point_dims,
)
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import AnyArray, Array


def plateaus(
    dataset: xr.Dataset,
    /,
    source: str = "sgd",
    *,
    window: float = 0.15,
    flat: float = 0.2,
    shortest: float = 0.3,
    initial: float = 0.9,
) -> xr.Dataset:
    """Find the plateaus of the mean risk curve at each point.

    A plateau is a maximal interval with |s| <= `flat`, where s(t) is the least-squares slope of log10 R̄ in
    log10 t within ± `window` decades, and at least over both neighbours. It is initial if it begins at the
    first t > 0 or is as high as `initial` R(0), final if it reaches t_max, and otherwise intermediate.

    Parameters
    ----------
    source
        `sgd`, the name of a regime, or `ode` for all regimes.
    window
        Half width of the window of the slope, in decades.
    flat
        Largest |s| of a plateau.
    shortest
        Smallest length of a plateau, in decades.
    initial
        Smallest height of an initial plateau, in units of R(0).

    Returns
    -------
    xr.Dataset
        On the dimension `plateau`, in the order of time: `start`, `end`, `decades`, `height` (geometric mean
        over ln t), `exit` (the first later sample below half the height) and `kind`, which is empty where a
        point has fewer plateaus.

    Raises
    ------
    InvalidInput
        If there are fewer than two samples after t = 0.
    """
    array = read_runs(dataset, source)
    dims, curve = point_dims(array), finite_mean(group_by_draw(array), axis=(-3, -2))
    shape, positive = curve.shape[:-1], array["time"].values > 0
    times, risk = array["time"].values[positive], curve[..., positive].reshape(-1, positive.sum())
    if len(times) < 2:
        raise InvalidInput("time", times.tolist(), "must have at least two samples after t = 0")
    start_risk = curve[..., 0].reshape(-1)
    smallest = MIN_RELATIVE_RISK * align_to_points(null_risk(dataset), dims)
    smallest = np.broadcast_to(smallest, shape).reshape(-1, 1)
    x = np.log10(times)
    with np.errstate(all="ignore"):
        y = np.where((risk > smallest) & np.isfinite(risk), np.log10(risk), np.nan)
        rows, first, last = _find_intervals(np.abs(_local_slopes(x, y, window)) <= flat)
        is_long = x[last] - x[first] >= shortest * (1 - 1e-12)
        rows, first, last = rows[is_long], first[is_long], last[is_long]
        height = 10 ** _interval_means(x, y, rows, first, last)
        is_exit = (risk[rows] < height[:, None] / 2) & (np.arange(len(x)) > last[:, None])
        exit_time = np.where(is_exit.any(axis=1), times[is_exit.argmax(axis=1)], np.nan)
        is_initial = (first == 0) | (height >= initial * start_risk[rows])
    kind = np.where(is_initial, "initial", np.where(last == len(x) - 1, "final", "intermediate"))
    number = np.arange(len(rows)) - np.searchsorted(rows, rows)  # within each row, as rows are in order
    count = int(number.max(initial=0)) + 1

    def pad(values: AnyArray, fill: float | str) -> AnyArray:
        padded = np.full((len(risk), count), fill, dtype=values.dtype)
        padded[rows, number] = values
        return padded.reshape(*shape, count)

    return build_dataset(
        array,
        (*dims, "plateau"),
        {
            "start": (pad(times[first], np.nan), "time at which a plateau begins"),
            "end": (pad(times[last], np.nan), "time at which a plateau ends"),
            "decades": (pad(x[last] - x[first], np.nan), "length of a plateau in log10 t"),
            "height": (pad(height, np.nan), "geometric mean of the risk on a plateau"),
            "exit": (pad(exit_time, np.nan), "first later time with less than half of the height"),
            "kind": (pad(kind, ""), "initial, intermediate or final"),
        },
    )


def _local_slopes(x: Array, y: Array, window: float) -> Array:
    """Least-squares slope of y (rows, time) around each x; NaN where y is NaN or has no neighbours."""
    dx = x[:, None] - x
    near = np.abs(dx) <= window * (1 + 1e-9)
    near |= np.abs(np.subtract.outer(np.arange(len(x)), np.arange(len(x)))) <= 1  # if sparser than the window
    valid, filled = ~np.isnan(y), np.nan_to_num(y)
    weights = (valid[:1] if valid.all() else valid).astype(float)  # usually all rows have the same windows
    n, sx, sxx = (weights @ (near * dx**power) for power in (0, 1, 2))
    sy, sxy = filled @ near.astype(float), filled @ (near * dx)
    return np.where(valid & (n > 1), (sxy - sx * sy / n) / (sxx - sx**2 / n), np.nan)


def _find_intervals(mask: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Row, first and last index of every maximal interval of true values along the last axis."""
    edges = np.diff(mask.astype(np.int8), axis=1, prepend=0, append=0)
    rows, first = np.nonzero(edges == 1)
    return rows, first, np.nonzero(edges == -1)[1] - 1


def _interval_means(x: Array, y: Array, rows: AnyArray, first: AnyArray, last: AnyArray) -> Array:
    """Mean of y over x by trapezoids, which does not depend on the density of samples."""
    y = np.nan_to_num(y)
    areas = np.cumsum((y[:, 1:] + y[:, :-1]) / 2 * np.diff(x), axis=1)
    areas = np.concatenate([np.zeros((len(y), 1)), areas], axis=1)
    return (areas[rows, last] - areas[rows, first]) / (x[last] - x[first])
