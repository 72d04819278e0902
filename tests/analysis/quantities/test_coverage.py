"""The 95 % intervals hold the truth in 95 % of many synthetic sweeps.

Each case makes all of its sweeps in one dataset: they differ in `noise` or `d`, which have no effect.
"""

import numpy as np
import pytest
import xarray as xr

import sweep_service  # noqa: F401  registers ds.sweep
from sweep_service.analysis.quantities.collapse import fit_delays
from sweep_service.analysis.quantities.line_fit import t_quantile
from sweep_service.status import Status
from tests.analysis.synthetic import make_dataset

FEW, MANY = 800, 4000
TIMES = np.array([0.0, 50.0, 75.0, 100.0])
SIZES = np.array([30, 100, 300, 1000])
SLOPE = 0.5
EULER = 0.57721566  # the mean of a Gumbel variable


@pytest.fixture(
    scope="module",
    params=[pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.slow)],
)
def sweeps(request):
    return request.param


def assert_covers(inside, low=0.93, high=0.97):
    """Between the bounds, which for a few sweeps are wider by three binomial standard deviations."""
    share, number = float(np.mean(inside)), np.size(inside)
    margin = 0.0 if number >= MANY else 3 * np.sqrt(0.95 * 0.05 / number)
    print(f"coverage {100 * share:.1f} % of {number}")
    assert low - margin <= share <= high + margin


def is_inside(result, truth):
    return (result["low"] <= truth) & (truth <= result["high"])


def with_factors(factors, dims, axes, curve=lambda t: 1.0, **options):
    """A dataset of flat curves times factors, with an independent sweep for each value of `noise`."""
    dataset = make_dataset(curve, axes, times=TIMES, **options)
    risk = dataset["sgd_risk"] * xr.DataArray(factors, dims=dims)
    return dataset.assign(sgd_risk=risk.transpose(*dataset["sgd_risk"].dims))


def draw_logarithms(random, law, shape):
    if law == "gumbel":
        return 0.3 * random.gumbel(size=shape)
    scatter = np.array([0.1, 0.2, 0.4, 0.8])[:, None] if law == "unequal" else 0.3
    return scatter * random.standard_normal(shape)


@pytest.mark.parametrize("seeds", [3, 4, 8, 24])
@pytest.mark.parametrize(
    ("law", "shared"),
    [("normal", False), ("normal", True), ("gumbel", True), ("unequal", False), ("missing", True)],
)
def test_exponents(sweeps, seeds, law, shared):
    """The truth is the exponent of the geometric mean. Weights (mean/error)² covered 62 % with 3 starts."""
    random = np.random.default_rng(seeds)
    sweeps = max(sweeps * 4 // seeds, 300) if sweeps == FEW else sweeps
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
    assert_covers(is_inside(result, SLOPE))
    prefactor = np.log(result["prefactor"]) - (0.3 * EULER if law == "gumbel" else 0.0)
    assert abs(float(prefactor.mean())) < 4 * float(prefactor.std()) / np.sqrt(sweeps)


def test_exponent_of_single_runs(sweeps):
    """One run at each point: the residuals of the line, with t of two degrees of freedom."""
    y = SLOPE * np.log(SIZES) + 0.3 * np.random.default_rng(0).standard_normal((sweeps, 4))
    axes = {"d": SIZES, "noise": np.arange(sweeps) * 1e-9}
    assert_covers(
        is_inside(with_factors(np.exp(y), ("noise", "d"), axes).sweep.exponent("final_risk", "d"), SLOPE)
    )


@pytest.mark.parametrize("seeds", [3, 8])
@pytest.mark.parametrize("scatter", [0.1, 0.3])
def test_final_risks_and_discrepancies(sweeps, seeds, scatter):
    """Arithmetic means of lognormal values. The theory is 0, so the discrepancy is the risk itself."""
    factors = np.exp(scatter * np.random.default_rng(seeds).standard_normal((sweeps, seeds)))
    axes = {"d": np.arange(sweeps) + 1000}
    dataset = with_factors(
        factors, ("d", "seed"), axes, lambda t, regime: 0.0 if regime else 1.0, seeds=seeds,
        regimes=("classical",),
    )  # fmt: skip
    truth = np.exp(scatter**2 / 2)
    assert_covers(is_inside(dataset.sweep.final_risk(), truth))
    assert_covers(is_inside(dataset.sweep.discrepancy(b="classical"), truth))
    diagram = dataset.sweep.phase_diagram("p", "d", "sgd_final_risk").isel(p=0)
    half_width = t_quantile(np.array(seeds - 1)) * diagram["standard_error"]
    assert_covers(abs(diagram - truth) <= half_width)


@pytest.mark.parametrize(("floor", "a"), [(1.0, 0.3), (1.0, 0.0), (0.0, 1.0), (0.02, 1.0)])
def test_noise_floors(sweeps, floor, a):
    """R = F + a (t_max/t)², with 10 % noise; where F or a is 0, a constraint applies: at least 93 %."""
    times = np.concatenate([[0.0], np.geomspace(10.0, 100.0, 13)])
    dataset = make_dataset(
        lambda t: floor + a * (100.0 / np.maximum(t, 1.0)) ** 2, {"d": np.arange(sweeps) + 1000}, seeds=6,
        times=times, noise=0.1, rng=3,
    )  # fmt: skip
    noise = np.random.default_rng(1).standard_normal(dataset["sgd_risk"].shape)
    dataset["sgd_risk"] = dataset["sgd_risk"] * (1.0 + 0.1 * noise)
    assert_covers(is_inside(dataset.sweep.noise_floor(), floor), 0.93, 0.97 if floor > 0.1 and a > 0 else 1.0)


@pytest.mark.parametrize("seeds", [3, 8])
def test_specialisation_times(sweeps, seeds):
    """Times with a scatter of 20 %, as the mean and error of a phase diagram, and as delays a + b ln d."""
    random = np.random.default_rng(seeds)
    moments = 10.0 * np.exp(0.2 * random.standard_normal((sweeps, seeds)))
    times = np.concatenate([[0.0], np.geomspace(1.0, 100.0, 200)])
    dataset = make_dataset(
        lambda t: 1.0, {"d": np.arange(sweeps) + 1000}, seeds=seeds, times=times,
        observables={"specialisation": lambda t: 0.0},
    )  # fmt: skip
    order = 0.5 + 0.3 * np.tanh(3.0 * np.log(np.maximum(times, 1e-3) / moments[..., None]))
    dataset["sgd_specialisation"].values[:] = order[:, None, None, :, None, :]
    diagram = dataset.sweep.phase_diagram("p", "d", "sgd_specialisation_time").isel(p=0)
    half_width = t_quantile(np.array(seeds - 1)) * diagram["standard_error"]
    assert_covers(abs(diagram - 10.0 * np.exp(0.02)) <= half_width)
    x, inside = np.log(SIZES), []
    for _ in range(sweeps):
        values = 5.0 + 2.0 * x[:, None] + random.standard_normal((4, seeds)) + random.standard_normal(seeds)
        delays = fit_delays(xr.DataArray(values, dims=("d", "seed")), "d", x)
        inside.append(delays["delay_b_low"][0] <= 2.0 <= delays["delay_b_high"][0])
    assert_covers(inside)


@pytest.mark.parametrize("runs", [5, 10, 40])
def test_shares_of_diverged_runs(sweeps, runs):
    """The Wilson interval, on average over the true share."""
    random = np.random.default_rng(runs)
    shares = random.random(sweeps)
    lost = random.random((sweeps, runs)) < shares[:, None]
    status = np.where(lost, Status.DIVERGED, Status.DONE)[:, None, None, None, :]
    dataset = make_dataset(
        lambda t: 1.0, {"d": np.arange(sweeps) + 1000}, times=TIMES, repeats=runs, status=status
    )
    result = dataset.sweep.phase().isel(p=0, gamma=0)
    assert_covers((result.diverged_low <= shares) & (shares <= result.diverged_high))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["power", "logshift"])
def test_exponents_of_a_collapse(kind):
    """400 sweeps, as each takes up to a second: the bounds are wider by three deviations of 1.1 %."""
    sizes = [10, 30, 100]
    times = np.concatenate([[0.0], np.geomspace(0.1, 10.0, 16)])
    if kind == "logshift":
        times = np.linspace(0.0, 40.0, 25)

    def powers(t, d):
        return d**-0.4 / (1 + t * d**-0.7 * 10) ** 1.5

    def delayed(t, d):
        return 0.05 * (1.01 - np.tanh((t - 4 * np.log(d)) / 6))

    curve, truths = (powers, {"a": 0.7, "b": 0.4}) if kind == "power" else (delayed, {"b": 4.0})
    inside = {name: [] for name in truths}
    for rng in range(400):
        dataset = make_dataset(curve, {"d": sizes}, seeds=6, scatter=0.1, times=times, rng=rng)
        result = dataset.sweep.collapse(kind, bootstraps=25)
        for name, truth in truths.items():
            inside[name].append(result[f"{name}_low"].item() <= truth <= result[f"{name}_high"].item())
    for values in inside.values():
        assert_covers(values)
