"""Two-point averages of every pair of activations, and the functions of one neuron, against quadrature."""

import numpy as np
import pytest

from sweep_service.dynamics.mean_field.nodes import integrate_moments
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.averages.two_point import MEHLER_TERMS, Mehler, coefficients, make_two_point
from tests.physics.reference import ALL_PAIRS, AROUND_ZERO, conditional, name, normal_rule, panels

every_activation = pytest.mark.parametrize("act", ACTIVATIONS.values(), ids=name)

# (a, b, c): variances and covariance
CASES = [
    (1.0, 1.0, 0.3),
    (1.0, 0.5, -0.6),
    (0.7, 2.0, 1.1),
    (1.0, 1.0, 0.0),
    (1.0, 1.0, 0.999),
    (2.0, 2.0, -1.99),
    (4.0, 4.0, 3.9),
    (1e-4, 1e-4, 5e-5),
    (1e-4, 1.0, -8e-3),
    (1.3, 1e-4, 9.9e-3),
]


def average_by_quadrature(f, g, a, b, c):
    """E[f(u) g(v)] by nested quadrature: u first, v given u inside; f = None stands for δ."""
    along, s = c / np.sqrt(a), np.sqrt(b - c * c / a)
    if f is None:
        return conditional(g, np.zeros(1), s)[0] / np.sqrt(2.0 * np.pi * a)
    x, w = normal_rule(AROUND_ZERO)
    return np.sum(w * f(np.sqrt(a) * x) * conditional(g, along * x, s))


def averages(pair, a, b, c):
    a, b, C = np.array([a]), np.array([b]), np.array([[c]])
    return np.array([pair.values(a, b, C), *pair.slopes(a, b, C)]).ravel()


def tolerance(f, g):
    """The reference errs by 2e-13 near |ρ| = 1; the mixture of 8 error functions for tanh by 6e-9."""
    return 6e-9 if "tanh" in (f.name, g.name) else 1e-12


@pytest.mark.parametrize(("f", "g"), ALL_PAIRS, ids=name)
def test_averages_agree_with_quadrature(f, g):
    for a, b, c in CASES:
        expected = [
            average_by_quadrature(f.value, g.value, a, b, c),
            average_by_quadrature(f.slope, g.slope, a, b, c),
            average_by_quadrature(f.curvature, g.value, a, b, c),
        ]
        actual = averages(make_two_point(f, g), a, b, c)
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=tolerance(f, g), err_msg=f"{a, b, c}")


@pytest.mark.parametrize(("f", "g"), ALL_PAIRS, ids=name)
def test_vector_averages_agree_with_scalar_averages(f, g):
    a, b = np.array([0.5, 1.0, 2.0]), np.array([0.3, 1.5])
    C = 0.7 * np.sqrt(np.outer(a, b)) * np.array([[1, -1], [0, 0.5], [-0.5, 1]])
    pair = make_two_point(f, g)
    together = np.array([pair.values(a, b, C), *pair.slopes(a, b, C)])
    for i, j in np.ndindex(C.shape):
        # the same sums, possibly in another order
        np.testing.assert_allclose(
            together[:, i, j], averages(pair, a[i], b[j], C[i, j]), rtol=1e-12, atol=1e-14
        )


@every_activation
def test_closed_forms_agree_with_mehler(act):
    for a, b, c in CASES:
        rho = abs(c) / np.sqrt(a * b)
        # relu's step and delta leave out Σ_{m>128} 0.13 m^-1.5 ρ^m over even or odd m, h_m(0)² being √(2/πm);
        # the 128 terms of tanh leave out 2.5e-8 at variance 4 and ρ = 0.975, 8e-10 at 2 and ρ = -0.995
        left_out = 0.0 if act.curvature is not None else 0.012 * rho ** MEHLER_TERMS[-1]
        left_out += 0.0 if act.name != "tanh" else 5e-8 if max(a, b) > 2.0 else 6e-9
        np.testing.assert_allclose(
            averages(Mehler(act, act), a, b, c),
            averages(make_two_point(act, act), a, b, c),
            rtol=1e-12,
            atol=1e-12 + left_out,
        )


@every_activation
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_equal_and_opposite_fields_survive_rounding(act, sign):
    """|ρ| = 1 for a neuron with itself; rounding may push it beyond."""
    a = 0.7
    x, w = normal_rule(np.zeros(1))
    u = np.sqrt(a) * x
    expected = [w @ (act.value(u) * act.value(sign * u)), w @ (act.slope(u) * act.slope(sign * u))]
    for c in (sign * a, sign * np.nextafter(a, 1.0)):
        close = tolerance(act, act)
        actual = averages(make_two_point(act, act), a, a, c)
        np.testing.assert_allclose(actual[:2], expected, rtol=0.0, atol=close)
        if act.curvature is None:
            assert actual[2] == pytest.approx(0.0, abs=1e-8)  # E[δ(u) relu(±u)], to the root of rounding
        else:
            assert actual[2] == pytest.approx(w @ (act.curvature(u) * act.value(sign * u)), abs=close)


@every_activation
def test_slope_and_curvature_are_derivatives(act):
    x, h = np.linspace(-4, 4, 81) + 0.0123, 1e-5  # the offset avoids relu's kink
    # error h² times the third derivative, 1e-10 here, and rounding eps·16/h
    slope = (act.value(x + h) - act.value(x - h)) / (2 * h)
    np.testing.assert_allclose(act.slope(x), slope, rtol=0.0, atol=1e-9)
    curvature = act.curvature(x) if act.curvature else np.zeros_like(x)
    bend = (act.slope(x + h) - act.slope(x - h)) / (2 * h)
    np.testing.assert_allclose(curvature, bend, rtol=0.0, atol=1e-9)
    assert act.odd == np.allclose(act.value(-x), -act.value(x), rtol=0.0, atol=1e-15)


def orthonormal_hermite(order, x):
    h = np.zeros((order, x.size))
    h[0], h[1] = 1.0, x
    for m in range(1, order - 1):
        h[m + 1] = (x * h[m] - np.sqrt(m) * h[m - 1]) / np.sqrt(m + 1)
    return h


@every_activation
@pytest.mark.parametrize("derivative", [0, 1, 2])
def test_hermite_coefficients_agree_with_quadrature(act, derivative):
    function, order = (act.value, act.slope, act.curvature)[derivative], 60
    C = np.array([1e-4, 0.5, 1.0, 4.0])
    x, w = panels(np.linspace(-24, 24, 97))  # zero is an edge; h_60 oscillates up to x = 16
    weighted = orthonormal_hermite(order, x) * w * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
    for variance, actual in zip(C, coefficients(act, derivative, C), strict=True):
        if function is None:  # δ(√C x)
            expected = orthonormal_hermite(order, np.zeros(1))[:, 0] / np.sqrt(2.0 * np.pi * variance)
        else:
            expected = weighted @ function(np.sqrt(variance) * x)
        # exact ones to rounding; the 256 nodes leave 3.4e-7 of tanh'' at variance 4, 2e-14 at 1
        close = 1e-12 if act.hermite or variance <= 1.0 else 1e-6
        np.testing.assert_allclose(
            actual[:order], expected, rtol=0.0, atol=close * max(1.0, np.max(np.abs(expected)))
        )


@every_activation
def test_smoothed_moments_agree_with_quadrature(act):
    mu, root = (x.ravel() for x in np.meshgrid([-2.0, -0.3, 0.0, 0.5, 3.0], [1e-3, 0.2, 1.0]))
    orders = 9
    if act.smoothed is not None:
        actual = act.smoothed(mu, root, orders)
    else:
        actual = integrate_moments(act, mu, root, orders, nodes=96)
    for i, (m, s) in enumerate(zip(mu, root, strict=True)):
        z, w = normal_rule(np.array([-m / s]))
        h, value, slope = orthonormal_hermite(orders, z), act.value(m + s * z), act.slope(m + s * z)
        expected = [w @ value, h @ (w * slope), w @ value**2, w @ (value * slope), w @ (value * slope * z)]
        for field, a, b in zip(actual._fields, actual, expected, strict=True):
            # rounding of squares of 13 where exact; the 96 nodes leave 1.6e-10 of tanh at width 1
            close = 1e-9 if act.name == "tanh" else 1e-12
            np.testing.assert_allclose(a[i], b, rtol=0.0, atol=close, err_msg=field)
