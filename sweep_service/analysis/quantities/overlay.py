"""Whether the curves at several sizes are one as they are."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import parameter, runs, spec_of
from sweep_service.analysis.statistics import by_run, described, mean_over, over, over_draws
from sweep_service.numerics.types import Array
from sweep_service.planning.grids import INIT

ROUND_OFF = 1e-9  # relative: sums in another order


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

    Where all curves have the same starts, what a start adds to all of them is no difference between them: it
    is left out of the errors. A theory, which has no other randomness, then has none, and no χ².
    """
    array = runs(dataset, source)
    mean, error, _, draws = over_draws(by_run(array), axis=-3)  # (along, time)
    if "seed" in array.dims and _same_starts(dataset):
        error = _error_beyond_starts(array, along)
    with np.errstate(all="ignore"):
        variance = mean_over(draws * (error / mean) ** 2, axis=0)  # of a draw, relative
        error = np.where(draws == 1, mean * np.sqrt(variance), error)  # one draw scatters as the others do
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
        "largest_spread": (
            float(spread[judged].max()) if judged.any() else np.nan,
            "largest spread over time",
        ),
        "collapsed": (collapsed, "whether the curves are one"),
    }
    return xr.merge([described(array, ("time",), curves), described(array, (), numbers)])


def _same_starts(dataset: xr.Dataset) -> bool:
    """Whether a seed draws the same start for every curve: which knows p, k, numbers of its own, and d."""
    init = spec_of(dataset).get("init")
    if not init:
        return False
    names = ["p", "k", *(str(name) for name in dataset.coords if str(name).startswith(INIT))]
    names += [] if init.get("shared") else ["d"]
    return all(len(np.unique(parameter(dataset, name))) == 1 for name in names)


def _error_beyond_starts(array: xr.DataArray, along: str) -> Array:
    """Standard errors (along, time) of runs relative to the mean of all runs from the same start."""
    draws = ("repeat",) if "repeat" in array.dims else ()
    values = array.transpose(along, *draws, "seed", "time").values
    values = values.reshape(values.shape[0], -1, *values.shape[-2:])  # (along, repeat, seed, time)
    if not draws:
        return np.full((values.shape[0], values.shape[-1]), np.nan)
    together = np.moveaxis(values, 2, 0).reshape(values.shape[2], -1, values.shape[-1])
    mean, _, count = over(together, axis=1)  # (seed, time)
    with np.errstate(all="ignore"):
        lost = np.sqrt(count / np.where(count > 1, count - 1, np.nan))  # of the scatter, to that mean
        rest = (values - mean) * lost
    return over(rest.reshape(len(values), -1, values.shape[-1]), axis=1)[1]
