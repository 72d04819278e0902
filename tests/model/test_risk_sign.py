"""The recorded risk is a mean square: never negative, and a mistake is not hidden."""

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.model.observables import MAX_NEGATIVE_RISK, States, observe

TIMES = [0.0, 10.0, 1e3, 1e4]


@pytest.mark.parametrize(
    ("activation", "regime"),
    [("square", "high_dimensional"), ("erf", "high_dimensional"), ("erf", "mean_field")],
)
def test_risk_of_a_solved_task_is_not_negative(activation, regime):
    """Rounding and the integrator's tolerance gave -9e-12, -2e-16 and -1e-17 here."""
    point = {"d": 50, "p": 4, "k": 2, "gamma": 0.1, "activation": activation, "init": {"kind": "planted"}}
    risk = ss.integrate(point, regime=regime, times=TIMES).risk.values
    assert np.all(risk >= 0.0)
    assert risk[-1] < 1e-9 < risk[0]


def test_only_the_error_of_zero_is_removed():
    risk = np.array([0.5, -6e-13, 0.0, -0.9 * MAX_NEGATIVE_RISK, -1.1 * MAX_NEGATIVE_RISK, -0.1, np.nan])
    ones = np.ones((len(risk), 1, 1))
    recorded = observe(States(risk, ones, ones[:, :, 0], np.eye(1)), ["risk"])["risk"]
    np.testing.assert_array_equal(recorded, [0.5, 0.0, 0.0, 0.0, risk[4], -0.1, np.nan])
    larger = observe(States(risk, ones, ones[:, :, 0], 4.0 * np.eye(1)), ["risk"])["risk"]
    assert larger[4] == 0.0  # risks of a teacher of norm 4 are up to 16 times larger
