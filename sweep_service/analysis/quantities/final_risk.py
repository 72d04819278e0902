"""Where a run ends: the risk over the last half of the time, and whether it still moves."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy import special

from sweep_service.analysis.runs import SMALLEST, late, null_risk, runs
from sweep_service.analysis.statistics import at, by_run, described, over_draws, point_dims
from sweep_service.numerics.types import AnyArray, Array

ENOUGH = 3  # samples of a slope


def final_risk(
    dataset: xr.Dataset,
    /,
    source: str = "sgd",
    *,
    flat: float = 0.1,
    largest_error: float = 0.1,
    confidence: float = 0.95,
) -> xr.Dataset:
    """Mean over runs of each one's mean risk over [t_max/2, t_max], with its t-interval.

    Errors are over seeds, and over the repeats of a single one: what those share is a start.
    `slope` is b of ln R̄ on ln t over [t_max/4, t_max]. The trend is settled if |b| <= `flat`, or if
    |b| <= 2 SE with SE <= `largest_error`; else falling or rising. A run that diverged before the end
    contributes nothing.
    """
    array = runs(dataset, source)
    dims, values = point_dims(array), by_run(array)
    each = last_half(values, array["time"].values)
    mean, error, count, draws = over_draws(each)
    with np.errstate(all="ignore"):
        reach = special.stdtrit(np.where(draws > 1, draws - 1.0, np.nan), (1 + confidence) / 2) * error
    slope, slope_error = _end_slope(
        np.where(np.isnan(each)[..., None], np.nan, values),
        array["time"].values,
        SMALLEST * at(null_risk(dataset), dims),
    )
    return described(
        array,
        dims,
        {
            "final_risk": (mean, "excess risk, mean over the last half of the time"),
            "standard_error": (error, "standard error of the final risk"),
            "low": (mean - reach, f"lower end of the {confidence:.0%} interval of the final risk"),
            "high": (mean + reach, f"upper end of the {confidence:.0%} interval of the final risk"),
            "slope": (slope, "slope of ln R in ln t over the last three quarters of the time"),
            "slope_error": (slope_error, "standard error of the slope"),
            "trend": (_trend(slope, slope_error, flat, largest_error), "whether the risk still moves"),
            "runs": (count, "runs that reached the end"),
        },
    )


def last_half(values: Array, times: Array) -> Array:
    """Mean over t_max/2 <= t <= t_max along the last axis; NaN where one of the samples is missing."""
    with np.errstate(all="ignore"):  # sums overflow just before a divergence
        mean = np.mean(values[..., late(times, 0.5)], axis=-1)
    return np.where(np.isfinite(mean), mean, np.nan)


def _end_slope(values: Array, times: Array, smallest: AnyArray) -> tuple[Array, Array]:
    """b and its standard error over draws, as samples of one run are correlated in time.

    To first order ln R̄ moves by the mean of R_s/R̄ - 1, so b is the mean of a constant plus b_s, the
    slopes of R_s/R̄ in ln t. A single run has only the residuals of its regression.
    """
    end = late(times, 0.25)
    values = values[..., end]
    mean, _, count, _ = over_draws(values, axis=-3)
    there = mean > smallest[..., None]
    n = np.sum(there, axis=-1)
    with np.errstate(all="ignore"):
        x = np.broadcast_to(np.log(times[end]), mean.shape)
        x = np.where(there, x - (np.sum(x, axis=-1, where=there) / n)[..., None], 0.0)
        square = np.where(n >= ENOUGH, np.sum(x**2, axis=-1), np.nan)
        y = np.where(there, np.log(mean), 0.0)
        slope = np.sum(x * y, axis=-1) / square
        ratio = np.where(there[..., None, None, :], values / mean[..., None, None, :], 0.0)
        each = np.sum(x[..., None, None, :] * ratio, axis=-1) / square[..., None, None]
        error = over_draws(each)[1]
        rest = y - (np.sum(y, axis=-1) / n)[..., None] - slope[..., None] * x
        alone = np.sqrt(np.sum(rest**2, axis=-1, where=there) / np.where(n > 2, n - 2, np.nan) / square)
    return slope, np.where(count.max(axis=-1) == 1, alone, error)


def _trend(slope: Array, error: Array, flat: float, largest_error: float) -> AnyArray:
    settled = (np.abs(slope) <= flat) | ((np.abs(slope) <= 2 * error) & (error <= largest_error))
    trend = np.where(settled, "settled", np.where(slope < 0, "falling", "rising"))
    return np.where(np.isnan(slope), "undecided", trend)
