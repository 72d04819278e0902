"""Second layers, batches, weight decay and schedules in the flows of the full state."""

import math

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.dynamics.map_flow import MapFlow
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.overlap_flow import OverlapFlow, WeightFlow, drift, sampling
from sweep_service.dynamics.regimes import REGIMES, Setup, make_system
from sweep_service.dynamics.state import pack
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.averages.two_point import make_pairs
from sweep_service.model.point import Point
from sweep_service.model.risk import risk
from sweep_service.model.second_layer import Readout
from tests.physics.reference import overlaps_of, random_weights

PAIRS = [("erf", "erf"), ("tanh", "tanh"), ("relu", "relu"), ("square", "square"), ("erf", "relu"),
         ("square", "erf"), ("relu", "square"), ("tanh", "erf")]  # fmt: skip


def given_overlaps(M, q):
    """P = I and Q = M Mᵀ + diag(q)."""
    M = np.array(M)
    return {"kind": "overlaps", "M": M, "Q": M @ M.T + np.diag(q), "P": np.eye(M.shape[1])}


def point_of_weights(W, W_star, pair=("erf", "erf"), /, **parameters):
    (p, d), k = W.shape, len(W_star)
    return Point.parse(
        {"d": d, "p": p, "k": k, "gamma": 1.3, "noise": 0.2, "activation": pair[0],
         "teacher_activation": pair[1], "init": {"kind": "weights", "W": W, "W_star": W_star}, **parameters}
    )  # fmt: skip


def make_flow(regime, point, **options):
    return REGIMES[regime].make_flow(Setup(point, point.start(0), 0, RegimeOptions.parse(options)))


# Integrated independently; the last case learns a at the rate of Goldt et al., with a falling rate.
GOLDEN = {
    "learned": (
        given_overlaps([[0.6, 0.1], [0.15, 0.5]], (0.3, 0.2)),
        {"gamma": 2, "noise": 0.01, "second_layer_rate": 1.0, "second_layer": {"init": [1.2, 0.8]}},
        (0.021847, 0.0055398, 0.0033307),
    ),
    "decay": (
        given_overlaps([[0.5, 0.1], [0.15, -0.4], [0.2, 0.3]], (0.3, 0.2, 0.25)),
        {"gamma": 1.5, "noise": 0.1, "weight_decay": 0.1, "second_layer": {"init": [1, -1, 0.5]},
         "teacher": {"second_layer": {"init": [1.5, 0.7]}}},
        (0.046446, 0.018397, 0.014861),
    ),
    "schedule": (
        given_overlaps([[0.5, 0.1], [0.15, 0.5], [0.4, 0.0], [0.1, 0.45]], (0.3, 0.2, 0.25, 0.2)),
        {"gamma": 4, "noise": 0.1, "second_layer_rate": 16,
         "schedule": {"power": {"t0": 5, "alpha": 0.5}}},
        (0.021600, 0.012839, 0.006385),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_risks(name):
    init, parameters, expected = GOLDEN[name]
    point = {"d": 400, "p": len(init["M"]), "k": 2, "init": init, **parameters}
    ds = ss.integrate(point, regime="high_dimensional", times=[1, 5, 20], observables=["second_layer"])
    np.testing.assert_allclose(ds.risk, expected, rtol=5e-5)  # given to five digits
    if name == "learned":
        np.testing.assert_allclose(ds.second_layer[-1], [1.0741, 0.8362], atol=6e-5)
        noisy = ss.integrate(point, regime="classical_noise", times=[1, 5, 20])
        np.testing.assert_allclose(noisy.risk, [0.018371, 0.0038825, 0.0027989], rtol=5e-5)


def test_golden_giant_steps():
    init = given_overlaps([[0.5, 0.1], [0.15, 0.5], [0.2, 0.3]], (0.3, 0.2, 0.25))
    point = {"d": 400, "p": 3, "k": 2, "gamma": 1.5 * 3 * 400, "noise": 0.01, "batch": 800, "init": init}
    ds = ss.integrate(point, regime="high_dimensional_map", times=1.5 * np.arange(1, 7))
    expected = [0.01372, 0.00800, 0.00589, 0.00508, 0.00474, 0.00458]
    np.testing.assert_allclose(ds.risk, expected, atol=6e-6)  # given to five decimals
    assert (ds.attrs["engine"], ds.attrs["steps"]) == ("map", 6)


@pytest.mark.parametrize(("student", "teacher"), PAIRS, ids=str)
def test_weight_flow_is_the_gradient_of_the_risk(student, teacher):
    """dw_i/dt = -p d ∂R/∂w_i - κ_w w_i and da_i/dt = -ρ p ∂R/∂a_i, by central differences of R."""
    p, k, d, rho, decay = 3, 2, 5, 0.7, 0.3
    W, W_star = random_weights(1, p, k, d)
    a, a_star = np.array([1.3, -0.7, 0.4]), np.array([0.8, -1.1])
    parameters = {
        "second_layer": {"init": a}, "teacher": {"second_layer": {"init": a_star}},
        "second_layer_rate": rho, "weight_decay": decay,
    }  # fmt: skip
    point = point_of_weights(W, W_star, (student, teacher), **parameters)
    pairs = make_pairs(point.activation, point.teacher_activation)
    setup = Setup(point, point.start(0), 0, RegimeOptions())
    flow = WeightFlow(make_system(setup, sampled=False), setup.start.overlaps)
    X = flow.weights(flow.y0)

    def risk_at(X, a):
        return risk(flow.overlaps(X.ravel()), pairs, readout=Readout(a, a_star))

    def gradient(function, x, h=1e-5):
        steps = h * np.eye(x.size).reshape(x.size, *x.shape)
        return np.array([function(x + step) - function(x - step) for step in steps]).reshape(x.shape) / (
            2 * h
        )

    # coordinates are weights divided by √d
    dX = -p * gradient(lambda X: risk_at(X, a), X) - decay * X
    da = -rho * p * gradient(lambda a: risk_at(X, a), a)
    # h² times third derivatives of R, and eps/h
    np.testing.assert_allclose(flow(flow.y0), np.concatenate([dX.ravel(), da]), rtol=0.0, atol=3e-8)


@pytest.mark.parametrize(("student", "teacher"), PAIRS, ids=str)
def test_overlap_flow_agrees_with_weight_flow(student, teacher):
    W, W_star = random_weights(2, 3, 2, 6)
    parameters = {
        "second_layer": {"init": [1.3, -0.7, 0.4]}, "teacher": {"second_layer": {"init": [0.8, -1.1]}},
        "second_layer_rate": 0.7, "weight_decay": 0.3, "schedule": {"exponential": {"tau": 2.0}},
    }  # fmt: skip
    point = point_of_weights(W, W_star, (student, teacher), **parameters)
    small = make_flow("classical", point)
    setup = Setup(point, point.start(0), 0, RegimeOptions())
    system = make_system(setup, sampled=False)
    weights, plain = (
        WeightFlow(system, setup.start.overlaps),
        OverlapFlow(system, small.terms, setup.start.overlaps),
    )
    t = 0.6
    np.testing.assert_allclose(small(small.y0, t), plain(plain.y0, t), rtol=1e-12, atol=1e-14)
    X, T = weights.weights(weights.y0), weights.teachers
    change = weights(weights.y0, t)
    dX, da = change[: X.size].reshape(X.shape), change[X.size :]
    expected = np.concatenate([pack(dX @ T.T, dX @ X.T + X @ dX.T), da])
    np.testing.assert_allclose(plain(plain.y0, t), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("student", "teacher"), PAIRS, ids=str)
def test_one_step_of_the_map_is_the_mean_step_of_sgd(student, teacher):
    """Everything is switched on: a, a*, ρ, a batch, decay and a schedule, at d = 7."""
    p, k, d, b, t, samples = 3, 2, 7, 4, 0.5, 60_000
    W, W_star = random_weights(3, p, k, d, scale=0.7)
    a, a_star = np.array([1.3, -0.7, 0.4]), np.array([0.8, -1.1])
    point = point_of_weights(
        W, W_star, (student, teacher), gamma=2.6, batch=b, weight_decay=0.8, second_layer_rate=1.7,
        second_layer={"init": a}, teacher={"second_layer": {"init": a_star}},
        schedule={"steps": [[0.4, 0.6]]},
    )  # fmt: skip
    setup = Setup(point, point.start(0), 0, RegimeOptions.parse({"qmc_points": 1 << 16}))
    flow = REGIMES["high_dimensional_map"].make_flow(setup)
    assert isinstance(flow, MapFlow)
    claimed = point.delta_t * flow(flow.y0, t)

    f, g, u = ACTIVATIONS[student], ACTIVATIONS[teacher], 0.6
    rng = np.random.default_rng(4)
    x = rng.standard_normal((samples, b, d)) / np.sqrt(d)
    fields = x @ W.T
    error = g.value(x @ W_star.T) @ a_star / k - f.value(fields) @ a / p
    error += np.sqrt(point.noise) * rng.standard_normal((samples, b))
    push = a * f.slope(fields) * error[..., None]
    dW = u * point.gamma / p * (np.einsum("nbi,nbd->nid", push, x) / b - point.weight_decay / d * W)
    da = 1.7 * u * point.delta_t * np.mean(f.value(fields) * error[..., None], axis=1)
    after = W + dW
    dM, dQ = dW @ W_star.T / d, (after @ after.swapaxes(1, 2) - W @ W.T) / d
    rows = np.tril_indices(p)
    changes = np.hstack([dM.reshape(samples, -1), dQ[:, rows[0], rows[1]], da])
    z = (changes.mean(0) - claimed) / (changes.std(0) / np.sqrt(samples))
    assert np.max(np.abs(z)) < 4.5  # 8 pairs of 15 entries


def test_constant_rate_and_schedules_agree_where_they_must():
    """Gradient flow under a schedule is gradient flow at the time ∫u dt."""
    init = {"kind": "informed", "shared": True}
    point = {"d": 20, "p": 4, "k": 2, "gamma": 0.5, "init": init}
    t = np.array([0.5, 2.0, 8.0])
    schedules = {
        "power": ({"power": {"t0": 3.0, "alpha": 1.0}}, 3.0 * np.log1p(t / 3.0)),
        "exponential": ({"exponential": {"tau": 2.0}}, 2.0 * -np.expm1(-t / 2.0)),
        "warmup": ({"warmup": {"until": 1.5}}, np.where(t < 1.5, t**2 / 3.0, t - 0.75)),
        "steps": ({"steps": [[1.0, 0.5], [4.0, 2.0]]}, np.interp(t, [0, 1, 4, 8], [0, 1, 2.5, 10.5])),
    }
    for schedule, times in schedules.values():
        changed = ss.integrate({**point, "schedule": schedule}, regime="classical", times=t)
        plain = ss.integrate(point, regime="classical", times=times)
        np.testing.assert_allclose(changed.risk, plain.risk, rtol=1e-7)  # two integrations at 1e-10


def test_batch_divides_the_terms_of_single_samples():
    W, W_star = random_weights(5, 3, 2, 6)
    one, four = (point_of_weights(W, W_star, batch=b) for b in (1, 4))
    change = {b: make_flow("high_dimensional", point) for b, point in ((1, one), (4, four))}
    gradient = make_flow("classical", one)
    terms = [flow(flow.y0) - gradient(gradient.y0) for flow in change.values()]
    np.testing.assert_allclose(terms[0], 4.0 * terms[1], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("student", ["erf", "tanh"])
@pytest.mark.parametrize("regime", ["high_dimensional", "classical_noise"])
def test_signs_of_an_odd_student_do_not_matter(student, regime):
    """(a_i, w_i) → (-a_i, -w_i) leaves f unchanged."""
    W, W_star = random_weights(6, 3, 2, 6)
    signs = np.array([1.0, -1.0, -1.0])
    layers = {"second_layer_rate": 1.0, "second_layer": {"init": [1.3, 0.7, 0.4]}}
    turned = {"second_layer_rate": 1.0, "second_layer": {"init": signs * [1.3, 0.7, 0.4]}}
    first = point_of_weights(W, W_star, (student, student), **layers)
    second = point_of_weights(signs[:, None] * W, W_star, (student, student), **turned)
    a, b = (ss.integrate(point, regime=regime, times=[0, 1, 5]) for point in (first, second))
    # the sampling term of tanh is averaged over quasi-random points, which the change of sign permutes
    tolerance = 1e-2 if (student, regime) == ("tanh", "high_dimensional") else 1e-8
    np.testing.assert_allclose(a.risk, b.risk, rtol=tolerance)


def test_sampling_term_of_every_form_with_second_layers():
    """Exact forms against quasi-Monte Carlo, which is tested against quadrature, at random readouts."""
    from sweep_service.dynamics.sampling.variance import QuasiMonteCarlo, choose_variance

    c = np.array([-0.4, 0.3, -0.15, 0.5, -0.45])
    for student, teacher in PAIRS:
        f, g = ACTIVATIONS[student], ACTIVATIONS[teacher]
        exact, method = choose_variance(f, g, 3, 2)
        if method != "exact":
            continue
        o = overlaps_of(*random_weights(7, 3, 2, 6, scale=0.6))
        sampled = QuasiMonteCarlo(f, g, 5, 1 << 17)(o.M, o.Q, o.P, c)
        claimed = exact(o.M, o.Q, o.P, c)
        # 2¹⁷ points err by about 1e-3 of the largest entry
        np.testing.assert_allclose(claimed, sampled, rtol=0.0, atol=5e-3 * np.max(np.abs(claimed)))


def test_terms_are_the_documented_ones():
    flow = make_flow("high_dimensional", point_of_weights(*random_weights(8, 3, 2, 6)))
    assert flow.terms[0] is drift
    assert sampling in flow.terms


@pytest.mark.parametrize("regime", ["classical", "high_dimensional", "mean_field"])
@pytest.mark.parametrize("p", [3, 40])  # compiled and in NumPy; at p = 40 gradient flow moves weights
def test_decay_shrinks_the_weights_of_the_first_layer(regime, p):
    W, W_star = random_weights(8, p, 2, 6)
    options = {"second_layer_rate": 0.5, "schedule": {"exponential": {"tau": 2.0}}}
    plain = make_flow(regime, point_of_weights(W, W_star, **options))
    decaying = make_flow(regime, point_of_weights(W, W_star, weight_decay=0.3, **options))
    t, h = 1.5, 1e-6
    more, less = (
        make_flow(regime, point_of_weights((1.0 + step) * W, W_star, **options)).y0 for step in (h, -h)
    )
    slope = (more - less) / (2.0 * h)  # of the state, as all weights grow; exact but for rounding, eps/h
    expected = -0.3 * math.exp(-t / 2.0) * slope
    np.testing.assert_allclose(decaying(plain.y0, t) - plain(plain.y0, t), expected, rtol=1e-7, atol=1e-9)
