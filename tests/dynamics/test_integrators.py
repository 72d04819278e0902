"""The integrators on problems with known solutions: order, accuracy, times, stability."""

import math

import numpy as np
import pytest

from sweep_service.dynamics.integrators import (
    EXPLICIT,
    LSODA,
    STIFF_TIME,
    Integrator,
    Tally,
    dop853,
    estimate_spectral_radius,
    rkc,
    take_chebyshev_step,
)

DOP853 = Integrator("dop853", dop853, 1e-10, 1e-13)
RKC = Integrator("rkc", rkc, 1e-8, 1e-11)
# Expected errors on a problem of size one: a hundred times the tolerance per step, as errors add up over
# steps; rkc2 has order 2 and is ten times worse; `explicit` ends with rkc at 100 times its own tolerance.
REACHED = {LSODA: 1e-8, DOP853: 1e-8, EXPLICIT: 1e-6, RKC: 1e-5}
methods = pytest.mark.parametrize("method", REACHED, ids=lambda method: method.name)

# The spectrum of the flows at late times: real, over six decades.
RATES = np.array([4e-7, 1e-5, 1e-3, 1e-2, 0.1, 0.3, 0.5, 0.8])
V = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 8)))[0]
MATRIX = -(V * RATES) @ V.T
START = np.append(V @ np.ones(8), 0.0)
TIMES = np.array([0.0, 0.1, 0.7, 5.0, 100.0, 999.0, STIFF_TIME, STIFF_TIME + 0.5, 3e3, 1e4])


def linear(y, t=0.0):
    """A stiff linear system, and a clock as its last component."""
    return np.append(MATRIX @ y[:-1], 1.0)


def solution(t):
    return V @ np.exp(-RATES * t)


def march(method, f, y0, times, tally=None):
    return list(method(f, np.array(y0, float), np.asarray(times, float), tally or Tally()))


@methods
@pytest.mark.parametrize(
    "times",
    [TIMES, TIMES[3:], TIMES[-2:], TIMES[:1], TIMES[:2], [STIFF_TIME], [2.0], np.linspace(0, 3, 50)],
    ids=["all", "later", "last", "zero", "early", "switch", "one", "dense"],
)
def test_stiff_linear_system_at_requested_times(method, times):
    tally = Tally()
    states = march(method, linear, START, times, tally)
    assert len(states) == len(times)
    for t, y in zip(times, states, strict=True):
        assert y[-1] == pytest.approx(t, rel=1e-12)  # the clock: rounding of its own steps
        np.testing.assert_allclose(y[:-1], solution(t), atol=REACHED[method])
    if times[0] == 0.0:
        np.testing.assert_array_equal(states[0], START)


@methods
def test_steps_are_counted(method):
    tally = Tally()
    march(method, linear, START, [1.0, 10.0], tally)
    assert tally.steps > 0


@methods
def test_yielded_states_are_copies(method):
    """A caller may keep or change a state without affecting others."""
    rows = []
    for y in method(linear, START.copy(), TIMES[:5], Tally()):
        rows.append(y.copy())
        y[:] = 0.0
    np.testing.assert_allclose(rows, march(method, linear, START, TIMES[:5]), rtol=1e-12)


def pendulum(y, t=0.0):
    """Nonlinear, with the exact solution tan t in its first component and a coupled second one."""
    return np.array([1.0 + y[0] ** 2, -y[1] * y[0]])  # y = (tan t, cos t) from (0, 1)


@pytest.mark.parametrize("stages", [2, 3, 5, 20])
def test_chebyshev_steps_have_order_two(stages):
    errors = []
    counts = (40, 80, 160)
    for n in counts:
        y, h = np.array([0.0, 1.0]), 1.0 / n
        fy = pendulum(y)
        for _ in range(n):
            y, fy = take_chebyshev_step(pendulum, y, 0.0, fy, h, stages)
        np.testing.assert_array_equal(fy, pendulum(y))
        errors.append(np.max(np.abs(y - [math.tan(1.0), math.cos(1.0)])))
    slope = -np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert slope == pytest.approx(2.0, abs=0.1)  # the next order adds h ~ 2 %


@pytest.mark.parametrize("stages", [2, 5, 20, 100])
def test_chebyshev_steps_are_stable_on_stated_interval(stages):
    """|R(z)| ≤ 1 on the real interval of length (s² - 1)/1.54 of s stages, and not far beyond."""
    length = (stages**2 - 1) / 1.54
    z = np.linspace(0.0, length, 2000)
    grown, _ = take_chebyshev_step(lambda y, t: -z * y, np.ones_like(z), 0.0, -z, 1.0, stages)
    assert np.max(np.abs(grown)) <= 1.0 + 1e-12  # rounding of the recursion
    z = np.array([1.2 * length])
    grown, _ = take_chebyshev_step(lambda y, t: -z * y, np.ones_like(z), 0.0, -z, 1.0, stages)
    assert abs(grown[0]) > 1.0


def test_spectral_radius_has_margin():
    """The stiff matrix has radius 0.8; power iteration stops at 2 %, always from below."""
    y = START.copy()
    radius, direction = estimate_spectral_radius(linear, y, 0.0, linear(y), None)
    assert 0.8 < radius <= 1.2 * 0.8 * (1 + 1e-6)
    again, _ = estimate_spectral_radius(linear, y, 0.0, linear(y), direction)
    assert 0.8 * 1.19 < again <= 1.2 * 0.8 * (1 + 1e-6)


def test_spectral_radius_of_constant_field():
    radius, _ = estimate_spectral_radius(lambda y, t: np.ones_like(y), np.zeros(3), 0.0, np.ones(3), None)
    assert math.isfinite(radius)
    assert radius > 0


def test_explicit_switches_once_at_stiff_time():
    """Before it, the bits are those of DOP853; after it, far fewer evaluations than DOP853 would need."""
    tally, alone = Tally(), Tally()
    states = march(EXPLICIT, linear, START, TIMES[:-2], tally)
    evaluations = {EXPLICIT: 0, DOP853: 0}

    def counted(method):
        def f(y, t=0.0):
            evaluations[method] += 1
            return linear(y)

        return f

    for method in evaluations:
        march(method, counted(method), START, [STIFF_TIME, 2e4])
    assert evaluations[EXPLICIT] < 0.3 * evaluations[DOP853]
    early = TIMES[TIMES <= STIFF_TIME]
    for state, dop853_state in zip(states, march(DOP853, linear, START, early, alone), strict=False):
        np.testing.assert_array_equal(state, dop853_state)


@methods
def test_tolerances_are_met(method):
    """A hundred times tighter gives at least five times less error: order 2 would give 20."""
    loose = Integrator("loose", method.method, 1e-5, 1e-8)
    tight = Integrator("tight", method.method, 1e-7, 1e-10)
    errors = [
        np.max(np.abs(march(m, linear, START, [30.0])[0][:-1] - solution(30.0))) for m in (loose, tight)
    ]
    assert errors[1] < errors[0] / 5
    assert errors[0] < 1e-3
