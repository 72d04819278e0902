"""Stored values equal those of direct calls of `simulate` and `integrate`."""

import pytest

from sweep_service.dynamics.regimes import REGIMES
from sweep_service.status import Status
from sweep_service.store.ledger import State
from tests.execution.conducting import SMALL, assert_equals_direct_calls, load_dataset, make_spec, run_sweep


def test_grid_of_27_points_equals_direct_calls(conductor):
    axes = {
        "d": [5, 8, 12], "p": [2, 4, 6], "gamma": [0.05, 0.2, 0.8],
        "regime": ["classical", "high_dimensional"],
    }  # fmt: skip
    everything = ["risk", "cosine", "overlaps"]
    sweep = run_sweep(conductor, make_spec(axes=axes, observables=everything))
    dataset = assert_equals_direct_calls(conductor, sweep)
    assert sweep.runs == 27 * (4 + 4)
    assert dataset.sgd_risk.dims == ("d", "p", "gamma", "seed", "repeat", "time")
    assert dataset.ode_risk.dims == ("d", "p", "gamma", "regime", "seed", "time")


@pytest.mark.parametrize(
    "change",
    [
        {"axes": {"d": [6, 9], "gamma": [0.1, 0.4], "p": 4, "regime": "classical"}, "zip": [["d", "gamma"]]},
        {
            "axes": {"regime": ["classical", "mean_field"]},
            "points": [{"d": 6, "p": 2, "gamma": 0.1}, {"d": 9, "p": 5, "gamma": 0.3}],
            "observables": ["risk", "overlaps"],
        },
        {
            "axes": {**SMALL["axes"], "p": [2, 5, 3], "activation": ["erf", "relu"], "gamma": 0.2},
            "init": {"kind": "gaussian"},
            "observables": ["risk", "overlaps"],
            "seeds": 1,
        },
        {"axes": {**SMALL["axes"], "regime": ["auto", "mean_field_high_dimensional"]}, "seeds": 2},
        {"axes": {"d": [6, 9], "p": 4, "gamma": [0.1, 40.0]}},
        {
            "simulate": False,
            "axes": {**SMALL["axes"], "init.epsilon": [0.1, 0.3]},
            "init": {"kind": "planted", "shared": True},
        },
    ],
    ids=["zip", "ragged points", "activations and ragged p", "auto", "divergence, no theory", "theory only"],
)  # fmt: skip
def test_every_design_equals_direct_calls(conductor, change):
    sweep = run_sweep(conductor, make_spec(**change))
    assert sweep.state is State.COMPLETED
    assert_equals_direct_calls(conductor, sweep)


def test_undefined_regime_is_skipped(conductor):
    """Also if the same regime, which does not depend on d, is defined for another d."""
    wanted = make_spec(
        axes={"d": [2, 6], "p": 4, "gamma": 0.1, "regime": list(REGIMES)},
        init={"kind": "gaussian"},
        seeds=1,
    )
    sweep = run_sweep(conductor, wanted)
    assert sweep.state is State.COMPLETED
    assert Status.SKIPPED in load_dataset(conductor, sweep).ode_status
    assert_equals_direct_calls(conductor, sweep)
