"""How many seeds a target error needs: a pilot decides, and later seeds do not change the decision.

Stopping as soon as the standard error is small enough covers the true mean too seldom, because it stops where
the scatter happens to look small. Stein's two-stage rule avoids this: the standard deviation s of a pilot of
n seeds decides N = ⌈(s/ε)²⌉, and the interval is mean ± t_{n-1} s/√N with the s of the pilot. It is applied
to logarithms, because risks scatter like lognormal numbers. Where the scatter is known from theory, it
replaces s, and a normal quantile that of Student's t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sweep_service.numerics.types import AnyArray, Array

MIN_PILOT = 5  # seeds; the standard deviation of fewer is not worth a decision
ROUNDING = 1e-9  # relative: a number such as 16.000000001 is 16 with the rounding of a square

# Why a point has its number of seeds.
PILOT, MEASURED, PREDICTED, LIMIT, UNDEFINED = "pilot", "measured", "predicted", "limit", "undefined"


@dataclass(frozen=True)
class Target:
    """The standard error that is asked for, of ln(value) or of the value, and the most seeds."""

    error: float
    is_relative: bool
    max_seeds: int


class SeedCounts(NamedTuple):
    """The number of seeds at each point, those of the pilot included, and what decided it."""

    seeds: AnyArray
    basis: list[str]


def count_seeds(pilot: Array, target: Target, predicted: Array | None = None) -> SeedCounts:
    """Decide the number of seeds of each point.

    Parameters
    ----------
    pilot
        Values (point, seed) of the pilot; NaN where a run has none.
    target
        What is asked for.
    predicted
        Standard deviation of a draw over the mean by theory (point,); NaN where it does not apply.
    """
    points, size = pilot.shape
    seeds, basis = np.full(points, size, np.int64), [PILOT] * points
    known = np.full(points, np.nan) if predicted is None else predicted
    for point in range(points):
        values = pilot[point]
        if size < MIN_PILOT or not np.all(values > 0.0):  # false for NaN
            basis[point] = UNDEFINED
            continue
        logarithms = np.log(values)
        scatter = float(known[point])
        basis[point] = PREDICTED if np.isfinite(scatter) else MEASURED
        if basis[point] == MEASURED:
            scatter = float(np.std(logarithms, ddof=1))
        error = target.error if target.is_relative else target.error / float(np.exp(np.mean(logarithms)))
        needed = np.ceil((scatter / error) ** 2 * (1.0 - ROUNDING))
        if needed > target.max_seeds:
            needed, basis[point] = target.max_seeds, LIMIT
        seeds[point] = max(size, int(needed))
    return SeedCounts(seeds, basis)


class Interval(NamedTuple):
    """The geometric mean of a value, and the ends of its interval."""

    mean: Array
    low: Array
    high: Array


def estimate_interval(
    values: Array, pilot: int, confidence: float = 0.95, predicted: Array | None = None
) -> Interval:
    """Return the interval of the geometric mean of values (point, seed), of which `pilot` were first.

    NaN are seeds that were not computed. The scatter is that of the pilot, or the predicted one.
    """
    from scipy import special  # importing it takes long, and planning does without

    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = np.log(values)
        mean = np.nanmean(logarithms, axis=1)
        counts = np.sum(np.isfinite(logarithms), axis=1)
        scatter = np.std(logarithms[:, :pilot], axis=1, ddof=1)
        tail = (1.0 + confidence) / 2.0
        half = special.stdtrit(pilot - 1, tail) * scatter / np.sqrt(counts)
        if predicted is not None:
            half = np.where(np.isfinite(predicted), special.ndtri(tail) * predicted / np.sqrt(counts), half)
    return Interval(np.exp(mean), np.exp(mean - half), np.exp(mean + half))
