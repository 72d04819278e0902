"""Noise floors of known curves, and of SGD."""

import numpy as np
import pytest

from sweep_service.analysis.floor_law.coefficient import noise_coefficient
from sweep_service.analysis.quantities.noise import fit_nonnegative, noise_floor
from sweep_service.status import Status
from tests.analysis.synthetic import TIMES, assert_described, make_dataset, time_average
from tests.stored import compute_dataset

C = 0.09


def floor(t, p, gamma, noise):
    """The floor c γΔ/p, approached as t⁻²: at t_max/10 it is still half of the risk."""
    return C * gamma * noise / p * (1 + 1.0 / np.maximum(t / 10, 1e-3) ** 2)


@pytest.mark.parametrize("points", [False, True])
def test_known_floor(points):
    axes = {"d": [50, 100], "p": [4, 8], "gamma": [0.1, 0.5]}
    dataset = make_dataset(floor, axes, points=points, noise=1e-2)
    result = noise_floor(dataset)
    assert_described(result)
    np.testing.assert_allclose(result.coefficient, C, rtol=1e-10)
    law = noise_coefficient(dataset)
    np.testing.assert_allclose(result.ratio, (C / law).broadcast_like(result.ratio), rtol=1e-10)
    np.testing.assert_allclose(result.law, result.noise_floor / result.ratio, rtol=1e-12)
    assert np.isnan(result.standard_error).all()  # of one run
    assert result.noise_floor.dims == (("point",) if points else ("d", "p", "gamma"))


def test_errors_are_correct_and_a_single_run_is_unbiased():
    """400 sweeps of four runs: the mean floor is within four standard errors of the true one, and the
    standard errors are the scatter of the floors (to 1/sqrt(800), four deviations)."""
    axes = {"d": np.arange(400) + 10}
    for seeds in (1, 4):
        dataset = make_dataset(floor, axes, noise=1e-2, seeds=seeds, scatter=0.3)
        result = noise_floor(dataset).isel(p=0, gamma=0)
        mean, scatter = result.coefficient.mean().item(), result.coefficient.std().item()
        known = C * np.exp(0.3**2 / 2)  # the mean of the factor exp(0.3 z)
        assert abs(mean - known) < 4 * scatter / 20 + 0.003 * C  # the fitted weights cause 0.3 %
    stated = np.sqrt(np.mean(result.coefficient_error.values**2))
    np.testing.assert_allclose(stated, scatter, rtol=0.15)


def test_neither_floor_nor_slope_is_negative():
    rising = noise_floor(make_dataset(lambda t: 0.1 + 1e-3 * t, noise=0.1))
    mean = 0.1 + 1e-3 * TIMES[TIMES > 9.9].mean()  # a = 0, so all weights are equal
    assert rising.noise_floor.item() == pytest.approx(mean, rel=1e-12)
    steep = noise_floor(make_dataset(lambda t: np.maximum(t, 1e-3) ** -3.0, noise=0.1))
    assert steep.noise_floor.item() == 0.0


def test_closed_form_is_nonnegative_least_squares():
    from scipy.optimize import nnls

    random = np.random.default_rng(0)
    x, y, w = (random.uniform(0.1, 2.0, shape) for shape in (6, (400, 6), (400, 6)))
    y[::2] *= x**2
    F, a = fit_nonnegative(x, y, w)
    design = np.stack([np.ones_like(y), x + 0.0 * y], axis=-1) * np.sqrt(w)[..., None]
    known = np.array([nnls(A, b)[0] for A, b in zip(design, y * np.sqrt(w), strict=True)])
    np.testing.assert_allclose(np.stack([F, a], axis=1), known, atol=1e-12)
    assert ((known == 0).sum(axis=0) > 10).all()  # both constraints are active


def test_without_noise_there_is_no_coefficient():
    result = noise_floor(make_dataset(lambda t: 1e-4, {"noise": [0.0, 0.1]})).isel(d=0, p=0, gamma=0)
    np.testing.assert_allclose(result.noise_floor, 1e-4)
    assert np.isnan(result.coefficient.values).tolist() == [True, False]
    assert np.isnan(result.ratio.values).tolist() == [True, False]
    assert result.law.values[0] == 0.0


def test_runs_that_did_not_reach_the_end_and_too_few_samples():
    status = np.full((3, 1, 1, 2, 1), Status.DONE)
    status[1, ..., 0, 0], status[2, ..., 0, 0] = Status.DIVERGED, Status.PENDING
    status[2, ..., 1, 0] = Status.DIVERGED
    dataset = make_dataset(floor, {"d": [5, 6, 7]}, seeds=2, status=status, noise=0.1)
    result = noise_floor(dataset).isel(p=0, gamma=0)
    assert result.runs.values.tolist() == [2, 1, 0]
    assert np.isnan(result.noise_floor.values).tolist() == [False, False, True]
    few = make_dataset(floor, noise=0.1, times=np.array([0.0, 1.0, 50.0, 100.0]))
    assert np.isnan(noise_floor(few).noise_floor.item())
    assert np.isnan(noise_floor(make_dataset(lambda t: 1e-18, noise=0.1)).noise_floor.item())  # round-off


def test_planted_start_is_averaged():
    dataset = make_dataset(floor, noise=0.1, init={"kind": "planted"})
    late = time_average(dataset.sgd_risk.values.reshape(-1), TIMES, 50.0)
    assert noise_floor(dataset).noise_floor.item() == pytest.approx(late, rel=1e-12)


def test_theories():
    result = noise_floor(make_dataset(floor, noise=0.1, regimes=("classical", "high_dimensional")), "ode")
    assert result.ratio.dims == ("d", "p", "gamma", "regime")
    np.testing.assert_allclose(result.coefficient, C, rtol=1e-10)


def test_sgd_from_a_planted_start_follows_the_law(tmp_path):
    """THEORY: R∞ = c γΔ/p for γ/p << 1. At γ/p = 0.05 the next order is 2 % (c = 0.094 at γ/p = 0.1)."""
    spec = {
        "axes": {"d": 10, "p": 4, "gamma": 0.2, "regime": ["high_dimensional", "classical_noise"]},
        "fixed": {"k": 2, "noise": 1e-3},
        "init": {"kind": "planted"},
        "seeds": {"init": 1, "repeat": 16},
        "time": {"max": 300, "samples": 10, "tail": 64},
    }
    dataset = compute_dataset(tmp_path, spec)
    sgd, ode = noise_floor(dataset).squeeze(), noise_floor(dataset, "ode").squeeze()
    assert abs(sgd.ratio - 1.0) < 4 * sgd.ratio_error + 0.03
    assert sgd.ratio_error < 0.1
    np.testing.assert_allclose(ode.ratio, 1 / (1 - 2 / (3 * 10)), rtol=0.03)  # their ‖x‖² is one
