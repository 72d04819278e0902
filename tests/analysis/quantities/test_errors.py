"""Standard errors agree with the scatter over many sweeps, in which the repeats of a seed share a start."""

import numpy as np
import pytest
import xarray as xr

from sweep_service.analysis.phase_diagram import phase_diagram
from sweep_service.analysis.quantities.collapse import fit_delays
from sweep_service.analysis.quantities.discrepancy import discrepancy
from sweep_service.analysis.quantities.exponent import exponent
from sweep_service.analysis.quantities.final_risk import final_risk
from sweep_service.analysis.quantities.master_curve import MeanCurves, Scaling, minimise_quality
from sweep_service.analysis.quantities.noise import noise_floor
from tests.analysis.synthetic import make_dataset

SWEEPS, SEEDS, REPEATS = 400, 4, 8
D = np.arange(SWEEPS) + 10  # without effect: each d is an independent sweep


def scattered(risk, of_start, of_run, rng=0, along=("d",)):
    """Multiply runs by 1 + a deviation of their start + a deviation of their own, of these sizes."""
    random = np.random.default_rng(rng)
    for size, dims in ((of_start, (*along, "seed")), (of_run, ("d", "p", "gamma", "seed", "repeat"))):
        shape = [risk.sizes[dim] for dim in dims]
        risk = risk + size * xr.DataArray(random.standard_normal(shape), dims=dims)
    return risk.transpose("d", "p", "gamma", "seed", "repeat", "time")


@pytest.fixture(scope="module")
def sweeps():
    """Starts scatter by 10 %, and repeats by as much; the theory is 1/2."""
    gammas = [0.1, 0.2, 0.3]
    dataset = make_dataset(
        lambda t, regime: 0.5 if regime else 1.0, {"d": D, "gamma": gammas}, seeds=SEEDS, repeats=REPEATS,
        times=np.concatenate([[0.0], np.geomspace(1.0, 10.0, 8)]), regimes=("classical",), noise=0.01,
    )  # fmt: skip
    return dataset.assign(sgd_risk=scattered(dataset["sgd_risk"], 0.1, 0.1))


def reduced(dataset):
    return (
        phase_diagram(dataset, "p", "d", gamma="mean").to_dataset(name="value").reset_coords("standard_error")
    )


# For each: a value and its error.
STATED = {
    "final_risk": (final_risk, "final_risk"),
    "noise_floor": (noise_floor, "noise_floor"),
    "discrepancy": (discrepancy, "discrepancy"),
    "bias": (lambda dataset: discrepancy(dataset, kind="bias"), "discrepancy"),
    "a mean over gamma": (reduced, "value"),
}


@pytest.mark.parametrize("name", STATED)
def test_errors_are_the_scatter(sweeps, name):
    """The scatter over 400 is known to 1/√800 ~ 4 %, the mean square of the errors to √(2/3)/20 ~ 4 %."""
    function, value = STATED[name]
    result = function(sweeps)
    stated = np.sqrt((result["standard_error"] ** 2).mean("d"))
    np.testing.assert_allclose(stated, result[value].std("d"), rtol=0.2)
    expected = np.sqrt(0.1**2 + 0.1**2 / (REPEATS * (3 if name == "a mean over gamma" else 1))) / np.sqrt(
        SEEDS
    )
    np.testing.assert_allclose(stated, expected, rtol=0.2)  # five deviations


def test_intervals_cover_the_truth(sweeps):
    result = final_risk(sweeps)
    inside = ((result.low <= 1.0) & (result.high >= 1.0)).mean("d")
    assert (abs(inside - 0.95) < 4 * 0.011).all()  # binomial, 400 trials


def test_errors_of_slopes_are_the_scatter_over_starts(sweeps):
    """Each start has its own exponent, which its repeats share."""
    exponents = 0.05 * np.random.default_rng(1).standard_normal((SWEEPS, SEEDS))
    time = sweeps["time"].where(sweeps["time"] > 0, 1.0)
    risk = sweeps["sgd_risk"] * 0.0 + (time / 5.0) ** xr.DataArray(exponents, dims=("d", "seed"))
    result = final_risk(sweeps.assign(sgd_risk=risk.transpose(*sweeps["sgd_risk"].dims)))
    stated = np.sqrt((result["slope_error"] ** 2).mean("d"))
    np.testing.assert_allclose(stated, result["slope"].std("d"), rtol=0.2)


def test_single_start_has_the_errors_of_its_repeats(sweeps):
    result = final_risk(sweeps.isel(seed=[0]))
    stated = np.sqrt((result["standard_error"] ** 2).mean("d"))
    np.testing.assert_allclose(stated, 0.1 / np.sqrt(REPEATS), rtol=0.2)


def test_errors_of_exponents_are_the_scatter_over_starts():
    """R = √x, with independent starts at each x."""
    slopes, errors = [], []
    for rng in range(100):
        dataset = make_dataset(
            lambda t, d: d**0.5, {"d": [10, 40, 160]}, seeds=8, repeats=6, times=np.array([0.0, 1.0])
        )
        factor = scattered(dataset["sgd_risk"] * 0.0 + 1.0, 0.2, 0.05, rng)
        result = exponent(dataset.assign(sgd_risk=dataset["sgd_risk"] * factor), "final_risk", "d").squeeze()
        slopes.append(float(result["exponent"]))
        errors.append(float(result["standard_error"]))
    # Known to 1/√200 ~ 7 %.
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(slopes), rel=0.3)


def test_errors_of_delays_are_the_scatter_over_starts():
    times = make_dataset(lambda t: 1.0, {"d": [10, 40, 160]}, seeds=8, repeats=6, times=np.array([0.0, 1.0]))
    slopes, errors = [], []
    for rng in range(300):
        run = scattered(times["sgd_risk"], 0.2, 0.05, rng).isel(p=0, gamma=0, time=0, drop=True)
        result = fit_delays(run, "d", np.log(run["d"].values))
        slopes.append(result["delay_b"][0])
        errors.append(result["delay_b_error"][0])
    # As above.
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(slopes), rel=0.3)


def test_errors_of_a_collapse_are_the_scatter_over_starts():
    """The vertical shift between the curves of two sizes."""
    dataset = make_dataset(
        lambda t: 1.0, {"d": [10, 100]}, seeds=SEEDS, repeats=6, times=np.array([0.0, 1.0, 2.0])
    )

    heights, errors = [], []
    for rng in range(60):
        runs = dataset.assign(sgd_risk=scattered(dataset["sgd_risk"], 0.1, 0.02, rng)).isel(p=0, gamma=0)
        curves = MeanCurves(runs, "d", "sgd", 0.01)
        fit = minimise_quality(curves, Scaling(curves.times, np.ones(2), (0.0, 1.0)), 40)
        heights.append(fit.best[1])
        errors.append(fit.error[1])
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(heights), rel=0.3)  # 1/√120 ~ 9 %
