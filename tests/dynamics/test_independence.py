"""Regimes are independent of the parameters that they declare: change one and compare trajectories."""

import numpy as np
import pytest

from sweep_service.dynamics.integrate import integrate
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.model.parameters import PARAMETERS

# One start for every d. Rates, noises and dimensions are such that no term that they enter is small.
POINT = {"d": 20, "p": 4, "k": 2, "gamma": 0.5, "noise": 0.1, "activation": "erf"}
OTHER = {
    "d": 30, "p": 6, "k": 3, "gamma": 0.9, "noise": 0.3, "activation": "tanh", "teacher_activation": "relu",
    "second_layer_rate": 1.0, "batch": 4, "weight_decay": 0.2,
}  # fmt: skip
DRAWN = {"kind": "gaussian", "orthonormal_teacher": True, "shared": {"d0": 10}}
STARTS = {"mean_field_projected": {"kind": "informed", "shared": True}}  # it exists for no other
# Not declared although the results are independent, which only costs time: with a shared start, Ξ has the
# law in d0 dimensions, and the PDE is one at p = ∞.
HARMLESS = {"mean_field": ("d",), "mean_field_pde": ("d", "p", "gamma", "noise")}


def risk(regime, options, **change):
    point = {**POINT, "init": STARTS.get(regime, DRAWN), **change}
    keep = {"observables": ["risk"], "overlaps": False}
    result = integrate(point, times=[0.0, 0.5, 2.0], regime=regime, regime_options=options, **keep)
    return result.risk.values


def test_every_parameter_is_changed():
    assert set(OTHER) == set(PARAMETERS)


@pytest.mark.parametrize("finite_d", [False, True], ids=["as it is", "finite d"])
@pytest.mark.parametrize("name", OTHER)
@pytest.mark.parametrize("regime", REGIMES)
def test_declared_independence_is_correct(regime, name, finite_d):
    options = {"finite_d_factor": finite_d, "particles": 64, "qmc_points": 256}
    ignored = REGIMES[regime].ignored_parameters(RegimeOptions.parse(options))
    same = np.array_equal(risk(regime, options), risk(regime, options, **{name: OTHER[name]}))
    if name in ignored:
        assert same, f"{regime} says that it does not depend on {name}, and does"
    elif name not in HARMLESS.get(regime, ()):
        assert not same
