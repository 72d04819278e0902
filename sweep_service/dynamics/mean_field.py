"""The mean-field state (M, q, a): neurons interact through their projections and a random ξ.

D = d - rank P, N = M P⁺, o = N Mᵀ, Qd_i = o_ii + q_i. Neurons i ≠ j overlap by o_ij + √(q_i q_j) ξ, a
neuron with itself by Qd_i. `PairwiseFlow` sums over pairs, for any activations; `SquareFlow` is
its closed form for x². The O(p) forms are in `mean_field_nodes` and `mean_field_mixture`.

Neuron j enters every average over neurons with the weight a_j, and dM_i and dq_i carry a_i, so their self
terms have a_i². Second layers of ones are left out of the sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sweep_service.dynamics.full_model import FullModel, FullModelFlow
from sweep_service.dynamics.mean_field_pairs import (
    HalfRule,
    add_teachers,
    closed_pairs,
    weighted_pairs,
    weighted_squares,
)
from sweep_service.dynamics.overlap_flow import radial_derivative
from sweep_service.dynamics.state import State
from sweep_service.dynamics.xi import Xi
from sweep_service.model.activations import Activation
from sweep_service.model.closed_forms import ClosedForm
from sweep_service.model.overlaps import invert_gram
from sweep_service.model.risk import teacher_power
from sweep_service.model.two_point import Pairs
from sweep_service.numerics.types import Array
from sweep_service.status import DivergedQuantity

MAX_BLOCK_ENTRIES = 1 << 20  # entries of the largest matrix held at once
VANISHED_SHARE = 1e-6  # of its squared norm at t = 0, at which a neuron with a kink counts as vanished


@dataclass(frozen=True)
class MeanFieldSystem(FullModel):
    """Constants of a mean-field trajectory."""

    P: Array
    pairs: Pairs
    student: Activation
    teacher: Activation
    D: int | None  # dimensions orthogonal to the teacher; None for d = ∞
    noise: float  # γΔ/(pb)
    self_terms: bool = True
    projected: bool = False  # hold q at zero
    finite_d: int | None = None
    precision: float = 1e-9  # relative error of the right-hand side that is worth resolving in time

    @property
    def is_frozen(self) -> bool:
        """Whether q stays at zero, as there is no orthogonal direction to move in."""
        return self.projected or self.D == 0


# dM_i/a_i, dq_i/a_i, and da_i/ρ if a is learned
Derivative = tuple[Array, Array, Array | None]


def weigh(values: Array, weights: Array | None) -> Array:
    """Entries or rows of `values` times their weights; as they are without weights, which means ones."""
    return values if weights is None else (values.T * weights).T


def average(values: Array, weights: Array | None) -> Array:
    """(1/n) Σ_j weight_j values_j over the last axis."""
    return values.mean(-1) if weights is None else values @ weights / len(weights)


class MeanFieldFlow(FullModelFlow, ABC):
    """y = (M, q), or M alone if q ≡ 0, followed by a if it is learned.

    Subclasses define the derivative and the risk.
    """

    system: MeanFieldSystem
    jacobian: Callable[[Array, float], Array] | None = None
    delta_t: float | None = None

    def __init__(self, system: MeanFieldSystem, M: Array, q: Array) -> None:
        self.system, self.precision = system, system.precision
        self.start = M, q
        self.p, self.k = M.shape
        self.inverse = invert_gram(system.P)
        self.first_norms = self.norms(M, q)
        self.y0 = self._pack(M, q, None if system.readout is None else system.readout.student)

    def _pack(self, M: Array, q: Array, a: Array | None) -> Array:
        y = M.ravel().copy() if self.system.is_frozen else np.concatenate([M.ravel(), q])
        return self.append_second_layer(y, a)

    def __call__(self, y: Array, t: float = 0.0) -> Array:
        system, u = self.system, self.system.rate_factor(t)
        (M, q), a = self.unpack(y), self.second_layer(y)
        dM, dq, da = self.derivative(M, q, a)
        if a is not None:
            own = a if self.system.student.curvature is not None else a * self.slow_down(M, q)
            dM, dq = own[:, None] * dM, own * dq
        if system.weight_decay:
            dM, dq = dM - system.weight_decay * M, dq - 2.0 * system.weight_decay * q
        if u != 1.0:
            dM, dq = u * dM, u * dq
        if system.noise and not system.is_frozen:
            power = self.slope_power(self.norms(M, q))
            dq = dq + u * u * system.noise * (power if a is None else a * a * power)
        return self._pack(dM, dq, None if da is None else u * system.second_layer_rate * da)

    def state(self, y: Array) -> State:
        M, q = self.unpack(y)
        return State(M, q=q, second_layer=self.second_layer(y) if self.system.is_learned else None)

    def diverged_quantity(self, y: Array) -> DivergedQuantity:
        """The quantity whose entry is the largest: q before a, and a before M."""
        size, cut = np.nan_to_num(np.abs(y), nan=np.inf, posinf=np.inf), self.p * self.k
        end = len(y) - (self.p if self.system.is_learned else 0)
        if np.any(size[cut:end] == np.max(size)):
            return DivergedQuantity.ORTHOGONAL_NORM
        is_second_layer = np.any(size[end:] == np.max(size))
        return DivergedQuantity.SECOND_LAYER if is_second_layer else DivergedQuantity.OVERLAP_STUDENT_TEACHER

    def unpack(self, y: Array) -> tuple[Array, Array]:
        """M and q; q is clipped at zero, because rounding may make it negative and its root NaN."""
        cut = self.p * self.k
        M = y[:cut].reshape(self.p, self.k)
        return M, np.zeros(self.p) if self.system.is_frozen else np.maximum(y[cut : cut + self.p], 0.0)

    def slow_down(self, M: Array, q: Array) -> Array:
        """A factor of the rate of each neuron, which is 1 but for neurons that have nearly vanished.

        A kink at zero with a weight of the wrong sign pulls a neuron to w = 0 in a finite time and holds it
        there, as the pull has the same strength at any distance. Without the factor it would oscillate
        around w = 0, in steps as small as numbers can be.
        """
        norms = np.maximum(self.norms(M, q), 1e-300)
        with np.errstate(over="ignore"):
            return 1.0 / (1.0 + (VANISHED_SHARE * self.first_norms / norms) ** 4)

    def norms(self, M: Array, q: Array) -> Array:
        """Qd_i, the diagonal of Q."""
        return np.sum((M @ self.inverse) * M, axis=1) + q

    def slope_power(self, a: Array) -> Array:
        """E[σ'(λ)² ‖x‖²] at variances a; ‖x‖² is 1 without the finite-d factor."""
        pair, d = self.system.pairs.students, self.system.finite_d
        base = pair.slope_power(a)
        return base if d is None else base + radial_derivative(lambda scale: pair.slope_power(scale * a), d)

    @property
    def final_state_guess(self) -> Array:
        """A state near the end of the flow, with each neuron at a teacher or halfway.

        The quadrature must resolve such states as well as the start.
        """
        M = self.system.P[np.arange(self.p) % self.k] * np.where(np.arange(self.p) % 2, 0.5, 1.0)[:, None]
        return self._pack(M, np.zeros(self.p), self.second_layer(self.y0))

    @abstractmethod
    def derivative(self, M: Array, q: Array, a: Array | None) -> Derivative:
        """The gradient flow of one neuron, without noise and decay; a is None for ones."""

    @abstractmethod
    def risk(self, y: Array) -> float:
        """R at a state."""

    def refine(self) -> MeanFieldFlow | None:
        """The same flow on a finer quadrature, or None if there is nothing to refine."""
        return None


class PairwiseFlow(MeanFieldFlow):
    """Sum over pairs of neurons, O(p²) for each node of ξ."""

    def __init__(self, system: MeanFieldSystem, M: Array, q: Array, nodes: int) -> None:
        super().__init__(system, M, q)
        self.nodes = nodes
        self.xi = Xi.rule(0 if system.is_frozen else system.D, nodes)
        self.half_xi = HalfRule.of(self.xi)

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
        if teacher is not None and isinstance(pairs.mixed, ClosedForm):
            add_teachers(pairs.mixed.code, M, P, q, norms, teacher / self.k, A, pull, dq, da)
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
        students, xi, own = self.system.pairs.students, self.xi, self.system.self_terms
        if not isinstance(students, ClosedForm):
            return self.pair_sums(M, q, norms, a)
        state = M, M @ self.inverse, q, norms
        if a is None:
            return *closed_pairs(students.code, *state, xi.nodes, xi.weights, own), None
        da = np.zeros(self.p) if self.system.is_learned else None
        return *weighted_pairs(students.code, state, self.half_xi, own, a, da), da

    def pair_sums(
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
        students = 0.0
        for cut, o, scale in self.blocks(M, q):
            for xi, weight in zip(self.xi.nodes, self.xi.weights, strict=True):
                C, _ = self.overlap(cut, o, scale, xi, q)
                values = pairs.students.values(norms[cut], norms, C)
                total = values.sum() if a is None else a[cut] @ values @ a
                students += weight * total / self.p**2
        across = pairs.mixed.values(norms, teacher_norms, M)
        mixed = across.mean() if a is None or teacher is None else a @ across @ teacher / across.size
        return float(0.5 * (students - 2.0 * mixed + teacher_power(P, pairs.teachers, teacher)))

    def refine(self) -> PairwiseFlow | None:
        if len(self.xi.nodes) <= 2:
            return None
        return PairwiseFlow(self.system, *self.start, 2 * self.nodes)


class SquareFlow(MeanFieldFlow):
    """σ = σ* = x²: the averages over ξ are moments, E ξ² = 1/D; O(p k²)."""

    @property
    def spread(self) -> float:
        """E ξ² = 1/D, or 0 if neurons have no orthogonal parts or D = ∞."""
        return 1.0 / self.system.D if self.system.D and not self.system.is_frozen else 0.0

    def derivative(self, M: Array, q: Array, a: Array | None) -> Derivative:
        P, p, k, teacher = self.system.P, self.p, self.k, self.system.teacher_second_layer
        Qd, own, spread = self.norms(M, q), float(self.system.self_terms), self.spread
        N = M @ self.inverse
        if a is not None and teacher is not None:
            da = np.empty(p) if self.system.is_learned else None
            return *weighted_squares(M, N, P, q, Qd, a, teacher / k, own, spread, da), da
        tau = np.trace(P) / k - Qd.sum() / p
        others = spread * (q.sum() - own * q)
        dM = 2.0 * tau * M + 4.0 * (M @ P / k - (N @ (M.T @ M) + own * q[:, None] * M) / p)
        # without self terms a neuron overlaps itself by o_ii + q_i ξ, of which only ξ² contributes to dq
        return dM, 4.0 * tau * q - 8.0 / p * q * (own * Qd + others), None

    def risk(self, y: Array) -> float:
        (M, q), a = self.unpack(y), self.second_layer(y)
        P, p, k, teacher = self.system.P, self.p, self.k, self.system.teacher_second_layer
        own, spread = float(self.system.self_terms), self.spread
        Qd = self.norms(M, q)
        inside, weighted_q = weigh(Qd - q, a), weigh(q, a)
        K = self.inverse @ (M.T @ weigh(M, a))
        tr_P, tr_Q = weigh(np.diag(P), teacher).sum(), weigh(Qd, a).sum()
        squares = weighted_q @ weighted_q
        tr_Q2 = np.sum(K * K.T) + own * (2.0 * inside @ weighted_q + squares)
        tr_Q2 += spread * (weighted_q.sum() ** 2 - own * squares)
        tr_P2 = np.sum(weigh(weigh(P * P, teacher).T, teacher))
        tr_M2 = np.sum(weigh(weigh(M * M, a).T, teacher))
        return 0.5 * (
            (tr_P**2 + 2.0 * tr_P2) / k**2
            - 2.0 * (tr_P * tr_Q + 2.0 * tr_M2) / (p * k)
            + (tr_Q**2 + 2.0 * tr_Q2) / p**2
        )
