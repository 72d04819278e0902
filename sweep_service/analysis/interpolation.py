"""Monotone cubic interpolation (PCHIP) of many curves at once, each at places of its own."""

from __future__ import annotations

import numpy as np

from sweep_service.arrays import Array


def interpolated(x: Array, y: Array, at: Array) -> Array:
    """Values of curves y (…, n) over knots x (n,) at places (…, m) that broadcast against the curves.

    SciPy's interpolator takes the same places for all curves and refuses NaN; here NaN stays where it is,
    as a diverged run has values before.
    """
    slopes = _slopes(x, y)
    left = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(x) - 2)
    h = x[left + 1] - x[left]
    s = (at - x[left]) / h
    shape = np.broadcast_shapes(y.shape[:-1], at.shape[:-1])
    places = np.broadcast_to(left, (*shape, at.shape[-1]))

    def taken(values: Array, step: int) -> Array:
        return np.take_along_axis(np.broadcast_to(values, (*shape, len(x))), places + step, axis=-1)

    return (
        (1.0 + 2.0 * s) * (1.0 - s) ** 2 * taken(y, 0)
        + s**2 * (3.0 - 2.0 * s) * taken(y, 1)
        + h * s * (1.0 - s) * ((1.0 - s) * taken(slopes, 0) - s * taken(slopes, 1))
    )


def _slopes(x: Array, y: Array) -> Array:
    """Derivatives at the knots (Fritsch and Butland 1984): weighted harmonic means, 0 where y turns."""
    h = np.diff(x)
    rise = np.diff(y, axis=-1) / h
    if len(x) == 2:
        return np.repeat(rise, 2, axis=-1)
    before, after = 2.0 * h[1:] + h[:-1], h[1:] + 2.0 * h[:-1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inner = (before + after) / (before / rise[..., :-1] + after / rise[..., 1:])
    inner = np.where(rise[..., :-1] * rise[..., 1:] > 0.0, inner, 0.0 * (rise[..., :-1] + rise[..., 1:]))
    first = _end(h[0], h[1], rise[..., 0], rise[..., 1])
    last = _end(h[-1], h[-2], rise[..., -1], rise[..., -2])
    return np.concatenate([first[..., None], inner, last[..., None]], axis=-1)


def _end(h: float, next_h: float, rise: Array, next_rise: Array) -> Array:
    """The slope at an end by three knots, as far as it keeps the curve monotone."""
    slope = ((2.0 * h + next_h) * rise - h * next_rise) / (h + next_h)
    slope = np.where(slope * rise <= 0.0, 0.0, slope)
    steep = (rise * next_rise <= 0.0) & (np.abs(slope) > 3.0 * np.abs(rise))
    return np.where(steep, 3.0 * rise, slope)
