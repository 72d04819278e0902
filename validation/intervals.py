"""Rows of intervals: the share of synthetic sweeps in which the 95 % interval holds the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from tests.analysis.quantities.test_coverage import SIZES, SLOPE, TIMES, is_inside, with_factors
from tests.analysis.synthetic import make_dataset
from validation.row import Row

SWEEPS = 4000
Inside = np.ndarray  # whether the interval of each sweep holds the truth


def exponents(random: np.random.Generator, sweeps: int, seeds: int) -> Inside:
    y = SLOPE * np.log(SIZES)[:, None] + 0.3 * random.standard_normal((sweeps, len(SIZES), seeds))
    axes = {"d": SIZES, "noise": np.arange(sweeps) * 1e-9}
    dataset = with_factors(np.exp(y), ("noise", "d", "seed"), axes, seeds=seeds)
    return is_inside(dataset.sweep.exponent("final_risk", "d"), SLOPE).values


def final_risks(random: np.random.Generator, sweeps: int, seeds: int) -> Inside:
    factors = np.exp(0.3 * random.standard_normal((sweeps, seeds)))
    dataset = with_factors(factors, ("d", "seed"), {"d": np.arange(sweeps) + 1000}, seeds=seeds)
    return is_inside(dataset.sweep.final_risk(), np.exp(0.045)).values


def discrepancies(random: np.random.Generator, sweeps: int, seeds: int) -> Inside:
    """The theory is 0, so that the discrepancy is the risk itself."""
    factors = np.exp(0.3 * random.standard_normal((sweeps, seeds)))
    dataset = with_factors(
        factors, ("d", "seed"), {"d": np.arange(sweeps) + 1000}, lambda t, regime: 0.0 if regime else 1.0,
        seeds=seeds, regimes=("classical",),
    )  # fmt: skip
    return is_inside(dataset.sweep.discrepancy(b="classical"), np.exp(0.045)).values


def noise_floors(random: np.random.Generator, sweeps: int, seeds: int) -> Inside:
    times = np.concatenate([[0.0], np.geomspace(10.0, 100.0, 13)])
    dataset = make_dataset(
        lambda t: 1.0 + 0.3 * (100.0 / np.maximum(t, 1.0)) ** 2, {"d": np.arange(sweeps) + 1000},
        seeds=seeds, times=times, noise=0.1,
    )  # fmt: skip
    scatter = 1.0 + 0.1 * random.standard_normal(dataset["sgd_risk"].shape)
    return is_inside(dataset.assign(sgd_risk=dataset["sgd_risk"] * scatter).sweep.noise_floor(), 1.0).values


def diverged_shares(random: np.random.Generator, sweeps: int, runs: int) -> Inside:
    from sweep_service.status import Status

    shares = random.random(sweeps)
    is_lost = random.random((sweeps, runs)) < shares[:, None]
    status = np.where(is_lost, Status.DIVERGED, Status.DONE)[:, None, None, None, :]
    axes = {"d": np.arange(sweeps) + 1000}
    dataset = make_dataset(lambda t: 1.0, axes, times=TIMES, repeats=runs, status=status)
    result = dataset.sweep.phase().isel(p=0, gamma=0)
    return ((result.diverged_low <= shares) & (shares <= result.diverged_high)).values


# The case, the function and its number of starts or runs.
CASES: dict[str, tuple[Callable[[np.random.Generator, int, int], Inside], int]] = {
    "exponent, 3 starts": (exponents, 3),
    "exponent, 8 starts": (exponents, 8),
    "final risk, 3 starts": (final_risks, 3),
    "final risk, 8 starts": (final_risks, 8),
    "discrepancy, 3 starts": (discrepancies, 3),
    "discrepancy, 8 starts": (discrepancies, 8),
    "noise floor, 6 starts": (noise_floors, 6),
    "share of diverged runs, 10 runs": (diverged_shares, 10),
    "share of diverged runs, 40 runs": (diverged_shares, 40),
}


def coverage(case: str, sweeps: int, seed: int) -> float:
    """The share of synthetic sweeps whose interval holds the truth."""
    measure, size = CASES[case]
    return float(np.mean(measure(np.random.default_rng(seed), sweeps, size)))


def interval_rows(_: Path) -> Iterator[Row]:
    for case in CASES:
        method = f"truth of {SWEEPS} synthetic sweeps"
        yield Row.inside(case, method, coverage(case, SWEEPS, 0), 0.95, 0.93, 0.97)
