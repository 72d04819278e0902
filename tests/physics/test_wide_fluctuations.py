"""The scatter of wide students: products with J and D without these matrices, and the adjoint."""

import numpy as np
import pytest

from sweep_service.dynamics.fluctuations.adjoint.backward_sweep import integrate_risk_variances
from sweep_service.dynamics.fluctuations.adjoint.products import choose_products, matrix_products
from sweep_service.dynamics.fluctuations.adjoint.transposed_jacobian import TransposedJacobian
from sweep_service.dynamics.fluctuations.linear_noise import LinearNoise
from sweep_service.dynamics.overlap_flow import OverlapFlow, drift, label_noise
from sweep_service.model.point import Point
from tests.physics.flows import make_flow
from tests.physics.sgd_reference import run
from tests.physics.test_fluctuations import BASE, LEARNED, POINTS, POWER, STEPS

SMOOTH, TEACHERS = ("erf", "tanh", "square"), ("erf", "tanh", "square", "relu")
FIXED = {"second_layer": {"init": [1.2, -0.8]}, "batch": 2, "weight_decay": 0.3, "schedule": POWER}
MODELS = {"ones": {}, "learned": LEARNED, "fixed, batch, decay, power": FIXED}


def make_start(changes):
    """A flow with its activations, at γ/p = ½."""
    point = Point.parse({**BASE, **changes})
    return make_flow("high_dimensional", point), point.activation, point.teacher_activation


def difference(function, y, h=1e-5):
    """The matrix of central differences."""
    steps = h * np.eye(y.size)
    return np.array([(function(y + step) - function(y - step)) / (2.0 * h) for step in steps]).T


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("teacher", TEACHERS)
@pytest.mark.parametrize("student", SMOOTH)
def test_products_are_those_of_differences_without_sampling(student, teacher, model):
    """The drift, label noise, decay and the learning of second layers, for each pair of activations."""
    changes = {"activation": student, "teacher_activation": teacher, **MODELS[model]}
    flow, *activations = make_start(changes)
    plain = OverlapFlow(flow.system, (drift, label_noise), flow.overlaps(flow.y0))
    found = TransposedJacobian(plain, *activations, plain.y0, 0.1)(np.eye(plain.y0.size))
    expected = difference(lambda y: plain(y, 0.1), plain.y0)
    # one-sided differences over 1e-5 of two-point averages
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.max(np.abs(expected)))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("student", "teacher", "tolerance"),
    [
        # the 1024 samples of the derivatives of erf: 1 % of the sampling term, 0.2 % of J
        ("erf", "erf", 0.01),
        ("erf", "relu", 0.02),
        # in closed form
        ("square", "square", 1e-6),
        # polynomials of degree four in the fields
        ("square", "erf", 0.06),
        ("erf", "square", 0.06),
    ],
)
def test_products_of_exact_sampling_terms(student, teacher, tolerance, model):
    changes = {"activation": student, "teacher_activation": teacher, **MODELS[model]}
    flow, *activations = make_start(changes)
    found = TransposedJacobian(flow, *activations, flow.y0, 0.1)(np.eye(flow.y0.size))
    expected = difference(lambda y: flow(y, 0.1), flow.y0)
    assert np.linalg.norm(found - expected) < tolerance * np.linalg.norm(expected)


def test_projections_are_those_of_samples():
    flow, student, teacher = make_start({**LEARNED, "batch": 2})
    noise = LinearNoise(flow, student, teacher, 256)
    scatter = noise.diffusion.at(flow.y0, 0.0)
    rows = np.random.default_rng(0).standard_normal((5, flow.y0.size))
    expected = rows @ scatter.matrix() @ rows.T
    # single precision
    np.testing.assert_allclose(scatter.project(rows), expected, rtol=0, atol=1e-5 * np.max(np.abs(expected)))


def predict_both(point, times, points=POINTS):
    """sd R/√δt from Σ, by the adjoint with J and D, and by the adjoint without them."""
    point, times = Point.parse(point), np.asarray(times)
    flow = make_flow("high_dimensional", point)
    activations = point.activation, point.teacher_activation
    noise = LinearNoise(flow, *activations, points)
    wanted, forward = set(times.tolist()), []
    for now in noise.moments(times):
        if now.time in wanted:
            gradient = noise.linear.gradient(noise.states[now.time])
            forward.append(np.sqrt(gradient @ now.covariance @ gradient))
    choices = matrix_products(noise.linear, noise.diffusion), choose_products(flow, *activations, points)
    backward = [np.sqrt(integrate_risk_variances(flow, products, times)) for products in choices]
    return np.array(forward), *backward


CASES = {
    "erf": {},
    "erf, learned, steps, batch": {**LEARNED, "schedule": STEPS, "batch": 2},
    "tanh": {"activation": "tanh"},
    "relu": {"activation": "relu"},
    "square": {"activation": "square", "gamma": 0.1, "noise": 0.1},
    "p = 4": {"p": 4, "gamma": 2.0, "init": {"kind": "gaussian"}},
    # Ω is singular
    "p = 4, d = 4": {"d": 4, "p": 4, "gamma": 2.0, "init": {"kind": "gaussian"}},
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow if case == "relu" else ()) for case in CASES]
)
def test_adjoint_agrees_with_covariance(case):
    forward, dense, free = predict_both({**BASE, **CASES[case]}, [0.0, 0.3, 1.0, 4.0, 30.0], points=1024)
    # the meshes of both methods err by up to 0.5 %; the derivatives of the sampling term by 0.5 % more
    np.testing.assert_allclose(dense, forward, rtol=0.007)
    np.testing.assert_allclose(free, forward, rtol=0.012)


@pytest.mark.slow
@pytest.mark.parametrize("p", [10, 20])
def test_adjoint_of_wider_students(p):
    point = {"d": 50, "p": p, "k": 2, "gamma": 0.5 * p, "noise": 0.01}
    forward, dense, free = predict_both(point, np.append(0.0, np.geomspace(0.1, 30.0, 12)), 1024)
    np.testing.assert_allclose(dense, forward, rtol=0.007)  # as above
    np.testing.assert_allclose(free, forward, rtol=0.012)


@pytest.mark.slow
def test_wide_exact_chains():
    """At p = 60, J would have 1950² entries."""
    point = {"d": 200, "p": 60, "k": 2, "gamma": 30.0, "noise": 0.01}
    delta_t, steps = Point.parse(point).delta_t, np.array([40, 400, 2000, 8000])
    risks = run(point, steps, repeat=range(1000), overlaps=False).risk.values
    flow = make_flow("high_dimensional", Point.parse(point))
    activations = Point.parse(point).activation, Point.parse(point).teacher_activation
    times = steps * delta_t
    variances = integrate_risk_variances(flow, choose_products(flow, *activations, POINTS), times)
    ratio = risks.std(0, ddof=1) / np.sqrt(delta_t * variances)
    # 4 standard errors of a standard deviation of 1000 runs, 1 % for the points of D, and 3 % for the next
    # order in √δt = 0.05
    assert np.all(np.abs(ratio - 1.0) < 4.0 / np.sqrt(2000.0) + 0.04)


def test_divergence_leaves_nan():
    point = {**BASE, "activation": "square", "gamma": 4.0, "noise": 0.1}
    flow, student, teacher = make_start(point)
    times = np.array([0.0, 0.01, 50.0])
    variances = integrate_risk_variances(flow, choose_products(flow, student, teacher, 256), times)
    assert variances[0] == 0.0
    assert variances[1] > 0.0
    assert np.isnan(variances[2])
