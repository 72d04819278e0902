"""Ψ_Var without noise for a square student and any teacher, exactly.

With f = Σ_l λ_l²/p and g = Σ_r σ*(λ*_r)/k, Var_ij = 4 E[λ_i λ_j (g - f)²] is an average of polynomials
times one or two functions of teacher fields. Stein's lemma reduces it to averages of σ* and its derivatives:
    E[λλᵀ f²]  = Q (s² + 2‖Q‖²/p²) + 4 s Q²/p + 8 Q³/p²,   s = tr Q/p
    E[λλᵀ f g] = Q (s g₀ + Σ_r g₂ᵣ|m_r|²/(pk)) + 2 g₀ Q²/p + s N + 2 (QN + NQ)/p + M diag(g₄ᵣ|m_r|²) Mᵀ/(pk)
    E[λλᵀ g²]  = Q E[g²] + 2 M (E[g'_r g'_s] + δ_rs E[g''_r g] k) Mᵀ/k²
where m_r is a column of M, g₀ = E[g], g₂ᵣ and g₄ᵣ are E[σ*''] and E[σ*''''] at λ*_r, N = M diag(g₂) Mᵀ/k.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from sweep_service.model.activations import Activation
from sweep_service.model.averages.two_point import MIN_VARIANCE, make_two_point
from sweep_service.numerics.types import Array

WINDOW = 10  # half-width of a Gaussian in standard deviations
_NODES, _WEIGHTS = special.roots_legendre(16)


def first_coefficients(act: Activation, variances: Array, order: int = 5) -> Array:
    """E[σ(√C x) h_m(x)] at each variance C for m < order, accurate at every norm, shape (len C, order)."""
    C = np.maximum(variances, MIN_VARIANCE)
    if act.hermite is not None:
        return act.hermite(order, C)
    a = np.array([_integrate_coefficients(act, math.sqrt(c), order) for c in C])
    if act.odd:
        a[:, ::2] = 0.0  # not rounding, so that users of the coefficients can skip them
    return a


def _integrate_coefficients(act: Activation, root: float, order: int) -> Array:
    """By Gauss-Legendre panels that resolve the Gaussian, the scale 1 of σ and its kinks."""
    powers = 2.0 ** np.arange(-1, max(0, math.ceil(math.log2(WINDOW * root))) + 1.0)
    fields = np.concatenate([[0.0], powers, -powers, [kink.position for kink in act.kinks]])
    steps = np.arange(-WINDOW, WINDOW + 1.0)
    edges = np.unique(np.clip(np.concatenate([fields / root, steps]), -WINDOW, WINDOW))
    width = np.diff(edges)[:, None]
    z = (edges[:-1, None] + 0.5 * width * (_NODES + 1.0)).ravel()
    weights = (0.5 * width * _WEIGHTS).ravel() * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    norms = np.sqrt(special.factorial(np.arange(order)))
    polynomials = np.polynomial.hermite_e.hermevander(z, order - 1) / norms
    return np.asarray((weights * act.value(root * z)) @ polynomials)


class TeacherMoments(NamedTuple):
    """Averages of a teacher's output g and of the derivatives of σ* that do not change along a trajectory."""

    mean: float  # E[g]
    power: float  # E[g²]
    second: Array  # E[σ*''(λ*_r)]
    fourth: Array  # E[σ*''''(λ*_r)]
    pull: Array  # E[∂_r ∂_s g²] (k, k)


@lru_cache(maxsize=16)
def _teacher_moments(teacher: Activation, gram: bytes, k: int) -> TeacherMoments:
    P = np.frombuffer(gram).reshape(k, k)
    b = np.diag(P).copy()
    a = first_coefficients(teacher, b)
    pair = make_two_point(teacher, teacher)
    slopes, curved = pair.slopes(b, b, P)
    variance = np.maximum(b, MIN_VARIANCE)
    return TeacherMoments(
        mean=float(a[:, 0].mean()),
        power=float(pair.values(b, b, P).mean()),
        second=math.sqrt(2.0) * a[:, 2] / variance,
        fourth=math.sqrt(24.0) * a[:, 4] / variance**2,
        pull=2.0 * (slopes + np.diag(curved.sum(1))) / k**2,
    )


class SquareStudentVariance:
    """Square student, any teacher."""

    def __init__(self, teacher: Activation) -> None:
        self.teacher = teacher

    def __call__(self, M: Array, Q: Array, P: Array, c: Array | None = None) -> Array:
        p, k = M.shape
        if c is not None:
            return self._average_weighted(M, Q, P, c)
        g = _teacher_moments(self.teacher, np.ascontiguousarray(P).tobytes(), k)
        s, Q2 = np.trace(Q) / p, Q @ Q
        N = (M * g.second) @ M.T / k
        QN = Q @ N
        squares = np.sum(M * M, axis=0)
        students = Q * (s**2 + 2.0 * np.sum(Q * Q) / p**2) + 4.0 * s * Q2 / p + 8.0 * Q @ Q2 / p**2
        mixed = (
            Q * (s * g.mean + g.second @ squares / (p * k)) + 2.0 * g.mean * Q2 / p + s * N
            + 2.0 * (QN + QN.T) / p + (M * (g.fourth * squares)) @ M.T / (p * k)
        )  # fmt: skip
        return 4.0 * (students - 2.0 * mixed + Q * g.power + M @ g.pull @ M.T)

    def _average_weighted(self, M: Array, Q: Array, P: Array, c: Array) -> Array:
        """The same averages with a/p in place of 1/p and a*/k in place of 1/k."""
        p = len(Q)
        b, student, teacher = np.diag(P).copy(), -c[:p], c[p:]
        coefficients, pair = first_coefficients(self.teacher, b), make_two_point(self.teacher, self.teacher)
        variance = np.maximum(b, MIN_VARIANCE)
        mean = float(teacher @ coefficients[:, 0])
        second = teacher * math.sqrt(2.0) * coefficients[:, 2] / variance
        fourth = teacher * math.sqrt(24.0) * coefficients[:, 4] / variance**2
        slopes, curved = pair.slopes(b, b, P)
        pull = 2.0 * (np.outer(teacher, teacher) * slopes + np.diag(teacher * (curved @ teacher)))
        AQ = student[:, None] * Q
        QAQ, s = Q @ AQ, float(np.trace(AQ))
        N = (M * second) @ M.T
        QAN = Q @ (student[:, None] * N)
        squares = student @ M**2
        students = Q * (s**2 + 2.0 * np.sum(AQ * AQ.T)) + 4.0 * s * QAQ + 8.0 * QAQ @ AQ
        mixed = (
            Q * (s * mean + second @ squares) + 2.0 * mean * QAQ + s * N
            + 2.0 * (QAN + QAN.T) + (M * (fourth * squares)) @ M.T
        )  # fmt: skip
        power = float(teacher @ pair.values(b, b, P) @ teacher)
        return 4.0 * (students - 2.0 * mixed + Q * power + M @ pull @ M.T)
