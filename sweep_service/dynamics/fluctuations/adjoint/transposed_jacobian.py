"""Products Jᵀλ with the Jacobian of a flow, without J, for smooth activations.

They follow the flow backwards: G and Ω of dX = GΩ, the two-point averages of G, the sampling term.
A product costs some p² (p + k) operations, J itself p²/2 times as many.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sweep_service.dynamics.fluctuations.adjoint.pair_derivatives import PairDerivatives
from sweep_service.dynamics.fluctuations.adjoint.sampling_derivatives import differentiate_sampling
from sweep_service.dynamics.fluctuations.covectors import join_row, split_row
from sweep_service.dynamics.fluctuations.risk_derivatives import readout_of
from sweep_service.dynamics.overlap_flow import OverlapFlow, drift, label_noise, sampling
from sweep_service.model.activations import Activation
from sweep_service.numerics.types import Array

STEP = 1e-5  # of differences of two-point averages, relative to the mean norm: errors 1e-5, rounding 1e-11
TERMS = (drift, label_noise, sampling)


def has_products(flow: OverlapFlow, student: Activation) -> bool:
    """Whether the products of a flow can be computed."""
    return has_smooth_slope(student) and set(flow.terms) <= set(TERMS)


def has_smooth_slope(student: Activation) -> bool:
    """Whether σ'' of a student is a function; with a kink, Price's theorem needs more than samples."""
    return student.curvature is not None and not student.kinks


class TransposedJacobian:
    """λ → Jᵀλ at a state. The factor ‖x‖² of `finite_d_factor` is replaced by 1."""

    def __init__(
        self, flow: OverlapFlow, student: Activation, teacher: Activation, y: Array, t: float
    ) -> None:
        self.flow, system, p = flow, flow.system, flow.p
        overlaps, self.u = flow.overlaps(y), system.rate_factor(t)
        self.overlaps, self.c, a = overlaps, readout_of(flow, y), flow.second_layer(y)
        self.a = np.ones(p) if a is None else a
        norms, teacher_norms = np.diag(overlaps.Q).copy(), np.diag(overlaps.P).copy()
        step = STEP * float(np.mean(norms))
        self.own = PairDerivatives.of(system.pairs.students, norms, norms, overlaps.Q, step)
        self.mixed = PairDerivatives.of(system.pairs.mixed, norms, teacher_norms, overlaps.M, step)
        self.sampling = (
            differentiate_sampling(overlaps, self.c, student, teacher) if sampling in flow.terms else None
        )
        self.damping = flow.damping(t) if system.weight_decay else None
        self.omega = overlaps.omega
        curved = self.own.curved @ self.c[:p] + self.mixed.curved @ self.c[p:]
        self.unit_push = np.hstack([self.own.slopes, self.mixed.slopes]) * self.c  # G without a_i
        self.unit_push[np.diag_indices(p)] += curved

    def __call__(self, rows: Array) -> Array:
        """Jᵀλ for each row λ, shape (rows, n)."""
        products = np.array([self._multiply(row) for row in rows]).reshape(rows.shape)
        return products if self.damping is None else products - self.damping * rows

    @cached_property
    def values(self) -> tuple[Array, Array]:
        """E[σσ] of students with students and with teachers."""
        pairs, overlaps = self.flow.system.pairs, self.overlaps
        norms, teacher_norms = np.diag(overlaps.Q).copy(), np.diag(overlaps.P).copy()
        students = pairs.students.values(norms, norms, overlaps.Q)
        return students, pairs.mixed.values(norms, teacher_norms, overlaps.M)

    def _multiply(self, row: Array) -> Array:
        flow, system, p = self.flow, self.flow.system, self.flow.p
        covector, rate = split_row(row, p, flow.k), system.noise_rate * self.u**2
        fields = self.u * covector.fields
        by_unit = fields @ self.omega  # the change of M and Q is ⟨a fields, unit_push Ω⟩
        by_push = self.a[:, None] * by_unit
        by_omega = self.unit_push.T @ (self.a[:, None] * fields)
        by_slopes, by_curved = by_push * self.c, np.diag(by_push)[:, None] * self.c
        by_values = np.zeros_like(by_slopes)
        if covector.second_layer is not None:
            by_values += self.u * system.second_layer_rate * np.outer(covector.second_layer, self.c)
        scatter = rate * np.outer(self.a, self.a) * covector.Q
        if label_noise in flow.terms:
            by_slopes[:, :p] += system.noise * scatter
        by_Q = self.own.pull_own(by_values[:, :p], by_slopes[:, :p], by_curved[:, :p]) + by_omega[:p, :p]
        by_M, by_norm = self.mixed.pull_mixed(by_values[:, p:], by_slopes[:, p:], by_curved[:, p:])
        by_M += by_omega[:p, p:] + by_omega[p:, :p].T
        by_Q.flat[:: len(by_Q) + 1] += by_norm
        by_c = np.sum(by_push[:, :p] * self.own.slopes, axis=0) + np.diag(by_push) @ self.own.curved
        if self.sampling is not None:
            for total, more in zip((by_M, by_Q, by_c), self.sampling.pull(scatter), strict=True):
                total += more
        if covector.second_layer is None:
            return join_row(by_M, by_Q)
        by_c += self.u * system.second_layer_rate * covector.second_layer @ self.values[0]
        by_a = np.sum(by_unit * self.unit_push, axis=1) + 2.0 * rate * (covector.Q * self._squares()) @ self.a
        return join_row(by_M, by_Q, by_a - by_c / p)

    def _squares(self) -> Array:
        """E[σ'_i σ'_j 𝓔²] (p, p)."""
        squares = np.zeros_like(self.overlaps.Q)
        if self.sampling is not None:
            squares += self.sampling.average
        if label_noise in self.flow.terms:
            squares += self.flow.system.noise * self.own.slopes
        return squares
