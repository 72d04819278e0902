"""Bounded weights: every run, most, or none."""

import numpy as np

from sweep_service.analysis.quantities.bounded import bounded
from sweep_service.status import Status
from tests.analysis.synthetic import assert_described, make_dataset


def norm(t, d):
    return d * np.exp(-((np.log10(t + 1e-9) - 1) ** 2))  # a bump of height d at t = 10


def test_largest_norm_over_time_and_runs():
    dataset = make_dataset(lambda t: 0.1, {"d": [5, 20]}, observables={"largest_norm": norm}, seeds=3)
    dataset.sgd_largest_norm[0, ..., 2, 0, 5] = 11.0
    result = bounded(dataset).isel(p=0, gamma=0)
    assert_described(result)
    np.testing.assert_allclose(result.largest_norm, [11.0, 20.0], rtol=1e-12)
    np.testing.assert_allclose(result.share, [2 / 3, 0.0])
    assert result.bounded.values.tolist() == [False, False]
    assert bounded(dataset, 12.0).bounded.values.reshape(-1).tolist() == [True, False]
    assert bounded(dataset, K=20.0).share.values.reshape(-1).tolist() == [1.0, 1.0]


def test_diverged_runs_are_unbounded_and_pending_ones_unknown():
    status = np.full((3, 1, 1, 2, 1), Status.DONE)
    status[0, ..., 0, 0] = Status.DIVERGED
    status[1, ..., 0, 0] = Status.PENDING
    status[2] = Status.PENDING
    small = {"largest_norm": lambda t: 1.0}
    dataset = make_dataset(lambda t: 0.1, {"d": [5, 6, 7]}, observables=small, seeds=2, status=status)
    result = bounded(dataset).isel(p=0, gamma=0)
    np.testing.assert_array_equal(result.largest_norm, [np.inf, 1.0, np.nan])
    np.testing.assert_array_equal(result.share, [0.5, 1.0, np.nan])
    assert result.bounded.values.tolist() == [False, True, False]
    assert result.runs.values.tolist() == [2, 1, 0]


def test_points_and_theories():
    axes = {"d": [5, 20], "p": [2, 4], "gamma": [0.1, 0.2]}
    dataset = make_dataset(
        lambda t: 0.1,
        axes,
        points=True,
        observables={"largest_norm": norm},
        regimes=("classical", "mean_field"),
    )
    assert bounded(dataset).bounded.values.tolist() == [True, False]
    result = bounded(dataset, source="ode")
    assert result.bounded.dims == ("point", "regime")
    assert result.d.values.tolist() == [5, 20]
