"""How often the product's 95 % intervals hold the truth, on synthetic sweeps with known answers.

`coverage(case, sweeps, seed)` is the share for one of the CASES. Most cases make all of their sweeps in one
dataset: these differ in `noise` or `d`, which have no effect there.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import xarray as xr

import sweep_service  # noqa: F401  registers ds.sweep
from sweep_service.analysis.quantities.collapse import fit_delays
from sweep_service.analysis.quantities.line_fit import t_quantile
from sweep_service.status import Status
from tests.analysis.synthetic import make_dataset

TIMES = np.array([0.0, 50.0, 75.0, 100.0])
SIZES = np.array([30, 100, 300, 1000])
SLOPE = 0.5


def coverage(case, sweeps, seed=0):
    """The share of `sweeps` synthetic sweeps whose interval holds the truth."""
    return float(np.mean(CASES[case].hold(np.random.default_rng(seed), sweeps)))


class Case(NamedTuple):
    """`hold(random, sweeps)` tells for each sweep whether its interval holds the truth."""

    hold: Callable[[np.random.Generator, int], np.ndarray]
    low: float = 0.93
    high: float = 0.97
    cost: int = 1  # of a sweep, relative to that of most cases


def is_inside(result, truth, name=""):
    return ((result[f"{name}low"] <= truth) & (truth <= result[f"{name}high"])).values.reshape(-1)


def with_factors(factors, dims, axes, curve=lambda t: 1.0, **options):
    """A dataset of flat curves times factors."""
    dataset = make_dataset(curve, axes, times=TIMES, **options)
    risk = dataset["sgd_risk"] * xr.DataArray(factors, dims=dims)
    return dataset.assign(sgd_risk=risk.transpose(*dataset["sgd_risk"].dims))


def draw_logarithms(random, law, shape):
    if law == "gumbel":
        return 0.3 * random.gumbel(size=shape)
    scatter = np.array([0.1, 0.2, 0.4, 0.8])[:, None] if law == "unequal" else 0.3
    return scatter * random.standard_normal(shape)


# ---- exponents


def exponents_of_sweeps(random, sweeps, seeds, law="normal", shared=False):
    """Exponents of the final risk, whose truth is that of the geometric mean."""
    x = np.log(SIZES)
    y = SLOPE * x[:, None] + draw_logarithms(random, law, (sweeps, 4, seeds))
    if shared:  # a start is high or low at every d, and has a slope of its own
        y += 0.5 * random.standard_normal((sweeps, 1, seeds))
        y += 0.1 * random.standard_normal((sweeps, 1, seeds)) * (x - x.mean())[:, None]
    axes = {"d": SIZES, "noise": np.arange(sweeps) * 1e-9}
    dataset = with_factors(np.exp(y), ("noise", "d", "seed"), axes, seeds=seeds)
    if law == "missing":
        is_missing = random.random(dataset["sgd_status"].shape) < 0.1
        dataset["sgd_status"] = dataset["sgd_status"].where(~is_missing, Status.FAILED)
    result = dataset.sweep.exponent("final_risk", "d")
    assert result.sizes["case"] == sweeps
    return result


def hold_exponents(random, sweeps, **options):
    return is_inside(exponents_of_sweeps(random, sweeps, **options), SLOPE)


# ---- means


def scattered_means(random, sweeps, seeds, scatter):
    """Sweeps with a lognormal scatter of runs, and their true mean. The theory is 0."""
    factors = np.exp(scatter * random.standard_normal((sweeps, seeds)))
    axes = {"d": np.arange(sweeps) + 1000}

    def curve(t, regime):
        return 0.0 if regime else 1.0

    dataset = with_factors(factors, ("d", "seed"), axes, curve, seeds=seeds, regimes=("classical",))
    return dataset, np.exp(scatter**2 / 2)


def hold_final_risks(random, sweeps, seeds, scatter):
    dataset, truth = scattered_means(random, sweeps, seeds, scatter)
    return is_inside(dataset.sweep.final_risk(), truth)


def hold_discrepancies(random, sweeps, seeds, scatter):
    dataset, truth = scattered_means(random, sweeps, seeds, scatter)
    return is_inside(dataset.sweep.discrepancy(b="classical"), truth)


def hold_phase_diagrams(random, sweeps, seeds, scatter):
    dataset, truth = scattered_means(random, sweeps, seeds, scatter)
    return holds_mean(dataset.sweep.phase_diagram("p", "d", "sgd_final_risk"), seeds, truth)


def holds_mean(diagram, seeds, truth):
    """Whether the t-interval from the standard error of a phase diagram holds the truth."""
    half_width = t_quantile(np.array(seeds - 1)) * diagram["standard_error"]
    return (abs(diagram - truth) <= half_width).values.reshape(-1)


def hold_noise_floors(random, sweeps, floor, a, **options):
    """R = F + a (t_max/t)², with 10 % noise."""
    times = np.concatenate([[0.0], np.geomspace(10.0, 100.0, 13)])
    dataset = make_dataset(
        lambda t: floor + a * (100.0 / np.maximum(t, 1.0)) ** 2, {"d": np.arange(sweeps) + 1000}, seeds=6,
        times=times, noise=0.1, **options,
    )  # fmt: skip
    noise = random.standard_normal(dataset["sgd_risk"].shape)
    dataset["sgd_risk"] = dataset["sgd_risk"] * (1.0 + 0.1 * noise)
    return is_inside(dataset.sweep.noise_floor(), floor)


# ---- specialisation


def hold_specialisation_times(random, sweeps, seeds):
    """Times with a scatter of 20 %, as the mean and error of a phase diagram."""
    moments = 10.0 * np.exp(0.2 * random.standard_normal((sweeps, seeds)))
    times = np.concatenate([[0.0], np.geomspace(1.0, 100.0, 60)])
    dataset = make_dataset(
        lambda t: 1.0, {"d": np.arange(sweeps) + 1000}, seeds=seeds, times=times,
        observables={"specialisation": lambda t: 0.0},
    )  # fmt: skip
    order = 0.5 + 0.3 * np.tanh(3.0 * np.log(np.maximum(times, 1e-3) / moments[..., None]))
    dataset["sgd_specialisation"].values[:] = order[:, None, None, :, None, :]
    diagram = dataset.sweep.phase_diagram("p", "d", "sgd_specialisation_time")
    return holds_mean(diagram, seeds, 10.0 * np.exp(0.02))


def hold_delays(random, sweeps, seeds):
    """Delays a + b ln d of specialisation times."""
    x, inside = np.log(SIZES), []
    for _ in range(sweeps):
        values = 5.0 + 2.0 * x[:, None] + random.standard_normal((4, seeds)) + random.standard_normal(seeds)
        delays = fit_delays(xr.DataArray(values, dims=("d", "seed")), "d", x)
        inside.append(delays["delay_b_low"][0] <= 2.0 <= delays["delay_b_high"][0])
    return np.array(inside)


# ---- shares


def hold_diverged_shares(random, sweeps, runs):
    """Wilson intervals, on average over the true share."""
    shares = random.random(sweeps)
    lost = random.random((sweeps, runs)) < shares[:, None]
    status = np.where(lost, Status.DIVERGED, Status.DONE)[:, None, None, None, :]
    axes = {"d": np.arange(sweeps) + 1000}
    dataset = make_dataset(lambda t: 1.0, axes, times=TIMES, repeats=runs, status=status)
    return is_inside(dataset.sweep.phase(), shares[:, None, None], "diverged_")


# ---- collapse


def scale_by_powers(t, d):
    return d**-0.4 / (1 + t * d**-0.7 * 10) ** 1.5


def delay_logarithmically(t, d):
    return 0.05 * (1.01 - np.tanh((t - 4 * np.log(d)) / 6))


COLLAPSES = {
    "power": (scale_by_powers, np.concatenate([[0.0], np.geomspace(0.1, 10.0, 16)]), {"a": 0.7, "b": 0.4}),
    "logshift": (delay_logarithmically, np.linspace(0.0, 40.0, 25), {"b": 4.0}),
}


@cache
def collapse_sweeps(kind, seeds, scatter, shared, sweeps, seed):
    """For each parameter whether its interval holds the truth; cached, as a fit has several parameters.

    Half of the variance is independent at every sample; half is common to all times of a run or, if `shared`,
    of a start at all sizes.
    """
    curve, times, truths = COLLAPSES[kind]
    random = np.random.default_rng(seed)
    dataset = make_dataset(curve, {"d": [10, 30, 100]}, seeds=seeds, times=times)
    shape, inside = dataset["sgd_risk"].shape, {name: [] for name in truths}
    for _ in range(sweeps):
        z = random.standard_normal(shape) + random.standard_normal((1 if shared else 3, *shape[1:-1], 1))
        risk = dataset["sgd_risk"] * np.exp(scatter * np.sqrt(0.5) * z)
        result = dataset.assign(sgd_risk=risk).sweep.collapse(kind)
        for name, truth in truths.items():
            inside[name].append(bool(result[f"{name}_low"] <= truth <= result[f"{name}_high"]))
    return inside


def hold_collapses(random, sweeps, kind, name, seeds, scatter, shared):
    seed = int(random.integers(2**32))
    return np.array(collapse_sweeps(kind, seeds, scatter, shared, sweeps, seed)[name])


CASES = {
    f"exponent, {law}{', shared starts' * shared}, {seeds} seeds": Case(
        partial(hold_exponents, seeds=seeds, law=law, shared=shared)
    )
    for law, shared in (
        ("normal", False), ("normal", True), ("gumbel", True), ("unequal", False), ("missing", True)
    )
    for seeds in (3, 4, 8, 24)
}  # fmt: skip
CASES["exponent, single runs"] = Case(partial(hold_exponents, seeds=1))
CASES |= {
    f"{quantity}, scatter {scatter:.0%}, {seeds} seeds": Case(partial(hold, seeds=seeds, scatter=scatter))
    for quantity, hold in (
        ("final risk", hold_final_risks),
        ("discrepancy", hold_discrepancies),
        ("phase diagram", hold_phase_diagrams),
    )
    for scatter in (0.1, 0.3)
    for seeds in (3, 8)
}
CASES |= {
    # where F or a is 0, or close to it, a constraint applies: at least 93 %
    f"noise floor, F = {floor:g}, a = {a:g}": Case(
        partial(hold_noise_floors, floor=floor, a=a), high=0.97 if floor > 0.1 and a > 0 else 1.0
    )
    for floor, a in ((1.0, 0.3), (1.0, 0.0), (0.0, 1.0), (0.02, 1.0))
}
CASES["noise floor, planted start"] = Case(
    partial(hold_noise_floors, floor=1.0, a=0.0, init={"kind": "planted"})
)
CASES |= {
    f"{quantity}, {seeds} seeds": Case(partial(hold, seeds=seeds))
    for quantity, hold in (("specialisation time", hold_specialisation_times), ("delay", hold_delays))
    for seeds in (3, 8)
}
CASES |= {
    f"share of diverged runs, {n} runs": Case(partial(hold_diverged_shares, runs=n)) for n in (5, 10, 40)
}
CASES |= {
    f"collapse {kind}, {name}, scatter {scatter:.0%}{', shared starts' * shared}, {seeds} seeds": Case(
        partial(hold_collapses, kind=kind, name=name, seeds=seeds, scatter=scatter, shared=shared),
        cost=8,
    )
    for kind, name in (("power", "a"), ("power", "b"), ("logshift", "b"))
    for seeds, scatter, shared in ((4, 0.1, False), (4, 0.3, True), (8, 0.3, False), (16, 0.1, True))
}
