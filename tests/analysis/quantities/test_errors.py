"""Errors are those of many sweeps, where repeats begin at the start of their seed."""

import numpy as np
import pytest
import xarray as xr

from sweep_service.analysis.phase_diagram import phase_diagram
from sweep_service.analysis.quantities.collapse import _delays
from sweep_service.analysis.quantities.discrepancy import discrepancy
from sweep_service.analysis.quantities.exponent import exponent
from sweep_service.analysis.quantities.final_risk import final_risk
from sweep_service.analysis.quantities.master_curve import Curves, minimised
from sweep_service.analysis.quantities.noise import noise_floor
from tests.analysis.synthetic import made

SWEEPS, SEEDS, REPEATS = 400, 4, 8
D = np.arange(SWEEPS) + 10  # of no effect: as many sweeps of the same


def scattered(risk, of_start, of_run, rng=0, along=("d",)):
    """Runs multiplied by 1 + what their start adds + what is their own, each a deviation of that size."""
    random = np.random.default_rng(rng)
    for size, dims in ((of_start, (*along, "seed")), (of_run, ("d", "p", "gamma", "seed", "repeat"))):
        shape = [risk.sizes[dim] for dim in dims]
        risk = risk + size * xr.DataArray(random.standard_normal(shape), dims=dims)
    return risk.transpose("d", "p", "gamma", "seed", "repeat", "time")


@pytest.fixture(scope="module")
def sweeps():
    """Starts that differ by 10 %, and as much in what comes after them; the theory is 1/2."""
    gammas = [0.1, 0.2, 0.3]
    dataset = made(
        lambda t, regime: 0.5 if regime else 1.0, {"d": D, "gamma": gammas}, seeds=SEEDS, repeats=REPEATS,
        times=np.concatenate([[0.0], np.geomspace(1.0, 10.0, 8)]), regimes=("classical",), noise=0.01,
    )  # fmt: skip
    return dataset.assign(sgd_risk=scattered(dataset["sgd_risk"], 0.1, 0.1))


def reduced(dataset):
    return (
        phase_diagram(dataset, "p", "d", gamma="mean").to_dataset(name="value").reset_coords("standard_error")
    )


# Two variables of each: a value and its error.
STATED = {
    "final_risk": (final_risk, "final_risk"),
    "noise_floor": (noise_floor, "noise_floor"),
    "discrepancy": (discrepancy, "discrepancy"),
    "bias": (lambda dataset: discrepancy(dataset, kind="bias"), "discrepancy"),
    "a mean over gamma": (reduced, "value"),
}


@pytest.mark.parametrize("name", STATED)
def test_stated_errors_are_the_scatter(sweeps, name):
    """Of 400: to 1/√800 ~ 4 %, and the mean square of the stated ones to √(2/3)/20 ~ 4 % as well."""
    function, value = STATED[name]
    found = function(sweeps)
    stated = np.sqrt((found["standard_error"] ** 2).mean("d"))
    np.testing.assert_allclose(stated, found[value].std("d"), rtol=0.2)
    one = np.sqrt(0.1**2 + 0.1**2 / (REPEATS * (3 if name == "a mean over gamma" else 1))) / np.sqrt(SEEDS)
    np.testing.assert_allclose(stated, one, rtol=0.2)  # five deviations


def test_intervals_cover_the_truth(sweeps):
    found = final_risk(sweeps)
    inside = ((found.low <= 1.0) & (found.high >= 1.0)).mean("d")
    assert (abs(inside - 0.95) < 4 * 0.011).all()  # binomial, 400 trials


def test_slopes_of_starts(sweeps):
    """Each start has an exponent of its own, which its repeats share."""
    exponents = 0.05 * np.random.default_rng(1).standard_normal((SWEEPS, SEEDS))
    time = sweeps["time"].where(sweeps["time"] > 0, 1.0)
    risk = sweeps["sgd_risk"] * 0.0 + (time / 5.0) ** xr.DataArray(exponents, dims=("d", "seed"))
    found = final_risk(sweeps.assign(sgd_risk=risk.transpose(*sweeps["sgd_risk"].dims)))
    stated = np.sqrt((found["slope_error"] ** 2).mean("d"))
    np.testing.assert_allclose(stated, found["slope"].std("d"), rtol=0.2)


def test_one_start_has_the_errors_of_what_comes_after_it(sweeps):
    found = final_risk(sweeps.isel(seed=[0]))
    stated = np.sqrt((found["standard_error"] ** 2).mean("d"))
    np.testing.assert_allclose(stated, 0.1 / np.sqrt(REPEATS), rtol=0.2)


def test_exponents_of_starts():
    """R = √x, with starts of their own at each x: the bootstrap takes whole starts."""
    slopes, errors = [], []
    for rng in range(100):
        dataset = made(
            lambda t, d: d**0.5, {"d": [10, 40, 160]}, seeds=8, repeats=6, times=np.array([0.0, 1.0])
        )
        factor = scattered(dataset["sgd_risk"] * 0.0 + 1.0, 0.2, 0.05, rng)
        found = exponent(dataset.assign(sgd_risk=dataset["sgd_risk"] * factor), "final_risk", "d").squeeze()
        slopes.append(float(found["exponent"]))
        errors.append(float(found["standard_error"]))
    # known to 1/√200 ~ 7 %, and short by some 15 %, as the weights are estimated from eight starts
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(slopes), rel=0.3)


def test_delays_of_starts():
    times = made(lambda t: 1.0, {"d": [10, 40, 160]}, seeds=8, repeats=6, times=np.array([0.0, 1.0]))
    slopes, errors = [], []
    for rng in range(300):
        run = scattered(times["sgd_risk"], 0.2, 0.05, rng).isel(p=0, gamma=0, time=0, drop=True)
        found = _delays(run, "d", np.log(run["d"].values))
        slopes.append(found["delay_b"][0])
        errors.append(found["delay_b_error"][0])
    # as above
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(slopes), rel=0.3)


def test_collapses_resample_starts():
    """By how much the curve of the larger of two sizes is above the other."""
    dataset = made(lambda t: 1.0, {"d": [10, 100]}, seeds=SEEDS, repeats=6, times=np.array([0.0, 1.0, 2.0]))

    def cost(y):
        return lambda above: (y[1, 0] - y[0, 0] - above[0]) ** 2

    heights, errors = [], []
    for rng in range(60):
        runs = dataset.assign(sgd_risk=scattered(dataset["sgd_risk"], 0.1, 0.02, rng)).isel(p=0, gamma=0)
        best, error, _ = minimised(Curves(runs, "d", "sgd", 0.01), cost, ((-1.0, 1.0),), 40)
        heights.append(best[0])
        errors.append(error[0])
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(heights), rel=0.3)  # 1/√120 ~ 9 %
