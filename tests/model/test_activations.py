"""The registry of activations: each entry is consistent, by differences and by quadrature."""

import math

import numpy as np
import pytest
from scipy import integrate as quadrature
from scipy import special

from sweep_service.errors import InvalidInput
from sweep_service.model.activations import ACTIVATIONS, Activation, find_activation, hermite_at_zero


def having(*attributes):
    """Parametrise over the entries that have these fields."""
    entries = [act for act in ACTIVATIONS.values() if all(getattr(act, name) for name in attributes)]
    return pytest.mark.parametrize("act", entries, ids=lambda act: act.name)


every = having()
X = np.linspace(-3, 3, 50) + 0.01  # the offset avoids a kink at zero


def average(function):
    """E f(z), z ~ N(0, 1), with a break where relu has its kink."""

    def weighted(z):
        return function(np.array([z]))[0] * math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)

    return sum(quadrature.quad(weighted, a, b, epsabs=1e-13)[0] for a, b in ((-12, 0), (0, 12)))


def hermite(m, z):
    return special.eval_hermitenorm(m, z) / math.sqrt(math.factorial(m))


@every
def test_key_is_name(act):
    assert ACTIVATIONS[act.name] is act
    assert find_activation(act.name) is act
    assert act.formula


@every
def test_slope_is_derivative(act):
    h = 1e-6
    central = (act.value(X + h) - act.value(X - h)) / (2 * h)
    np.testing.assert_allclose(act.slope(X), central, atol=1e-8)  # rounding ~ eps |σ|/h ~ 2e-9


@having("curvature")
def test_curvature_is_derivative_of_slope(act):
    h = 1e-6
    central = (act.slope(X + h) - act.slope(X - h)) / (2 * h)
    np.testing.assert_allclose(act.curvature(X), central, atol=1e-8)  # rounding ~ eps |σ'|/h ~ 2e-9


@every
def test_odd_is_declared_correctly(act):
    assert np.allclose(act.value(-X), -act.value(X)) == act.odd


@every
def test_functions_keep_shapes(act):
    x = np.zeros((2, 3, 4))
    for function in (act.value, act.slope, act.curvature):
        if function is not None:
            assert function(x).shape == x.shape


@having("hermite")
@pytest.mark.parametrize("C", [1e-4, 0.3, 1.0, 7.0])
def test_exact_hermite_coefficients(act, C):
    result = act.hermite(10, np.array([C]))[0]
    expected = [average(lambda z, m=m: act.value(math.sqrt(C) * z) * hermite(m, z)) for m in range(10)]
    np.testing.assert_allclose(result, expected, atol=1e-11)  # of the adaptive quadrature


@having("smoothed")
@pytest.mark.parametrize(("mu", "root"), [(0.4, 0.7), (-1.3, 0.2), (2.0, 1.5), (0.0, 1.0)])
def test_smoothed_moments(act, mu, root):
    orders = 6
    result = act.smoothed(np.array([mu]), np.array([root]), orders)
    split = -mu / root  # where the field changes sign

    def mean(function):
        def weighted(z):
            return function(np.array([mu + root * z]), z)[0] * math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)

        return sum(quadrature.quad(weighted, a, b, epsabs=1e-13)[0] for a, b in ((-12, split), (split, 12)))

    def slope_moment(m):
        return mean(lambda x, z: act.slope(x) * hermite(m, z))

    expected = {
        "value": mean(lambda x, z: act.value(x)),
        "slope": [slope_moment(m) for m in range(orders)],
        "value_value": mean(lambda x, z: act.value(x) ** 2),
        "value_slope": mean(lambda x, z: act.value(x) * act.slope(x)),
        "value_slope_z": mean(lambda x, z: act.value(x) * act.slope(x) * z),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(result, name)[0], value, atol=1e-11, err_msg=name)


def test_hermite_at_zero():
    expected = [hermite(m, 0.0) for m in range(12)]
    np.testing.assert_allclose(hermite_at_zero(12), expected, atol=1e-15)


def test_activation_without_curvature_needs_hermite():
    with pytest.raises(ValueError, match="kink"):
        Activation("kink", "|x|", np.abs, np.sign)


@pytest.mark.parametrize("name", ["erff", "Erf", "", None, 3, ["erf"]])
def test_unknown_activation_is_refused(name):
    with pytest.raises(InvalidInput) as info:
        find_activation(name, "teacher_activation")
    assert info.value.field == "teacher_activation"
    assert all(known in info.value.allowed for known in ACTIVATIONS)
