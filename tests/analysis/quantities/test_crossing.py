"""First crossings of a risk, reached and censored."""

import numpy as np
import pytest

from sweep_service.analysis.quantities.crossing import time_to
from sweep_service.errors import InvalidInput
from sweep_service.status import Status
from tests.analysis.synthetic import TIMES, assert_described, make_dataset


def power(t, d):
    """R = 1e-5 (d/t)^1.5 after a start at 0.1: linear in logarithms."""
    with np.errstate(divide="ignore"):
        return np.minimum(0.1, 1e-5 * (d / t) ** 1.5)


@pytest.mark.parametrize("points", [False, True])
def test_crossing_of_a_power_law_is_exact(points):
    axes = {"d": [10, 100], "p": [2, 4], "gamma": [0.1, 0.5]}
    result = time_to(make_dataset(power, axes, points=points, seeds=2), 1e-4)
    assert_described(result)
    assert result.time_to.dims == (("point",) if points else ("d", "p", "gamma")) + ("seed", "repeat")
    d, p, gamma = (result[name].astype(float) for name in ("d", "p", "gamma"))
    known = d * 10 ** (-1 / 1.5)
    np.testing.assert_allclose(result.time_to, known.broadcast_like(result.time_to), rtol=1e-12)
    np.testing.assert_allclose(result.steps_to, (known * p * d / gamma).broadcast_like(result.steps_to))
    np.testing.assert_allclose(result.samples_over_d, (known * p / gamma).broadcast_like(result.steps_to))
    assert result.reached.values.all()


def test_first_of_several_crossings():
    result = time_to(make_dataset(lambda t: np.where((t > 0.1) & (t < 1.0) | (t > 10), 1e-4, 0.1)), 1e-3)
    ratio = TIMES[2] / TIMES[1]
    assert 0.1 <= result.time_to.item() <= 0.1 * ratio
    assert result.time_to.item() == pytest.approx(TIMES[TIMES > 0.1][0] / ratio ** (1 / 3))  # ln R: 2 of 3


def test_censored_pending_and_diverged_runs():
    status = np.full((2, 1, 1, 3, 1), Status.DONE)
    status[..., 1, 0], status[..., 2, 0] = Status.PENDING, Status.DIVERGED  # values up to t = 0.3
    result = time_to(make_dataset(power, {"d": [1, 1000]}, seeds=3, status=status), 1e-4).isel(
        p=0, gamma=0, repeat=0
    )
    assert result.reached.values.tolist() == [[True, False, True], [False, False, False]]
    for name in ("time_to", "steps_to", "samples_over_d"):
        np.testing.assert_array_equal(np.isfinite(result[name]), result.reached)


def test_round_off_and_runs_that_begin_below():
    result = time_to(make_dataset(lambda t: np.where(t > 1.0, -4e-16, 0.1)), 1e-3)
    assert 1.0 / (TIMES[2] / TIMES[1]) <= result.time_to.item() <= TIMES[TIMES > 1.0][0]
    assert time_to(make_dataset(power), 0.5).time_to.item() == 0.0
    early = time_to(make_dataset(lambda t: np.where(t > 0, 1e-4, 0.1)), 1e-3)  # no ln t at t = 0: linear in t
    assert early.time_to.item() == pytest.approx(TIMES[1] * 2 / 3)


def test_theories_and_bad_input():
    dataset = make_dataset(power, regimes=("classical",))
    assert time_to(dataset, 1e-4, "ode").time_to.dims == ("d", "p", "gamma", "regime", "seed")
    assert time_to(dataset, 1e-4, "classical").time_to.item() == time_to(dataset, 1e-4).time_to.item()
    for wrong in (0.0, -1.0, np.nan, "small"):
        with pytest.raises(InvalidInput, match="risk"):
            time_to(dataset, wrong)
