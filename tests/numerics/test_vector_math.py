"""exp, erf and asin of the SIMD kernels against libm and SciPy, over their whole range."""

import math

import numba
import numpy as np
import pytest
from scipy import special

from sweep_service.numerics.vector_math import ELEMENTWISE, asin_unit, erf_and_gauss, exp_negative, unit_angle

# A few units in the last place: measured 3.3e-16 (exp, gauss), 5.9e-16 (erf), 6.7e-16 (asin).
FEW_ULP = 1e-15


def looped(function):
    """The function in a compiled loop, in which LLVM may fuse and vectorise it."""

    @numba.njit(fastmath=ELEMENTWISE, error_model="numpy")
    def run(x):
        first, second = np.empty_like(x), np.empty_like(x)
        for i in range(x.size):
            first[i], second[i] = function(x[i])
        return first, second

    return run


@numba.njit(fastmath=ELEMENTWISE, error_model="numpy")
def exp_and_asin(x):
    return exp_negative(-x), asin_unit(x)


exp_and_asin_of, erf_of = looped(exp_and_asin), looped(erf_and_gauss)


def exp_of(u):
    return exp_and_asin_of(-u)[0]


def asin_of(x):
    return exp_and_asin_of(x)[1]


def signed_decades(low, high, n):
    x = np.logspace(low, high, n)
    return np.concatenate([-x[::-1], x])


def test_exp_agrees_with_libm():
    u = np.concatenate([np.linspace(-699.9, 0.0, 50_001), -np.logspace(-300, 2.8, 20_000)])
    np.testing.assert_allclose(exp_of(u), np.exp(u), rtol=FEW_ULP, atol=0.0)


def test_asin_agrees_with_libm():
    x = np.concatenate([np.linspace(-1, 1, 50_001), signed_decades(-300, 0, 10_000)])
    x = np.concatenate([x, np.sign(x) * (1.0 - np.abs(x))])  # crowded where the slope diverges, too
    np.testing.assert_allclose(asin_of(x), np.arcsin(x), rtol=0.0, atol=FEW_ULP)
    # relative: measured 1.2e-15, at the seam ½ where π/2 - 2y cancels
    np.testing.assert_allclose(asin_of(x), np.arcsin(x), rtol=2e-15, atol=0.0)


def test_erf_and_gauss_agree_with_scipy():
    x = np.concatenate(
        [np.linspace(-45, 45, 50_001), np.linspace(-5, 5, 50_001), signed_decades(-300, 0, 5000)]
    )
    erf, gauss = erf_of(x)
    # absolute: 1 - e·erfcx keeps no relative digits near zero
    np.testing.assert_allclose(erf, special.erf(x / math.sqrt(2.0)), rtol=0.0, atol=FEW_ULP)
    inside = np.abs(x) < 36.9  # clamped at 37
    np.testing.assert_allclose(gauss[inside], np.exp(-0.5 * x[inside] ** 2), rtol=FEW_ULP, atol=0.0)
    assert np.all(gauss[~inside] < 1e-290)


def test_special_values():
    assert exp_of(np.array([0.0, -0.0])).tolist() == [1.0, 1.0]
    assert asin_of(np.array([0.0, -0.0, 1.0, -1.0])).tolist() == [0.0, 0.0, math.pi / 2, -math.pi / 2]
    # one unit in the last place on either side of the seam
    np.testing.assert_allclose(asin_of(np.array([0.5, -0.5])), [math.pi / 6, -math.pi / 6], rtol=2.3e-16)
    erf, gauss = erf_of(np.array([0.0, -0.0, 37.0, -37.0, 1e308, -1e308]))
    np.testing.assert_allclose(erf, [0.0, 0.0, 1.0, -1.0, 1.0, -1.0], rtol=0.0, atol=2.3e-16)
    assert gauss[:2].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("x", [0.1, 0.5, 0.75, 1.0, 3.0])
def test_erf_and_asin_are_odd_and_gauss_is_even(x):
    erf, gauss = erf_of(np.array([x, -x]))
    assert erf[0] == -erf[1]
    assert gauss[0] == gauss[1]
    if x <= 1.0:
        up, down = asin_of(np.array([x, -x]))
        assert up == -down


def test_nan_is_preserved():
    """Divergence is detected by NaN, so no clamp or comparison may hide it."""
    assert np.all(np.isnan(erf_of(np.array([np.nan, -np.nan]))))
    assert erf_of(np.array([np.inf, -np.inf]))[0].tolist() == [1.0, -1.0]
    assert np.all(np.isnan(asin_of(np.array([np.nan, 1.1, -1.1, np.inf]))))
    assert np.isnan(exp_of(np.array([np.nan]))).all()


@pytest.mark.parametrize("x", [-0.9, -0.3, 0.0, 0.2, 0.5, 0.8, 1.0])
def test_scalar_call_agrees_with_loop(x):
    # another choice of fused operations: one unit in the last place each
    assert asin_unit(x) == pytest.approx(asin_of(np.array([x]))[0], abs=FEW_ULP)
    assert exp_negative(-abs(x)) == pytest.approx(math.exp(-abs(x)), rel=FEW_ULP)
    assert erf_and_gauss(x) == pytest.approx(
        (math.erf(x / math.sqrt(2.0)), math.exp(-x * x / 2)), abs=FEW_ULP
    )


def test_angle_of_a_unit_vector():
    @numba.njit(error_model="numpy")
    def angles(sine, cosine):
        out = np.empty_like(sine)
        for i in range(sine.size):
            out[i] = unit_angle(sine[i], cosine[i])
        return out

    # both sides of every octant and of its half, and angles near zero
    turns = np.concatenate(
        [np.linspace(-1.0, 1.0, 100_001), np.arange(-8, 9) / 8 + 1e-9, 10.0 ** -np.arange(3.0, 300.0)]
    )
    angle = np.pi * turns[np.abs(turns) < 1.0]
    np.testing.assert_allclose(angles(np.sin(angle), np.cos(angle)), angle, rtol=FEW_ULP, atol=FEW_ULP)
    small = angle[np.abs(angle) < 0.3]
    np.testing.assert_allclose(angles(np.sin(small), np.cos(small)), small, rtol=2.0 * FEW_ULP)  # 1.3e-15
    assert np.all(np.isnan(angles(np.full(1, np.nan), np.full(1, np.nan))))
