"""Whether the curves of several sizes agree without any scaling."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import init_number_names, parameter, read_runs, read_spec
from sweep_service.analysis.statistics import (
    average,
    average_over_draws,
    build_dataset,
    finite_mean,
    group_by_draw,
)
from sweep_service.numerics.types import Array

RELATIVE_ROUND_OFF = 1e-9  # of sums in a different order


def collapse_overlay(
    dataset: xr.Dataset,
    along: str = "d",
    source: str = "sgd",
    *,
    largest_chi2: float = 2.0,
    spread_above: float = 0.02,
    errors: float = 3.0,
) -> xr.Dataset:
    """Compare the curves as they are.

    They are different if the median χ² per degree of freedom is above `largest_chi2`, or the spread at some
    time above `spread_above` + `errors` times the expected one. Otherwise they are not distinguishable, which
    says little if the errors are large: `detectable_spread` is the true spread at all times that would have
    been seen in about half of such sweeps. Only if it is at most `spread_above` is the verdict a collapse.

    If all curves have the same starts, the contribution of a start is common to all curves and is left out of
    the errors. A theory has no other randomness, and then has neither errors nor χ².
    """
    array = read_runs(dataset, source)
    mean, error, _, draws = average_over_draws(group_by_draw(array), axis=-3)  # (along, time)
    if "seed" in array.dims and _has_same_starts(dataset):
        error = _error_beyond_starts(array, along)
    with np.errstate(all="ignore"):
        variance = finite_mean(draws * (error / mean) ** 2, axis=0)  # of one draw, relative
        error = np.where(draws == 1, mean * np.sqrt(variance), error)  # assume that one draw scatters alike
        middle, middle_error, sizes = average(mean, axis=0)
        spread = np.sqrt(sizes) * middle_error / middle
        expected = np.sqrt(finite_mean(error**2, axis=0)) / middle
        w = 1.0 / (error**2 + (RELATIVE_ROUND_OFF * middle) ** 2)
        weighted = np.nansum(w * mean, axis=0) / np.nansum(np.where(np.isnan(mean), np.nan, w), axis=0)
        terms = w * (mean - weighted) ** 2
        count = np.sum(np.isfinite(terms), axis=0)
        chi2 = np.nansum(terms, axis=0) / np.where(count > 1, count - 1, np.nan)
        limit = spread_above + errors * np.nan_to_num(expected)
        within = spread <= limit
        # A true spread s adds (s/expected)² to χ² per degree of freedom, which is 1 without it.
        detectable = np.fmin(limit, expected * np.sqrt(max(largest_chi2 - 1.0, 0.0)))
    finite_chi2 = chi2[np.isfinite(chi2)]
    median = float(np.median(finite_chi2)) if len(finite_chi2) else np.nan
    valid = np.isfinite(spread)
    collapsed = bool(valid.any() and within[valid].all() and not median > largest_chi2)
    detectable_spread = float(np.median(detectable[valid])) if valid.any() else np.nan
    curves = {
        "mean": (middle, f"mean over {along} of the mean risk over runs"),
        "spread": (spread, f"standard deviation over {along}, relative to the mean"),
        "expected": (expected, "root mean square of the standard errors, relative to the mean"),
        "chi2": (chi2, "χ² per degree of freedom"),
        "detectable": (
            detectable,
            f"true spread over {along} that would have been seen, relative to the mean",
        ),
    }
    numbers = {
        "median_chi2": (median, "median of χ² per degree of freedom over time"),
        "largest_spread": (
            float(spread[valid].max()) if valid.any() else np.nan,
            "largest spread over time",
        ),
        "collapsed": (collapsed, "whether the curves are not distinguishable"),
        "detectable_spread": (detectable_spread, "median over time of the spread that would have been seen"),
        "verdict": (
            _find_verdict(collapsed, bool(valid.any()), detectable_spread, spread_above),
            "different, collapsed, or not distinguishable",
        ),
    }
    return xr.merge([build_dataset(array, ("time",), curves), build_dataset(array, (), numbers)])


def _find_verdict(collapsed: bool, compared: bool, detectable_spread: float, spread_above: float) -> str:
    """`collapsed` only if the test would have seen a spread of `spread_above`."""
    if not compared:
        return "undecided"  # a single curve
    if not collapsed:
        return "different"
    return "collapsed" if detectable_spread <= spread_above else "not distinguishable"


def _has_same_starts(dataset: xr.Dataset) -> bool:
    """Whether a seed gives the same start for every curve: it depends on p, k, the init numbers, and d."""
    init = read_spec(dataset).get("init")
    if not init:
        return False
    names = ["p", "k", *init_number_names(dataset)]
    names += [] if init.get("shared") else ["d"]
    return all(len(np.unique(parameter(dataset, name))) == 1 for name in names)


def _error_beyond_starts(array: xr.DataArray, along: str) -> Array:
    """Standard errors (along, time) of runs relative to the mean of all runs from the same start."""
    repeat_dims = ("repeat",) if "repeat" in array.dims else ()
    values = array.transpose(along, *repeat_dims, "seed", "time").values
    values = values.reshape(values.shape[0], -1, *values.shape[-2:])  # (along, repeat, seed, time)
    if not repeat_dims:
        return np.full((values.shape[0], values.shape[-1]), np.nan)
    by_seed = np.moveaxis(values, 2, 0).reshape(values.shape[2], -1, values.shape[-1])
    mean, _, count = average(by_seed, axis=1)  # (seed, time)
    with np.errstate(all="ignore"):
        correction = np.sqrt(count / np.where(count > 1, count - 1, np.nan))  # of the degree of freedom lost
        residual = (values - mean) * correction
    return average(residual.reshape(len(values), -1, values.shape[-1]), axis=1)[1]
