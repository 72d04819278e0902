"""The scatter of single steps: D = (u²/b) Cov ψ over a sample and its label noise.

ψ is the change of the state by one sample, per δt. With g_i = a_i σ'(λ_i) 𝓔, noise included,
    ψ_M = g λ*ᵀ      ψ_Q = g λᵀ + λ gᵀ + (γu/(pb)) g gᵀ      ψ_a = ρ σ(λ) 𝓔
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from sweep_service.dynamics.fluctuations.covectors import split_row
from sweep_service.dynamics.fluctuations.square_diffusion import SquareDiffusion
from sweep_service.dynamics.full_model import slow_down
from sweep_service.dynamics.overlap_flow import OverlapFlow
from sweep_service.dynamics.sampling.variance import normal_points, unit_readout
from sweep_service.model.activations import SQUARE, Activation
from sweep_service.model.overlaps import Overlaps
from sweep_service.numerics.types import Array

POINTS_FACTOR = 2  # of the points of a sampling term: with 4096 of them sd R errs by 0.5 %
SQUARE_POINTS_FACTOR = 8  # polynomials of degree six have heavy tails: their covariance needs more points


class Scatter(Protocol):
    """D at a state."""

    def matrix(self) -> Array:
        """D (n, n)."""

    def project(self, rows: Array, /) -> Array:
        """λᵀDλ' of all pairs of rows λ, without D."""


class Diffusion(Protocol):
    """D along a trajectory."""

    def at(self, y: Array, t: float) -> Scatter:
        """D at a state."""


def choose_diffusion(flow: OverlapFlow, student: Activation, teacher: Activation, points: int) -> Diffusion:
    """In closed form for a square student and teacher, else by samples."""
    if student is SQUARE and teacher is SQUARE:
        return SquareDiffusion(flow)
    return SampledDiffusion(flow, student, teacher, points)


class SampledDiffusion:
    """D by quasi-Monte Carlo, on the same points at every state."""

    def __init__(self, flow: OverlapFlow, student: Activation, teacher: Activation, points: int) -> None:
        self.flow, self.student, self.teacher = flow, student, teacher
        n, self.noisy = flow.p + flow.k, flow.system.noise > 0.0
        factor = SQUARE_POINTS_FACTOR if student is SQUARE else POINTS_FACTOR
        self.Z = normal_points(factor * points, n + int(self.noisy))

    def at(self, y: Array, t: float) -> Samples:
        """The samples at a state."""
        flow, system, p = self.flow, self.flow.system, self.flow.p
        overlaps, a = flow.overlaps(y), flow.second_layer(y)
        students, teachers = self._fields(overlaps)
        c = unit_readout(p, flow.k) if a is None else flow.moments(y, t).readout
        assert c is not None
        output = self.student.value(students)
        error = self.teacher.value(teachers) @ c[p:] - output @ -c[:p]
        if self.noisy:
            error += math.sqrt(system.noise) * self.Z[:, -1]
        g = self.student.slope(students) * error[:, None]
        if a is not None:
            g *= a
        if system.first_norms is not None:
            g *= slow_down(np.diag(overlaps.Q), system.first_norms)
        half = g * (0.5 * system.noise_rate * system.rate_factor(t)) + students
        learned = system.second_layer_rate * output * error[:, None] if system.is_learned else None
        return Samples(g, half, teachers, learned, system.rate_factor(t) ** 2 / system.batch)

    def _fields(self, overlaps: Overlaps) -> tuple[Array, Array]:
        p = len(overlaps.Q)
        w, U = np.linalg.eigh(overlaps.omega)
        root = (U * np.sqrt(np.maximum(w, 0.0))) @ U.T
        Z = self.Z[:, : len(root)]
        return Z @ root[:, :p], Z @ root[:, p:]


class Samples(NamedTuple):
    """The parts of ψ at each point, points first: ψ_M = g λ*ᵀ, ψ_Q = g hᵀ + h gᵀ, ψ_a."""

    g: Array
    half: Array  # h = λ + (γu/(2pb)) g
    teachers: Array  # λ*
    second_layer: Array | None  # ψ_a, if a is learned
    rate: float  # u²/b

    def matrix(self) -> Array:
        """D (n, n)."""
        g, half = self.g, self.half
        rows, columns = np.tril_indices(g.shape[1])
        first, end = g.shape[1] * self.teachers.shape[1], g.shape[1] * self.teachers.shape[1] + len(rows)
        psi = np.empty((len(g), end + (0 if self.second_layer is None else g.shape[1])))
        psi[:, :first] = (g[:, :, None] * self.teachers[:, None, :]).reshape(len(g), first)
        psi[:, first:end] = g[:, rows] * half[:, columns] + half[:, rows] * g[:, columns]
        if self.second_layer is not None:
            psi[:, end:] = self.second_layer
        return self._covariance(psi)

    def project(self, rows: Array) -> Array:
        """λᵀDλ' of all pairs of rows."""
        p, k = self.g.shape[1], self.teachers.shape[1]
        fields = np.hstack([self.half, self.teachers]).astype(np.float32)  # far more accurate than samples
        g, scores = self.g.astype(np.float32), np.empty((len(self.g), len(rows)))
        for column, row in enumerate(rows):
            covector = split_row(row, p, k)
            weights = covector.fields.T.astype(np.float32)
            scores[:, column] = np.einsum("ni,ni->n", fields @ weights, g)
            if self.second_layer is not None and covector.second_layer is not None:
                scores[:, column] += self.second_layer @ covector.second_layer
        return self._covariance(scores)

    def _covariance(self, values: Array) -> Array:
        values -= values.mean(0)
        return np.asarray(self.rate * (values.T @ values) / len(values))
