"""Straight lines through values of several draws, with errors from the scatter of the draws' own slopes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from sweep_service.analysis.statistics import finite_mean
from sweep_service.numerics.types import Array

CONFIDENCE = 0.95


class LineFit(NamedTuple):
    """Slopes and intercepts (…) of lines, their standard errors, and the degrees of freedom of these."""

    slope: Array
    intercept: Array
    error: Array  # of the slope
    intercept_error: Array
    degrees: Array

    def interval(self) -> tuple[Array, Array]:
        """The ends of the 95 % t-interval of the slope."""
        half_width = t_quantile(self.degrees) * self.error
        return self.slope - half_width, self.slope + half_width


def t_quantile(degrees: Array, confidence: float = CONFIDENCE) -> Array:
    """Half the width of a two-sided t-interval in standard errors; NaN without degrees of freedom."""
    degrees = np.asarray(degrees, dtype=float)
    with np.errstate(all="ignore"):
        return special.stdtrit(np.where(degrees > 0, degrees, np.nan), (1 + confidence) / 2)


def fit_lines(x: Array, y: Array) -> LineFit:
    """Fit lines through values y (…, points, draws) over x (points,), ignoring NaN.

    Each draw has its own slope, by least squares with equal weights; the result is their mean, and its error
    sd/√S with S - 1 degrees of freedom. This holds whether or not a draw has the same start at every x, and
    whatever the variances at the points are. Weights by the errors of the points, which a few draws do not
    determine, would give intervals that are much too narrow.

    A draw without some of the points counts in proportion to Σ(x - x̄)² over the points that it has. If fewer
    than two draws have a slope, one line is fitted through the means over draws, and its error follows from
    the residuals, with two degrees of freedom fewer than points.
    """
    slopes, intercepts, sxx = _least_squares(x[:, None], y, axis=-2)
    usable = np.isfinite(slopes)
    draws = usable.sum(axis=-1)
    with np.errstate(all="ignore"):
        weights = np.where(usable, sxx, 0.0)
        weights = weights / weights.sum(axis=-1, keepdims=True)
        slope = np.sum(weights * np.where(usable, slopes, 0.0), axis=-1)
        squares = np.where(usable, (weights * (slopes - slope[..., None])) ** 2, 0.0)
        error = np.sqrt(squares.sum(axis=-1) / (1.0 - np.sum(weights**2, axis=-1)))
        # (ȳ_s - b x̄_s) of each draw, with the common slope b
        x_means = finite_mean(np.where(np.isfinite(y), x[:, None], np.nan), axis=-2)
        intercept = finite_mean(
            np.where(usable, intercepts + (slopes - slope[..., None]) * x_means, np.nan), axis=-1
        )
        deviations = np.where(usable, (intercepts - intercept[..., None]) ** 2, 0.0)
        intercept_error = np.sqrt(deviations.sum(axis=-1) / (draws * (draws - 1.0)))
        means = finite_mean(y, axis=-1)
        single_slope, single_intercept, single_sxx = _least_squares(x, means, axis=-1)
        residual = means - single_intercept[..., None] - single_slope[..., None] * x
        degrees = np.sum(np.isfinite(means), axis=-1) - 2
        variance = np.nansum(residual**2, axis=-1) / np.where(degrees > 0, degrees, np.nan)
        single_error = np.sqrt(variance / single_sxx)
        x_mean = finite_mean(np.where(np.isfinite(means), x, np.nan), axis=-1)
        single_intercept_error = np.sqrt(variance * (1.0 / (degrees + 2) + x_mean**2 / single_sxx))
    has_draws = draws > 1
    return LineFit(
        np.where(has_draws, slope, single_slope),
        np.where(has_draws, intercept, single_intercept),
        np.where(has_draws, error, single_error),
        np.where(has_draws, intercept_error, single_intercept_error),
        np.where(has_draws, draws - 1, degrees),
    )


def _least_squares(x: Array, y: Array, axis: int) -> tuple[Array, Array, Array]:
    """Slope, intercept and Σ(x - x̄)² along an axis, ignoring NaN; a NaN slope if x has a single value."""
    valid = np.isfinite(y)
    x, filled = np.broadcast_to(x, y.shape), np.where(valid, y, 0.0)
    with np.errstate(all="ignore"):
        n = valid.sum(axis=axis, keepdims=True)
        x_mean = np.sum(x, axis=axis, where=valid, keepdims=True) / n
        dx = np.where(valid, x - x_mean, 0.0)
        sxx = np.sum(dx**2, axis=axis)
        span = np.max(np.abs(x), axis=axis, where=valid, initial=0.0)
        is_spread = sxx > 1e-20 * span**2  # beyond rounding of equal x
        slope = np.where(is_spread, np.sum(dx * filled, axis=axis) / sxx, np.nan)
        y_mean = filled.sum(axis=axis) / n.squeeze(axis)
    return slope, y_mean - slope * x_mean.squeeze(axis), sxx
