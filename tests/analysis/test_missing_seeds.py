"""A seed whose runs are missing counts as if it had never been asked for, in every analysis."""

import numpy as np
import pytest
import xarray as xr

from sweep_service.status import Status
from tests.analysis.synthetic import TIMES, make_dataset
from tests.analysis.test_permutations import (
    CALLS,
    METHOD_OF,
    REGIMES,
    assert_same,
    entries,
    order,
    predicted,
    risk,
)

LOST = 2  # the seed


@pytest.fixture(scope="module")
def complete():
    axes = {"d": [10, 30, 100], "p": [2, 4], "gamma": [0.1, 0.4]}
    dataset = make_dataset(
        risk, axes, seeds=4, repeats=2, scatter=0.05, noise=0.01, regimes=REGIMES, times=TIMES[::2],
        observables={"specialisation": order},
    )  # fmt: skip
    return predicted(entries(dataset))


def lose_seed(dataset, status):
    """The dataset in which no run of the seed has values."""
    is_kept = dataset["seed"] != LOST
    kept = {
        name: array.where(is_kept)
        for name, array in dataset.data_vars.items()
        if "seed" in array.dims and "time" in array.dims
    }
    statuses = {name: dataset[name].where(is_kept, int(status)) for name in ("sgd_status", "ode_status")}
    return dataset.assign(**kept, **statuses)


@pytest.mark.parametrize("name", CALLS)
def test_missing_seed_is_left_out(complete, name):
    selection, options = CALLS[name]
    dataset, method = complete.sel(selection), METHOD_OF.get(name, name)
    expected = getattr(dataset.sel(seed=dataset["seed"] != LOST).sweep, method)(**options)
    result = getattr(lose_seed(dataset, Status.FAILED).sweep, method)(**options)
    if "seed" in result.dims:
        arrays = result.data_vars.values() if isinstance(result, xr.Dataset) else [result]
        numbers = [array.sel(seed=LOST) for array in arrays if "seed" in array.dims and array.dtype == float]
        assert numbers
        assert all(np.isnan(array).all() for array in numbers)
        result = result.sel(seed=result["seed"] != LOST)
    assert_same(result, expected)


@pytest.mark.parametrize("status", [Status.PENDING, Status.CANCELLED, Status.SKIPPED])
def test_other_reasons_are_the_same(complete, status):
    for name in ("final_risk", "discrepancy", "noise_floor"):
        expected = getattr(lose_seed(complete, Status.FAILED).sweep, name)()
        assert_same(getattr(lose_seed(complete, status).sweep, name)(), expected)
