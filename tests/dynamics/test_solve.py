"""The integration loop: accuracy of R(t) against tight tolerances, divergence as a status, stopping."""

import warnings

import numpy as np
import pytest

from sweep_service import integrate
from sweep_service.dynamics.integrators import EXPLICIT, LSODA, Integrator, dop853, lsoda, rkc
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.overlap_flow import label_noise
from sweep_service.dynamics.regimes import REGIMES, Setup, overlap_regime
from sweep_service.dynamics.solve import DIVERGENCE_FACTOR, choose_integrator, solve
from sweep_service.errors import Stopped
from sweep_service.model.point import Point
from sweep_service.status import Status

ORTHONORMAL = {"kind": "gaussian", "orthonormal_teacher": True}
METHODS = [LSODA, EXPLICIT, Integrator("dop853", dop853, 1e-10, 1e-13), Integrator("rkc", rkc, 1e-8, 1e-11)]
methods = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)


class Toy:
    """A flow from a formula."""

    precision, jacobian, breaks, delta_t = 1e-10, None, (), None

    def __init__(self, f, *y0):
        self.f, self.y0 = f, np.array(y0)

    def __call__(self, y, t=0.0):
        return self.f(y)

    def risk(self, y):
        return float(np.sum(y))


def flow_at(regime, seed=0, options=None, **point):
    point = Point.parse({"k": 2, "init": ORTHONORMAL, **point})
    return REGIMES[regime].make_flow(Setup(point, point.start(seed), seed, RegimeOptions.parse(options)))


def relative_error(flow, times, tight):
    """The largest relative difference of R(t) between the chosen integrator and a tight run."""
    chosen, reference = solve(flow, times), solve(flow, times, tight)
    assert chosen.status == reference.status == Status.DONE
    R, R0 = (np.array([flow.risk(y) for y in path.states]) for path in (chosen, reference))
    return np.max(np.abs(R / R0 - 1))


@pytest.mark.parametrize("regime", ["classical_noise", "high_dimensional", "classical"])
@pytest.mark.parametrize(
    ("seed", "point"),
    [(0, {"d": 10, "gamma": 0.05, "noise": 1e-3}), (1, {"d": 3, "gamma": 0.5, "noise": 1e-2})],
    ids=["d10", "d3"],
)
def test_narrow_students_are_accurate_to_late_times(regime, seed, point):
    """The goal is 1e-6 up to t = 1e4; measured 3e-10 to 3e-8, so that 1e-7 detects regressions.

    The tight run itself agrees with one at 1e-12 to 1e-9.
    """
    times = np.concatenate([[0.0], np.geomspace(1e-2, 1e4, 40)])
    tight = Integrator("tight", lsoda, 3e-12, 3e-15)
    assert relative_error(flow_at(regime, seed, p=10, **point), times, tight) < 1e-7


@pytest.mark.parametrize(("regime", "d"), [("classical_noise", 200), ("classical", 20)])
def test_wide_students_are_accurate(regime, d):
    """The goal is 1e-4 up to t = 1e3 at p = 100; measured 1e-5 (M, Q) and 1e-10 (weights)."""
    times = np.concatenate([[0.0], np.geomspace(1e-2, 1e3, 20)])
    flow = flow_at(regime, p=100, d=d, gamma=0.5, noise=1e-3)
    assert relative_error(flow, times, Integrator("tight", dop853, 1e-12, 1e-15)) < 5e-5


@pytest.mark.slow
def test_wide_students_are_accurate_with_the_sampling_term():
    """In SS the quasi-Monte-Carlo term errs by 1e-3 in R(t), so steps need not do better; measured 5e-4.

    Fewer points change the flow, and only make it harder to integrate: with 4096 of them it was 1.1e-4.
    """
    times = np.concatenate([[0.0], np.geomspace(1e-2, 1e3, 20)])
    flow = flow_at("high_dimensional", 0, {"qmc_points": 256}, p=100, d=200, gamma=5.0, noise=1e-3)
    assert relative_error(flow, times, Integrator("tight", dop853, 1e-10, 1e-13)) < 1e-3


def test_choice_of_integrator_depends_on_size():
    """LSODA if a Jacobian is cheap, and never if the right-hand side is sampled."""
    names = {
        (regime, p): choose_integrator(flow_at(regime, p=p, d=40, gamma=0.1)).name
        for regime, p in [("classical_noise", 10), ("classical_noise", 100), ("mean_field", 200)]
    }
    assert names == {
        ("classical_noise", 10): LSODA.name,
        ("classical_noise", 100): EXPLICIT.name,
        ("mean_field", 200): EXPLICIT.name,
    }
    sampled = choose_integrator(flow_at("high_dimensional", p=4, d=40, gamma=0.1, activation="relu"))
    assert (sampled.name, sampled.rtol) == (EXPLICIT.name, 1e-5)


@methods
def test_large_solution_is_diverged(method):
    """dy/dt = 10 y: values while it is below the limit, NaN after it."""
    end = np.log(DIVERGENCE_FACTOR) / 10
    times = end * np.array([0.0, 0.3, 0.8, 1.1, 2.0, 1e3])
    path = solve(Toy(lambda y: 10 * y, 1.0), times, method)
    assert path.status == Status.DIVERGED
    # on its way from 1 to 1e5 a relative error of 1e-8 per step of rkc adds up over thousands of them
    np.testing.assert_allclose(path.states[:3, 0], np.exp(10 * times[:3]), rtol=1e-4)
    assert np.all(np.isnan(path.states[3:]))


SINGULAR = {
    "pole": (lambda y: y**2, 1.0, lambda t: 1 / (1 - t)),
    "NaN beyond 2": (lambda y: np.where(y > 2, np.nan, y), 1.0, np.exp),
    "inf beyond 2": (lambda y: np.where(y > 2, np.inf, y), 1.0, np.exp),
    "NaN at once": (lambda y: np.nan * y, 1.0, None),
}


@methods
@pytest.mark.parametrize("name", SINGULAR)
@pytest.mark.timeout(20)  # an integrator may also hang on a NaN
def test_non_finite_field_gives_nan(method, name):
    f, y0, exact = SINGULAR[name]
    times = np.array([0.0, 0.5, 0.6, 2.0, 5.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = solve(Toy(f, y0), times, method)
    assert path.status == Status.DIVERGED
    assert path.states[0, 0] == y0
    assert np.all(np.isnan(path.states[3:]))
    if exact is not None:
        np.testing.assert_allclose(path.states[:3, 0], exact(times[:3]), rtol=1e-5)


@pytest.mark.parametrize("p", [4, 40])
def test_divergence_is_status(p):
    """Square in SS-ODE at a large γ blows up in finite time: values before, NaN after, no exception."""
    init = {**ORTHONORMAL, "scale": 2.0}
    point = {"d": 20, "p": p, "k": 2, "gamma": 4.0 * p, "activation": "square", "init": init}
    result = integrate(point, regime="high_dimensional", times=[0.0, 1e-5, 1e-4, 1.0, 2.0])
    assert result.attrs["status"] == "diverged"
    for name in ("risk", "overlap_student_teacher", "overlap_student"):
        assert np.all(np.isfinite(result[name][:3])), name
        assert np.all(np.isnan(result[name][3:])), name


@pytest.mark.parametrize("regime", REGIMES)
def test_start_on_kink_is_no_error(regime):
    """Relu has no gradient where w = 0: the flow ends there, without an exception."""
    init = {"kind": "overlaps", "M": np.zeros((4, 2)), "Q": np.zeros((4, 4)), "P": np.eye(2)}
    point = {"d": 20, "p": 4, "k": 2, "gamma": 0.1, "activation": "relu", "init": init}
    result = integrate(point, regime=regime, times=[0.0, 1.0])
    assert result.attrs["status"] == "diverged"
    assert np.isfinite(result.risk[0])
    assert np.isnan(result.risk[1])


@methods
def test_stopped_raises(method):
    """The hook is called at every evaluation, and none follows when it returns true."""
    calls = []

    def stopped():
        calls.append(None)
        return len(calls) > 20

    with pytest.raises(Stopped):
        solve(Toy(lambda y: -y, 1.0), np.array([1e4]), method, stopped)
    assert len(calls) == 21


def test_evaluations_are_counted():
    calls = []

    def f(y):
        calls.append(None)
        return -y

    path = solve(Toy(f, 1.0), np.array([0.0, 1.0]))
    assert path.evaluations == len(calls) > 0
    assert path.integrator == LSODA.name


def test_states_do_not_depend_on_other_output_times():
    """Interpolation within a step does not reduce the accuracy noticeably."""
    flow = flow_at("classical_noise", p=6, d=10, gamma=0.1, noise=1e-2)
    few, many = np.array([7.0]), np.concatenate([np.linspace(0.0, 6.9, 40), [7.0]])
    np.testing.assert_allclose(solve(flow, few).states[0], solve(flow, many).states[-1], atol=1e-9)


def test_regime_without_drift_has_no_drift():
    """The compiled flow includes the drift, so it must not be used for a regime without drift."""
    point = Point.parse({"d": 10, "p": 4, "k": 2, "gamma": 0.1, "noise": 0.5})
    setup = Setup(point, point.start(0), 0, RegimeOptions())
    flow = overlap_regime(label_noise)(setup)
    size = point.p * point.k
    np.testing.assert_array_equal(flow(flow.y0)[:size], 0.0)  # noise moves Q alone
    assert np.any(flow(flow.y0)[size:] != 0.0)
