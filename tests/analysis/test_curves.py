"""Curves against plain NumPy on real sweeps: finished, diverged, unfinished, and lists of points."""

import json

import numpy as np
import pytest

from sweep_service.analysis import curves as module
from sweep_service.analysis.curves import compute_curves
from sweep_service.analysis.selection import select_variables
from sweep_service.errors import InvalidInput, LimitExceeded, Stopped
from sweep_service.status import Status
from tests.stored import ONE_RUN_PER_BUNDLE, StoppingExecutor, compute_dataset

WILD = {
    "axes": {"d": [5, 8], "p": 4, "gamma": [0.1, 20.0], "regime": ["classical", "high_dimensional"]},
    "fixed": {"k": 2, "activation": "square"},
    "seeds": {"init": 3, "repeat": 2},
    "time": {"max": 5.0, "samples": 8},
}
SMALL = {
    **WILD,
    "axes": {"d": [5, 8], "p": 4, "gamma": [0.1, 0.5], "regime": "classical"},
    "seeds": {"init": 1, "repeat": 3},
}
POINTS = {
    "points": [{"gamma": 0.1, "p": 4, "d": 2}, {"gamma": 0.5, "p": 4, "d": 8}],
    "axes": {"regime": ["classical", "mean_field_projected"]},
    "fixed": {"k": 2},
    "time": {"max": 1.0, "samples": 4},
}


@pytest.fixture(scope="module")
def wild(tmp_path_factory):
    result = compute_dataset(tmp_path_factory.mktemp("wild"), WILD)
    assert {Status.DONE, Status.DIVERGED} == set(result.sgd_status.values.reshape(-1))
    return result


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    result = compute_dataset(tmp_path_factory.mktemp("points"), POINTS)
    assert Status.SKIPPED in result.ode_status
    return result


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """A sweep that was stopped when some of its runs were done."""
    executor, outcome = StoppingExecutor(6), pytest.raises(Stopped)
    result = compute_dataset(tmp_path_factory.mktemp("half"), SMALL, executor, outcome, ONE_RUN_PER_BUNDLE)
    runs = (result.sgd_status > Status.PENDING).sum(["seed", "repeat"]).values
    assert runs.min() == 0
    assert set(runs.reshape(-1)) - {0, 3}
    return result


def expected(dataset, kind, at):
    """Mean, low and high over the runs of one curve, time by time."""
    axes = ["seed", "repeat"] if kind == "sgd" else ["seed"]
    values = dataset[f"{kind}_risk"].sel(at).transpose("time", *axes).values
    status = dataset[f"{kind}_status"].sel(at).transpose(*axes).values
    values = values.reshape(len(values), -1)[:, np.isin(status.reshape(-1), [1, 2])]
    rows = [row[~np.isnan(row)] for row in values]
    result = [(np.mean(row), *np.percentile(row, [16, 84])) if len(row) else (np.nan,) * 3 for row in rows]
    return values.shape[1], *np.array(result).T


def assert_curve(curve, runs, mean, low, high):
    assert curve["runs"] == runs
    np.testing.assert_allclose(curve["mean"], mean, rtol=1e-13)  # sums in another order
    np.testing.assert_allclose(curve["low"], low, rtol=1e-13)
    np.testing.assert_allclose(curve["high"], high, rtol=1e-13)


@pytest.mark.parametrize("state", ["wild", "half"])
def test_curves_are_means_and_percentiles_over_runs(request, state):
    dataset = request.getfixturevalue(state)
    result = compute_curves(dataset)
    assert (result["observable"], result["units"]) == ("risk", "1")
    assert "excess risk" in result["long_name"]
    assert result["time"] == dataset.time.values.tolist()
    regimes = dataset.sizes["regime"]
    assert [curve["source"] for curve in result["curves"]] == ["sgd"] * 4 + ["ode"] * 4 * regimes
    seen = set()
    for curve in result["curves"]:
        at = dict(curve["at"])
        assert list(at) == ["d", "p", "gamma"]
        if curve["source"] == "ode":
            at["regime"] = curve["regime"]
        else:
            assert "regime" not in curve
        assert_curve(curve, *expected(dataset, curve["source"], at))
        seen.add((curve["source"], *at.values()))
    assert len(seen) == 4 + 4 * regimes
    json.dumps(result)


def test_diverged_run_counts_up_to_its_divergence(wild):
    (curve,) = compute_curves(wild, d=8, gamma=20, regime="classical", seed=0)["curves"][:1]
    values = wild.sgd_risk.sel(d=8, p=4, gamma=20.0, seed=0).values
    assert np.isnan(values[:, -1]).all()
    assert not np.isnan(values[:, 0]).any()
    assert curve["runs"] == 2
    np.testing.assert_array_equal(np.isnan(curve["mean"]), np.isnan(values).all(axis=0))


def test_selection(wild):
    result = compute_curves(wild, "cosine", d="8", gamma="0.1", regime="high_dimensional", time="1:")
    assert result["time"] == [time for time in wild.time.values.tolist() if time >= 1]
    sgd, ode = result["curves"]
    assert sgd["at"] == ode["at"] == {"d": 8, "p": 4, "gamma": 0.1}
    assert ode["regime"] == "high_dimensional"
    part = wild.sgd_cosine.sel(d=8, p=4, gamma=0.1, time=slice(1, None))
    np.testing.assert_allclose(sgd["mean"], part.mean(["seed", "repeat"]), rtol=1e-13)


def test_points_have_their_coordinates(points):
    result = compute_curves(points)["curves"]
    assert [curve["at"] for curve in result[:2]] == POINTS["points"]
    assert list(result[0]["at"]) == ["d", "p", "gamma"]
    for curve in result[2:]:
        status = points.ode_status.sel(regime=curve["regime"]).values[points.d.values == curve["at"]["d"]]
        assert curve["runs"] == int(status.item() == Status.DONE)
        has_values = [not np.isnan(curve[name]).any() for name in ("mean", "low", "high")]
        assert has_values == [curve["runs"] == 1] * 3
    (sgd, *_) = compute_curves(points, d=8)["curves"]
    np.testing.assert_array_equal(sgd["mean"], points.sgd_risk.values[1, 0, 0])


def test_without_statuses_every_run_counts(wild):
    bare = select_variables(wild, "sgd_risk")
    result = compute_curves(bare)["curves"]
    assert [curve["source"] for curve in result] == ["sgd"] * 4
    np.testing.assert_array_equal(result[0]["mean"], compute_curves(wild)["curves"][0]["mean"])


@pytest.mark.parametrize("name", ["risc", "seconds", "status", "sgd_risk", "", None])
def test_missing_observable_is_rejected(wild, name):
    with pytest.raises(InvalidInput, match=r"must be one of cosine, .*risk") as error:
        compute_curves(wild, name)
    assert error.value.field == "observable"


def test_observable_with_many_numbers_is_rejected(wild):
    with pytest.raises(InvalidInput, match=r"must be one number at each time, such as .*risk"):
        compute_curves(wild, "overlap_student")


def test_values_that_are_not_stored_are_rejected(wild):
    with pytest.raises(InvalidInput, match="gamma"):
        compute_curves(wild, gamma=0.2)
    with pytest.raises(InvalidInput, match="selection = 'dataset'"):  # a query may contain any name
        compute_curves(wild, dataset="1")


def test_too_many_curves_are_rejected_with_the_axes_to_select(wild, monkeypatch):
    monkeypatch.setattr(module, "MAX_CURVES", 11)
    with pytest.raises(
        LimitExceeded, match=r"at most 11: select some of d \(2 values\), gamma .*, regime"
    ) as error:
        compute_curves(wild)
    assert error.value.value == 12
    assert len(compute_curves(wild, d=5)["curves"]) == 6
    monkeypatch.setattr(module, "MAX_STORED_NUMBERS", 10)
    with pytest.raises(LimitExceeded, match="seed, repeat or time"):
        compute_curves(wild, d=5)


def test_band_agrees_with_numpy():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(30, 7))
    values[rng.random(values.shape) < 0.4] = np.nan
    values[0], values[1, 1:] = np.nan, np.nan
    has_values = ~np.isnan(values).all(axis=1)
    mean, low, high = module._mean_and_band(values)
    np.testing.assert_allclose(mean[has_values], np.nanmean(values[has_values], axis=1), rtol=1e-13)
    np.testing.assert_allclose(low[has_values], np.nanpercentile(values[has_values], 16, axis=1), rtol=1e-13)
    np.testing.assert_allclose(high[has_values], np.nanpercentile(values[has_values], 84, axis=1), rtol=1e-13)
    assert np.isnan([mean[0], low[0], high[0]]).all()


def test_overflow_raises_no_warning():
    mean, *_ = module._mean_and_band(np.array([[1e308, 1e308, 1e308, -1e308]]))
    assert mean[0] > 0
