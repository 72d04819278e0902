"""exp, erf and asin without calls into libm, so that LLVM can turn loops over them into SIMD.

Each is a polynomial fitted when this module is imported and accurate to a few 1e-16 (absolute);
the tests compare them with libm over their whole range.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.polynomial import chebyshev
from scipy import special

from sweep_service.kernels import kernel

# Reassociation would undo the rounding trick in `exp_negative`; NaN must survive, so no nnan.
ELEMENTWISE = {"contract", "nsz", "arcp"}
REDUCTION = {"contract", "nsz", "arcp", "reassoc"}


@intrinsic
def _as_float(typing_context: Any, bits: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.uint64), generate


@intrinsic
def _as_bits(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.uint64(types.float64), generate


def _fit(function: Callable[[Any], Any], degree: int) -> tuple[float, ...]:
    """Coefficients, lowest first, of the Chebyshev series of `function` on [-1, 1].

    Many nodes and exact sums: plain interpolation would lose a digit to rounding.
    """
    angle = (np.arange(512) + 0.5) * np.pi / 512
    values = function(np.cos(angle))
    series = [math.fsum(values * np.cos(n * angle)) / 256 for n in range(degree + 1)]
    series[0] /= 2.0
    return tuple(float(c) for c in chebyshev.cheb2poly(series))


_E = tuple(1.0 / math.factorial(n) for n in range(14))
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 · 2^52: adding it leaves the nearest integer in the low bits
_SHIFT = np.uint64(52)


@kernel(fastmath=ELEMENTWISE, inline=True)
def exp_negative(u):
    """exp(u) for -700 < u <= 0: 2^n times a polynomial on [-ln2/2, ln2/2]."""
    t = u * _LOG2_E + _ROUND
    n = t - _ROUND
    r = (u - n * _LN2_HIGH) - n * _LN2_LOW
    g = r * r
    odd = ((((((_E[13] * g + _E[11]) * g + _E[9]) * g + _E[7]) * g + _E[5]) * g + _E[3]) * g) + 1.0
    even = ((((((_E[12] * g + _E[10]) * g + _E[8]) * g + _E[6]) * g + _E[4]) * g + _E[2]) * g) + 1.0
    return _as_float(_as_bits(odd * r + even) + (_as_bits(t) << _SHIFT))


# erfcx(z) for z >= 0 is smooth in s = (2-z)/(2+z), that is z = 2(1-s)/(1+s).
def _erfcx_of(s: Any) -> Any:
    s = np.asarray(s)
    z = 2.0 * (1.0 - s) / np.maximum(1.0 + s, 1e-300)
    return special.erfcx(z)


_X = _fit(_erfcx_of, 24)


@kernel(fastmath=ELEMENTWISE, inline=True)
def _erfcx(s):
    g = s * s
    h = g * g
    a = ((((((_X[24] * h + _X[20]) * h + _X[16]) * h + _X[12]) * h + _X[8]) * h + _X[4]) * h) + _X[0]
    b = (((((_X[21] * h + _X[17]) * h + _X[13]) * h + _X[9]) * h + _X[5]) * h) + _X[1]
    c = (((((_X[22] * h + _X[18]) * h + _X[14]) * h + _X[10]) * h + _X[6]) * h) + _X[2]
    d = (((((_X[23] * h + _X[19]) * h + _X[15]) * h + _X[11]) * h + _X[7]) * h) + _X[3]
    return (a + b * s) + (c + d * s) * g


_ROOT_HALF = math.sqrt(0.5)


@kernel(fastmath=ELEMENTWISE, inline=True)
def gauss(x):
    """exp(-x²/2)."""
    a = abs(x)
    a = a if a < 37.0 else 37.0  # beyond it, zero in double precision
    return exp_negative(-0.5 * a * a)


@kernel(fastmath=ELEMENTWISE, inline=True)
def erf_and_gauss(x):
    """erf(x/√2) and exp(-x²/2), one exponential for both."""
    e = gauss(x)
    a = abs(x)
    a = a if a < 37.0 else 37.0
    z = a * _ROOT_HALF
    y = 1.0 - e * _erfcx((2.0 - z) / (2.0 + z))
    y = y if x >= 0.0 else -y
    return y + (x - x), e  # x - x is 0, or NaN where x is not finite: the comparison above hid it


# asin(√z)/√z on [0, 1/4], in s = 8z - 1.
def _asin_ratio(s: Any) -> Any:
    r = np.sqrt(np.maximum((np.asarray(s) + 1.0) / 8.0, 1e-300))
    return np.arcsin(r) / r


_A = _fit(_asin_ratio, 12)


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
