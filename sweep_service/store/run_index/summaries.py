"""Summaries of runs: a few numbers that stand for the curves of a run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sweep_service.numerics.time_average import late_samples, mean_of_last_half
from sweep_service.numerics.types import AnyArray, Array

MIN_FIT_SAMPLES = 3  # in time
MIN_RELATIVE_RISK = 1e-14  # of the largest risk of the run: below it, the risk is round-off
# The observables that summaries need, if they are stored.
RISK, LARGEST_NORM, ORDER_PARAMETER = "risk", "largest_norm", "specialisation"


def summarise_runs(values: Mapping[str, Array], times: Array, diverged: AnyArray) -> dict[str, AnyArray]:
    """Summarise curves (run, time) of runs that are done or have diverged; NaN where nothing is known."""
    risk = values[RISK]
    reached = np.isfinite(risk)
    last = np.where(reached.any(axis=1), len(times) - 1 - np.argmax(reached[:, ::-1], axis=1), -1)
    last_time = np.where(last >= 0, times[last], np.nan)
    following = np.minimum(last + 1, len(times) - 1)  # a run that diverged at the last time has all values
    unknown = np.full(len(risk), np.nan)
    return {
        "last_time": last_time,
        "divergence_time": np.where(diverged, times[following], np.nan),
        "initial_risk": risk[:, 0],
        "final_risk": mean_of_last_half(risk, times),
        "final_slope": fit_final_slopes(risk, times),
        "bound": _largest(values[LARGEST_NORM]) if LARGEST_NORM in values else unknown,
        "order_parameter": values[ORDER_PARAMETER][:, -1] if ORDER_PARAMETER in values else unknown,
    }


def _largest(values: Array) -> Array:
    """The largest value of each row, ignoring NaN; NaN if there is none."""
    largest = np.where(np.isnan(values), -np.inf, values).max(axis=1)
    return np.where(np.isnan(values).all(axis=1), np.nan, largest)


def fit_final_slopes(risk: Array, times: Array) -> Array:
    """The slope of ln R on ln t of each run over [t_max/4, t_max]; NaN for a run without its last value.

    Risks that are round-off, or zero, do not count.
    """
    late = late_samples(times, 0.25)
    values = risk[:, late]
    with np.errstate(all="ignore"):
        valid = (
            values > MIN_RELATIVE_RISK * np.nanmax(np.where(np.isfinite(risk), risk, 0.0), axis=1)[:, None]
        )
        count = valid.sum(axis=1)
        x = np.broadcast_to(np.log(times[late]), values.shape)
        x = np.where(valid, x - (np.sum(x, axis=1, where=valid) / count)[:, None], 0.0)
        slope = np.sum(x * np.log(np.where(valid, values, 1.0)), axis=1) / np.sum(x**2, axis=1)
    is_known = (count >= MIN_FIT_SAMPLES) & np.isfinite(values).all(axis=1)
    return np.where(is_known, slope, np.nan)
