"""Two-point Gaussian averages in closed form, for a pair of equal activations.

For (u, v) centred Gaussian with variances a, b and covariance c: E[σ(u) σ(v)], E[σ'(u) σ'(v)]
and E[σ''(u) σ(v)]. An integer code selects the activation, so that one kernel serves all activations
with a closed form and is compiled and cached once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sweep_service.numerics.jit import kernel
from sweep_service.numerics.types import Array

TWO_OVER_PI = 2.0 / math.pi
# Codes of activations in compiled kernels; tanh has a kernel but no closed form.
ERF_CODE, SQUARE_CODE, RELU_CODE, TANH_CODE = range(4)


@kernel()
def _correlation(c, norm):
    """ρ = c/norm; values within rounding of ±1 become ±1, because acos turns 1e-16 there into 1e-8."""
    rho = c / norm if norm > 0.0 else 0.0
    return rho if abs(rho) < 1.0 - 1e-15 else math.copysign(1.0, rho)


@kernel()
def value_pair(code, a, b, c):
    """E[σ(u) σ(v)]."""
    if code == ERF_CODE:
        return TWO_OVER_PI * math.asin(c / math.sqrt((1.0 + a) * (1.0 + b)))
    if code == SQUARE_CODE:
        return a * b + 2.0 * c * c
    norm = math.sqrt(a * b)
    rho = _correlation(c, norm)
    return norm * (math.sqrt((1.0 - rho) * (1.0 + rho)) + rho * (math.pi - math.acos(rho))) / (2.0 * math.pi)


@kernel()
def slope_pair(code, a, b, c):
    """E[σ'(u) σ'(v)] and E[σ''(u) σ(v)]; relu's σ'' is a delta, E[δ(u) relu(v)] = √(ab - c²)/(2πa)."""
    if code == ERF_CODE:
        s = TWO_OVER_PI / math.sqrt((1.0 + a) * (1.0 + b) - c * c)
        return s, -s * c / (1.0 + a)
    if code == SQUARE_CODE:
        return 4.0 * c, 2.0 * b
    rho = _correlation(c, math.sqrt(a * b))
    return (math.pi - math.acos(rho)) / (2.0 * math.pi), math.sqrt(b / a * (1.0 - rho) * (1.0 + rho)) / (
        2.0 * math.pi
    )


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


@dataclass(frozen=True)
class ClosedForm:
    """The averages for vectors of variances a (m), b (n) and covariances C (m, n)."""

    code: int

    def values(self, a: Array, b: Array, C: Array) -> Array:
        """E[σσ]."""
        return value_matrix(self.code, a, b, C)

    def slopes(self, a: Array, b: Array, C: Array) -> tuple[Array, Array]:
        """E[σ'σ'], E[σ''σ]."""
        return slope_matrix(self.code, a, b, C)
