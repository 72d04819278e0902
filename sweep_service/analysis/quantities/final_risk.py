"""The final risk: the time average over the last half, and whether it still changes."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.quantities.line_fit import t_quantile
from sweep_service.analysis.runs import MIN_RELATIVE_RISK, null_risk, read_runs
from sweep_service.analysis.statistics import (
    align_to_points,
    average_over_draws,
    build_dataset,
    group_by_draw,
    point_dims,
)
from sweep_service.numerics.time_average import late_samples, mean_of_last_half
from sweep_service.numerics.types import AnyArray, Array

MIN_FIT_SAMPLES = 3  # in time


def final_risk(
    dataset: xr.Dataset,
    /,
    source: str = "sgd",
    *,
    flat: float = 0.1,
    largest_error: float = 0.1,
    confidence: float = 0.95,
) -> xr.Dataset:
    """Average the risk over [t_max/2, t_max] and over runs, and test whether it has settled.

    The average of a run is ∫ R dt by the trapezoidal rule, with the risk at t_max/2 between two samples.
    Errors measure the scatter over seeds, or over the repeats of a single seed, which share a start. A run
    that diverged before the end contributes nothing.

    Parameters
    ----------
    source
        `sgd`, the name of a regime, or `ode` for all regimes.
    flat, largest_error
        With b the slope of ln R̄ on ln t over [t_max/4, t_max], the trend is settled if |b| <= `flat`, or if
        |b| <= 2 SE with SE <= `largest_error`; otherwise falling or rising.
    confidence
        Level of the t-interval.

    Returns
    -------
    xr.Dataset
        At each point `final_risk`, `standard_error`, `low`, `high`, `slope`, `slope_error`, `trend` and the
        number of `runs`.
    """
    array = read_runs(dataset, source)
    dims, values = point_dims(array), group_by_draw(array)
    run_means = mean_of_last_half(values, array["time"].values)
    mean, error, count, draws = average_over_draws(run_means)
    half_width = t_quantile(draws - 1, confidence) * error
    slope, slope_error = _fit_final_slope(
        np.where(np.isnan(run_means)[..., None], np.nan, values),
        array["time"].values,
        MIN_RELATIVE_RISK * align_to_points(null_risk(dataset), dims),
    )
    return build_dataset(
        array,
        dims,
        {
            "final_risk": (mean, "excess risk, mean over the last half of the time"),
            "standard_error": (error, "standard error of the final risk"),
            "low": (mean - half_width, f"lower end of the {confidence:.0%} interval of the final risk"),
            "high": (mean + half_width, f"upper end of the {confidence:.0%} interval of the final risk"),
            "slope": (slope, "slope of ln R in ln t over the last three quarters of the time"),
            "slope_error": (slope_error, "standard error of the slope"),
            "trend": (
                _classify_trend(slope, slope_error, flat, largest_error),
                "whether the risk still moves",
            ),
            "runs": (count, "runs that reached the end"),
        },
    )


def _fit_final_slope(values: Array, times: Array, smallest: AnyArray) -> tuple[Array, Array]:
    """b and its standard error over draws, because the samples of a run are correlated in time.

    To first order ln R̄ changes by the mean of R_s/R̄ - 1, so b is a constant plus the mean of b_s, the
    slopes of R_s/R̄ in ln t. For a single run, the error follows from the residuals of its regression.
    """
    late = late_samples(times, 0.25)
    values = values[..., late]
    mean, _, count, _ = average_over_draws(values, axis=-3)
    valid = mean > smallest[..., None]
    n = np.sum(valid, axis=-1)
    with np.errstate(all="ignore"):
        x = np.broadcast_to(np.log(times[late]), mean.shape)
        x = np.where(valid, x - (np.sum(x, axis=-1, where=valid) / n)[..., None], 0.0)
        sxx = np.where(n >= MIN_FIT_SAMPLES, np.sum(x**2, axis=-1), np.nan)
        y = np.where(valid, np.log(mean), 0.0)
        slope = np.sum(x * y, axis=-1) / sxx
        ratio = np.where(valid[..., None, None, :], values / mean[..., None, None, :], 0.0)
        run_slopes = np.sum(x[..., None, None, :] * ratio, axis=-1) / sxx[..., None, None]
        error = average_over_draws(run_slopes)[1]
        residual = y - (np.sum(y, axis=-1) / n)[..., None] - slope[..., None] * x
        variance = np.sum(residual**2, axis=-1, where=valid) / np.where(n > 2, n - 2, np.nan)
        single_run_error = np.sqrt(variance / sxx)
    return slope, np.where(count.max(axis=-1) == 1, single_run_error, error)


def _classify_trend(slope: Array, error: Array, flat: float, largest_error: float) -> AnyArray:
    settled = (np.abs(slope) <= flat) | ((np.abs(slope) <= 2 * error) & (error <= largest_error))
    trend = np.where(settled, "settled", np.where(slope < 0, "falling", "rising"))
    return np.where(np.isnan(slope), "undecided", trend)
