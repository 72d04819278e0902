"""The number of seeds for a target error, and the coverage of the intervals, on synthetic values."""

import numpy as np
import pytest
from scipy import special

from sweep_service.planning.growth.target_error import (
    LIMIT,
    MEASURED,
    PREDICTED,
    UNDEFINED,
    Target,
    count_seeds,
    estimate_interval,
)

SCATTER, MEAN = 0.5, 0.02  # lognormal, as risks after a plateau scatter


def draw(points, most, seed=0):
    return MEAN * np.exp(SCATTER * np.random.default_rng(seed).normal(size=(points, most)))


def cover(points, pilot, target, predicted=None):
    """Return the share of intervals that hold the true geometric mean, and the numbers of seeds."""
    values = draw(points, target.max_seeds)
    counts = count_seeds(values[:, :pilot], target, predicted)
    values[np.arange(target.max_seeds) >= counts.seeds[:, None]] = np.nan
    low, high = estimate_interval(values, pilot, predicted=predicted)[1:]
    return float(np.mean((low <= MEAN) & (high >= MEAN))), counts


def check_coverage(points, pilot, target, predicted=None):
    """Between 93 and 97 %; 2,000 intervals have a standard error of half a percent."""
    share, counts = cover(points, pilot, target, predicted)
    assert 0.93 <= share <= 0.97
    return counts


@pytest.mark.parametrize("pilot", [5, 8])
def test_intervals_cover_the_mean(pilot):
    counts = check_coverage(2000, pilot, Target(0.1, True, 200))
    assert 15 < np.mean(counts.seeds) < 40  # (0.5/0.1)² = 25


@pytest.mark.slow
@pytest.mark.parametrize("pilot", [5, 6, 8, 16])
@pytest.mark.parametrize(
    "target",
    [
        Target(0.1, True, 400),
        Target(0.05, True, 1000),
        Target(0.2, True, 100),
        Target(0.1 * MEAN, False, 600),
    ],
)
def test_intervals_cover_the_mean_for_every_target(pilot, target):
    check_coverage(20_000, pilot, target)


def test_stopping_at_a_small_standard_error_would_cover_too_seldom():
    """The reason for the rule: this is what it is compared with."""
    values = np.log(draw(4000, 200))
    counts = np.arange(1, 201)
    means = np.cumsum(values, axis=1) / counts
    squares = np.cumsum(values**2, axis=1) - counts * means**2
    errors = np.sqrt(squares / np.maximum(counts - 1, 1) / counts)
    stop = 4 + np.argmax(errors[:, 4:] <= 0.1, axis=1)  # with five seeds at the earliest
    rows = np.arange(len(values))
    half = special.stdtrit(stop, 0.975) * errors[rows, stop]
    assert np.mean(abs(means[rows, stop] - np.log(MEAN)) <= half) < 0.94


def test_predicted_scatter_decides_without_the_pilot():
    predicted = np.full(2000, SCATTER)
    counts = check_coverage(2000, 5, Target(0.1, True, 200), predicted)
    assert set(counts.basis) == {PREDICTED}
    assert set(counts.seeds) == {25}
    predicted[0] = np.nan
    assert cover(2000, 5, Target(0.1, True, 200), predicted)[1].basis[:2] == [MEASURED, PREDICTED]


def test_number_of_seeds_follows_the_rule():
    pilot = np.exp(
        np.array([[0.0, 0.2, 0.4, 0.6, 0.8], [1.0, 1.0, 1.0, 1.0, 1.0], [0.0, 4.0, 8.0, 1.0, 2.0]])
    )
    counts = count_seeds(pilot, Target(0.1, True, 50))
    # s² = 0.1 and N = 10; no scatter needs no more than the pilot; the third needs more than there are
    assert counts.seeds.tolist() == [10, 5, 50]
    assert counts.basis == [MEASURED, MEASURED, LIMIT]
    absolute = count_seeds(pilot[:1], Target(0.1 * np.exp(0.4), False, 50))
    assert absolute.seeds.tolist() == [10]


@pytest.mark.parametrize("wrong", [np.nan, 0.0, -1.0])
def test_values_without_a_logarithm_leave_the_pilot(wrong):
    pilot = np.ones((2, 6))
    pilot[1, 3] = wrong
    counts = count_seeds(pilot, Target(0.1, True, 50))
    assert counts.seeds.tolist() == [6, 6]
    assert counts.basis == [MEASURED, UNDEFINED]
