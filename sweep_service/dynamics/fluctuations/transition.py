"""The linear equations dΣ/dt = JΣ + ΣJᵀ + D and dm/dt = Jm + s over one step, x = 0 to 1.

J is replaced by a constant, by Magnus' expansion, and D and s by linear functions of x,
    F = h/6 (J₀ + 4J½ + J₁) - h²/12 [J₀, J₁],    D → E + (x - ½) ΔE,    ΔE = h (D₁ - D₀),
    E = h/6 (D₀ + 4D½ + D₁) + h²/12 (ΔJ D̄ + D̄ ΔJᵀ).
The solution is a series at a step 2^n times shorter, doubled n times, which stays stable where F is large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sweep_service.numerics.types import Array

MAX_SERIES_NORM = 0.5  # of F/2^n, at which SERIES_TERMS terms leave 1e-8 of the sum for Σ
SERIES_TERMS = 10
MAX_COMMUTATOR_NORM = 2.0  # of F, up to which Magnus' expansion surely converges


class Equation(NamedTuple):
    """F, E and ΔE of a step."""

    F: Array
    E: Array
    dE: Array

    @property
    def norm(self) -> float:
        return float(np.max(np.sum(np.abs(self.F), axis=0), initial=0.0))


class Step(NamedTuple):
    """Σ → A Σ Aᵀ + W, and m → A m + B s̄ + C Δs for the source of `average_source`."""

    A: Array
    W: Array
    B: Array  # ∫ exp(F(1 - x)) dx
    C: Array  # ∫ exp(F(1 - x)) (x - ½) dx


def make_equation(h: float, J: Sequence[Array], D: Sequence[Array]) -> Equation:
    """The equation of a step of length h from J and D at its begin, middle and end."""
    mean, dJ = h / 6.0 * (J[0] + 4.0 * J[1] + J[2]), h * (J[2] - J[0])
    E, dE = h / 6.0 * (D[0] + 4.0 * D[1] + D[2]), h * (D[2] - D[0])
    equation = Equation(mean, E, dE)
    if equation.norm > MAX_COMMUTATOR_NORM:
        return equation
    turned = dJ @ E / 12.0
    return Equation(mean - (mean @ dJ - dJ @ mean) / 12.0, E + turned + turned.T, dE)


def make_step(equation: Equation) -> Step:
    """Solve the equation of a step."""
    norm = equation.norm
    doublings = max(0, math.ceil(math.log2(norm / MAX_SERIES_NORM))) if norm > 0.0 else 0
    x, (F, E, dE) = 2.0**-doublings, equation
    identity = np.eye(len(F))
    W, V = _sum_scatter(x * F, x * (E - 0.5 * dE), x * x * dE), _sum_scatter(x * F, x * dE, 0.0 * dE)
    B = C = identity  # Σ_j Fʲ/(j+1)! and, but for a factor ½, Σ_j Fʲ/(j+2)!
    for j in range(SERIES_TERMS, 1, -1):
        B = identity + x * F @ B / j
        C = identity + x * F @ C / (j + 1)
    A, B, C = identity + x * F @ B, x * B, 0.5 * x * x * C
    for _ in range(doublings):
        W = A @ W @ A.T + W + x * V
        V = A @ V @ A.T + V
        C = A @ C + C + x * B
        B = A @ B + B
        A, x = A @ A, 2.0 * x
    return Step(A, 0.5 * (W + W.T), B, C - 0.5 * B)


def average_source(h: float, J: Sequence[Array], source: Sequence[Array]) -> tuple[Array, Array]:
    """s̄ and Δs, both times h, from J and s at the begin, middle and end of a step."""
    mean = h / 6.0 * (source[0] + 4.0 * source[1] + source[2])
    return mean + h * (J[2] - J[0]) @ mean / 12.0, h * (source[2] - source[0])


def _sum_scatter(F: Array, constant: Array, slope: Array) -> Array:
    """Σ(1) of dΣ/dx = FΣ + ΣFᵀ + constant + slope x, Σ(0) = 0."""
    term, total = constant, constant.copy()
    for j in range(2, SERIES_TERMS + 1):
        half = F @ term / j
        term = half + half.T
        if j == 2:
            term = term + slope / 2.0
        total += term
    return total
