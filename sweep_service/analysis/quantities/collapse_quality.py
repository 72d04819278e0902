"""The quality S of a collapse of curves (Houdayer and Hartmann), and its minimum.

Phys. Rev. B 70, 014418 (2004). Each point is compared with a line through its neighbours on the other
curves; S is the mean of the squared differences over their variances: about one for a collapse.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sweep_service.numerics.jit import kernel
from sweep_service.numerics.types import Array

MIN_COMPARED_SHARE = 0.5  # of points that must have neighbours: curves that do not overlap cannot disagree
REFINEMENT_STEPS = 3  # of a finer grid, on both sides of the best point of the coarser one


class Curves(NamedTuple):
    """Curves with the same ascending x, to be scaled by powers of their sizes or shifted."""

    x: Array  # (samples,)
    y: Array  # (curves, samples)
    error: Array  # (curves, samples)
    weight: Array  # (samples,), of the terms of S
    size: Array  # (curves,)


@kernel()
def collapse_quality(curves: Curves, a: float, b: float) -> float:
    """S of the curves y + b size over x - a size; infinite if too few points can be compared."""
    x, y, error, weight, size = curves
    number, samples = y.shape
    total, compared, finite = 0.0, 0.0, 0.0
    sums = np.empty((samples, 5))
    for curve in range(number):
        sums[:] = 0.0
        for other in range(number):
            if other != curve:
                shift = a * (size[other] - size[curve])
                _add_neighbours(sums, x, y[other] + b * size[other], error[other], shift)
        for at in range(samples):
            value = y[curve, at] + b * size[curve]
            if not np.isfinite(value):
                continue
            finite += weight[at]
            w, wx, wxx, wy, wxy = sums[at]
            determinant = w * wxx - wx**2
            if determinant > 0.0:
                line, variance = (wxx * wy - wx * wxy) / determinant, wxx / determinant
                total += weight[at] * (value - line) ** 2 / (error[curve, at] ** 2 + variance)
                compared += weight[at]
    if compared == 0.0 or compared < MIN_COMPARED_SHARE * finite or not np.isfinite(total):
        return np.inf
    return total / compared


@kernel()
def _add_neighbours(sums: Array, x: Array, y: Array, error: Array, shift: float) -> None:
    """Add the two neighbours of each x + shift to the sums of a weighted line (samples, 5)."""
    left, last = 0, len(x) - 1
    for at in range(len(x)):
        position = x[at] + shift
        if position < x[0] or position > x[last]:
            continue
        while left < last - 1 and x[left + 1] <= position:
            left += 1
        if not (np.isfinite(y[left]) and np.isfinite(y[left + 1])):
            continue
        for index in (left, left + 1):
            w = error[index] ** -2.0
            dx = x[index] - position  # from the point itself, so that the line's value there is its constant
            sums[at, 0] += w
            sums[at, 1] += w * dx
            sums[at, 2] += w * dx**2
            sums[at, 3] += w * y[index]
            sums[at, 4] += w * dx * y[index]


@kernel()
def search_grid(curves: Curves, center: Array, step: Array, steps: int) -> tuple[Array, float]:
    """The best (a, b) of a grid with `steps` on both sides of the center, and its S.

    A step of 0 fixes a parameter. Among equal points the first one is best, and the center before all.
    """
    best, least = center.copy(), collapse_quality(curves, center[0], center[1])
    steps_a, steps_b = (steps if step[0] > 0.0 else 0), (steps if step[1] > 0.0 else 0)
    for at_a in range(-steps_a, steps_a + 1):
        for at_b in range(-steps_b, steps_b + 1):
            a, b = center[0] + at_a * step[0], center[1] + at_b * step[1]
            quality = collapse_quality(curves, a, b)
            if quality < least:
                best[0], best[1], least = a, b, quality
    return best, least


@kernel()
def refine_minimum(curves: Curves, start: Array, step: Array, rounds: int) -> tuple[Array, float]:
    """The best (a, b) near a start, by grids that become finer.

    S jumps where a point changes its neighbours: a method that follows slopes would end at such a jump.
    """
    best, least = start.copy(), np.inf
    for power in range(1, rounds + 1):
        best, least = search_grid(curves, best, step / REFINEMENT_STEPS**power, REFINEMENT_STEPS)
    return best, least
