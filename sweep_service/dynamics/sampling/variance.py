"""Ψ_Var without noise: E[σ'(λ_i) σ'(λ_j) 𝓔*²], the effect of single samples on Q.

Exact for erf and square; quasi-Monte Carlo for every other activation, and for wide erf students,
where the exact sum over p² n² pairs is too expensive. `compiled_sampling` has the samples of narrow ones.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache, partial
from typing import Literal, Protocol

import numpy as np
from scipy import special

from sweep_service.dynamics.sampling.compiled_sampling import (
    MAX_COMPILED_SAMPLING_WIDTH,
    factor_covariance,
    sample_variance,
)
from sweep_service.dynamics.sampling.control_variate import MIXTURES, ControlVariate, fixed_coefficients
from sweep_service.dynamics.sampling.erf_lanes import choose_series, sum_pairs_in_lanes
from sweep_service.dynamics.sampling.square_student import SquareStudentVariance
from sweep_service.model.activations import ERF, SQUARE, Activation
from sweep_service.model.averages.closed_forms import (
    ERF_SQUARES,
    ERF_WEIGHTS,
    TWO_OVER_PI,
    ClosedForm,
    value_pair,
)
from sweep_service.model.averages.two_point import MIN_VARIANCE, Pairs, has_closed_forms, make_pairs
from sweep_service.model.overlaps import Overlaps
from sweep_service.model.risk import risk
from sweep_service.model.second_layer import Readout
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.types import Array
from sweep_service.numerics.vector_math import ELEMENTWISE, REDUCTION, asin_unit

Method = Literal["square", "erf", "mixed", "tilted", "qmc"]


class Variance(Protocol):
    def __call__(self, M: Array, Q: Array, P: Array, c: Array | None = None, /) -> Array:
        """E[σ'_i σ'_j 𝓔*²] (p, p) of 𝓔* = Σ_β c_β σ_β(λ_β); without c, the second layers are ones."""


# Largest student widths for which the exact sum is used.
MAX_EXACT_ERF_WIDTH, MAX_EXACT_ERF_MIXED_WIDTH, MAX_EXACT_ERF_NUMERICAL_WIDTH = 64, 30, 6
QMC_POINTS = 4096


def choose_variance(
    student: Activation, teacher: Activation, p: int, k: int, points: int = QMC_POINTS
) -> tuple[Variance, str]:
    """Choose how to compute Ψ_Var at this size; returns the function and the name of its method."""
    match choose_method(student, teacher, p):
        case "square":
            return (square_variance if teacher is SQUARE else SquareStudentVariance(teacher)), "exact"
        case "erf":
            return erf_variance, "exact"
        case "mixed":
            return partial(mixed_erf_variance, make_pairs(student, teacher)), "exact"
        case "tilted":
            return TiltedVariance(make_pairs(student, teacher)), "exact"
        case _:
            return QuasiMonteCarlo(student, teacher, p + k, points), f"quasi-Monte Carlo, {points} points"


def choose_method(student: Activation, teacher: Activation, p: int) -> Method:
    """Choose the method of the sampling term; all but `qmc` are exact."""
    if student is SQUARE:
        return "square"
    if student is ERF and teacher is ERF and p <= MAX_EXACT_ERF_WIDTH:
        return "erf"
    if student is ERF and has_closed_forms(student, teacher):
        return "mixed" if p <= MAX_EXACT_ERF_MIXED_WIDTH else "qmc"
    return "tilted" if student is ERF and p <= MAX_EXACT_ERF_NUMERICAL_WIDTH else "qmc"


@kernel(fastmath=ELEMENTWISE)
def _tilt(omega, i, j, u, v, g):
    """Fill u, v and g, and return the determinant of 1 + Ω_ij.

    C = Ω - u Ω_i - v Ω_j is the covariance under the tilted measure; g = (1 + C_ββ)^-½.
    """
    a, b, x = 1.0 + omega[i, i], 1.0 + omega[j, j], omega[i, j]
    det = a * b - x * x
    for m in range(omega.shape[0]):
        u[m] = (b * omega[i, m] - x * omega[j, m]) / det
        v[m] = (a * omega[j, m] - x * omega[i, m]) / det
        g[m] = 1.0 / math.sqrt(1.0 + omega[m, m] - u[m] * omega[i, m] - v[m] * omega[j, m])
    return det


@kernel(fastmath=REDUCTION)
def _sum_row(c, g, omega, oi, oj, u, v, m):
    """Row m of the double sum, Σ_{l<m} c_l asin(C_ml g_m g_l); oi and oj are the rows Ω_i and Ω_j."""
    total = 0.0
    for l in range(m):
        total += c[l] * asin_unit((omega[m, l] - u[m] * oi[l] - v[m] * oj[l]) * g[m] * g[l])
    return total


def erf_variance(M: Array, Q: Array, P: Array, c: Array | None = None) -> Array:
    """Erf student and teacher, see `sum_erf_variance`; `erf_lanes` has the form that suits most states."""
    c = unit_readout(*M.shape) if c is None else c
    series = choose_series(Q, P)
    return sum_erf_variance(M, Q, P, c) if series is None else sum_pairs_in_lanes(series, M, Q, P, c)


@cache
def unit_readout(p: int, k: int) -> Array:
    """c = (-1/p, 1/k)."""
    return np.concatenate([np.full(p, -1.0 / p), np.full(k, 1.0 / k)])


@kernel()
def sum_erf_variance(M, Q, P, c):
    """Var_ij = (2/π)/√L4 Σ_βγ c_β c_γ (2/π) asin(C_βγ/√((1+C_ββ)(1+C_γγ))).

    σ'σ' is a Gaussian weight, so the four-point average is a two-point one at tilted overlaps.
    """
    p, k = M.shape
    n = p + k
    omega = np.empty((n, n))
    for i in range(n):  # slices would take seconds to compile
        for j in range(n):
            if j < p:
                omega[i, j] = Q[i, j] if i < p else M[j, i - p]
            else:
                omega[i, j] = M[i, j - p] if i < p else P[i - p, j - p]
    u, v, g = np.empty(n), np.empty(n), np.empty(n)
    out = np.empty((p, p))
    for i in range(p):
        for j in range(i + 1):
            det = _tilt(omega, i, j, u, v, g)
            total = 0.0
            for m in range(n):
                off = _sum_row(c, g, omega, omega[i], omega[j], u, v, m)
                total += c[m] * (2.0 * off + c[m] * asin_unit(1.0 - g[m] * g[m]))
            out[i, j] = out[j, i] = TWO_OVER_PI * TWO_OVER_PI / math.sqrt(det) * total
    return out


def mixed_erf_variance(pairs: Pairs, M: Array, Q: Array, P: Array, c: Array | None = None) -> Array:
    """Erf student and a teacher with closed forms, see `sum_mixed_variance`."""
    assert isinstance(pairs.mixed, ClosedForm)
    assert isinstance(pairs.teachers, ClosedForm)
    codes = pairs.mixed.code, pairs.teachers.code
    return sum_mixed_variance(*codes, M, Q, P, unit_readout(*M.shape) if c is None else c)


@kernel()
def sum_mixed_variance(mixed, teachers, M, Q, P, c):
    """Var_ij = (2/π)/√L4 Σ_βγ c_β c_γ E_C[σ_β σ_γ] at the tilted overlaps C, σ_β being erf for students."""
    p, k = M.shape
    n = p + k
    omega = np.empty((n, n))
    omega[:p, :p] = Q
    omega[:p, p:] = M
    omega[p:, :p] = M.T
    omega[p:, p:] = P
    u, v, g = np.empty(n), np.empty(n), np.empty(n)
    out = np.empty((p, p))
    for i in range(p):
        for j in range(i + 1):
            det = _tilt(omega, i, j, u, v, g)
            total = 0.0
            for m in range(p):
                off = _sum_row(c, g, omega, omega[i], omega[j], u, v, m)
                total += TWO_OVER_PI * c[m] * (2.0 * off + c[m] * asin_unit(1.0 - g[m] * g[m]))
            for r in range(p, n):
                norm = omega[r, r] - u[r] * omega[i, r] - v[r] * omega[j, r]
                for m in range(p):
                    own = omega[m, m] - u[m] * omega[i, m] - v[m] * omega[j, m]
                    both = omega[m, r] - u[m] * omega[i, r] - v[m] * omega[j, r]
                    total += 2.0 * c[m] * c[r] * value_pair(mixed, own, norm, both)
                for s in range(p, r + 1):
                    other = omega[s, s] - u[s] * omega[i, s] - v[s] * omega[j, s]
                    both = omega[s, r] - u[s] * omega[i, r] - v[s] * omega[j, r]
                    share = c[r] * c[s] if s == r else 2.0 * c[r] * c[s]
                    total += share * value_pair(teachers, norm, other, both)
            out[i, j] = out[j, i] = TWO_OVER_PI / math.sqrt(det) * total
    return out


class TiltedVariance:
    """Erf student, any teacher: Var_ij = E[σ'_i σ'_j] · 2 R(C), R being the risk at the tilted overlaps."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    def __call__(self, M: Array, Q: Array, P: Array, c: Array | None = None) -> Array:
        p = len(Q)
        readout = None if c is None else Readout(-p * c[:p], len(P) * c[p:])
        omega = Overlaps(M, Q, P).omega
        out = np.empty((p, p))
        for i in range(p):
            for j in range(i + 1):
                A = np.eye(2) + omega[np.ix_((i, j), (i, j))]
                det = A[0, 0] * A[1, 1] - A[0, 1] ** 2
                C = omega - omega[:, (i, j)] @ np.linalg.solve(A, omega[(i, j), :])
                tilted = Overlaps(C[:p, p:].copy(), C[:p, :p].copy(), C[p:, p:].copy())
                R = risk(tilted, self.pairs, readout=readout)
                out[i, j] = out[j, i] = TWO_OVER_PI / math.sqrt(det) * 2.0 * R
        return out


def square_variance(M: Array, Q: Array, P: Array, c: Array | None = None) -> Array:
    """4 {Q [τ² + 2 t₂] + 4 τ G1 + 8 G2}, by Wick's theorem.

    τ = Σ_β c_β Ω_ββ, t₂ = Σ_βγ c_β c_γ Ω_βγ², G1 = ΩCΩ and G2 = ΩCΩCΩ of students, C = diag c.
    """
    p, k = M.shape
    if c is not None:
        omega = Overlaps(M, Q, P).omega
        push = omega[:p] * c  # rows of ΩC
        tau, t2, half = float(c @ np.diag(omega)), float(c @ omega**2 @ c), push @ omega
        return 4.0 * (Q * (tau**2 + 2.0 * t2) + 4.0 * tau * half[:, :p] + 8.0 * (half * c) @ omega[:, :p])
    tau = np.trace(P) / k - np.trace(Q) / p
    t2 = np.sum(P * P) / k**2 - 2.0 * np.sum(M * M) / (p * k) + np.sum(Q * Q) / p**2
    G1 = M @ M.T / k - Q @ Q / p
    H = M @ P / k - Q @ M / p
    G2 = H @ M.T / k - G1 @ Q / p
    return 4.0 * (Q * (tau**2 + 2.0 * t2) + 4.0 * tau * G1 + 8.0 * G2)


class QuasiMonteCarlo:
    """Any activations, on a fixed set of scrambled Sobol points, so that it is a smooth function of Ω."""

    def __init__(self, student: Activation, teacher: Activation, n: int, points: int = QMC_POINTS) -> None:
        self.student, self.teacher, self.points, self.n = student, teacher, points, n
        self.control = ControlVariate.make(student, teacher)
        # Its error is 1e-3: tighter tolerances would resolve its noise, and jumps at the kink of relu.
        self.precision = 1e-6 if student.curvature is not None else 1e-5

    def __call__(self, M: Array, Q: Array, P: Array, c: Array | None = None) -> Array:
        p, codes = len(Q), (self.student.code, self.teacher.code)
        c = unit_readout(*M.shape) if c is None else c
        if self.control is None or None in codes or p > MAX_COMPILED_SAMPLING_WIDTH:
            return self._average(M, Q, P, c)
        teachers = fixed_coefficients(self.teacher, np.maximum(np.diag(P), MIN_VARIANCE).tobytes())
        mixture = MIXTURES.get(self.student.code, (ERF_SQUARES, ERF_WEIGHTS))  # type: ignore[arg-type]
        points = normal_columns(self.points, self.n)
        return np.asarray(sample_variance(codes, *mixture, teachers, points, M, Q, P, c))

    def _average(self, M: Array, Q: Array, P: Array, c: Array) -> Array:
        """The same average by products of matrices."""
        p, k = M.shape
        omega, root = Overlaps(M, Q, P).omega, factor_covariance(M, Q, P)
        if not math.isfinite(root[0, 0]):  # diverged
            return np.full_like(Q, np.nan)
        fields = normal_points(self.points, self.n) @ root.T
        teachers, students = fields[:, :k], fields[:, k:]
        slope = self.student.slope(students)
        error = self.teacher.value(teachers) @ c[p:] - self.student.value(students) @ -c[:p]
        if self.control is None:
            weighted = slope * error[:, None]
            return weighted.T @ weighted / len(fields)
        q = self.control.project(omega, p, c)
        approximate = q(students, teachers)
        weighted = slope * ((error - approximate) * (error + approximate))[:, None]
        sampled = weighted.T @ slope / len(fields)
        return self.control.average(q, omega, p) + 0.5 * (sampled + sampled.T)


@lru_cache(maxsize=4)
def normal_columns(points: int, n: int) -> Array:
    """`normal_points` with one row for each of the n coordinates, as compiled samples use them."""
    return np.ascontiguousarray(normal_points(points, n).T)


@lru_cache(maxsize=4)  # a sweep uses few different ones, and each may hold a hundred megabytes
def normal_points(points: int, n: int) -> Array:
    """Scrambled Sobol points mapped to N(0, I_n), the same in every call because the scramble is fixed."""
    return special.ndtri(sobol_points(points, n))


def sobol_points(points: int, n: int) -> Array:
    from scipy.stats import qmc  # 0.5 s to import, and few calls need it

    return qmc.Sobol(n, scramble=True, rng=20230212).random(points)
