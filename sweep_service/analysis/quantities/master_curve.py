"""How well curves of several sizes fall onto one: the quality S of Houdayer and Hartmann.

Phys. Rev. B 70, 014418 (2004). Each point is compared with a line through its neighbours on the other
curves; S is the mean of the squared differences over their variances: about one for a collapse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from sweep_service.analysis.quantities.line_fit import t_quantile
from sweep_service.analysis.runs import MIN_RELATIVE_RISK, null_risk, read_runs
from sweep_service.analysis.selection import format_values
from sweep_service.analysis.statistics import (
    align_to_points,
    average_over_draws,
    build_dataset,
    finite_mean,
    group_by_draw,
    resample,
)
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import AnyArray, Array

MIN_COMPARED_SHARE = 0.5  # of points that must have neighbours: curves that do not overlap cannot disagree
GRID_TRIALS = 289  # of the first, coarse search
NEAR_STEPS = 20  # of the grid, on both sides of the minimum, in which those of resampled curves are sought


def collapse_quality(x: Array, shift: Array, y: Array, error: Array) -> float:
    """S of curves y (curves, samples), each at its x - shift; infinite if too few points can be compared.

    All curves have the same ascending x, so one search finds every neighbour.
    """
    curves, samples = y.shape
    finite = np.isfinite(y)
    shifted = (x - shift[:, None])[None, :, :]  # (other curve, curve, sample)
    position = shifted + shift[:, None, None]  # on the other curve's own axis
    left = np.clip(np.searchsorted(x, position, side="right") - 1, 0, samples - 2)
    other = np.arange(curves)[:, None, None]
    inside = (position >= x[0]) & (position <= x[-1]) & (other != np.arange(curves)[:, None])
    inside &= finite[other, left] & finite[other, left + 1]
    sums = np.zeros((5, curves, samples))
    for index in (left, left + 1):
        w = np.where(inside, error[other, index] ** -2.0, 0.0)
        dx = x[index] - position  # from the point itself, so that the line's value there is its constant
        value = np.where(inside, y[other, index], 0.0)
        for row, term in enumerate((w, w * dx, w * dx**2, w * value, w * dx * value)):
            sums[row] += term.sum(axis=0)
    k, kx, kxx, ky, kxy = sums
    with np.errstate(all="ignore"):
        determinant = k * kxx - kx**2
        line, variance = (kxx * ky - kx * kxy) / determinant, kxx / determinant
        terms = (y - line) ** 2 / (error**2 + variance)
    compared = finite & (determinant > 0) & np.isfinite(terms)
    if compared.sum() < MIN_COMPARED_SHARE * finite.sum() or not compared.any():
        return np.inf
    return float(np.mean(terms[compared]))


def search_grid(
    function: Callable[[Array], float], ranges: tuple[tuple[float, float], ...]
) -> tuple[Array, Array]:
    """The best point of a grid over the ranges, and the steps of the grid."""
    steps = round(GRID_TRIALS ** (1 / len(ranges)))
    lines = [np.linspace(low, high, steps) for low, high in ranges]
    trials = np.stack([grid.reshape(-1) for grid in np.meshgrid(*lines, indexing="ij")], axis=1)
    best = trials[int(np.argmin([function(trial) for trial in trials]))]
    return best, np.array([line[1] - line[0] for line in lines])


def minimise_locally(function: Callable[[Array], float], start: Array, scale: Array) -> tuple[Array, float]:
    """The minimum near a start, by a simplex, because S has kinks where a point changes its neighbours."""
    from scipy.optimize import minimize

    simplex = np.vstack([start, start + np.diag(scale)])
    options = {"initial_simplex": simplex, "xatol": 1e-2 * float(np.min(scale)), "fatol": 1e-4}
    with np.errstate(all="ignore"):  # S is infinite where the curves do not overlap
        result = minimize(function, start, method="Nelder-Mead", options=options)
    return result.x, float(result.fun)


class MeanCurves:
    """Logarithms of the mean curves (along, time) at t > 0, and the runs behind them."""

    def __init__(self, dataset: xr.Dataset, along: str, source: str, smallest_error: float) -> None:
        self.array, self.along = read_runs(dataset, source), along
        sizes = dataset[along].values
        if sizes.dtype.kind not in "iuf" or np.any(sizes <= 0) or len(sizes) < 2:
            raise InvalidInput(
                along, format_values(sizes), "must have at least two values, all positive numbers"
            )
        positive = self.array["time"].values > 0
        self.times, self.log_size = self.array["time"].values[positive], np.log(sizes.astype(float))
        if len(self.times) < 2:
            raise InvalidInput("time", self.times.tolist(), "must have at least two samples after t = 0")
        values = group_by_draw(self.array)[..., positive]  # (along, draws, runs of a draw, time)
        has_values = np.isfinite(values).any(axis=(0, 2, 3))  # a missing draw is no degree of freedom
        self.values = values[:, has_values] if has_values.any() else values
        self.smallest = MIN_RELATIVE_RISK * align_to_points(null_risk(dataset), (along,))[:, None]
        mean, error, *_ = average_over_draws(self.values, axis=-3)
        with np.errstate(all="ignore"):
            self.error = np.fmax(np.nan_to_num(error / mean, nan=0.0, posinf=0.0), smallest_error)
        self.y = self.take_logarithm(mean)

    def take_logarithm(self, mean: Array) -> Array:
        """ln of a mean risk; NaN where it is round-off."""
        with np.errstate(all="ignore"):
            return np.where(mean > self.smallest, np.log(mean), np.nan)

    def resample(self, draws: AnyArray) -> Array:
        """The curves of some draws: the same ones for every size, because sizes may share their starts."""
        return self.take_logarithm(finite_mean(self.values[:, draws], axis=(1, 2)))

    def to_dataset(self, numbers: dict[str, tuple[Any, str]], time: Array, factor: Array) -> xr.Dataset:
        """The numbers of a fit with the scaled curves."""
        dims = (self.along, "time")
        scaled = {
            "scaled_time": (time, "time on the axis of the common curve"),
            "scaled_risk": (np.exp(self.y) * factor[:, None], "risk on the axis of the common curve"),
            "scaled_error": (np.exp(self.y) * factor[:, None] * self.error, "standard error, as it was used"),
        }
        like = self.array.isel(time=self.array["time"].values > 0)
        return xr.merge([build_dataset(like, (), numbers), build_dataset(like, dims, scaled)])


class QualityFit(NamedTuple):
    """The parameters that minimise S, their errors, the least S, and why the fit failed, if it did."""

    best: Array
    error: Array
    degrees: int
    least: float
    reason: str = ""

    def describe(self, names: Sequence[str], texts: Sequence[str]) -> dict[str, tuple[Any, str]]:
        """The parameters with errors and 95 % intervals, the quality and the reason, with long names."""
        half_width = t_quantile(np.asarray(self.degrees)) * self.error
        numbers: dict[str, tuple[Any, str]] = {}
        for at, (name, text) in enumerate(zip(names, texts, strict=True)):
            numbers |= {
                name: (float(self.best[at]), text),
                f"{name}_error": (float(self.error[at]), f"standard error of {name} over resampled draws"),
                f"{name}_low": (
                    float(self.best[at] - half_width[at]),
                    f"lower end of the 95 % interval of {name}",
                ),
                f"{name}_high": (
                    float(self.best[at] + half_width[at]),
                    f"upper end of the 95 % interval of {name}",
                ),
            }
        numbers["quality"] = (self.least, "S of Houdayer and Hartmann, about 1 for a collapse")
        numbers["reason"] = (self.reason, "why the fit failed, empty if it did not")
        return numbers


def minimise_quality(
    curves: MeanCurves,
    cost: Callable[[Array], Callable[[Array], float]],
    ranges: tuple[tuple[float, float], ...],
    bootstraps: int,
    largest_quality: float = np.inf,
) -> QualityFit:
    """Minimise S over ranges of its parameters, and resample the draws for their errors.

    The fit has failed if the curves never overlap, the minimum is at an end of a range, or the least S is
    above `largest_quality`: then the parameters are NaN.
    """
    unknown, degrees = np.full(len(ranges), np.nan), curves.values.shape[1] - 1
    best, scale = search_grid(cost(curves.y), ranges)
    best, _ = minimise_locally(cost(curves.y), best, scale / 2)
    best, least = minimise_locally(cost(curves.y), best, scale / 8)  # again, as a simplex may get stuck
    if not np.isfinite(least):
        return QualityFit(unknown, unknown, degrees, np.nan, "the curves never overlap")
    for value, step, (low, high) in zip(best, scale, ranges, strict=True):
        if not low + step / 8 < value < high - step / 8:
            reason = f"the minimum of S is at an end of the range from {low:.3g} to {high:.3g}"
            return QualityFit(unknown, unknown, degrees, least, reason)
    if least > largest_quality:
        reason = f"the curves do not collapse: S = {least:.3g} is above {largest_quality:g}"
        return QualityFit(unknown, unknown, degrees, least, reason)
    error = unknown
    if degrees > 0 and bootstraps > 1:
        samples = resample(np.random.default_rng(0), degrees + 1, bootstraps)
        minima = [_minimise_near(cost(curves.resample(draws)), best, scale) for draws in samples]
        error = np.std(minima, axis=0, ddof=1)
    return QualityFit(best, error, degrees, least)


def _minimise_near(function: Callable[[Array], float], best: Array, scale: Array) -> Array:
    """The minimum for resampled curves, near that of all draws.

    A single parameter has a fine grid, and resampled minima may be many steps away. As S has a kink where a
    point changes its neighbours, a simplex would stay behind one of them: so trials come first.
    """
    if len(best) > 1:
        near, _ = minimise_locally(function, best, scale / 2)
        return minimise_locally(function, near, scale / 8)[0]  # again, as in `minimise_quality`
    trials = best + scale * np.arange(-NEAR_STEPS, NEAR_STEPS + 1)[:, None]
    nearest = trials[int(np.argmin([function(trial) for trial in trials]))]
    return minimise_locally(function, nearest, scale / 2)[0]


def interpolate_rows(x: Array, rows: Array, at: Array) -> Array:
    """Rows (curves, samples) over x, on lines between their finite samples; NaN outside of these."""
    result = np.full((len(rows), len(at)), np.nan)
    for row, values in enumerate(rows):
        finite = np.isfinite(values)
        if finite.any():
            result[row] = np.interp(at, x[finite], values[finite], left=np.nan, right=np.nan)
    return result
