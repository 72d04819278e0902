"""The floor that label noise leaves under the risk, and the law that it should follow."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.quantities.final_risk import ENOUGH, last_half
from sweep_service.analysis.runs import (
    SMALLEST,
    late,
    noise_coefficient,
    null_risk,
    parameter,
    runs,
    spec_of,
)
from sweep_service.analysis.statistics import at, by_run, described, mean_over, over_draws, point_dims
from sweep_service.numerics.types import Array

ROUNDS = 2  # of weights that follow the fit


def noise_floor(dataset: xr.Dataset, /, source: str = "sgd") -> xr.Dataset:
    """F of R = F + a t⁻² (F, a >= 0) over the last decade, beside the law F = c γΔ/p.

    Fitted to each run, then the mean over runs. From a planted start, which is on the floor soon, it is
    the mean over the last half of the time instead. Without label noise there is no coefficient.
    """
    array = runs(dataset, source)
    dims, values, times = point_dims(array), by_run(array), array["time"].values
    if spec_of(dataset).get("init", {}).get("kind") == "planted":
        each = last_half(values, times)
    else:
        each = _floors(values, times, SMALLEST * at(null_risk(dataset), dims)[..., None])
    floor, error, count, _ = over_draws(each)
    gamma, p, noise = (at(parameter(dataset, name), dims) for name in ("gamma", "p", "noise"))
    scale = np.broadcast_to(gamma * noise / p, floor.shape)
    with np.errstate(all="ignore"):
        unit = np.where(scale > 0, scale, np.nan)
        law = at(noise_coefficient(dataset), dims) * scale
        expected = np.where(law > 0, law, np.nan)
    return described(
        array,
        dims,
        {
            "noise_floor": (floor, "risk that label noise leaves, F of R = F + a/t²"),
            "standard_error": (error, "standard error of the noise floor"),
            "coefficient": (floor / unit, "c = F p/(γΔ)"),
            "coefficient_error": (error / unit, "standard error of c"),
            "law": (law, "noise floor c γΔ/p of small γ/p"),
            "ratio": (floor / expected, "noise floor over its law"),
            "ratio_error": (error / expected, "standard error of the ratio"),
            "runs": (count, "runs that reached the end"),
        },
    )


def _floors(values: Array, times: Array, smallest: Array) -> Array:
    """F of each run (…points, draws, runs of each), by least squares with weights 1/R̂².

    The noise is relative. R̂ is the fit to the mean over runs: were it the mean itself, a sample that is
    low by chance would weigh more, and the floor of few runs would be too low.
    """
    end = late(times, 0.1)
    values = values[..., end]
    with np.errstate(invalid="ignore"):
        x = (times[-1] / times[end]) ** 2
    complete = np.all(np.isfinite(values), axis=-1, keepdims=True)
    mean = mean_over(np.where(complete, values, np.nan), axis=(-3, -2))
    there = np.asarray(mean > smallest)
    enough = complete[..., 0] & (np.sum(there, axis=-1)[..., None, None] >= ENOUGH)
    with np.errstate(all="ignore"):
        fit = mean
        for _ in range(ROUNDS):
            F, a = _fitted(x, mean, np.where(there, fit**-2.0, 0.0))
            fit = F[..., None] + a[..., None] * x
        F, _ = _fitted(x, values, np.where(there, fit**-2.0, 0.0)[..., None, None, :])
    return np.where(enough, F, np.nan)


def _fitted(x: Array, y: Array, weights: Array) -> tuple[Array, Array]:
    """F and a, not negative, of y = F + a x along the last axis; x (time,), y and weights (…, time).

    y >= 0 and x > 0, so at most one of them is negative in the free solution; then it is zero in the
    other one.
    """
    w = weights / np.max(weights, axis=-1, keepdims=True)
    y = np.where(w > 0, y, 0.0)
    powers = np.stack([np.ones_like(x), x, x**2], axis=-1)
    k, kx, kxx = np.moveaxis(w @ powers, -1, 0)
    ky, kxy = np.moveaxis((w * y) @ powers[:, :2], -1, 0)
    determinant = k * kxx - kx**2
    F, a = (kxx * ky - kx * kxy) / determinant, (k * kxy - kx * ky) / determinant
    only_F, only_a = a < 0, F < 0
    return (
        np.where(only_a, 0.0, np.where(only_F, ky / k, F)),
        np.where(only_F, 0.0, np.where(only_a, kxy / kxx, a)),
    )
