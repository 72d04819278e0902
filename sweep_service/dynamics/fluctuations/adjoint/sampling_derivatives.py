"""Derivatives of the sampling term φ = ⟨S, E[σ'_i σ'_j 𝓔*²]⟩ with respect to the overlaps and the readout.

For a square student and teacher in closed form. For other smooth activations Price's theorem gives
dE[F(λ)] = ½ Σ E[∂_α∂_β F] dΩ_αβ with F = 𝓔*² σ'ᵀSσ', an average over samples that needs no root of Ω,
which may be singular.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from sweep_service.dynamics.sampling.variance import normal_points, square_variance
from sweep_service.model.activations import SQUARE, Activation
from sweep_service.model.overlaps import Overlaps
from sweep_service.numerics.types import Array

# Samples of the derivatives. Their error, some 3 % of an entry, matters only by γ/p.
DERIVATIVE_POINTS = 1024
CURVATURE_STEP = 1e-4  # of the difference σ''', for fields of order one: error 1e-8, rounding 1e-12


class SamplingDerivatives(Protocol):
    """The derivatives at a state."""

    @property
    def average(self) -> Array:
        """E[σ'_i σ'_j 𝓔*²] (p, p)."""

    def pull(self, S: Array) -> tuple[Array, Array, Array]:
        """∂φ/∂M (p, k), ∂φ/∂Q (p, p), which need not be symmetric, and ∂φ/∂c of students (p)."""


def differentiate_sampling(
    overlaps: Overlaps, c: Array, student: Activation, teacher: Activation
) -> SamplingDerivatives:
    """The derivatives at overlaps and a readout c = (-a/p, a*/k)."""
    if student is SQUARE and teacher is SQUARE:
        return SquareDerivatives(overlaps, c)
    return SampledDerivatives.of(overlaps, c, student, teacher)


class SquareDerivatives:
    """Those of 4 {Q [τ² + 2 t₂] + 4 τ ΩCΩ + 8 ΩCΩCΩ}, see `square_variance`."""

    def __init__(self, overlaps: Overlaps, c: Array) -> None:
        self.omega, self.c, self.p = overlaps.omega, c, len(overlaps.Q)
        self.average = square_variance(overlaps.M, overlaps.Q, overlaps.P, c)

    def pull(self, S: Array) -> tuple[Array, Array, Array]:
        omega, c, p = self.omega, self.c, self.p
        n = len(omega)
        power, tau = omega**2 @ c, float(c @ np.diag(omega))  # t₂ = c·power
        half = S @ omega[:p]  # SΩ, rows of students
        push = half * c  # SΩC
        chain = push @ omega  # SΩCΩ
        s0, s1 = float(np.sum(S * omega[:p, :p])), float(np.sum(omega[:p] * push))
        by_omega = 4.0 * s0 * np.outer(c, c) * omega
        by_omega[np.diag_indices(n)] += c * (2.0 * tau * s0 + 4.0 * s1)
        by_omega[:p, :p] += (tau**2 + 2.0 * float(c @ power)) * S
        by_omega[:p] += 8.0 * tau * push + 16.0 * chain * c
        by_omega += 8.0 * (c[:, None] * omega[:, :p]) @ push
        by_c = s0 * (2.0 * tau * np.diag(omega) + 4.0 * power) + 4.0 * s1 * np.diag(omega)
        by_c += 4.0 * tau * np.sum(half * omega[:p], axis=0) + 16.0 * np.sum(chain * omega[:p], axis=0)
        mixed = by_omega[:p, p:] + by_omega[p:, :p].T
        return 4.0 * mixed, 4.0 * by_omega[:p, :p], 4.0 * by_c[:p]


class SampledDerivatives(NamedTuple):
    """Samples of the activations and of 𝓔*, points first; averages of products that do not depend on S."""

    values: Array  # σ
    slopes: Array  # σ'
    curvatures: Array  # σ''
    third: Array  # σ'''
    error: Array  # 𝓔*
    pushes: Array  # ∂_β 𝓔* = c_β σ'_β of all fields
    c: Array
    average: Array
    curved: Array  # E[σ''_i σ''_j 𝓔*²]

    @classmethod
    def of(cls, overlaps: Overlaps, c: Array, student: Activation, teacher: Activation) -> SampledDerivatives:
        """Draw the samples at a state."""
        assert student.curvature is not None
        p = len(overlaps.Q)
        values, vectors = np.linalg.eigh(overlaps.omega)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        fields = normal_points(DERIVATIVE_POINTS, len(root)) @ root
        students, teachers = fields[:, :p], fields[:, p:]
        values, slopes = student.value(students), student.slope(students)
        curvatures = student.curvature(students)
        ends = [student.curvature(students + h) for h in (CURVATURE_STEP, -CURVATURE_STEP)]
        error = values @ c[:p] + teacher.value(teachers) @ c[p:]
        squares = (error * error / len(error))[:, None]
        return cls(
            values, slopes, curvatures, (ends[0] - ends[1]) / (2.0 * CURVATURE_STEP), error,
            np.hstack([slopes, teacher.slope(teachers)]) * c, c,
            slopes.T @ (squares * slopes), curvatures.T @ (squares * curvatures),
        )  # fmt: skip

    def pull(self, S: Array) -> tuple[Array, Array, Array]:
        points, p = self.slopes.shape
        turned = self.slopes @ S  # Sσ'
        weight, error = np.sum(turned * self.slopes, axis=1), self.error[:, None]  # weight: σ'ᵀSσ'
        change = 2.0 * error * self.curvatures * turned  # 𝓔* ∂_i of the weight
        moved = weight[:, None] * self.pushes[:, :p]
        by_Q = self.pushes[:, :p].T @ (moved + 2.0 * change) / points + S * self.curved
        bent = weight @ (error * self.curvatures) * self.c[:p] + (error * error * self.third * turned).sum(0)
        by_Q.flat[:: len(by_Q) + 1] += bent / points
        by_M = 2.0 * (moved + change).T @ self.pushes[:, p:] / points
        return by_M, by_Q, 2.0 * (weight * self.error) @ self.values / points
