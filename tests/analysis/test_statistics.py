"""All definitions work on selections, Dask arrays, single runs and every source."""

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
from sweep_service.analysis.runs import average_over_runs
from sweep_service.analysis.statistics import (
    align_to_points,
    average,
    average_over_draws,
    group_by_draw,
)
from sweep_service.numerics.time_average import late_samples
from tests.analysis.synthetic import TIMES, assert_described, make_dataset

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
    return make_dataset(
        lambda t, d, gamma: 0.1 / (1 + gamma * t) + 1e-6 * d,
        {"d": [10, 20], "p": [2, 4], "gamma": [0.1, 0.5]},
        seeds=2,
        repeats=2,
        scatter=0.05,
        noise=0.01,
        regimes=("classical", "mean_field"),
        observables={"specialisation": lambda t: t / (1 + t), "largest_norm": lambda t: 1.0},
        init={"kind": "gaussian"},  # a random teacher: R_null depends on d and on the seed
    )


@pytest.mark.parametrize("source", ["sgd", "ode", "mean_field"])
@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
def test_selection_gives_the_results_of_the_whole(dataset, definition, source):
    before = dataset.copy(deep=True)
    whole = definition(dataset, source=source)
    assert dataset.identical(before)
    assert_described(whole)
    assert ("regime" in whole.dims) == (source == "ode")
    assert {"d", "p", "gamma", "delta_t", "gamma_over_p"} <= set(whole.coords)
    xr.testing.assert_identical(definition(dataset.chunk(), source=source), whole)
    actual = definition(dataset.sel(d=20, p=4), source=source)
    part = whole.sel(d=20, p=4)
    for name in whole.data_vars:
        assert actual[name].dims == part[name].dims
        assert actual[name].dtype.kind in "SU" or actual[name].attrs == part[name].attrs
        if "plateau" not in whole.dims:  # its size is the largest number of plateaus at a point
            xr.testing.assert_allclose(actual[name], part[name], rtol=1e-9)
    turned = definition(
        dataset.transpose("repeat", "gamma", "seed", "regime", "p", "d", "time"), source=source
    )
    for name in whole.data_vars:
        if whole[name].dtype.kind == "f":
            xr.testing.assert_allclose(turned[name].transpose(*whole[name].dims), whole[name], rtol=1e-9)


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
def test_single_selected_run(dataset, definition):
    result = definition(dataset.isel(seed=0, repeat=0))
    kept = definition(dataset.isel(seed=[0], repeat=[0]))
    for name in result.data_vars:
        same = kept[name].squeeze(["seed", "repeat"], drop=True) if "seed" in kept[name].dims else kept[name]
        np.testing.assert_array_equal(result[name], same)


def test_means_and_errors_ignore_values_that_are_not_finite():
    values = np.array([[1.0, 3.0, np.nan], [np.inf, np.nan, 5.0], [np.nan, np.nan, np.nan]])
    mean, error, count = average(values)
    np.testing.assert_array_equal(mean, [2.0, 5.0, np.nan])
    np.testing.assert_array_equal(error, [np.std([1.0, 3.0], ddof=1) / np.sqrt(2), np.nan, np.nan])
    assert count.tolist() == [2, 1, 0]
    for down, across in zip(average(values.T, axis=0), (mean, error, count), strict=True):
        np.testing.assert_array_equal(down, across)


def test_plain_arrays_have_the_errors_of_labelled_ones():
    random = np.random.default_rng(0)
    values = random.standard_normal((3, 5, 4, 7))  # (d, seed, repeat, time)
    values[random.random(values.shape) < 0.3] = np.nan
    values[0, 1:] = np.nan
    values[1, :, 1:] = np.nan
    array = xr.DataArray(values, dims=("d", "seed", "repeat", "time"))
    np.testing.assert_array_equal(group_by_draw(array.transpose("repeat", "d", "seed", "time")), values)
    wanted = [actual.values for actual in average_over_runs(array)]
    *result, number = average_over_draws(values, axis=-3)
    for actual, other in zip(result, wanted, strict=True):
        np.testing.assert_allclose(actual, other, rtol=1e-12)
    assert np.isnan(result[1][0]).all()
    np.testing.assert_array_equal(number, np.isfinite(values).any(axis=2).sum(axis=1))
    for down, across in zip(average_over_draws(np.moveaxis(values, -1, 1)), (*result, number), strict=True):
        np.testing.assert_array_equal(down, across)
    # A single seed: its repeats are the draws.
    assert group_by_draw(array.isel(seed=[2])).shape == (3, 4, 1, 7)
    assert group_by_draw(array.isel(seed=2, time=0)).shape == (3, 4, 1)
    mean, error, count = average(values[:, 2], axis=1)
    for actual, other in zip(
        average_over_draws(group_by_draw(array.isel(seed=[2])), axis=-3), (mean, error, count), strict=False
    ):
        np.testing.assert_allclose(actual, other, rtol=1e-12)


def test_parameters_broadcast_over_points():
    gamma = xr.DataArray([1.0, 2.0], dims="gamma")
    assert align_to_points(gamma, ("d", "gamma", "regime")).shape == (1, 2, 1)
    seeds = xr.DataArray([[1.0, 3.0], [2.0, 4.0]], dims=("seed", "d"))
    assert align_to_points(seeds, ("d",)).tolist() == [1.5, 3.5]
    assert align_to_points(seeds, ("d", "seed")).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_late_samples_tolerate_rounding():
    assert late_samples(TIMES, 0.1).sum() == 13
    assert late_samples(TIMES * (1 + 2e-16), 0.1).sum() == 13


@pytest.mark.parametrize("name", ["bounded", "final_risk", "noise_floor", "phase", "time_to"])
def test_single_seed(dataset, name):
    """Only t = 0: there are means, but no slope."""
    result = DEFINITIONS[name](dataset.isel(time=[0]))
    if name == "final_risk":
        assert (result.trend == "undecided").all()
        assert np.isfinite(result.final_risk).all()
    if name == "noise_floor":
        assert np.isnan(result.noise_floor).all()
