"""Plateaus: stretches of a curve that are flat in logarithms."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import SMALLEST, null_risk, runs
from sweep_service.analysis.statistics import at, by_run, described, mean_over, point_dims
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
    """Maximal stretches with |s| <= `flat`, at least `shortest` decades long, in the order of time.

    s(t) is the least-squares slope of log10 R̄ in log10 t within ± `window` decades, and always with
    the two neighbours. The height is the geometric mean over ln t, the exit the first later sample
    below half of it. A plateau is initial if it begins at the first t > 0 or is as high as `initial`
    R(0), final if it reaches t_max, else intermediate; the rest of the dimension `plateau` has no kind.
    """
    array = runs(dataset, source)
    dims, curve = point_dims(array), mean_over(by_run(array), axis=(-3, -2))
    shape, later = curve.shape[:-1], array["time"].values > 0
    times, risk = array["time"].values[later], curve[..., later].reshape(-1, later.sum())
    if len(times) < 2:
        raise InvalidInput("time", times.tolist(), "must have at least two samples after t = 0")
    start_risk = curve[..., 0].reshape(-1)
    smallest = np.broadcast_to(SMALLEST * at(null_risk(dataset), dims), shape).reshape(-1, 1)
    x = np.log10(times)
    with np.errstate(all="ignore"):
        y = np.where((risk > smallest) & np.isfinite(risk), np.log10(risk), np.nan)
        rows, first, last = _stretches(np.abs(_slopes(x, y, window)) <= flat)
        long = x[last] - x[first] >= shortest * (1 - 1e-12)
        rows, first, last = rows[long], first[long], last[long]
        height = 10 ** _mean_between(x, y, rows, first, last)
        low = (risk[rows] < height[:, None] / 2) & (np.arange(len(x)) > last[:, None])
        leaves = np.where(low.any(axis=1), times[low.argmax(axis=1)], np.nan)
        is_initial = (first == 0) | (height >= initial * start_risk[rows])
    kind = np.where(is_initial, "initial", np.where(last == len(x) - 1, "final", "intermediate"))
    number = np.arange(len(rows)) - np.searchsorted(rows, rows)  # rows are in order: the place in each
    most = int(number.max(initial=0)) + 1

    def placed(values: AnyArray, fill: float | str) -> AnyArray:
        found = np.full((len(risk), most), fill, dtype=values.dtype)
        found[rows, number] = values
        return found.reshape(*shape, most)

    return described(
        array,
        (*dims, "plateau"),
        {
            "start": (placed(times[first], np.nan), "time at which a plateau begins"),
            "end": (placed(times[last], np.nan), "time at which a plateau ends"),
            "decades": (placed(x[last] - x[first], np.nan), "length of a plateau in log10 t"),
            "height": (placed(height, np.nan), "geometric mean of the risk on a plateau"),
            "exit": (placed(leaves, np.nan), "first later time with less than half of the height"),
            "kind": (placed(kind, ""), "initial, intermediate or final"),
        },
    )


def _slopes(x: Array, y: Array, window: float) -> Array:
    """Least-squares slope of y (rows, time) around each x; NaN where y is, or where it stands alone."""
    away = x[:, None] - x
    near = np.abs(away) <= window * (1 + 1e-9)
    near |= np.abs(np.subtract.outer(np.arange(len(x)), np.arange(len(x)))) <= 1  # sparser than the window
    there, filled = ~np.isnan(y), np.nan_to_num(y)
    counted = (there[:1] if there.all() else there).astype(float)  # mostly, all have the same windows
    n, sx, sxx = (counted @ (near * away**power) for power in (0, 1, 2))
    sy, sxy = filled @ near.astype(float), filled @ (near * away)
    return np.where(there & (n > 1), (sxy - sx * sy / n) / (sxx - sx**2 / n), np.nan)


def _stretches(flat: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Row, first and last place of every maximal run of true values along the last axis."""
    edges = np.diff(flat.astype(np.int8), axis=1, prepend=0, append=0)
    rows, first = np.nonzero(edges == 1)
    return rows, first, np.nonzero(edges == -1)[1] - 1


def _mean_between(x: Array, y: Array, rows: AnyArray, first: AnyArray, last: AnyArray) -> Array:
    """Mean of y over x, by trapezia: however densely a part of the plateau was sampled."""
    y = np.nan_to_num(y)
    areas = np.cumsum((y[:, 1:] + y[:, :-1]) / 2 * np.diff(x), axis=1)
    areas = np.concatenate([np.zeros((len(y), 1)), areas], axis=1)
    return (areas[rows, last] - areas[rows, first]) / (x[last] - x[first])
