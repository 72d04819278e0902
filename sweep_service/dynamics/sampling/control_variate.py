"""A control variate of the sampling term: E[σ'_i σ'_j q²] exactly, for a quadratic q close to the error 𝓔*.

q is the projection of 𝓔* = Σ_β c_β σ_β(λ_β) on polynomials of degree two in each field,
    q = c + b·λ + λᵀAλ - tr AΩ,   A diagonal.
The average of σ'_i σ'_j q² needs, beside numbers, only the entries i, j of Ωb, ΩAΩb, X = ΩAΩ and Y = ΩAΩAΩ:
- erf and tanh: σ' is a mixture of Gaussian weights, under which the fields are Gaussian with covariance
  C = Ω - V S Vᵀ, V = Ω[:, ij], S = (K² + Ω_ij)⁻¹. E_C[q²] = (E_C q)² + bᵀCb + 2 tr ACAC.
- relu: σ'_i σ'_j restricts (λ_i, λ_j) to a wedge. The other fields are Gaussian given these two, so that
  E[q² | λ_i, λ_j] is a polynomial of degree four, which is integrated over the wedge.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sweep_service.dynamics.sampling.square_student import first_coefficients
from sweep_service.model.activations import Activation
from sweep_service.model.averages.closed_forms import (
    ERF_CODE,
    ERF_SQUARES,
    ERF_WEIGHTS,
    RELU_CODE,
    ROOT_TWO_OVER_PI,
    TANH_CODE,
    TWO_OVER_PI,
)
from sweep_service.model.averages.two_point import MIN_VARIANCE
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.types import Array
from sweep_service.numerics.vector_math import REDUCTION

# Gauss rule of 4 nodes for the law of ln K of tanh, as K² and weights: an error of 1e-5 is enough here, as
# that of the sampled rest is 1e-3.
TANH_SQUARES = np.array([0.21393574578784783, 0.47284300493271997, 1.0887560591075782, 2.5169189836820385])
TANH_WEIGHTS = np.array([0.0706086026930514, 0.45984836555958397, 0.41443399576131545, 0.05510903598604963])
MIXTURES = {ERF_CODE: (ERF_SQUARES, ERF_WEIGHTS), TANH_CODE: (TANH_SQUARES, TANH_WEIGHTS)}
# Below this 1 - |ρ| two neurons are one: their difference would be rounding, relative to its norm 1e-6.
MIN_SEPARATION = 1e-10
ROOT_HALF_PI = math.sqrt(0.5 * math.pi)


class Quadratic(NamedTuple):
    """q = c + b·λ + Σ_β A_β (λ_β² - Ω_ββ); c is its mean."""

    c: float
    b: Array
    A: Array
    offset: float  # c - tr AΩ

    def __call__(self, students: Array, teachers: Array) -> Array:
        """q at each row of fields."""
        p = students.shape[1]
        q = students @ self.b[:p] + (teachers @ self.b[p:] + self.offset)
        for fields, A in ((students, self.A[:p]), (teachers, self.A[p:])):
            if A.any():
                q += (fields * fields) @ A
        return np.asarray(q)


class Contractions(NamedTuple):
    """Entries of students in products of Ω, A and b, and their traces."""

    omega: Array  # (p, p)
    v: Array  # Ωb
    w: Array  # ΩAΩb
    X: Array  # ΩAΩ
    Y: Array  # ΩAΩAΩ
    power: float  # Var q = bᵀΩb + 2 tr AΩAΩ


class ControlVariate:
    """The control variate of a model whose student is erf, relu or tanh."""

    def __init__(self, student: Activation, teacher: Activation) -> None:
        self.student, self.teacher = student, teacher

    @classmethod
    def make(cls, student: Activation, teacher: Activation) -> ControlVariate | None:
        """The control variate, or None if the averages of this student have no closed form."""
        return cls(student, teacher) if student.code in (*MIXTURES, RELU_CODE) else None

    def project(self, omega: Array, p: int, c: Array) -> Quadratic:
        """Project 𝓔* = Σ_β c_β σ_β(λ_β) on polynomials of degree two."""
        n, variances = len(omega), np.maximum(np.diag(omega), MIN_VARIANCE)
        a = np.empty((n, 3))
        a[:p] = self._student_coefficients(variances[:p])
        a[p:] = fixed_coefficients(self.teacher, variances[p:].tobytes())
        a *= c[:, None]
        A = a[:, 2] / (math.sqrt(2.0) * variances)
        mean = float(a[:, 0].sum())
        return Quadratic(mean, a[:, 1] / np.sqrt(variances), A, mean - float(A @ variances))

    def _student_coefficients(self, variances: Array) -> Array:
        if self.student.code not in MIXTURES:
            return first_coefficients(self.student, variances, 3)
        squares, weights = MIXTURES[self.student.code]
        slope = ROOT_TWO_OVER_PI * (1.0 / np.sqrt(squares + variances[:, None])) @ weights
        return np.stack([np.zeros_like(slope), np.sqrt(variances) * slope, np.zeros_like(slope)], axis=1)

    def average(self, q: Quadratic, omega: Array, p: int) -> Array:
        """E[σ'_i σ'_j q²], shape (p, p)."""
        contractions = contract(q, omega, p)
        if self.student.code in MIXTURES:
            return average_over_mixture(*MIXTURES[self.student.code], q.c, *contractions)
        return average_over_wedges(q.c, *contractions)


@lru_cache(maxsize=16)
def fixed_coefficients(act: Activation, variances: bytes) -> Array:
    """Coefficients of the teacher, whose variances do not change along a trajectory."""
    return first_coefficients(act, np.frombuffer(variances), 3)


def contract(q: Quadratic, omega: Array, p: int) -> Contractions:
    """The contractions of a quadratic, without products of matrices if it is linear."""
    s = omega @ q.b
    power, zeros = float(q.b @ s), np.zeros((p, p))
    if not q.A.any():
        return Contractions(omega[:p, :p].copy(), s[:p], np.zeros(p), zeros, zeros, power)
    A_omega = q.A[:, None] * omega
    X = omega[:p] @ A_omega  # rows of ΩAΩ
    power += 2.0 * float(np.sum(A_omega * A_omega.T))
    return Contractions(
        omega[:p, :p].copy(), s[:p], X @ q.b, X[:, :p].copy(), (X * q.A) @ omega[:, :p], power
    )


@kernel(fastmath=REDUCTION)
def average_over_mixture(squares, weights, c, omega, v, w, X, Y, power):
    """E[σ'_i σ'_j q²] for σ' = √(2/π) Σ_a w_a exp(-λ²/(2 K_a²))/K_a."""
    p = len(v)
    out = np.empty((p, p))
    for i in range(p):
        for j in range(i + 1):
            total = 0.0
            for a in range(squares.size):
                for b in range(squares.size):
                    A, B, g = squares[a] + omega[i, i], squares[b] + omega[j, j], omega[i, j]
                    inverse = 1.0 / (A * B - g * g)
                    s, t, u = B * inverse, A * inverse, -g * inverse  # S_ii, S_jj, S_ij
                    x, y = s * X[i, i] + u * X[i, j], t * X[j, j] + u * X[i, j]  # the diagonal of SX
                    xy, yx = s * X[i, j] + u * X[j, j], u * X[i, i] + t * X[i, j]
                    mean = c - x - y
                    spread = power - (s * v[i] * v[i] + t * v[j] * v[j] + 2.0 * u * v[i] * v[j])
                    spread -= 4.0 * (s * Y[i, i] + t * Y[j, j] + 2.0 * u * Y[i, j])
                    spread += 2.0 * (x * x + y * y + 2.0 * xy * yx)
                    total += weights[a] * weights[b] * math.sqrt(inverse) * (mean * mean + spread)
            out[i, j] = out[j, i] = TWO_OVER_PI * total
    return out


@kernel()
def average_over_wedges(c, omega, v, w, X, Y, power):
    """E[θ(λ_i) θ(λ_j) q²], i.e. over the wedge |φ| < h of the plane of the fields.

    z₁ = (x+y)/√(2+2ρ) and z₂ = (x-y)/√(2-2ρ) with x = λ_i/√Q_ii, y = λ_j/√Q_jj are independent and normal.
    Given z, q has the mean m₀ + l·z + zᵀKz and the variance n₀ + 4 r·z + 4 zᵀJz.
    """
    p = len(v)
    out = np.empty((p, p))
    for i in range(p):
        for j in range(i + 1):
            norm = math.sqrt(omega[i, i] * omega[j, j])
            rho = min(1.0, max(-1.0, omega[i, j] / norm)) if norm > 0.0 else 0.0
            if i == j or rho > 1.0 - MIN_SEPARATION:
                rho = 1.0
            if rho < -1.0 + MIN_SEPARATION:
                out[i, j] = out[j, i] = 0.0
                continue
            h = 0.5 * (math.pi - math.acos(rho))
            # coefficients of λ_i and λ_j in z₁ and z₂
            plus = 1.0 / math.sqrt(2.0 + 2.0 * rho)
            minus = 1.0 / math.sqrt(2.0 - 2.0 * rho) if rho < 1.0 else 0.0
            root_i = math.sqrt(max(omega[i, i], MIN_VARIANCE))
            root_j = math.sqrt(max(omega[j, j], MIN_VARIANCE))
            ai, aj, bi, bj = plus / root_i, plus / root_j, minus / root_i, -minus / root_j
            l1, l2 = ai * v[i] + aj * v[j], bi * v[i] + bj * v[j]
            k11, k12, k22 = _rotate(X[i, i], X[i, j], X[j, j], ai, aj, bi, bj)
            y11, _, y22 = _rotate(Y[i, i], Y[i, j], Y[j, j], ai, aj, bi, bj)
            m0 = c - k11 - k22
            r1 = ai * w[i] + aj * w[j] - k11 * l1 - k12 * l2
            j11, j22 = y11 - k11 * k11 - k12 * k12, y22 - k22 * k22 - k12 * k12
            squares = k11 * k11 + k22 * k22 + 2.0 * k12 * k12
            n0 = power - l1 * l1 - l2 * l2 - 4.0 * (y11 + y22) + 2.0 * squares
            # ∫ cosᵃ sinᵇ over the wedge vanishes for odd b; E rᵐ = √(π/2), 2, 3 √(π/2), 8 for m = 1, 2, 3, 4
            sine, double, quadruple = math.sin(h), 0.5 * math.sin(2.0 * h), math.sin(4.0 * h) / 16.0
            total = (m0 * m0 + n0) * 2.0 * h
            total += ROOT_HALF_PI * (2.0 * m0 * l1 + 4.0 * r1) * 2.0 * sine
            total += 2.0 * (2.0 * m0 * k11 + l1 * l1 + 4.0 * j11) * (h + double)
            total += 2.0 * (2.0 * m0 * k22 + l2 * l2 + 4.0 * j22) * (h - double)
            total += 6.0 * ROOT_HALF_PI * l1 * k11 * (2.0 * sine - 2.0 / 3.0 * sine**3)
            total += 6.0 * ROOT_HALF_PI * (l1 * k22 + 2.0 * l2 * k12) * 2.0 / 3.0 * sine**3
            total += 8.0 * k11 * k11 * (0.75 * h + double + quadruple)
            total += 8.0 * (2.0 * k11 * k22 + 4.0 * k12 * k12) * (0.25 * h - quadruple)
            total += 8.0 * k22 * k22 * (0.75 * h - double + quadruple)
            out[i, j] = out[j, i] = total / (2.0 * math.pi)
    return out


@kernel(force_inline=True)
def _rotate(xx, xy, yy, ai, aj, bi, bj):
    """The entries 11, 12, 22 of a symmetric matrix in other coordinates."""
    return (
        ai * ai * xx + 2.0 * ai * aj * xy + aj * aj * yy,
        ai * bi * xx + (ai * bj + aj * bi) * xy + aj * bj * yy,
        bi * bi * xx + 2.0 * bi * bj * xy + bj * bj * yy,
    )
