"""The scatter of single steps: D = (u²/b) Cov ψ over a sample and its label noise.

ψ is the change of the state by one sample, per δt. With g_i = a_i σ'(λ_i) 𝓔, noise included,
    ψ_M = g λ*ᵀ      ψ_Q = g λᵀ + λ gᵀ + (γu/(pb)) g gᵀ      ψ_a = ρ σ(λ) 𝓔
"""

from __future__ import annotations

import math

import numpy as np

from sweep_service.dynamics.full_model import slow_down
from sweep_service.dynamics.overlap_flow import OverlapFlow
from sweep_service.dynamics.variance import normal_points, unit_readout
from sweep_service.model.activations import SQUARE, Activation
from sweep_service.model.overlaps import Overlaps
from sweep_service.numerics.types import Array

POINTS_FACTOR = 2  # of the points of a sampling term: with 4096 of them sd R errs by 0.5 %
SQUARE_POINTS_FACTOR = 8  # polynomials of degree six have heavy tails: their covariance needs more points


class Diffusion:
    """D by quasi-Monte Carlo, on the same points at every state."""

    def __init__(self, flow: OverlapFlow, student: Activation, teacher: Activation, points: int) -> None:
        self.flow, self.student, self.teacher = flow, student, teacher
        n, self.noisy = flow.p + flow.k, flow.system.noise > 0.0
        factor = SQUARE_POINTS_FACTOR if student is SQUARE else POINTS_FACTOR
        self.Z = normal_points(factor * points, n + int(self.noisy))
        self.rows, self.columns = np.tril_indices(flow.p)

    def matrix(self, y: Array, t: float) -> Array:
        """D (n, n) at a state."""
        psi = self._changes(y, t)
        psi -= psi.mean(0)
        return np.asarray(self._rate(t) * (psi.T @ psi) / len(psi))

    def _rate(self, t: float) -> float:
        """u²/b."""
        system = self.flow.system
        return system.rate_factor(t) ** 2 / system.batch

    def _changes(self, y: Array, t: float) -> Array:
        """ψ at each point, (points, n)."""
        flow, system, p = self.flow, self.flow.system, self.flow.p
        overlaps, a = flow.overlaps(y), flow.second_layer(y)
        students, teachers = self._fields(overlaps)
        c = unit_readout(p, flow.k) if a is None else flow.moments(y, t).readout
        assert c is not None
        error = self.teacher.value(teachers) @ c[p:] - self.student.value(students) @ -c[:p]
        if self.noisy:
            error += math.sqrt(system.noise) * self.Z[:, -1]
        g = self.student.slope(students) * error[:, None]
        if a is not None:
            g *= a
        if system.first_norms is not None:
            g *= slow_down(np.diag(overlaps.Q), system.first_norms)
        half = g * (0.5 * system.noise_rate * system.rate_factor(t)) + students
        psi = np.empty((len(g), y.size))
        first, end = p * flow.k, p * flow.k + len(self.rows)
        psi[:, :first] = (g[:, :, None] * teachers[:, None, :]).reshape(len(g), first)
        psi[:, first:end] = g[:, self.rows] * half[:, self.columns] + half[:, self.rows] * g[:, self.columns]
        if system.is_learned:
            psi[:, end:] = system.second_layer_rate * self.student.value(students) * error[:, None]
        return psi

    def _fields(self, overlaps: Overlaps) -> tuple[Array, Array]:
        p = len(overlaps.Q)
        w, U = np.linalg.eigh(overlaps.omega)
        root = (U * np.sqrt(np.maximum(w, 0.0))) @ U.T
        Z = self.Z[:, : len(root)]
        return Z @ root[:, :p], Z @ root[:, p:]
