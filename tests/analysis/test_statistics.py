"""What every definition must bear: parts of a sweep, chunks, one run, sources; and leave alone."""

from functools import partial

import numpy as np
import pytest
import xarray as xr

from sweep_service.analysis.quantities.bounded import bounded
from sweep_service.analysis.quantities.classification import phase
from sweep_service.analysis.quantities.crossing import time_to
from sweep_service.analysis.quantities.final_risk import final_risk
from sweep_service.analysis.quantities.noise import noise_floor
from sweep_service.analysis.quantities.plateaus import plateaus
from sweep_service.analysis.quantities.specialisation import specialisation_time
from sweep_service.analysis.runs import late, over_runs
from sweep_service.analysis.statistics import at, by_run, over, over_draws, resampled
from tests.analysis.synthetic import TIMES, assert_described, made

DEFINITIONS = {
    "bounded": bounded,
    "final_risk": final_risk,
    "noise_floor": noise_floor,
    "phase": phase,
    "plateaus": plateaus,
    "specialisation_time": specialisation_time,
    "time_to": partial(time_to, risk=0.01),
}


@pytest.fixture(scope="module")
def dataset():
    return made(
        lambda t, d, gamma: 0.1 / (1 + gamma * t) + 1e-6 * d,
        {"d": [10, 20], "p": [2, 4], "gamma": [0.1, 0.5]},
        seeds=2,
        repeats=2,
        scatter=0.05,
        noise=0.01,
        regimes=("classical", "mean_field"),
        observables={"specialisation": lambda t: t / (1 + t), "largest_norm": lambda t: 1.0},
        init={"kind": "gaussian"},  # whose teacher is random: R_null depends on d and on the seed
    )


@pytest.mark.parametrize("source", ["sgd", "ode", "mean_field"])
@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
def test_a_part_has_the_answers_of_the_whole(dataset, definition, source):
    before = dataset.copy(deep=True)
    whole = definition(dataset, source=source)
    assert dataset.identical(before)
    assert_described(whole)
    assert ("regime" in whole.dims) == (source == "ode")
    assert {"d", "p", "gamma", "delta_t", "gamma_over_p"} <= set(whole.coords)
    xr.testing.assert_identical(definition(dataset.chunk(), source=source), whole)
    one = definition(dataset.sel(d=20, p=4), source=source)
    part = whole.sel(d=20, p=4)
    for name in whole.data_vars:
        assert one[name].dims == part[name].dims
        assert one[name].dtype.kind in "SU" or one[name].attrs == part[name].attrs
        if "plateau" not in whole.dims:  # whose number is that of the point with the most
            xr.testing.assert_allclose(one[name], part[name], rtol=1e-9)
    turned = definition(
        dataset.transpose("repeat", "gamma", "seed", "regime", "p", "d", "time"), source=source
    )
    for name in whole.data_vars:
        if whole[name].dtype.kind == "f":
            xr.testing.assert_allclose(turned[name].transpose(*whole[name].dims), whole[name], rtol=1e-9)


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
def test_one_run_that_was_selected(dataset, definition):
    found = definition(dataset.isel(seed=0, repeat=0))
    kept = definition(dataset.isel(seed=[0], repeat=[0]))
    for name in found.data_vars:
        same = kept[name].squeeze(["seed", "repeat"], drop=True) if "seed" in kept[name].dims else kept[name]
        np.testing.assert_array_equal(found[name], same)


def test_means_and_errors_are_of_what_is_finite():
    values = np.array([[1.0, 3.0, np.nan], [np.inf, np.nan, 5.0], [np.nan, np.nan, np.nan]])
    mean, error, count = over(values)
    np.testing.assert_array_equal(mean, [2.0, 5.0, np.nan])
    np.testing.assert_array_equal(error, [np.std([1.0, 3.0], ddof=1) / np.sqrt(2), np.nan, np.nan])
    assert count.tolist() == [2, 1, 0]
    for down, across in zip(over(values.T, axis=0), (mean, error, count), strict=True):
        np.testing.assert_array_equal(down, across)


def test_the_same_errors_of_plain_arrays():
    random = np.random.default_rng(0)
    values = random.standard_normal((3, 5, 4, 7))  # (d, seed, repeat, time)
    values[random.random(values.shape) < 0.3] = np.nan
    values[0, 1:] = np.nan
    values[1, :, 1:] = np.nan
    array = xr.DataArray(values, dims=("d", "seed", "repeat", "time"))
    np.testing.assert_array_equal(by_run(array.transpose("repeat", "d", "seed", "time")), values)
    wanted = [one.values for one in over_runs(array)]
    *found, number = over_draws(values, axis=-3)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert np.isnan(found[1][0]).all()
    np.testing.assert_array_equal(number, np.isfinite(values).any(axis=2).sum(axis=1))
    for down, across in zip(over_draws(np.moveaxis(values, -1, 1)), (*found, number), strict=True):
        np.testing.assert_array_equal(down, across)
    # one start: its repeats are the draws
    assert by_run(array.isel(seed=[2])).shape == (3, 4, 1, 7)
    assert by_run(array.isel(seed=2, time=0)).shape == (3, 4, 1)
    mean, error, count = over(values[:, 2], axis=1)
    for one, other in zip(
        over_draws(by_run(array.isel(seed=[2])), axis=-3), (mean, error, count), strict=False
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_means_of_resampled_draws_scatter_by_their_error():
    values = np.random.default_rng(0).standard_normal(4)
    means = values[resampled(np.random.default_rng(1), 4, 40_000)].mean(axis=1)
    assert np.std(means) == pytest.approx(over(values)[1], rel=0.02)  # 1/sqrt(80 000) ~ 0.4 %


def test_parameters_broadcast_over_points():
    gamma = xr.DataArray([1.0, 2.0], dims="gamma")
    assert at(gamma, ("d", "gamma", "regime")).shape == (1, 2, 1)
    seeds = xr.DataArray([[1.0, 3.0], [2.0, 4.0]], dims=("seed", "d"))
    assert at(seeds, ("d",)).tolist() == [1.5, 3.5]
    assert at(seeds, ("d", "seed")).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_late_samples_do_not_depend_on_last_bits():
    assert late(TIMES, 0.1).sum() == 13
    assert late(TIMES * (1 + 2e-16), 0.1).sum() == 13


@pytest.mark.parametrize("name", ["bounded", "final_risk", "noise_floor", "phase", "time_to"])
def test_a_start_alone(dataset, name):
    """Nothing but t = 0: numbers where there can be some, and no slope."""
    found = DEFINITIONS[name](dataset.isel(time=[0]))
    if name == "final_risk":
        assert (found.trend == "undecided").all()
        assert np.isfinite(found.final_risk).all()
    if name == "noise_floor":
        assert np.isnan(found.noise_floor).all()
