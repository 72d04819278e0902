"""How well curves of several sizes fall onto one: the quality S of Houdayer and Hartmann.

Phys. Rev. B 70, 014418 (2004). Each point is compared with a line through its neighbours on the other
curves; S is the mean of the squared differences over their variances: about one for a collapse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import SMALLEST, null_risk, runs
from sweep_service.analysis.selection import listed
from sweep_service.analysis.statistics import at, by_run, described, mean_over, over_draws, resampled
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import AnyArray, Array

LEAST_SHARE = 0.5  # of points that must have neighbours: curves that do not meet cannot disagree
TRIALS = 289  # of the first, coarse search


def quality(x: Array, shift: Array, y: Array, error: Array) -> float:
    """S of curves y (curves, samples), each at its x - shift; infinite where too few of them meet.

    All have the same ascending x, so one search finds every neighbour.
    """
    curves, samples = y.shape
    there = np.isfinite(y)
    here = (x - shift[:, None])[None, :, :]  # (other curve, curve, sample)
    place = here + shift[:, None, None]  # where that is on the other curve's own axis
    left = np.clip(np.searchsorted(x, place, side="right") - 1, 0, samples - 2)
    other = np.arange(curves)[:, None, None]
    inside = (place >= x[0]) & (place <= x[-1]) & (other != np.arange(curves)[:, None])
    inside &= there[other, left] & there[other, left + 1]
    sums = np.zeros((5, curves, samples))
    for ends in (left, left + 1):
        w = np.where(inside, error[other, ends] ** -2.0, 0.0)
        away = x[ends] - place  # from the point itself, so that the line's value there is its constant
        value = np.where(inside, y[other, ends], 0.0)
        for row, term in enumerate((w, w * away, w * away**2, w * value, w * away * value)):
            sums[row] += term.sum(axis=0)
    k, kx, kxx, ky, kxy = sums
    with np.errstate(all="ignore"):
        determinant = k * kxx - kx**2
        line, variance = (kxx * ky - kx * kxy) / determinant, kxx / determinant
        terms = (y - line) ** 2 / (error**2 + variance)
    counted = there & (determinant > 0) & np.isfinite(terms)
    if counted.sum() < LEAST_SHARE * there.sum() or not counted.any():
        return np.inf
    return float(np.mean(terms[counted]))


def coarse(
    function: Callable[[Array], float], ranges: tuple[tuple[float, float], ...]
) -> tuple[Array, Array]:
    """The best place of a grid over the ranges, and the steps of the grid."""
    steps = round(TRIALS ** (1 / len(ranges)))
    lines = [np.linspace(low, high, steps) for low, high in ranges]
    tried = np.stack([grid.reshape(-1) for grid in np.meshgrid(*lines, indexing="ij")], axis=1)
    best = tried[int(np.argmin([function(one) for one in tried]))]
    return best, np.array([line[1] - line[0] for line in lines])


def lowest(function: Callable[[Array], float], start: Array, scale: Array) -> tuple[Array, float]:
    """The minimum near a start, by a simplex: S has kinks where a point changes its neighbours."""
    from scipy.optimize import minimize

    simplex = np.vstack([start, start + np.diag(scale)])
    options = {"initial_simplex": simplex, "xatol": 1e-2 * float(np.min(scale)), "fatol": 1e-4}
    with np.errstate(all="ignore"):  # infinite where the curves do not meet
        found = minimize(function, start, method="Nelder-Mead", options=options)
    return found.x, float(found.fun)


class Curves:
    """Mean curves (along, time) of t > 0, in logarithms, and the runs that they are of."""

    def __init__(self, dataset: xr.Dataset, along: str, source: str, smallest_error: float) -> None:
        self.array, self.along = runs(dataset, source), along
        sizes = dataset[along].values
        if sizes.dtype.kind not in "iuf" or np.any(sizes <= 0) or len(sizes) < 2:
            raise InvalidInput(along, listed(sizes), "must have at least two values, all positive numbers")
        later = self.array["time"].values > 0
        self.times, self.log_size = self.array["time"].values[later], np.log(sizes.astype(float))
        if len(self.times) < 2:
            raise InvalidInput("time", self.times.tolist(), "must have at least two samples after t = 0")
        self.values = by_run(self.array)[..., later]  # (along, draws, runs of each, time)
        self.smallest = SMALLEST * at(null_risk(dataset), (along,))[:, None]
        mean, error, *_ = over_draws(self.values, axis=-3)
        with np.errstate(all="ignore"):
            self.error = np.fmax(np.nan_to_num(error / mean, nan=0.0, posinf=0.0), smallest_error)
        self.y = self.logarithm(mean)

    def logarithm(self, mean: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.where(mean > self.smallest, np.log(mean), np.nan)

    def of_draws(self, chosen: AnyArray) -> Array:
        """The same draws of every size: what they share, such as a start, stays shared."""
        return self.logarithm(mean_over(self.values[:, chosen], axis=(1, 2)))

    def result(self, numbers: dict[str, tuple[Any, str]], time: Array, factor: Array) -> xr.Dataset:
        dims = (self.along, "time")
        scaled = {
            "scaled_time": (time, "time on the axis of the common curve"),
            "scaled_risk": (np.exp(self.y) * factor[:, None], "risk on the axis of the common curve"),
            "scaled_error": (np.exp(self.y) * factor[:, None] * self.error, "standard error, as it was used"),
        }
        like = self.array.isel(time=self.array["time"].values > 0)
        return xr.merge([described(like, (), numbers), described(like, dims, scaled)])


def minimised(
    curves: Curves,
    cost: Callable[[Array], Callable[[Array], float]],
    ranges: tuple[tuple[float, float], ...],
    bootstraps: int,
) -> tuple[Array, Array, float]:
    """Parameters, their errors and the least S; NaN where the curves never meet."""
    best, scale = coarse(cost(curves.y), ranges)
    best, _ = lowest(cost(curves.y), best, scale / 2)
    best, least = lowest(cost(curves.y), best, scale / 8)  # once more: a simplex may have got stuck
    if not np.isfinite(least):
        return np.full(len(ranges), np.nan), np.full(len(ranges), np.nan), np.nan
    error = np.full(len(ranges), np.nan)
    if curves.values.shape[1] > 1 and bootstraps > 1:
        places = resampled(np.random.default_rng(0), curves.values.shape[1], bootstraps)
        again = [lowest(cost(curves.of_draws(chosen)), best, scale / 8)[0] for chosen in places]
        error = np.std(again, axis=0, ddof=1)
    return best, error, least
