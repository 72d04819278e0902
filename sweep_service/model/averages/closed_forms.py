"""Two-point Gaussian averages in closed form, for every pair of built-in activations.

For (u, v) centred Gaussian with variances a, b and covariance c: E[f(u) g(v)], E[f'(u) g'(v)] and
E[f''(u) g(v)]. An integer code selects the pair, so that one kernel serves all of them and is
compiled and cached once.

erf: E[ff] = (2/π) asin(c/√((1+a)(1+b))), and derivatives of it. tanh is a mixture of error functions,
    tanh(x) = E_K[erf(x/(K√2))] with K distributed by Kolmogorov's law,
so its averages are those of erf with 1 replaced by K², summed over a Gauss rule of the law of ln K.
An odd function has no correlation with the even x², and correlates with relu(v) = (v + |v|)/2 only
through v/2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import fma, lane, load8, square_root, swap_halves, swap_pairs
from sweep_service.numerics.types import Array
from sweep_service.numerics.vector_math import unit_angle

TWO_OVER_PI = 2.0 / math.pi
ROOT_TWO_OVER_PI = math.sqrt(TWO_OVER_PI)
ROOT_TWO_PI = math.sqrt(2.0 * math.pi)

# Codes of activations in compiled kernels.
ERF_CODE, SQUARE_CODE, RELU_CODE, TANH_CODE = range(4)
# Codes of pairs: that of the activation for equal ones, then these.
(
    TANH_ERF, ERF_TANH, ODD_WITH_SQUARE, ERF_RELU, TANH_RELU, RELU_ERF, RELU_TANH, RELU_SQUARE, SQUARE_RELU,
) = range(4, 13)  # fmt: skip
PAIR_CODES: dict[tuple[int | None, int | None], int] = {
    (ERF_CODE, ERF_CODE): ERF_CODE,
    (SQUARE_CODE, SQUARE_CODE): SQUARE_CODE,
    (RELU_CODE, RELU_CODE): RELU_CODE,
    (TANH_CODE, TANH_CODE): TANH_CODE,
    (TANH_CODE, ERF_CODE): TANH_ERF,
    (ERF_CODE, TANH_CODE): ERF_TANH,
    (ERF_CODE, SQUARE_CODE): ODD_WITH_SQUARE,
    (SQUARE_CODE, ERF_CODE): ODD_WITH_SQUARE,
    (TANH_CODE, SQUARE_CODE): ODD_WITH_SQUARE,
    (SQUARE_CODE, TANH_CODE): ODD_WITH_SQUARE,
    (ERF_CODE, RELU_CODE): ERF_RELU,
    (TANH_CODE, RELU_CODE): TANH_RELU,
    (RELU_CODE, ERF_CODE): RELU_ERF,
    (RELU_CODE, TANH_CODE): RELU_TANH,
    (RELU_CODE, SQUARE_CODE): RELU_SQUARE,
    (SQUARE_CODE, RELU_CODE): SQUARE_RELU,
}

# Gauss rule of 8 nodes for the law of ln K: relative errors of the averages below 6e-9 for variances from
# 1e-6 to 1e4 and any correlation. Each further node divides the error by ten.
TANH_SQUARES = np.array([  # K²
    0.11261742034240242, 0.18883855824241896, 0.3177450057714284, 0.5487825666835606,
    0.9678461866457773, 1.7021470064153978, 2.932980018160544, 5.0355699819458115,
])  # fmt: skip
TANH_WEIGHTS = np.array([
    0.0007331591455579406, 0.025892226844703388, 0.16492947503921346, 0.3495804255401921,
    0.3150195917458708, 0.12556017157648272, 0.017807404837356763, 0.00047754527062288457,
])  # fmt: skip
ERF_SQUARES, ERF_WEIGHTS = np.ones(1), np.ones(1)
# σ(x) = Σ_K w_K erf(x/(K√2)): the values K² and w_K by the code of σ
MIXTURES = {ERF_CODE: (ERF_SQUARES, ERF_WEIGHTS), TANH_CODE: (TANH_SQUARES, TANH_WEIGHTS)}

# The sums below have a fixed order: with reassociation their bits would depend on where they are inlined.


@kernel()
def _correlation(c, norm):
    """ρ = c/norm; values within rounding of ±1 become ±1, because acos turns 1e-16 there into 1e-8."""
    rho = c / norm if norm > 0.0 else 0.0
    return rho if abs(rho) < 1.0 - 1e-15 else math.copysign(1.0, rho)


@kernel(force_inline=True)
def sum_lanes(x):
    """The sum of eight lanes."""
    y = x + swap_halves(x)
    y = y + swap_pairs(y)
    return lane(y, 0) + lane(y, 1)


@kernel()
def _mixture_value(squares, weights, other_squares, other_weights, a, b, c):
    """E[f(u) g(v)] of two mixtures of error functions, the first of eight."""
    A = load8(squares, 0) + a
    rows = A - A
    for j in range(other_squares.size):
        product = A * (other_squares[j] + b)
        inverse = 1.0 / square_root(product)
        angle = unit_angle(c * inverse, square_root(fma(-c, c, product)) * inverse)
        rows = fma(other_weights[j], angle, rows)
    return TWO_OVER_PI * sum_lanes(rows * load8(weights, 0))


@kernel()
def _mixture_slopes(squares, weights, other_squares, other_weights, a, b, c):
    """E[f'(u) g'(v)] and E[f''(u) g(v)] of two mixtures of error functions, the first of eight."""
    A = load8(squares, 0) + a
    rows = A - A
    for j in range(other_squares.size):
        rows = rows + other_weights[j] / square_root(fma(A, other_squares[j] + b, -c * c))
    rows = rows * load8(weights, 0)
    return TWO_OVER_PI * sum_lanes(rows), -TWO_OVER_PI * c * sum_lanes(rows / A)


@kernel()
def _mean_derivatives_of_erf(a):
    """E[f'(u)] and E[f'''(u)] = 2 ∂_a E[f'(u)]."""
    slope = ROOT_TWO_OVER_PI / math.sqrt(1.0 + a)
    return slope, -slope / (1.0 + a)


@kernel()
def _mean_derivatives_of_tanh(a):
    A = load8(TANH_SQUARES, 0) + a
    rows = load8(TANH_WEIGHTS, 0) / square_root(A)
    return ROOT_TWO_OVER_PI * sum_lanes(rows), -ROOT_TWO_OVER_PI * sum_lanes(rows / A)


@kernel()
def value_pair(code, a, b, c):
    """E[f(u) g(v)]."""
    if code == ERF_CODE:
        return TWO_OVER_PI * math.asin(c / math.sqrt((1.0 + a) * (1.0 + b)))
    if code == SQUARE_CODE:
        return a * b + 2.0 * c * c
    if code == RELU_CODE:
        norm = math.sqrt(a * b)
        rho = _correlation(c, norm)
        return (
            norm * (math.sqrt((1.0 - rho) * (1.0 + rho)) + rho * (math.pi - math.acos(rho))) / (2.0 * math.pi)
        )
    return _other_value_pair(code, a, b, c)


@kernel()
def _other_value_pair(code, a, b, c):
    if code == TANH_CODE:
        return _mixture_value(TANH_SQUARES, TANH_WEIGHTS, TANH_SQUARES, TANH_WEIGHTS, a, b, c)
    if code == TANH_ERF:
        return _mixture_value(TANH_SQUARES, TANH_WEIGHTS, ERF_SQUARES, ERF_WEIGHTS, a, b, c)
    if code == ERF_TANH:
        return _mixture_value(TANH_SQUARES, TANH_WEIGHTS, ERF_SQUARES, ERF_WEIGHTS, b, a, c)
    if code == ODD_WITH_SQUARE:
        return 0.0
    if code == ERF_RELU:
        return 0.5 * c * _mean_derivatives_of_erf(a)[0]
    if code == TANH_RELU:
        return 0.5 * c * _mean_derivatives_of_tanh(a)[0]
    if code == RELU_ERF:
        return 0.5 * c * _mean_derivatives_of_erf(b)[0]
    if code == RELU_TANH:
        return 0.5 * c * _mean_derivatives_of_tanh(b)[0]
    if code == RELU_SQUARE:
        return math.sqrt(a) * (b + _ratio(c * c, a)) / ROOT_TWO_PI
    if code == SQUARE_RELU:
        return math.sqrt(b) * (a + _ratio(c * c, b)) / ROOT_TWO_PI
    return math.nan


@kernel()
def _ratio(x, y):
    """x/y, and 0 for 0/0: a neuron of weight zero has no correlations."""
    return x / y if y > 0.0 else 0.0


@kernel()
def slope_pair(code, a, b, c):
    """E[f'(u) g'(v)] and E[f''(u) g(v)]; relu's σ'' is a delta, E[δ(u) relu(v)] = √(ab - c²)/(2πa)."""
    if code == ERF_CODE:
        s = TWO_OVER_PI / math.sqrt((1.0 + a) * (1.0 + b) - c * c)
        return s, -s * c / (1.0 + a)
    if code == SQUARE_CODE:
        return 4.0 * c, 2.0 * b
    if code == RELU_CODE:
        rho = _correlation(c, math.sqrt(a * b))
        return (math.pi - math.acos(rho)) / (2.0 * math.pi), math.sqrt(b / a * (1.0 - rho) * (1.0 + rho)) / (
            2.0 * math.pi
        )
    return _other_slope_pair(code, a, b, c)


@kernel()
def _other_slope_pair(code, a, b, c):
    if code == TANH_CODE:
        return _mixture_slopes(TANH_SQUARES, TANH_WEIGHTS, TANH_SQUARES, TANH_WEIGHTS, a, b, c)
    if code == TANH_ERF:
        return _mixture_slopes(TANH_SQUARES, TANH_WEIGHTS, ERF_SQUARES, ERF_WEIGHTS, a, b, c)
    if code == ERF_TANH:
        slope, _ = _mixture_slopes(TANH_SQUARES, TANH_WEIGHTS, ERF_SQUARES, ERF_WEIGHTS, b, a, c)
        return slope, -slope * c / (1.0 + a)
    if code == ODD_WITH_SQUARE:
        return 0.0, 0.0
    if code == ERF_RELU:
        slope, third = _mean_derivatives_of_erf(a)
        return 0.5 * slope, 0.5 * c * third
    if code == TANH_RELU:
        slope, third = _mean_derivatives_of_tanh(a)
        return 0.5 * slope, 0.5 * c * third
    if code == RELU_ERF:
        return 0.5 * _mean_derivatives_of_erf(b)[0], 0.0
    if code == RELU_TANH:
        return 0.5 * _mean_derivatives_of_tanh(b)[0], 0.0
    if code == RELU_SQUARE:  # E[2 θ(u) v] and E[δ(u) v²]
        return 2.0 * _ratio(c, math.sqrt(a)) / ROOT_TWO_PI, max(b - _ratio(c * c, a), 0.0) / (
            ROOT_TWO_PI * math.sqrt(a)
        )
    if code == SQUARE_RELU:
        return 2.0 * _ratio(c, math.sqrt(b)) / ROOT_TWO_PI, 2.0 * math.sqrt(b) / ROOT_TWO_PI
    return math.nan, math.nan


@kernel()
def value_matrix(code, a, b, C):
    """`value_pair` for variances a (m), b (n) and covariances C (m, n)."""
    m, n = C.shape
    out = np.empty((m, n))
    for i in range(m):
        for j in range(n):
            out[i, j] = value_pair(code, a[i], b[j], C[i, j])
    return out


@kernel()
def slope_matrix(code, a, b, C):
    """`slope_pair` for variances a (m), b (n) and covariances C (m, n)."""
    m, n = C.shape
    slopes, curved = np.empty((m, n)), np.empty((m, n))
    for i in range(m):
        for j in range(n):
            slopes[i, j], curved[i, j] = slope_pair(code, a[i], b[j], C[i, j])
    return slopes, curved


@kernel()
def slope_powers(code, a):
    """E[f'(u)²] for variances a, of a pair of equal activations."""
    out = np.empty_like(a)
    for i in range(a.size):
        out[i] = slope_pair(code, a[i], a[i], a[i])[0]
    return out


@dataclass(frozen=True)
class ClosedForm:
    """The averages of a pair for vectors of variances a (m), b (n) and covariances C (m, n)."""

    code: int

    def values(self, a: Array, b: Array, C: Array) -> Array:
        """E[f g]."""
        return value_matrix(self.code, a, b, C)

    def slopes(self, a: Array, b: Array, C: Array) -> tuple[Array, Array]:
        """E[f' g'], E[f'' g]."""
        return slope_matrix(self.code, a, b, C)

    def slope_power(self, a: Array) -> Array:
        """E[f'²] of a pair of equal activations."""
        return slope_powers(self.code, a)
