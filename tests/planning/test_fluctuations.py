"""`fluctuations: true` in a spec."""

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.prices import price_regime
from sweep_service.errors import InvalidInput
from sweep_service.execution.compute import compute_run
from sweep_service.model.labels import FLUCTUATIONS
from sweep_service.model.point import Point
from sweep_service.planning.grids import Grid
from sweep_service.planning.keys import run_keys
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Run
from sweep_service.planning.spec import SweepSpec

SPEC = {
    "axes": {"d": [20, 40], "p": 2, "gamma": 0.5, "regime": ["high_dimensional", "classical"]},
    "fixed": {"k": 2},
    "init": {"kind": "informed", "shared": True},
    "time": {"max": 1.0, "min": 0.1, "samples": 3},
    "simulate": False,
}


def grid(**changes):
    return Grid.of(SweepSpec.parse({**SPEC, **changes}))


@pytest.mark.slow  # it starts a cluster
def test_numbers_without_d_are_stored(tmp_path):
    ds = ss.run({**SPEC, "fluctuations": True}, data=tmp_path)
    ours = ds.sel(regime="high_dimensional").squeeze(drop=True)
    for name in ("risk_std", "risk_shift", "nonlinearity"):
        values = ours[f"ode_{name}"].transpose("d", "time").values
        np.testing.assert_array_equal(values[0], values[1])
        assert np.isfinite(values).all()
        assert ds[f"ode_{name}"].sel(regime="classical").isnull().all()
        assert ds[f"ode_{name}"].attrs["long_name"] == FLUCTUATIONS[name].long_name
    point = {"d": 20, "p": 2, "k": 2, "gamma": 0.5, "init": SPEC["init"]}
    alone = ss.integrate(point, times=ds.time.values, regime="high_dimensional", fluctuations=True)
    np.testing.assert_array_equal(ours.ode_risk_std.sel(d=20), alone.risk_std)


def test_runs_fill_variables():
    plan = SweepPlan(grid(fluctuations=True))
    ours, classical = (compute_run(plan, Run("ode", 0, regime, 0, 0)).values for regime in (0, 1))
    for name in FLUCTUATIONS:
        assert np.isfinite(ours[name]).all()
        assert np.isnan(classical[name]).all()
    assert np.all(ours["risk_std"][..., 1:] > 0.0)


def test_keys_change_only_where_numbers_are_added():
    without, with_them = grid(), grid(fluctuations=True)
    assert grid(fluctuations=False).key == without.key
    assert with_them.key != without.key
    assert "fluctuations" not in without.content["regime_options"]
    before, after = (run_keys(g)["ode"].reshape(2, 2) for g in (without, with_them))  # (d, regime)
    np.testing.assert_array_equal(before[:, 1], after[:, 1])
    assert np.all(before[:, 0] != after[:, 0])


@pytest.mark.parametrize("regime", ["classical", "auto"])
def test_needs_high_dimensional(regime):
    with pytest.raises(InvalidInput, match="needs the regime high_dimensional"):
        grid(axes={**SPEC["axes"], "regime": regime}, fluctuations=True)


def test_wide_states_are_refused():
    with pytest.raises(InvalidInput, match="needs at most 50000 components"):
        grid(axes={**SPEC["axes"], "p": 320}, fluctuations=True)


def test_price_includes_them():
    point = Point.parse({"d": 100, "p": 10, "k": 2, "gamma": 1.0})
    options = RegimeOptions(fluctuations=True)
    price = price_regime(point, "high_dimensional", options)
    alone = price_regime(point, "high_dimensional")
    # measured: 1.4 s, of which 0.07 s are the trajectory; prices hold within a factor 2
    assert 0.7 < price.seconds(100.0, 64) < 2.8
    assert alone.seconds(100.0, 64) < 0.2
    assert price.work_class != alone.work_class
    classical = (
        price_regime(point, "classical", given).seconds(100.0, 64) for given in (options, RegimeOptions())
    )
    assert len(set(classical)) == 1


@pytest.mark.parametrize(("p", "seconds"), [(30, 5.5), (100, 38.0)])
def test_price_of_wide_students(p, seconds):
    """Measured to t = 100 with 64 samples."""
    point = Point.parse({"d": 1000, "p": p, "k": 2, "gamma": 0.5 * p, "noise": 0.01})
    price = price_regime(point, "high_dimensional", RegimeOptions(fluctuations=True))
    assert seconds / 1.5 < price.seconds(100.0, 64) < 1.5 * seconds
