"""The mean-field state (M, q): neurons interact through their projections and a random ξ.

D = d - rank P, N = M P⁺, o = N Mᵀ, Qd_i = o_ii + q_i. Neurons i ≠ j overlap by o_ij + √(q_i q_j) ξ, a
neuron with itself by Qd_i. `PairwiseFlow` sums over pairs, for any activations; `SquareFlow` is
its closed form for x². The O(p) forms are in `mean_field_nodes` and `mean_field_mixture`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sweep_service.dynamics.overlap_flow import radial_derivative
from sweep_service.dynamics.state import State
from sweep_service.dynamics.xi import Xi
from sweep_service.model.activations import Activation
from sweep_service.model.closed_forms import ERF_CODE, TWO_OVER_PI, ClosedForm, slope_pair
from sweep_service.model.overlaps import invert_gram
from sweep_service.model.risk import teacher_power
from sweep_service.model.two_point import Pairs
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.types import Array
from sweep_service.numerics.vector_math import REDUCTION
from sweep_service.status import DivergedQuantity

MAX_BLOCK_ENTRIES = 1 << 20  # entries of the largest matrix held at once


@dataclass(frozen=True)
class MeanFieldSystem:
    """Constants of a mean-field trajectory."""

    P: Array
    pairs: Pairs
    student: Activation
    teacher: Activation
    D: int | None  # dimensions orthogonal to the teacher; None for d = ∞
    noise: float  # γΔ/p
    self_terms: bool = True
    projected: bool = False  # hold q at zero
    finite_d: int | None = None
    precision: float = 1e-9  # relative error of the right-hand side that is worth resolving in time

    @property
    def is_frozen(self) -> bool:
        """Whether q stays at zero, as there is no orthogonal direction to move in."""
        return self.projected or self.D == 0


class MeanFieldFlow(ABC):
    """y = (M, q), or M alone if q ≡ 0; subclasses define the derivative and the risk."""

    jacobian: Callable[[Array, float], Array] | None = None
    breaks: tuple[float, ...] = ()
    delta_t: float | None = None

    def __init__(self, system: MeanFieldSystem, M: Array, q: Array) -> None:
        self.system, self.precision = system, system.precision
        self.start = M, q
        self.p, self.k = M.shape
        self.inverse = invert_gram(system.P)
        self.y0 = M.ravel().copy() if system.is_frozen else np.concatenate([M.ravel(), q])

    def __call__(self, y: Array, t: float = 0.0) -> Array:
        M, q = self.unpack(y)
        dM, dq = self.derivative(M, q)
        if self.system.is_frozen:
            return dM.ravel()
        if self.system.noise:
            dq = dq + self.system.noise * self.slope_power(self.norms(M, q))
        return np.concatenate([dM.ravel(), dq])

    def state(self, y: Array) -> State:
        M, q = self.unpack(y)
        return State(M, q=q)

    def diverged_quantity(self, y: Array) -> DivergedQuantity:
        """q if an entry of it is the largest, otherwise M."""
        size = np.nan_to_num(np.abs(y), nan=np.inf, posinf=np.inf)
        is_norm = np.any(size[self.p * self.k :] == np.max(size))
        return DivergedQuantity.ORTHOGONAL_NORM if is_norm else DivergedQuantity.OVERLAP_STUDENT_TEACHER

    def unpack(self, y: Array) -> tuple[Array, Array]:
        """M and q; q is clipped at zero, because rounding may make it negative and its root NaN."""
        cut = self.p * self.k
        M = y[:cut].reshape(self.p, self.k)
        return M, np.zeros(self.p) if self.system.is_frozen else np.maximum(y[cut:], 0.0)

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
        return np.concatenate([M.ravel(), np.zeros(self.y0.size - M.size)])

    @abstractmethod
    def derivative(self, M: Array, q: Array) -> tuple[Array, Array]:
        """dM and dq without the noise."""

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

    def derivative(self, M: Array, q: Array) -> tuple[Array, Array]:
        P, pairs = self.system.P, self.system.pairs
        a, b = self.norms(M, q), np.diag(P).copy()
        slopes_teacher, curved_teacher = pairs.mixed.slopes(a, b, M)
        if isinstance(pairs.students, ClosedForm):
            A, pull, dq = closed_pairs(
                pairs.students.code,
                M,
                M @ self.inverse,
                q,
                a,
                self.xi.nodes,
                self.xi.weights,
                self.system.self_terms,
            )
        else:
            A, pull, dq = self.pair_sums(M, q, a)
        A = A + curved_teacher.mean(1)
        return A[:, None] * M + slopes_teacher @ P / self.k + pull, dq + 2.0 * q * A

    def pair_sums(self, M: Array, q: Array, a: Array) -> tuple[Array, Array, Array]:
        """Sums over students: their contributions to A, dM and dq."""
        A, dq, pull = np.zeros(self.p), np.zeros(self.p), np.zeros_like(M)
        for cut, o, scale in self.blocks(M, q):
            total = np.zeros_like(o)
            for xi, weight in zip(self.xi.nodes, self.xi.weights, strict=True):
                C, outside = self.overlap(cut, o, scale, xi, q)
                slopes, curved = self.system.pairs.students.slopes(a[cut], a, C)
                total += weight * slopes
                A[cut] -= weight * curved.mean(1)
                dq[cut] -= 2.0 * weight * np.mean(outside * slopes, axis=1)
            pull[cut] = -total @ M / self.p
        return A, pull, dq

    def risk(self, y: Array) -> float:
        M, q = self.unpack(y)
        P, pairs = self.system.P, self.system.pairs
        a, b = self.norms(M, q), np.diag(P).copy()
        students = 0.0
        for cut, o, scale in self.blocks(M, q):
            for xi, weight in zip(self.xi.nodes, self.xi.weights, strict=True):
                C, _ = self.overlap(cut, o, scale, xi, q)
                students += weight * pairs.students.values(a[cut], a, C).sum() / self.p**2
        return 0.5 * (students - 2.0 * pairs.mixed.values(a, b, M).mean() + teacher_power(P, pairs.teachers))

    def refine(self) -> PairwiseFlow | None:
        if len(self.xi.nodes) <= 2:
            return None
        return PairwiseFlow(self.system, *self.start, 2 * self.nodes)


@kernel(fastmath=REDUCTION)
def closed_pairs(code, M, N, q, a, nodes, weights, self_terms):
    """`PairwiseFlow.pair_sums` without temporaries, if the averages have a closed form."""
    p, k = M.shape
    A, pull, dq, root = np.zeros(p), np.zeros((p, k)), np.zeros(p), np.sqrt(q)
    for i in range(p):
        for j in range(p):
            if i == j and self_terms:
                slope, curved = slope_pair(code, a[i], a[i], a[i])
                outside = q[i] * slope
            else:
                o = 0.0
                for r in range(k):
                    o += N[i, r] * M[j, r]
                scale = root[i] * root[j]
                slope = curved = outside = 0.0
                if code == ERF_CODE:  # its curvature follows from the slope, and the loop becomes SIMD
                    product = (1.0 + a[i]) * (1.0 + a[j])
                    for x in range(nodes.size):
                        c = scale * nodes[x]
                        s = weights[x] / math.sqrt(product - (o + c) * (o + c))
                        slope += s
                        outside += c * s
                    slope, outside = TWO_OVER_PI * slope, TWO_OVER_PI * outside
                    curved = -(o * slope + outside) / (1.0 + a[i])
                else:
                    for x in range(nodes.size):
                        c = scale * nodes[x]
                        s, g = slope_pair(code, a[i], a[j], o + c)
                        slope += weights[x] * s
                        curved += weights[x] * g
                        outside += weights[x] * c * s
            A[i] -= curved / p
            dq[i] -= 2.0 * outside / p
            for r in range(k):
                pull[i, r] -= slope * M[j, r] / p
    return A, pull, dq


class SquareFlow(MeanFieldFlow):
    """σ = σ* = x²: the averages over ξ are moments, E ξ² = 1/D; O(p k²)."""

    @property
    def spread(self) -> float:
        """E ξ² = 1/D, or 0 if neurons have no orthogonal parts or D = ∞."""
        return 1.0 / self.system.D if self.system.D and not self.system.is_frozen else 0.0

    def derivative(self, M: Array, q: Array) -> tuple[Array, Array]:
        P, p, k = self.system.P, self.p, self.k
        Qd, own, spread = self.norms(M, q), float(self.system.self_terms), self.spread
        tau = np.trace(P) / k - Qd.sum() / p
        others = spread * (q.sum() - own * q)
        N = M @ self.inverse
        dM = 2.0 * tau * M + 4.0 * (M @ P / k - (N @ (M.T @ M) + own * q[:, None] * M) / p)
        # without self terms a neuron overlaps itself by o_ii + q_i ξ, of which only ξ² contributes to dq
        dq = 4.0 * tau * q - 8.0 / p * q * (own * Qd + others)
        return dM, dq

    def risk(self, y: Array) -> float:
        M, q = self.unpack(y)
        P, p, k = self.system.P, self.p, self.k
        own, spread = float(self.system.self_terms), self.spread
        Qd = self.norms(M, q)
        inside = Qd - q
        K = self.inverse @ (M.T @ M)
        tr_P, tr_Q = np.trace(P), Qd.sum()
        tr_Q2 = np.sum(K * K.T) + own * (2.0 * inside @ q + q @ q) + spread * (q.sum() ** 2 - own * q @ q)
        return 0.5 * (
            (tr_P**2 + 2.0 * np.sum(P * P)) / k**2
            - 2.0 * (tr_P * tr_Q + 2.0 * np.sum(M * M)) / (p * k)
            + (tr_Q**2 + 2.0 * tr_Q2) / p**2
        )
