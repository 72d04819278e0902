"""The covariance of SGD about the high-dimensional theory, and the shift of its mean."""

from functools import cache

import numpy as np
import pytest
from scipy.linalg import solve_continuous_lyapunov

import sweep_service as ss
from sweep_service.analysis.error_bars.prediction import read_prediction
from sweep_service.analysis.error_bars.validity import MAX_NONLINEARITY
from sweep_service.analysis.single_point import as_sweep
from sweep_service.dynamics.fluctuations.linear_noise import LinearNoise
from sweep_service.dynamics.fluctuations.predict import predict_fluctuations
from sweep_service.dynamics.fluctuations.supremum import sample_suprema
from sweep_service.model.point import Point
from tests.physics.flows import make_flow
from tests.physics.sgd_reference import entries, run

POINTS = 4096
START = {
    "kind": "overlaps",
    "M": [[0.6, 0.1], [0.15, 0.5]],
    "Q": [[0.67, 0.14], [0.14, 0.4725]],
    "P": [[1.0, 0.0], [0.0, 1.0]],
}
BASE = {"d": 50, "p": 2, "k": 2, "gamma": 1.0, "noise": 0.01, "init": START}
LEARNED = {"second_layer": {"init": [1.2, 0.8]}, "second_layer_rate": 1.0}
POWER = {"power": {"t0": 2.0, "alpha": 0.7}}
STEPS = {"steps": [[0.2, 0.4], [0.4, 1.5]]}


def make_noise(point, points=POINTS, **options):
    point = Point.parse(point)
    flow = make_flow("high_dimensional", point, **options)
    return LinearNoise(flow, point.activation, point.teacher_activation, points)


def predict(point, times, points=POINTS, **options):
    noise = make_noise(point, points, **options)
    times = np.asarray(times, dtype=float)
    point = Point.parse(point)
    return predict_fluctuations(noise.flow, point.activation, point.teacher_activation, points, times)


def last_covariance(point, t, points=POINTS):
    *_, last = make_noise(point, points).moments(np.array([t]))
    return last.covariance


# At these times, sd R at d = 50 and the shift at d = 10, δt = 0.01 and 0.05, of another implementation: as it
# integrates them by a fixed-step method on other Sobol points, and as its SGD measures them.
GOLDEN_TIMES = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
GOLDEN_STD = np.array([1.724, 1.735, 1.242, 0.3414, 0.1671, 0.1609]) * 1e-3
SGD_STD = np.array([1.718, 1.739, 1.248, 0.3445, 0.1681, 0.1585]) * 1e-3
GOLDEN_SHIFT = np.array([-9.24, -11.70, -9.10, 0.37, 2.32, 1.51]) * 1e-5
SGD_SHIFT = np.array([-9.78, -11.88, -8.91, 0.27, 2.12, 1.39]) * 1e-5
SGD_SHIFT_ERROR = np.array([0.8, 0.8, 0.6, 0.16, 0.08, 0.08]) * 1e-5
LARGEST_SHIFT = 11.7e-5


@cache
def golden_prediction():
    return predict(BASE, GOLDEN_TIMES)


def test_numbers_of_independent_implementation():
    predicted = golden_prediction()
    # the points of D: 1.5 % of sd; of the shift, whose parts cancel, 1 % of its largest value
    np.testing.assert_allclose(predicted.std * np.sqrt(1.0 / 100.0), GOLDEN_STD, rtol=0.015)
    np.testing.assert_allclose(predicted.shift / 20.0, GOLDEN_SHIFT, rtol=0, atol=0.01 * LARGEST_SHIFT)


def test_shift_agrees_with_sgd_of_another_implementation():
    """At d = 10, within three errors of each of six numbers and the 1 % of the points of D."""
    distance = np.abs(golden_prediction().shift / 20.0 - SGD_SHIFT)
    assert np.all(distance < 3.0 * SGD_SHIFT_ERROR + 0.01 * LARGEST_SHIFT)
    assert np.all(np.abs(SGD_SHIFT[[0, 1, 2, 4, 5]]) > 10.0 * SGD_SHIFT_ERROR[[0, 1, 2, 4, 5]])  # not zero


CASES = {
    "erf": {},
    "erf, without noise": {"noise": 0.0},
    "erf, learned": {**LEARNED, "gamma": 2.0},
    "erf, batch of 3 and decay": {"batch": 3, "weight_decay": 0.5},
    "erf, power": {"schedule": POWER},
    "erf, steps": {"schedule": STEPS},
    "tanh": {"activation": "tanh"},
    "relu": {"activation": "relu", "noise": 0.1},
    "square": {"activation": "square", "gamma": 0.1, "noise": 0.1},
    "relu teacher": {"teacher_activation": "relu"},
}
# Every activation without label noise, with a learned second layer and with batches, unless it is above.
VARIANTS = {
    f"{activation}, {name}": {**CASES[activation], **changes}
    for activation in ("erf", "tanh", "relu", "square")
    for name, changes in (
        ("without noise", {"noise": 0.0}),
        ("learned", LEARNED),
        ("batch of 4", {"batch": 4}),
    )
    if f"{activation}, {name}" not in CASES
}


def compare_with_ensemble(changes, t, d, chains):
    """Relative errors of Σ, entry by entry, in units of the geometric mean of its diagonal."""
    point = {**BASE, "d": d, **changes}
    delta_t = Point.parse(point).delta_t
    steps = round(t / delta_t)
    observables = ["risk", "second_layer"] if "second_layer_rate" in changes else ["risk"]
    ds = run(point, [steps], repeat=range(chains), observables=observables)
    X = entries(ds)
    if "second_layer_rate" in changes:
        X = np.hstack([X, ds.second_layer.values[:, -1]])
    sigma = last_covariance(point, steps * delta_t)
    scale = np.sqrt(np.diag(sigma))
    return (np.cov(X.T) / delta_t - sigma) / np.outer(scale, scale)


@pytest.mark.parametrize("case", ["erf", "relu", "erf, learned"])
def test_covariance_of_exact_chains(case):
    # an entry of a covariance of 1000 chains has an error of at most √(2/1000) = 0.045; 4.5 of these
    # is exceeded by chance once in 1e4 tests; 0.02 for D's points and the nonlinear rest of order √δt
    errors = compare_with_ensemble(CASES[case], 0.5, 60, 1000)
    assert np.max(np.abs(errors)) < 4.5 * 0.045 + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_covariance_of_many_exact_chains(case):
    errors = compare_with_ensemble(CASES[case], 2.0, 400, 10_000)
    assert np.max(np.abs(errors)) < 4.5 * np.sqrt(2.0 / 10_000) + 0.02  # as above


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_covariance_of_every_activation(variant):
    errors = compare_with_ensemble(VARIANTS[variant], 1.0, 400, 4000)
    assert np.max(np.abs(errors)) < 4.5 * np.sqrt(2.0 / 4000) + 0.02  # as above


@pytest.mark.slow
@pytest.mark.parametrize(("d", "chains"), [(10, 40_000), (20, 80_000)])
def test_shift_of_exact_chains(d, chains):
    """The mean risk of SGD is off by δt times the shift, which twice as many chains show at half of δt."""
    point, times = {**BASE, "d": d}, np.array([0.5, 1.0, 5.0, 10.0])
    delta_t = Point.parse(point).delta_t
    steps = np.rint(times / delta_t).astype(int)
    risks = run(point, steps, repeat=range(chains), overlaps=False).risk.values
    noise = make_noise(point)
    noise.solve(times)  # fills the states
    offset = risks.mean(0) - [noise.flow.risk(noise.states[t]) for t in times]
    error = risks.std(0, ddof=1) / np.sqrt(len(risks))
    assert np.max(np.abs(offset) / error) > 5.0  # the shift is seen at all
    # the next order is √δt = 0.2 of sd times δt, measured as 3 % of the largest shift
    tolerance = 4.0 * error + 0.05 * LARGEST_SHIFT * delta_t * 20.0
    assert np.all(np.abs(offset - predict(point, times).shift * delta_t) < tolerance)


def stationary_covariance():
    """Σ at a noise floor by Lyapunov's equation, and as it is integrated to t = 200."""
    point = {**BASE, "init": {"kind": "planted", "epsilon": 0.1}, "noise": 0.1}
    noise = make_noise(point)
    *_, last = noise.moments(np.array([200.0]))
    y = noise.states[200.0]
    D, J = noise.diffusion.at(y, 0.0).matrix(), noise.linear.jacobian(y, 0.0)
    return solve_continuous_lyapunov(J, -D), last.covariance


def test_covariance_is_stationary_at_noise_floor():
    expected, covariance = stationary_covariance()
    # the slowest rate is 0.02, so that the start is forgotten but for exp(-4)² of Σ's slow part
    np.testing.assert_allclose(covariance, expected, rtol=0, atol=1e-2 * np.max(np.abs(expected)))


def test_times_between_nodes_change_nothing():
    """Σ depends neither on the times requested before nor on where steps end."""
    few = predict(BASE, [7.0])
    many = predict(BASE, np.linspace(0.0, 7.0, 41))
    np.testing.assert_allclose(many.std[-1], few.std[-1], rtol=3e-3)  # the tolerance of intervals
    np.testing.assert_allclose(many.shift[-1], few.shift[-1], rtol=3e-3)


def near_saddle(jitter):
    """A start near the unspecialised plateau, whose students have equal M but for the jitter."""
    M = np.full((2, 2), 0.3) + jitter * np.array([[1.0, -1.0], [-1.0, 1.0]])
    Q = M @ M.T + 0.3 * np.eye(2)
    return {"kind": "overlaps", "M": M.tolist(), "Q": Q.tolist(), "P": START["P"]}


def test_flag_is_raised_at_saddle_only():
    """Near a saddle the scatter across it decides which way SGD leaves, and when."""
    times = np.linspace(0.0, 100.0, 21)
    root = np.sqrt(Point.parse(BASE).delta_t)
    descent, escape = predict(BASE, times), predict({**BASE, "init": near_saddle(1e-3)}, times)
    floor = predict({**BASE, "noise": 0.1, "init": {"kind": "planted", "epsilon": 0.1}}, times)
    assert np.max(root * descent.nonlinearity) < 0.1
    # 1.3/√d of R is the scatter of a sum of few squares, all of which is second order: 0.15 at d = 50
    assert np.max(root * floor.nonlinearity) < 0.3
    assert np.max(root * escape.nonlinearity) > 0.3
    assert descent.nonlinearity[0] == 0.0


DESCENTS = {
    "small rate": {"gamma": 0.2},
    "large rate": {"gamma": 2.0, "d": 100},
    "without noise": {"noise": 0.0},
    "learned": LEARNED,
    "tanh": {"activation": "tanh"},
    "relu": {"activation": "relu"},
    # at d = 50 the ratio is 0.57, and sd off by 17 %
    "square": {"activation": "square", "gamma": 0.1, "d": 400},
    "informed": {"p": 4, "init": {"kind": "informed"}},
    "noise floor": {"init": {"kind": "planted", "epsilon": 0.1}, "noise": 0.1},
}


@pytest.mark.parametrize("case", DESCENTS)
def test_flag_is_not_raised_on_smooth_descents(case):
    point = {**BASE, **DESCENTS[case]}
    predicted = predict(point, np.append(0.0, np.geomspace(0.1, 20.0, 12)), points=1024)
    assert np.max(np.sqrt(Point.parse(point).delta_t) * predicted.nonlinearity) < MAX_NONLINEARITY


def predict_near_saddle(jitter, times):
    """The dataset of a theory at d = 1000, and what analyses read of it."""
    point = {**BASE, "d": 1000, "init": near_saddle(jitter)}
    theory = ss.integrate(point, times=times, regime="high_dimensional", fluctuations=True)
    return point, theory, read_prediction(as_sweep(theory))


def test_flag_is_raised_where_shift_changes_sign():
    """At t = 200 the shift is small, and 1000 chains scatter by 0.47 of the prediction."""
    times = np.sort(np.append([0.0, 200.0], np.geomspace(130.0, 240.0, 12)))
    point, theory, prediction = predict_near_saddle(1e-3, times)
    ratio = Point.parse(point).delta_t ** 0.5 * abs(theory["risk_shift"]) / theory["risk_std"]
    assert ratio.sel(time=200.0) < MAX_NONLINEARITY
    assert prediction.nonlinearity.sel(time=200.0).item() > 2.0 * MAX_NONLINEARITY


@pytest.mark.slow
@pytest.mark.parametrize("jitter", [0.0, 1e-3])
def test_flag_at_saddle_of_identical_students(jitter):
    """Wherever exact chains scatter by more than predicted, or less, the flag is raised."""
    times = np.array([20.0, 60.0, 80.0, 130.0, 200.0])
    every = np.unique(np.concatenate([[0.0], times, np.geomspace(15.0, 240.0, 40)]))
    point, _, prediction = predict_near_saddle(jitter, every)
    predicted, steps = prediction.std.squeeze().sel(time=times), np.round(times / Point.parse(point).delta_t)
    risks = run(point, steps.astype(int), repeat=range(1000)).risk.values
    ratio = risks.std(0, ddof=1) / predicted.values
    is_flagged = prediction.nonlinearity.squeeze().sel(time=times).values > MAX_NONLINEARITY
    np.testing.assert_array_equal(is_flagged, times > 100.0)
    # 4 standard errors of a standard deviation of 1000 runs, and 1 % for the points of D
    assert np.all(np.abs(ratio[~is_flagged] - 1.0) < 4.0 / np.sqrt(2000.0) + 0.01)
    assert np.all(np.abs(ratio[is_flagged] - 1.0) > 0.2)


def constant_of_theorem():
    """E sup|R_sgd - R|/√δt in units of R(0) for the start of the preset `rates`, with its standard error."""
    point = {"d": 1000, "p": 4, "k": 2, "gamma": 2.0, "init": {"kind": "informed", "shared": True}}
    noise = make_noise(point)
    times = np.append(0.0, np.geomspace(0.01, 10.0, 99))
    suprema = sample_suprema(noise, times, 4000) / noise.flow.risk(noise.flow.y0)
    return suprema.mean(), suprema.std(ddof=1) / np.sqrt(len(suprema))


def test_constant_of_theorem():
    """It is 0.524(3) by another integration."""
    constant, error = constant_of_theorem()
    assert error < 0.005
    # three standard errors of both, and 1 % for the points of D
    assert abs(constant - 0.524) < 3.0 * np.hypot(0.003, 0.003) + 0.005


def test_divergence_leaves_nan():
    point = {**BASE, "activation": "square", "gamma": 4.0, "noise": 0.1}
    predicted = predict(point, [0.0, 0.01, 50.0], points=1024)
    assert np.isfinite(predicted.std[:2]).all()
    assert np.isnan(predicted.std[2])
