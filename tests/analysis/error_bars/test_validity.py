"""Validity of theories whose distance from SGD is known."""

import numpy as np
import pytest
import xarray as xr

from sweep_service.analysis.error_bars.prediction import read_prediction
from sweep_service.analysis.error_bars.validity import Validity, describe_validity
from sweep_service.errors import InvalidInput
from sweep_service.status import Status
from tests.analysis.synthetic import add_fluctuations, assert_described, make_dataset

TIMES = np.concatenate([[0.0], np.geomspace(0.01, 10.0, 40)])
DELTA_T = 1e-4
EXCESS = {"high_dimensional": 0.0, "classical": 5e-3}
HOLDS, OFF, NONLINEAR, UNKNOWN = Validity


def sweep(std=0.2, shift=0.0, scatter=0.2, repeats=4, rng=0, places=1, **options):
    """SGD that scatters by √δt `scatter` about a constant risk, and the theory of `std` and `shift`."""
    dataset = make_dataset(
        lambda time, regime: 0.1 + EXCESS.get(regime, 0.0), {"d": 10**5 + np.arange(places)}, p=4, gamma=40.0,
        times=TIMES, repeats=repeats, regimes=list(EXCESS), **options,
    )  # fmt: skip
    dataset = dataset.assign_coords(delta_t=0.0 * dataset["delta_t"] + DELTA_T)
    noise = np.random.default_rng(rng).standard_normal(dataset["sgd_risk"].shape)
    risk = dataset["sgd_risk"] + np.sqrt(DELTA_T) * scatter * noise
    return add_fluctuations(dataset.assign(sgd_risk=risk), std, shift)


def shares(codes):
    return np.bincount(codes.values.ravel(), minlength=len(Validity)) / codes.size


@pytest.mark.parametrize("repeats", [1, 4, 16])
def test_right_theory_is_off_by_chance_only(repeats):
    result = sweep(places=200, repeats=repeats).sweep.validity("high_dimensional")
    share = shares(result["validity"].isel(time=slice(5, None)))
    # 7000 independent times: the error of the share is 0.3 %
    np.testing.assert_allclose(share[[HOLDS, OFF]], [0.95, 0.05], atol=0.01)
    # of 200 points at most 5 % are off, with an error of 1.5 %
    assert shares(result["overall"])[OFF] < 0.1
    assert_described(result)
    strict = sweep(places=200, repeats=repeats).sweep.validity("high_dimensional", level=0.5)
    np.testing.assert_allclose(shares(strict["validity"].isel(time=slice(5, None)))[OFF], 0.5, atol=0.02)


def test_wrong_regime_is_off():
    """The curve of `classical` is 5e-3 away, which is 2.5 standard deviations."""
    dataset = sweep()
    result = dataset.sweep.validity("classical")
    assert (result["overall"] == OFF).all()
    assert shares(result["validity"])[OFF] > 0.8
    np.testing.assert_allclose(result["rms_z"].mean(), np.sqrt(2.5**2 + 1.0), rtol=0.1)
    every = dataset.sweep.validity("ode")
    assert every["overall"].dims == ("d", "p", "gamma", "regime")
    assert every["overall"].squeeze().values.tolist() == [HOLDS, OFF]


def test_too_large_a_scatter_is_off():
    assert (sweep(scatter=0.6).sweep.validity("high_dimensional")["overall"] == OFF).all()


def test_flagged_times_are_not_judged():
    dataset = sweep()
    flagged = dataset.assign(ode_nonlinearity=30.0 * (dataset["time"] > 1.0) + 0.0 * dataset["ode_risk_std"])
    result = flagged.sweep.validity("high_dimensional")
    codes = result["validity"].squeeze()
    late = codes["time"] > 1.0  # √δt 30 = 0.3 is not above the bound
    assert (codes.where(late, drop=True) != NONLINEAR).all()
    flagged["ode_nonlinearity"] = flagged["ode_nonlinearity"] * 1.01
    result = flagged.sweep.validity("high_dimensional")
    codes = result["validity"].squeeze()
    assert (codes.where(late, drop=True) == NONLINEAR).all()
    # times within a factor 1.25 are bridged, because the shift may change its sign
    assert (codes.where(codes["time"] < 1.0 / 1.25, drop=True) != NONLINEAR).all()
    assert (result["overall"] == NONLINEAR).all()
    both = flagged.sweep.validity("classical")
    assert (both["overall"] == OFF).all()  # it is off where the error bars apply
    assert (both["validity"].squeeze().where(late, drop=True) == NONLINEAR).all()
    lenient = flagged.sweep.validity("high_dimensional", nonlinearity=1.0)
    assert (lenient["overall"] == HOLDS).all()


def test_points_without_runs_are_unknown():
    result = sweep(status=Status.PENDING).sweep.validity("high_dimensional")
    assert (result["validity"] == UNKNOWN).all()
    assert (result["overall"] == UNKNOWN).all()
    early = sweep().sweep.validity("high_dimensional")["validity"].squeeze()
    assert early.dtype == np.int8
    assert early.attrs["flag_meanings"].split()[UNKNOWN] == "unknown"
    assert early.attrs["flag_values"] == [0, 1, 2, 3]


def test_labels():
    assert describe_validity(np.array([[0, 3], [1, 2]])).tolist() == [
        ["holds", "unknown"],
        ["off", "nonlinear"],
    ]


@pytest.mark.parametrize(
    ("options", "match"),
    [({"level": 0.0}, "level"), ({"level": 1.5}, "level"), ({"nonlinearity": -1.0}, "nonlinearity"),
     ({"regime": "sgd"}, "must be a theory"), ({"regime": "odd"}, "source")],
)  # fmt: skip
def test_invalid_options_are_rejected(options, match):
    with pytest.raises(InvalidInput, match=match):
        sweep().sweep.validity(**{"regime": "classical", **options})


def test_fluctuations_are_needed():
    dataset = sweep().drop_vars("ode_risk_std")
    with pytest.raises(InvalidInput, match="fluctuations: true"):
        dataset.sweep.validity("classical")


def test_zeros_of_the_shift_do_not_hide_a_flag():
    """Neighbours within a factor 1.25 in time count, in any order; unknown ratios stay unknown."""
    dataset = sweep()
    ratio = xr.where(np.arange(len(TIMES)) == 30, 0.0, 40.0) * xr.ones_like(dataset["ode_risk_std"])
    dataset["ode_nonlinearity"] = ratio.where(dataset["time"] != TIMES[35])
    for order in (slice(None), slice(None, None, -1)):
        bridged = read_prediction(dataset.isel(time=order)).nonlinearity.squeeze()
        np.testing.assert_allclose(bridged.sel(time=TIMES[30]), 0.4)
        assert np.isnan(bridged.sel(time=TIMES[35]))
    alone = read_prediction(dataset.isel(time=[30])).nonlinearity
    assert alone.item() == 0.0
