"""Monotone cubic interpolation (PCHIP) of many curves at once, each at its own positions."""

from __future__ import annotations

import numpy as np

from sweep_service.numerics.jit import kernel
from sweep_service.numerics.types import Array


def interpolate(x: Array, y: Array, at: Array) -> Array:
    """Values of curves y (…, n) over knots x (n,) at positions (…, m) that broadcast against the curves.

    SciPy's interpolator needs the same positions for all curves and rejects NaN. Here NaN affects only its
    neighbourhood, because a diverged run has values before the divergence.
    """
    shape = np.broadcast_shapes(y.shape[:-1], at.shape[:-1])
    curves, positions = (
        np.ascontiguousarray(np.broadcast_to(array, (*shape, array.shape[-1]))).reshape(-1, array.shape[-1])
        for array in (y, at)
    )
    values = np.empty(positions.shape)
    _interpolate(np.ascontiguousarray(x), curves, positions, values)
    return values.reshape(*shape, at.shape[-1])


@kernel()
def _interpolate(x, curves, positions, values):
    n = len(x)
    slopes = np.empty(n)
    for row in range(len(curves)):
        y = curves[row]
        _slopes(x, y, slopes)
        left = 0
        for column in range(positions.shape[1]):
            at = positions[row, column]
            while left > 0 and at < x[left]:
                left -= 1
            while left < n - 2 and at >= x[left + 1]:  # positions are mostly near the same knots
                left += 1
            h = x[left + 1] - x[left]
            s = (at - x[left]) / h
            r = 1.0 - s
            values[row, column] = (
                (1.0 + 2.0 * s) * r * r * y[left]
                + s * s * (3.0 - 2.0 * s) * y[left + 1]
                + h * s * r * (r * slopes[left] - s * slopes[left + 1])
            )


@kernel()
def _slopes(x, y, slopes):
    """Derivatives at the knots (Fritsch and Butland 1984): weighted harmonic means, 0 at extrema of y."""
    n = len(x)
    before_h, before = x[1] - x[0], (y[1] - y[0]) / (x[1] - x[0])
    slopes[0] = slopes[n - 1] = before
    for at in range(1, n - 1):
        h = x[at + 1] - x[at]
        after = (y[at + 1] - y[at]) / h
        w, v = 2.0 * h + before_h, h + 2.0 * before_h
        slopes[at] = (w + v) / (w / before + v / after) if before * after > 0.0 else 0.0 * (before + after)
        if at == 1:
            slopes[0] = _end_slope(before_h, h, before, after)
        if at == n - 2:
            slopes[n - 1] = _end_slope(h, before_h, after, before)
        before_h, before = h, after


@kernel()
def _end_slope(h, next_h, rise, next_rise):
    """The slope at an end from three knots, limited so that the curve stays monotone."""
    slope = ((2.0 * h + next_h) * rise - h * next_rise) / (h + next_h)
    if slope * rise <= 0.0:
        return 0.0 * slope
    if rise * next_rise <= 0.0 and abs(slope) > 3.0 * abs(rise):
        return 3.0 * rise
    return slope
