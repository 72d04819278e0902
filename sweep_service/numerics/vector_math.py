"""exp, erf, log, tanh, sin, asin and pairs of normals without calls of libm, so that loops can be vectorised.

Each is a polynomial that is fitted when this module is imported, with an absolute error of a few
1e-16; the tests compare them with libm over their whole range. All except `asin_unit` accept numbers
and the short vectors of `sweep_service.numerics.simd`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial, chebyshev
from scipy import special

from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import absolute, as_bits, as_float, copysign, fma, square_root, where_less

# NaN must survive, so no nnan.
ELEMENTWISE = {"contract", "nsz", "arcp"}
REDUCTION = {"contract", "nsz", "arcp", "reassoc"}


def fit_polynomial(
    function: Callable[[Any], Any], degree: int, low: float = -1.0, high: float = 1.0
) -> tuple[float, ...]:
    """Coefficients, lowest first, of the Chebyshev series of `function` on [low, high].

    Uses many nodes and exact sums, as plain interpolation would lose a digit to rounding.
    """
    angle = (np.arange(512) + 0.5) * np.pi / 512
    values = function(low + (high - low) * (np.cos(angle) + 1.0) / 2.0)
    series = [math.fsum(values * np.cos(n * angle)) / 256 for n in range(degree + 1)]
    series[0] /= 2.0
    scaled = Polynomial(chebyshev.cheb2poly(series), domain=[low, high])
    return tuple(float(c) for c in scaled.convert().coef)


_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 · 2^52: adding it leaves the nearest integer in the low bits
_SHIFT = np.uint64(52)
_E = fit_polynomial(np.exp, 11, -0.35, 0.35)


@kernel(inline=True)
def exp_negative(u):
    """exp(u) for -700 < u <= 0: 2^n times a polynomial on [-ln2/2, ln2/2]."""
    t = fma(u, _LOG2_E, _ROUND)
    n = t - _ROUND
    r = fma(n, -_LN2_LOW, fma(n, -_LN2_HIGH, u))
    g = r * r
    odd = fma(fma(fma(fma(fma(_E[11], g, _E[9]), g, _E[7]), g, _E[5]), g, _E[3]), g, _E[1])
    even = fma(fma(fma(fma(fma(_E[10], g, _E[8]), g, _E[6]), g, _E[4]), g, _E[2]), g, _E[0])
    return as_float(as_bits(fma(odd, r, even)) + (as_bits(t) << _SHIFT))


@kernel(inline=True)
def exp(x):
    """exp(x) for any x, as the square of exp(x/2)."""
    u = 0.5 * x
    u = where_less(699.0, u, 699.0, u)
    u = where_less(u, -699.0, -699.0, u)
    root = exp_negative(u)
    return root * root


# erfcx(z) for z >= 0 as a polynomial in t = (4 - 2.6 z)/(4 + z), which is 1 at z = 0 and -1 at z = 5;
# beyond 5 the factor exp(-z²) makes the error of the polynomial negligible.
_POLE, _TURN = 4.0, 2.6


def _erfcx_from_t(t: Any) -> Any:
    return special.erfcx(_POLE * (1.0 - t) / (_TURN + t))


def _force_one_at_one(x: tuple[float, ...]) -> tuple[float, ...]:
    """Adjust the coefficients so that `_erfcx(1)` is exactly 1: a neuron of weight zero then outputs zero."""
    while True:
        a, b, c, d = (reduce(add, x[start::-4]) for start in (16, 13, 14, 15))
        if (at_one := (d + c) + (b + a)) == 1.0:
            return x
        x = (x[0] + (1.0 - at_one), *x[1:])


_X = _force_one_at_one(fit_polynomial(_erfcx_from_t, 16))


@kernel(inline=True)
def _erfcx(t):
    g = t * t
    h = g * g
    a = fma(fma(fma(fma(_X[16], h, _X[12]), h, _X[8]), h, _X[4]), h, _X[0])
    b = fma(fma(fma(_X[13], h, _X[9]), h, _X[5]), h, _X[1])
    c = fma(fma(fma(_X[14], h, _X[10]), h, _X[6]), h, _X[2])
    d = fma(fma(fma(_X[15], h, _X[11]), h, _X[7]), h, _X[3])
    return fma(fma(d, t, c), g, fma(b, t, a))


_ROOT_HALF = math.sqrt(0.5)


@kernel(inline=True)
def gauss(x):
    """exp(-x²/2)."""
    a = absolute(x)
    a = where_less(37.0, a, 37.0, a)  # beyond it, zero in double precision
    return exp_negative(-0.5 * a * a)


@kernel(inline=True)
def erf_and_gauss(x):
    """erf(x/√2) and exp(-x²/2), one exponential for both; NaN stays NaN."""
    a = absolute(x)
    a = where_less(37.0, a, 37.0, a)
    e = exp_negative(-0.5 * a * a)
    t = fma(a, -_TURN * _ROOT_HALF, _POLE) / fma(a, _ROOT_HALF, _POLE)
    return copysign(fma(-1.0 * e, _erfcx(t), 1.0), x), e


@kernel(inline=True)
def tanh(x):
    """tanh(x), with a small absolute error."""
    a = absolute(x)
    a = where_less(20.0, a, 20.0, a)
    e = exp_negative(-2.0 * a)
    return copysign((1.0 - e) / (1.0 + e), x)


# log m = 2 atanh f with f = (m-1)/(m+1), for m in [√½, √2): f² < 0.0295.
def _atanh_ratio(g: Any) -> Any:
    f = np.sqrt(np.maximum(g, 1e-300))
    return 2.0 * np.arctanh(f) / f


_L = fit_polynomial(_atanh_ratio, 7, 0.0, 0.02945)
_ONE = np.uint64(0x3FF0000000000000)
_ROOT_HALF_BITS = np.uint64(0x3FE6A09E667F3BCD)
_MANTISSA = np.uint64(0x000FFFFFFFFFFFFF)
_TWO52_BITS = np.uint64(0x4330000000000000)
_LEAST_NORMAL = 2.2250738585072014e-308


@kernel(inline=True)
def log_positive(x):
    """log(x) for normal x > 0."""
    bits = as_bits(x) + (_ONE - _ROOT_HALF_BITS)
    exponent = as_float((bits >> _SHIFT) | _TWO52_BITS) - (4503599627370496.0 + 1023.0)
    m = as_float((bits & _MANTISSA) + _ROOT_HALF_BITS)
    f = (m - 1.0) / (m + 1.0)
    g = f * f
    h = g * g
    even = fma(fma(fma(_L[6], h, _L[4]), h, _L[2]), h, _L[0])
    odd = fma(fma(fma(_L[7], h, _L[5]), h, _L[3]), h, _L[1])
    return fma(exponent, _LN2_HIGH, fma(fma(odd, g, even), f, exponent * _LN2_LOW))


@kernel(inline=True)
def log(x):
    """log(x) for any x; -inf at 0, and NaN below."""
    y = log_positive(where_less(_LEAST_NORMAL, x, x, _LEAST_NORMAL))
    y = where_less(x, _LEAST_NORMAL, -math.inf, y)
    y = where_less(x, 0.0, x * math.nan, y)
    return where_less(x, math.inf, y, x)  # NaN stays NaN


# sin πw/w and cos πw in w², for |w| <= ½.
def _sine_ratio(g: Any) -> Any:
    w = np.sqrt(np.maximum(g, 1e-300))
    return np.sin(math.pi * w) / w


def _cosine(g: Any) -> Any:
    return np.cos(math.pi * np.sqrt(g))


_S, _C = fit_polynomial(_sine_ratio, 8, 0.0, 0.25), fit_polynomial(_cosine, 8, 0.0, 0.25)
_TWELVE = np.uint64(12)
_HALF_ULP = 2.0**-53


@kernel(inline=True)
def unit_interval(word):
    """52 of 64 random bits as a number strictly between 0 and 1."""
    return (2.0 - as_float((word >> _TWELVE) | _ONE)) - _HALF_ULP


@kernel(inline=True)
def normal_pair(word, other):
    """Two independent N(0, 1) from 128 random bits, by Box and Muller."""
    radius = square_root(-2.0 * log_positive(unit_interval(word)))
    w = as_float((other >> _TWELVE) | _ONE) - 1.5
    g = w * w
    h = g * g
    s_even = fma(fma(fma(fma(_S[8], h, _S[6]), h, _S[4]), h, _S[2]), h, _S[0])
    s = fma(fma(fma(fma(_S[7], h, _S[5]), h, _S[3]), h, _S[1]), g, s_even) * w
    c_even = fma(fma(fma(fma(_C[8], h, _C[6]), h, _C[4]), h, _C[2]), h, _C[0])
    c = fma(fma(fma(fma(_C[7], h, _C[5]), h, _C[3]), h, _C[1]), g, c_even)
    twice = 2.0 * s  # sin and cos of 2πw from those of πw
    return radius * (twice * c), radius * fma(-1.0 * twice, s, 1.0)


# sin r/r and cos r in r², for |r| <= π/4, and π/2 in three parts.
_EIGHTH_SQUARED = (0.25 * math.pi) ** 2 * 1.001


def _sinc(g: Any) -> Any:
    r = np.sqrt(np.maximum(g, 1e-300))
    return np.sin(r) / r


_SR = fit_polynomial(_sinc, 7, 0.0, _EIGHTH_SQUARED)
_CR = fit_polynomial(lambda g: np.cos(np.sqrt(g)), 8, 0.0, _EIGHTH_SQUARED)
_QUARTER_TURN = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
_BIT, _NO_BITS, _TO_SIGN, _SIGN = np.uint64(1), np.uint64(0), np.uint64(62), np.uint64(1 << 63)


@kernel(inline=True)
def sine_and_cosine(x):
    """sin(x) and cos(x), to rounding for |x| < 1e15, beyond which they mean nothing."""
    t = fma(x, 2.0 / math.pi, _ROUND)
    n = t - _ROUND
    r = fma(n, -_QUARTER_TURN[2], fma(n, -_QUARTER_TURN[1], fma(n, -_QUARTER_TURN[0], x)))
    r = where_less(1.0, r, 1.0, r)
    r = where_less(r, -1.0, -1.0, r)
    g = r * r
    s = fma(fma(fma(fma(fma(fma(_SR[7], g, _SR[6]), g, _SR[5]), g, _SR[4]), g, _SR[3]), g, _SR[2]), g, _SR[1])
    s = r * fma(s, g, _SR[0])
    c = fma(fma(fma(fma(fma(fma(_CR[8], g, _CR[7]), g, _CR[6]), g, _CR[5]), g, _CR[4]), g, _CR[3]), g, _CR[2])
    c = fma(fma(c, g, _CR[1]), g, _CR[0])
    # In odd quadrants sine and cosine change places; the bit above gives the sign.
    bits, next_bits = as_bits(t), as_bits(t) + _BIT
    swap = _NO_BITS - (bits & _BIT)
    difference = (as_bits(s) ^ as_bits(c)) & swap
    sine = as_float((as_bits(s) ^ difference) ^ ((bits << _TO_SIGN) & _SIGN))
    return sine, as_float((as_bits(c) ^ difference) ^ ((next_bits << _TO_SIGN) & _SIGN))


# asin(√z)/√z on [0, 1/4], in s = 8z - 1.
def _asin_ratio(s: Any) -> Any:
    r = np.sqrt(np.maximum((np.asarray(s) + 1.0) / 8.0, 1e-300))
    return np.arcsin(r) / r


_A = fit_polynomial(_asin_ratio, 12)


@kernel(fastmath=ELEMENTWISE, inline=True)
def asin_unit(x):
    """asin(x) for |x| <= 1; asin x = π/2 - 2 asin √((1-x)/2) beyond ½."""
    a = abs(x)
    small = a <= 0.5
    z = a * a if small else 0.5 * (1.0 - a)
    root = a if small else math.sqrt(z)
    s = 8.0 * z - 1.0
    g = s * s
    even = (((((_A[12] * g + _A[10]) * g + _A[8]) * g + _A[6]) * g + _A[4]) * g + _A[2]) * g + _A[0]
    odd = ((((_A[11] * g + _A[9]) * g + _A[7]) * g + _A[5]) * g + _A[3]) * g + _A[1]
    y = root * (even + odd * s)
    y = y if small else 0.5 * math.pi - 2.0 * y
    return y if x >= 0.0 else -y


_ROOT_HALF, _EIGHTH_TURN = math.sqrt(0.5), 0.25 * math.pi
_STEEP = math.tan(0.125 * math.pi)
_RANGE = math.sin(0.125 * math.pi) ** 2


# asin(√z)/√z on [0, sin² π/8], in s = 2z/sin² π/8 - 1.
def _short_asin_ratio(s: Any) -> Any:
    r = np.sqrt(np.maximum((np.asarray(s) + 1.0) * (_RANGE / 2.0), 1e-300))
    return np.arcsin(r) / r


_U = fit_polynomial(_short_asin_ratio, 11)


@kernel(inline=True)
def unit_angle(sine, cosine):
    """The angle of a unit vector, in [-π, π].

    It is turned into the first octant, and by π/4 where that makes the smaller component smaller.
    """
    a, b = absolute(sine), absolute(cosine)
    small, large = where_less(a, b, a, b), where_less(a, b, b, a)
    flat = _STEEP * large
    x = where_less(small, flat, small, _ROOT_HALF * (small - large))
    s = fma(2.0 / _RANGE * x, x, -1.0)
    g = s * s
    even = fma(fma(fma(fma(fma(_U[10], g, _U[8]), g, _U[6]), g, _U[4]), g, _U[2]), g, _U[0])
    odd = fma(fma(fma(fma(fma(_U[11], g, _U[9]), g, _U[7]), g, _U[5]), g, _U[3]), g, _U[1])
    y = x * fma(odd, s, even)
    y = where_less(small, flat, y, y + _EIGHTH_TURN)
    y = where_less(a, b, y, 0.5 * math.pi - y)
    return copysign(where_less(cosine, 0.0, math.pi - y, y), sine)
