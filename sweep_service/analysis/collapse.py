"""Whether curves of several sizes are one: as they are, after powers of the size, or after a delay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.master_curve import coarse, lowest, quality
from sweep_service.analysis.samples import at, by_run, described, mean_over, over, point_dims
from sweep_service.analysis.specialisation import specialisation_time
from sweep_service.analysis.stored import DRAWN, SMALLEST, kind_of, null_risk, runs
from sweep_service.arrays import Array
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.grids import POINT
from sweep_service.selection import listed

ROUND_OFF = 1e-9  # relative: sums in another order


def collapse(
    dataset: xr.Dataset, /, kind: str = "overlay", along: str = "d", source: str = "sgd", **options: Any
) -> xr.Dataset:
    """How well the mean curves at all values of `along` are one curve; `kind` is one of KINDS."""
    if kind not in KINDS:
        raise unknown_name("kind", kind, KINDS)
    return KINDS[kind](_along(dataset, runs(dataset, source), along), along, source, **options)


def overlay(
    dataset: xr.Dataset,
    along: str = "d",
    source: str = "sgd",
    *,
    largest_chi2: float = 2.0,
    spread_above: float = 0.02,
    errors: float = 3.0,
) -> xr.Dataset:
    """The curves as they are: a collapse if the median χ² per degree of freedom is at most
    `largest_chi2` and the spread at every time at most `spread_above` + `errors` times the expected one.
    """
    array = runs(dataset, source)
    mean, error, count = over(by_run(array), axis=1)  # (along, time)
    with np.errstate(all="ignore"):
        variance = mean_over(count * (error / mean) ** 2, axis=0)  # of a run, relative
        error = np.where(count == 1, mean * np.sqrt(variance), error)  # one run scatters as the others do
        middle, sem, sizes = over(mean, axis=0)
        spread = np.sqrt(sizes) * sem / middle
        expected = np.sqrt(mean_over(error**2, axis=0)) / middle
        w = 1.0 / (error**2 + (ROUND_OFF * middle) ** 2)
        weighted = np.nansum(w * mean, axis=0) / np.nansum(np.where(np.isnan(mean), np.nan, w), axis=0)
        terms = w * (mean - weighted) ** 2
        counted = np.sum(np.isfinite(terms), axis=0)
        chi2 = np.nansum(terms, axis=0) / np.where(counted > 1, counted - 1, np.nan)
        within = spread <= spread_above + errors * np.nan_to_num(expected)
    known = chi2[np.isfinite(chi2)]
    median = float(np.median(known)) if len(known) else np.nan
    judged = np.isfinite(spread)
    collapsed = bool(judged.any() and within[judged].all() and not median > largest_chi2)
    curves = {
        "mean": (middle, f"mean over {along} of the mean risk over runs"),
        "spread": (spread, f"standard deviation over {along}, relative to the mean"),
        "expected": (expected, "root mean square of the standard errors, relative to the mean"),
        "chi2": (chi2, "χ² per degree of freedom"),
    }
    numbers = {
        "median_chi2": (median, "median of χ² per degree of freedom over time"),
        "largest_spread": (float(np.max(spread[judged], initial=-np.inf)), "largest spread over time"),
        "collapsed": (collapsed, "whether the curves are one"),
    }
    return xr.merge([described(array, ("time",), curves), described(array, (), numbers)])


def power(
    dataset: xr.Dataset,
    along: str = "d",
    source: str = "sgd",
    *,
    reach: float = 2.0,
    smallest_error: float = 0.01,
    bootstraps: int = 100,
) -> xr.Dataset:
    """a and b such that R L^b against t L^-a are one curve for all sizes L, by the least S.

    Compared as ln R with ln t, |a| and |b| searched up to `reach`. Relative errors below
    `smallest_error` count as such: lines between samples are no better. The errors of a and b are from
    resampled runs.
    """
    curves = _Curves(dataset, along, source, smallest_error)
    x, size = np.log(curves.times), curves.log_size

    def cost(y: Array) -> Callable[[Array], float]:
        return lambda ab: quality(x, ab[0] * size, y + ab[1] * size[:, None], curves.error)

    ranges = ((-reach, reach), (-reach, reach))
    (a, b), (a_error, b_error), least = _minimised(curves, cost, ranges, bootstraps)
    numbers = {
        "a": (a, f"exponent of {along} in the time, t {along}^-a"),
        "a_error": (a_error, "standard error of a over resampled runs"),
        "b": (b, f"exponent of 1/{along} in the risk, R {along}^b"),
        "b_error": (b_error, "standard error of b over resampled runs"),
        "quality": (least, "S of Houdayer and Hartmann, about 1 for a collapse"),
    }
    return curves.result(numbers, np.exp(x - a * size[:, None]), np.exp(b * size))


def logshift(
    dataset: xr.Dataset,
    along: str = "d",
    source: str = "sgd",
    *,
    smallest_error: float = 0.01,
    bootstraps: int = 100,
) -> xr.Dataset:
    """b such that R against t - b ln L is one curve, by the least S, and a + b ln L of the
    specialisation times, where specialisation is stored.
    """
    curves = _Curves(dataset, along, source, smallest_error)
    size = curves.log_size
    reach = (curves.times[-1] - curves.times[0]) / max(float(np.ptp(size)), 1e-12)

    def cost(y: Array) -> Callable[[Array], float]:
        return lambda b: quality(curves.times, b[0] * size, y, curves.error)

    (b,), (b_error,), least = _minimised(curves, cost, ((-reach, reach),), bootstraps)
    numbers = {
        "b": (b, f"delay for each e-fold of {along}"),
        "b_error": (b_error, "standard error of b over resampled runs"),
        "quality": (least, "S of Houdayer and Hartmann, about 1 for a collapse"),
    }
    if f"{kind_of(dataset, source)[0]}_specialisation" in dataset:
        numbers |= _delays(
            specialisation_time(dataset, source)["specialisation_time"], along, curves.log_size
        )
    return curves.result(numbers, curves.times - b * size[:, None], np.ones_like(size))


KINDS: dict[str, Callable[..., xr.Dataset]] = {"overlay": overlay, "power": power, "logshift": logshift}


class _Curves:
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
        self.values = by_run(self.array)[..., later]  # (along, runs, time)
        self.smallest = SMALLEST * at(null_risk(dataset), (along,))[:, None]
        mean, error, _ = over(self.values, axis=1)
        with np.errstate(all="ignore"):
            self.error = np.fmax(np.nan_to_num(error / mean, nan=0.0, posinf=0.0), smallest_error)
        self.y = self.logarithm(mean)

    def logarithm(self, mean: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.where(mean > self.smallest, np.log(mean), np.nan)

    def resampled(self, random: np.random.Generator) -> Array:
        """The same runs of every size: what they share, such as a start, stays shared."""
        chosen = random.integers(self.values.shape[1], size=self.values.shape[1])
        return self.logarithm(mean_over(self.values[:, chosen], axis=1))

    def result(self, numbers: dict[str, tuple[Any, str]], time: Array, factor: Array) -> xr.Dataset:
        dims = (self.along, "time")
        scaled = {
            "scaled_time": (time, "time on the axis of the common curve"),
            "scaled_risk": (np.exp(self.y) * factor[:, None], "risk on the axis of the common curve"),
            "scaled_error": (np.exp(self.y) * factor[:, None] * self.error, "standard error, as it was used"),
        }
        like = self.array.isel(time=self.array["time"].values > 0)
        return xr.merge([described(like, (), numbers), described(like, dims, scaled)])


def _minimised(
    curves: _Curves,
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
        random = np.random.default_rng(0)
        again = [lowest(cost(curves.resampled(random)), best, scale / 8)[0] for _ in range(bootstraps)]
        error = np.std(again, axis=0, ddof=1)
    return best, error, least


def _delays(times: xr.DataArray, along: str, x: Array) -> dict[str, tuple[Any, str]]:
    """a + b x through the mean specialisation times, weighted where every mean has an error."""
    drawn = [dim for dim in times.dims if dim in DRAWN]
    mean, error, _ = over(times.transpose(along, *drawn).values.reshape(len(x), -1))
    there = np.isfinite(mean)
    x, mean, error = x[there], mean[there], error[there]
    found = np.full(4, np.nan)
    if len(x) >= 2:
        weighted = bool(np.all(error > 0))
        sigma = error if weighted else np.ones_like(mean)
        design = np.stack([np.ones_like(x), x], axis=1) / sigma[:, None]
        (a, b), *_ = np.linalg.lstsq(design, mean / sigma)
        rest = mean / sigma - design @ [a, b]
        scatter = rest @ rest / (len(x) - 2) if len(x) > 2 else np.nan
        factor = 1.0 if weighted else scatter
        found[:] = a, b, *np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * factor)
    about = ("a", f"b, for each e-fold of {along},", "a, standard error", "b, standard error")
    names = ("delay_a", "delay_b", "delay_a_error", "delay_b_error")
    return {
        name: (float(value), f"{text} of the specialisation times a + b ln {along}")
        for name, value, text in zip(names, found, about, strict=True)
    }


def _along(dataset: xr.Dataset, array: xr.DataArray, along: str) -> xr.Dataset:
    """The dataset with `along` as its only dimension of points; every other must have one value."""
    dims = point_dims(array)
    axes = [str(one) for one in array.coords if array[one].dims == (POINT,)] if POINT in dims else list(dims)
    if along not in axes:
        raise unknown_name("along", along, axes)
    for dim in dims:
        if dim not in (along, POINT):
            if array.sizes[dim] > 1:
                raise InvalidInput(dim, None, f"is not {along}: select one of {listed(array[dim].values)}")
            dataset = dataset.isel({dim: 0})
    if POINT in dims:
        values = array[along].values
        if len(np.unique(values)) < len(values):
            others = [n for n in axes if n != along and len(np.unique(array[n].values)) > 1]
            allowed = f"several points have the same one: select one value of {', '.join(others)}"
            raise InvalidInput(along, listed(values), allowed)
        dataset = dataset.swap_dims({POINT: along})
    return dataset.sortby(along)
