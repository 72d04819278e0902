"""Mean field as a sum over pairs of neurons, for any activations."""

from __future__ import annotations

import numpy as np

from sweep_service.dynamics.mean_field.flow import Derivative, MeanFieldFlow, MeanFieldSystem, average, weigh
from sweep_service.dynamics.mean_field.half_rule import HalfRule
from sweep_service.dynamics.mean_field.pair_series import Series
from sweep_service.dynamics.mean_field.pair_sums import add_teachers, square_pairs, sum_pairs
from sweep_service.dynamics.mean_field.xi import Xi
from sweep_service.model.activations import ERF
from sweep_service.model.averages.closed_forms import SQUARE_CODE, ClosedForm
from sweep_service.model.risk import teacher_power
from sweep_service.numerics.types import Array

MIN_SERIES_WIDTH = 8  # fewer pairs do not repay the coefficients
MAX_BLOCK_ENTRIES = 1 << 20  # entries of the largest matrix held at once


class PairwiseFlow(MeanFieldFlow):
    """Sum over pairs of neurons, O(p²) for each node of ξ."""

    def __init__(self, system: MeanFieldSystem, M: Array, q: Array, nodes: int) -> None:
        super().__init__(system, M, q)
        self.nodes = nodes
        dimensions = 0 if system.is_frozen else system.D
        self.xi, self.half_xi = Xi.rule(dimensions, nodes), HalfRule.make(dimensions, nodes)

    def blocks(self, M: Array, q: Array) -> list[tuple[slice, Array, Array]]:
        """Blocks of rows with their o and the scale √(q_i q_j) of ξ."""
        rows = max(1, MAX_BLOCK_ENTRIES // self.p)
        N, root = M @ self.inverse, np.sqrt(q)
        cuts = [slice(at, min(at + rows, self.p)) for at in range(0, self.p, rows)]
        return [(cut, N[cut] @ M.T, np.outer(root[cut], root)) for cut in cuts]

    def overlap(self, cut: slice, o: Array, scale: Array, xi: float, q: Array) -> tuple[Array, Array]:
        """Covariances at one ξ and their orthogonal part, including a neuron with itself."""
        outside = scale * xi
        if self.system.self_terms:
            rows = np.arange(len(o))
            outside[rows, rows + cut.start] = q[cut]
        return o + outside, outside

    def derivative(self, M: Array, q: Array, a: Array | None) -> Derivative:
        P, pairs, teacher = self.system.P, self.system.pairs, self.system.teacher_second_layer
        norms = self.norms(M, q)
        A, pull, dq, da = self.sum_students(M, q, norms, a)
        if isinstance(pairs.mixed, ClosedForm):
            weights = np.ones(self.k) if teacher is None else teacher
            add_teachers(pairs.mixed.code, M, P, q, norms, weights / self.k, A, pull, dq, da)
            return pull, dq, da
        teacher_norms = np.diag(P).copy()
        slopes, curved = pairs.mixed.slopes(norms, teacher_norms, M)
        A = A + average(curved, teacher)
        if da is not None:
            da = da + average(pairs.mixed.values(norms, teacher_norms, M), teacher)
        return A[:, None] * M + slopes @ weigh(P, teacher) / self.k + pull, dq + 2.0 * q * A, da

    def sum_students(
        self, M: Array, q: Array, norms: Array, a: Array | None
    ) -> tuple[Array, Array, Array, Array | None]:
        """Sums over students: their contributions to A, dM, dq and da."""
        weights = np.ones(self.p) if a is None else a
        da = np.zeros(self.p) if self.system.is_learned else None
        sums = self.sum_compiled(M, q, norms, weights, da)
        return self.sum_matrices(M, q, norms, a) if sums is None else (*sums, da)

    def sum_compiled(
        self, M: Array, q: Array, norms: Array, a: Array, da: Array | None
    ) -> tuple[Array, Array, Array] | None:
        """A, dM, dq from students by a compiled sum, or None if there is none; the sums for da are added."""
        students, own = self.system.pairs.students, self.system.self_terms
        state = M, M @ self.inverse, q, norms
        code = students.code if isinstance(students, ClosedForm) else None
        if code == SQUARE_CODE:
            return square_pairs(*state, self.spread, own, a, da)
        series = self.series(norms)
        if code is None and series is None:
            return None
        return sum_pairs(code, series, state, self.half_xi, own, a, da)

    def series(self, norms: Array) -> Series | None:
        """The averages of students as a series, where it is accurate and cheaper than other forms."""
        student = self.system.student
        is_smooth = student.curvature is not None and not student.kinks
        if student is ERF or not is_smooth or self.p < MIN_SERIES_WIDTH:
            return None
        return Series.make(student, norms)

    def sum_matrices(
        self, M: Array, q: Array, norms: Array, a: Array | None
    ) -> tuple[Array, Array, Array, Array | None]:
        """`sum_students` for averages without a closed form."""
        A, dq, pull = np.zeros(self.p), np.zeros(self.p), np.zeros_like(M)
        da, weighted_M = np.zeros(self.p) if self.system.is_learned else None, weigh(M, a)
        students = self.system.pairs.students
        for cut, o, scale in self.blocks(M, q):
            total = np.zeros_like(o)
            for xi, weight in zip(self.xi.nodes, self.xi.weights, strict=True):
                C, outside = self.overlap(cut, o, scale, xi, q)
                slopes, curved = students.slopes(norms[cut], norms, C)
                total += weight * slopes
                A[cut] -= weight * average(curved, a)
                dq[cut] -= 2.0 * weight * average(outside * slopes, a)
                if da is not None:
                    da[cut] -= weight * average(students.values(norms[cut], norms, C), a)
            pull[cut] = -total @ weighted_M / self.p
        return A, pull, dq, da

    def risk(self, y: Array) -> float:
        (M, q), a = self.unpack(y), self.second_layer(y)
        P, pairs, teacher = self.system.P, self.system.pairs, self.system.teacher_second_layer
        norms, teacher_norms = self.norms(M, q), np.diag(P).copy()
        across = pairs.mixed.values(norms, teacher_norms, M)
        mixed = across.mean() if a is None or teacher is None else a @ across @ teacher / across.size
        students = self.student_power(M, q, norms, np.ones(self.p) if a is None else a) / self.p**2
        return float(0.5 * (students - 2.0 * mixed + teacher_power(P, pairs.teachers, teacher)))

    def student_power(self, M: Array, q: Array, norms: Array, a: Array) -> float:
        """Σ_ij a_i a_j E[σ_i σ_j]."""
        students, da = self.system.pairs.students, np.zeros(self.p)
        if self.sum_compiled(M, q, norms, a, da) is not None:
            return float(-self.p * (a @ da))
        total = 0.0
        for cut, o, scale in self.blocks(M, q):
            for xi, weight in zip(self.xi.nodes, self.xi.weights, strict=True):
                C, _ = self.overlap(cut, o, scale, xi, q)
                total += weight * float(a[cut] @ students.values(norms[cut], norms, C) @ a)
        return total

    @property
    def spread(self) -> float:
        """E ξ², 0 if there is no ξ."""
        return float(self.xi.weights @ self.xi.nodes**2)

    def refine(self) -> PairwiseFlow | None:
        if len(self.xi.nodes) <= 2:
            return None
        return PairwiseFlow(self.system, *self.start, 2 * self.nodes)
