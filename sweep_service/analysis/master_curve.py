"""How well curves of several sizes fall onto one: the quality S of Houdayer and Hartmann.

Phys. Rev. B 70, 014418 (2004). Each point is compared with a line through its neighbours on the other
curves; S is the mean of the squared differences over their variances: about one for a collapse.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sweep_service.arrays import Array

LEAST_SHARE = 0.5  # of points that must have neighbours: curves that do not meet cannot disagree
TRIALS = 289  # of the first, coarse search


def quality(x: Array, shift: Array, y: Array, error: Array) -> float:
    """S of curves y (curves, samples), each at its x - shift; infinite where too few of them meet.

    All have the same ascending x, so one search finds every neighbour.
    """
    curves, samples = y.shape
    there = np.isfinite(y)
    here = (x - shift[:, None])[None, :, :]  # (other curve, curve, sample)
    place = here + shift[:, None, None]  # where that is on the other curve's own axis
    left = np.clip(np.searchsorted(x, place, side="right") - 1, 0, samples - 2)
    other = np.arange(curves)[:, None, None]
    inside = (place >= x[0]) & (place <= x[-1]) & (other != np.arange(curves)[:, None])
    inside &= there[other, left] & there[other, left + 1]
    sums = np.zeros((5, curves, samples))
    for ends in (left, left + 1):
        w = np.where(inside, error[other, ends] ** -2.0, 0.0)
        away = x[ends] - place  # from the point itself, so that the line's value there is its constant
        value = np.where(inside, y[other, ends], 0.0)
        for row, term in enumerate((w, w * away, w * away**2, w * value, w * away * value)):
            sums[row] += term.sum(axis=0)
    k, kx, kxx, ky, kxy = sums
    with np.errstate(all="ignore"):
        determinant = k * kxx - kx**2
        line, variance = (kxx * ky - kx * kxy) / determinant, kxx / determinant
        terms = (y - line) ** 2 / (error**2 + variance)
    counted = there & (determinant > 0) & np.isfinite(terms)
    if counted.sum() < LEAST_SHARE * there.sum() or not counted.any():
        return np.inf
    return float(np.mean(terms[counted]))


def coarse(
    function: Callable[[Array], float], ranges: tuple[tuple[float, float], ...]
) -> tuple[Array, Array]:
    """The best place of a grid over the ranges, and the steps of the grid."""
    steps = round(TRIALS ** (1 / len(ranges)))
    lines = [np.linspace(low, high, steps) for low, high in ranges]
    tried = np.stack([grid.reshape(-1) for grid in np.meshgrid(*lines, indexing="ij")], axis=1)
    best = tried[int(np.argmin([function(one) for one in tried]))]
    return best, np.array([line[1] - line[0] for line in lines])


def lowest(function: Callable[[Array], float], start: Array, scale: Array) -> tuple[Array, float]:
    """The minimum near a start, by a simplex: S has kinks where a point changes its neighbours."""
    from scipy.optimize import minimize

    simplex = np.vstack([start, start + np.diag(scale)])
    options = {"initial_simplex": simplex, "xatol": 1e-2 * float(np.min(scale)), "fatol": 1e-4}
    with np.errstate(all="ignore"):  # infinite where the curves do not meet
        found = minimize(function, start, method="Nelder-Mead", options=options)
    return found.x, float(found.fun)
