"""Final risks and trends of known curves."""

import numpy as np
import pytest
import xarray as xr

from sweep_service.analysis.quantities.final_risk import final_risk
from sweep_service.errors import InvalidInput
from sweep_service.status import Status
from tests.analysis.synthetic import TIMES, assert_described, make_dataset, time_average


def power(t, gamma):
    """R ~ t^-gamma, so the axis is the slope."""
    with np.errstate(divide="ignore"):
        return np.where(t > 0, 0.05 * np.maximum(t, 1e-3) ** -gamma, 0.2)


SLOPES = [-0.3, -0.05, 0.0, 0.08, 0.3]  # R falls as t^-slope
TRENDS = ["rising", "settled", "settled", "settled", "falling"]


@pytest.mark.parametrize("points", [False, True])
def test_slope_of_a_power_law(points):
    axes = {"gamma": SLOPES}
    if points:
        axes |= {"d": [10, 20, 30, 40, 50], "p": [2, 4, 6, 8, 10]}
    result = final_risk(make_dataset(power, axes, points=points))
    assert_described(result)
    if not points:
        assert result.final_risk.dims == ("d", "p", "gamma")
        result = result.isel(d=0, p=0)
    np.testing.assert_allclose(result.slope, np.negative(SLOPES), atol=1e-12)
    np.testing.assert_allclose(result.slope_error, 0.0, atol=1e-12)  # one run, and no residuals
    assert result.trend.values.tolist() == TRENDS
    means = [time_average(power(TIMES, slope), TIMES, 50.0) for slope in SLOPES]
    np.testing.assert_allclose(result.final_risk, means, rtol=1e-13)
    assert result.runs.values.tolist() == [1] * 5
    for name in ("standard_error", "low", "high"):
        assert np.isnan(result[name]).all()
    assert result.gamma.values.tolist() == SLOPES


def test_average_is_over_time_and_not_over_samples():
    """R = 1/t has the average ln 2/50 over [50, 100]; the mean of its log-spaced samples differs.

    The lines between samples of a convex curve are above it, by 0.6 % with twelve samples per decade.
    """

    def curve(t):
        return 1.0 / np.maximum(t, 1e-3)

    known = np.log(2.0) / 50.0
    assert final_risk(make_dataset(curve)).final_risk.item() == pytest.approx(known, rel=1e-2)
    early = np.unique(np.concatenate([TIMES, np.geomspace(50.0, 55.0, 40)]))  # dense where R is large
    assert curve(early[early >= 50.0]).mean() > 1.2 * known
    assert final_risk(make_dataset(curve, times=early)).final_risk.item() == pytest.approx(known, rel=1e-2)
    coarse = np.concatenate([[0.0], np.geomspace(0.01, 100.0, 6)])  # one sample in the last half, at the end
    line = make_dataset(lambda t: 1.0 - 0.009 * t, times=coarse)
    assert final_risk(line).final_risk.item() == pytest.approx(1.0 - 0.009 * 75.0, rel=1e-12)


def test_errors_are_the_scatter_of_many_sweeps():
    """The standard errors of a sweep are the scatter over 400 sweeps, to 1/sqrt(800) ~ 4 %. Those of eight
    runs are uncertain by 1/sqrt(14) ~ 27 %, so their mean square is compared."""
    axes = {"d": np.arange(400) + 10, "gamma": [0.3]}
    result = final_risk(make_dataset(power, axes, seeds=2, repeats=4, scatter=0.1)).isel(p=0, gamma=0)
    for value, error in (("final_risk", "standard_error"), ("slope", "slope_error")):
        stated = np.sqrt(np.mean(result[error].values ** 2))
        np.testing.assert_allclose(stated, np.std(result[value]), rtol=0.15)  # four deviations
    truth = time_average(power(TIMES, 0.3), TIMES, 50.0) * np.exp(0.1**2 / 2)
    inside = (result.low <= truth) & (result.high >= truth)
    assert 0.95 - 4 * 0.011 <= inside.mean() <= 0.95 + 4 * 0.011  # binomial, 400 trials


def test_slope_within_its_error_is_settled():
    """Slopes of single runs that scatter widely around zero are settled only if SE is small."""
    result = final_risk(make_dataset(lambda t: 0.01, {"d": np.arange(300) + 10}, seeds=4, scatter=0.4))
    error, slope, trend = (result[name].values.reshape(-1) for name in ("slope_error", "slope", "trend"))
    wide = (np.abs(slope) > 0.1) & (np.abs(slope) <= 2 * error)
    assert (trend[wide & (error <= 0.1)] == "settled").all()
    assert set(trend[wide & (error > 0.1)]) == {"falling", "rising"}
    assert wide.any()
    strict = final_risk(
        make_dataset(lambda t: 0.01, {"d": np.arange(300) + 10}, seeds=4, scatter=0.4),
        flat=0.0,
        largest_error=0.0,
    )
    assert not (strict.trend == "settled").any()


def test_diverged_and_pending_runs_contribute_nothing():
    status = np.full((4, 1, 1, 3, 1), Status.DONE)
    status[1, ..., 0, 0] = Status.DIVERGED
    status[2, ..., :2, 0] = Status.PENDING
    status[3] = Status.DIVERGED
    dataset = make_dataset(power, {"d": [5, 6, 7, 8]}, seeds=3, status=status, scatter=0.1)
    before = dataset.copy(deep=True)
    result = final_risk(dataset).isel(p=0, gamma=0)
    assert dataset.identical(before)
    assert result.runs.values.tolist() == [3, 2, 1, 0]
    each = time_average(dataset.sgd_risk.isel(p=0, gamma=0, repeat=0).values, TIMES, 50.0)
    np.testing.assert_allclose(result.final_risk[:3], np.nanmean(each[:3], axis=1), rtol=1e-13)
    assert np.isnan(result.final_risk[3])
    assert np.isnan(result.standard_error.values).tolist() == [False, False, True, True]
    assert np.isfinite(result.slope_error[2])  # from the residuals of one run
    assert result.trend.values.tolist()[3] == "undecided"


def test_too_few_samples_are_undecided():
    few = make_dataset(power, {"gamma": [0.3]}, times=np.array([0.0, 1.0, 100.0]))
    assert final_risk(few).trend.item() == "undecided"
    nothing = make_dataset(lambda t: -4e-16, {"gamma": [0.3]})  # round-off
    assert final_risk(nothing).trend.item() == "undecided"
    assert final_risk(nothing).final_risk.item() == pytest.approx(-4e-16)


def test_theories():
    def curve(t, gamma, regime):
        return power(t, gamma) * (2.0 if regime == "classical" else 1.0)

    dataset = make_dataset(curve, {"gamma": [0.1, 0.3]}, regimes=("classical", "high_dimensional"), seeds=2)
    result = final_risk(dataset, "ode").isel(d=0, p=0)
    assert result.final_risk.dims == ("gamma", "regime")
    classical = final_risk(dataset, "classical").isel(d=0, p=0)
    np.testing.assert_allclose(classical.final_risk, result.final_risk.sel(regime="classical"), rtol=1e-13)
    np.testing.assert_allclose(
        classical.final_risk, 2 * final_risk(dataset).final_risk.isel(d=0, p=0), rtol=1e-13
    )
    with pytest.raises(InvalidInput, match="clasical"):
        final_risk(dataset, "clasical")


def test_slope_is_fitted_to_the_last_three_quarters():
    """A curve that falls only between t_max/4 and t_max/2, against NumPy's regression."""

    def bend(t):
        return 0.01 * (np.clip(t, 25.0, 50.0) / 50.0) ** -2.0

    end = TIMES >= 25.0
    known = np.polyfit(np.log(TIMES[end]), np.log(bend(TIMES[end])), 1)[0]
    result = final_risk(make_dataset(bend))
    assert result.slope.item() == pytest.approx(known, rel=1e-10)
    assert result.trend.item() == "falling"


def test_error_of_the_slope_accounts_for_correlated_samples():
    """Each run is a power law without scatter: only the exponents determine the error of the mean."""
    exponents = np.array([-0.08, -0.02, 0.0, 0.03, 0.07])
    dataset = make_dataset(lambda t: 0.01, seeds=5)
    time = dataset.time.where(dataset.time > 0, 1.0) / 50
    dataset["sgd_risk"] = dataset.sgd_risk * time ** xr.DataArray(exponents, dims="seed")
    result = final_risk(dataset)
    assert result.slope.item() == pytest.approx(exponents.mean(), abs=0.01)  # second order in 0.08 ln 4
    assert result.slope_error.item() == pytest.approx(np.std(exponents, ddof=1) / np.sqrt(5), rel=0.05)


def test_run_that_diverges_late_does_not_affect_the_slope():
    dataset = make_dataset(lambda t: 0.01, seeds=3)
    dataset.sgd_risk[..., 0, 0, :] = 100 * dataset.sgd_risk[..., 0, 0, :]
    dataset.sgd_risk[..., 0, 0, -3:] = np.nan
    dataset.sgd_status[..., 0, 0] = Status.DIVERGED
    result = final_risk(dataset)
    assert result.slope.item() == pytest.approx(0.0, abs=1e-12)
    assert result.final_risk.item() == pytest.approx(0.01)
    assert result.runs.item() == 2
