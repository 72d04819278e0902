"""The noise floor: the risk that label noise leaves, and the law that it should follow."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.floor_law.coefficient import explain_missing_law, noise_coefficient
from sweep_service.analysis.quantities.final_risk import MIN_FIT_SAMPLES
from sweep_service.analysis.quantities.line_fit import t_quantile
from sweep_service.analysis.runs import (
    MIN_RELATIVE_RISK,
    null_risk,
    parameter,
    read_runs,
    read_structures,
)
from sweep_service.analysis.statistics import (
    align_to_points,
    average_over_draws,
    build_dataset,
    finite_mean,
    group_by_draw,
    point_dims,
)
from sweep_service.numerics.time_average import late_samples, mean_of_last_half
from sweep_service.numerics.types import Array

REWEIGHTINGS = 2  # fits that determine the weights


def noise_floor(dataset: xr.Dataset, /, source: str = "sgd") -> xr.Dataset:
    """Fit the noise floor F, and compare it with the law F = c γΔ/p.

    F is fitted to each run as R = F + a t⁻² over the last decade, then averaged over runs. The constraints
    F, a >= 0 apply to the averages, because the mean of constrained fits would be biased where a constraint
    matters: all runs are fitted with a = 0 if the mean a is negative, and a negative mean F is reported as 0.
    From a planted start, which reaches its floor early, F is the time average over the last half.

    Parameters
    ----------
    source
        `sgd`, the name of a regime, or `ode` for all regimes.

    Returns
    -------
    xr.Dataset
        At each point `noise_floor` with its 95 % interval `low`, `high`, `coefficient` (c = F p/(γΔ), NaN
        without label noise) and `ratio` (to the law), each with its error, the `law`, the `reason` why there
        is none ("" where there is one), and the number of `runs`.
    """
    array = read_runs(dataset, source)
    dims, values, times = point_dims(array), group_by_draw(array), array["time"].values
    if read_structures(dataset).get("init", {}).get("kind") == "planted":
        run_floors = mean_of_last_half(values, times)
    else:
        smallest = MIN_RELATIVE_RISK * align_to_points(null_risk(dataset), dims)[..., None]
        run_floors = _fit_floors(values, times, smallest)
    mean, error, count, draws = average_over_draws(run_floors)
    half_width = t_quantile(draws - 1) * error
    floor, low, high = (np.maximum(end, 0.0) for end in (mean, mean - half_width, mean + half_width))
    gamma, p, noise = (align_to_points(parameter(dataset, name), dims) for name in ("gamma", "p", "noise"))
    scale = np.broadcast_to(gamma * noise / p, floor.shape)
    with np.errstate(all="ignore"):
        unit = np.where(scale > 0, scale, np.nan)
        law = align_to_points(noise_coefficient(dataset, source), dims) * scale
        expected = np.where(law > 0, law, np.nan)
    reason = np.broadcast_to(align_to_points(explain_missing_law(dataset, source), dims), floor.shape)
    return build_dataset(
        array,
        dims,
        {
            "noise_floor": (floor, "risk that label noise leaves, F of R = F + a/t²"),
            "standard_error": (error, "standard error of the noise floor"),
            "low": (low, "lower end of the 95 % interval of the noise floor"),
            "high": (high, "upper end of the 95 % interval of the noise floor"),
            "coefficient": (floor / unit, "c = F p/(γΔ)"),
            "coefficient_error": (error / unit, "standard error of c"),
            "law": (law, "noise floor c γΔ/p of small γ/p"),
            "reason": (reason, "why there is no law"),
            "ratio": (floor / expected, "noise floor over its law"),
            "ratio_error": (error / expected, "standard error of the ratio"),
            "runs": (count, "runs that reached the end"),
        },
    )


def _fit_floors(values: Array, times: Array, smallest: Array) -> Array:
    """F of each run (…points, draws, runs of a draw), by least squares with the weights 1/R̂².

    The noise is relative. R̂ is the fit to the mean over runs rather than the mean itself, because a sample
    that is low by chance would get more weight, and the floor of a few runs would be too low.
    """
    late = late_samples(times, 0.1)
    values = values[..., late]
    with np.errstate(invalid="ignore"):
        x = (times[-1] / times[late]) ** 2
    complete = np.all(np.isfinite(values), axis=-1, keepdims=True)
    mean = finite_mean(np.where(complete, values, np.nan), axis=(-3, -2))
    valid = np.asarray(mean > smallest)
    can_fit = complete[..., 0] & (np.sum(valid, axis=-1)[..., None, None] >= MIN_FIT_SAMPLES)
    with np.errstate(all="ignore"):
        fit = mean
        for _ in range(REWEIGHTINGS):
            F, a = fit_nonnegative(x, mean, np.where(valid, fit**-2.0, 0.0))
            fit = F[..., None] + a[..., None] * x
        weights = np.where(valid, fit**-2.0, 0.0)[..., None, None, :]
        F, a = fit_line(x, values, weights)
        mean_a = finite_mean(np.where(can_fit, a, np.nan), axis=(-2, -1))
        flat = np.sum(weights * np.where(weights > 0, values, 0.0), axis=-1) / np.sum(weights, axis=-1)
        F = np.where(mean_a[..., None, None] < 0, flat, F)
    return np.where(can_fit, F, np.nan)


def fit_line(x: Array, y: Array, weights: Array) -> tuple[Array, Array]:
    """Fit y = F + a x along the last axis; x (time,), y and weights (…, time)."""
    k, kx, kxx, ky, kxy = _moments(x, y, weights)
    determinant = k * kxx - kx**2
    return (kxx * ky - kx * kxy) / determinant, (k * kxy - kx * ky) / determinant


def fit_nonnegative(x: Array, y: Array, weights: Array) -> tuple[Array, Array]:
    """Fit y = F + a x with F, a >= 0 along the last axis; x (time,), y and weights (…, time).

    As y >= 0 and x > 0, at most one of the two is negative in the free solution, and zero in the constrained
    one.
    """
    F, a = fit_line(x, y, weights)
    k, _, kxx, ky, kxy = _moments(x, y, weights)
    only_F, only_a = a < 0, F < 0
    return (
        np.where(only_a, 0.0, np.where(only_F, ky / k, F)),
        np.where(only_F, 0.0, np.where(only_a, kxy / kxx, a)),
    )


def _moments(x: Array, y: Array, weights: Array) -> tuple[Array, ...]:
    """Weighted sums of 1, x, x², y and xy along the last axis."""
    w = weights / np.max(weights, axis=-1, keepdims=True)
    y = np.where(w > 0, y, 0.0)
    powers = np.stack([np.ones_like(x), x, x**2], axis=-1)
    return *np.moveaxis(w @ powers, -1, 0), *np.moveaxis((w * y) @ powers[:, :2], -1, 0)
