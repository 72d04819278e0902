"""The mean-field state (M, q, a): neurons interact through their projections and a random ξ.

D = d - rank P, N = M P⁺, o = N Mᵀ, Qd_i = o_ii + q_i. Neurons i ≠ j overlap by o_ij + √(q_i q_j) ξ, a
neuron with itself by Qd_i. `PairwiseFlow` sums over pairs, for any activations; `SquareFlow` is
its closed form for x². `AnyNodeFlow` and `MixtureNodeFlow` are the O(p) forms.

Neuron j enters every average over neurons with the weight a_j, and dM_i and dq_i carry a_i, so their self
terms have a_i². Second layers of ones are left out of the sums.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sweep_service.dynamics.full_model import FAR_FROM_VANISHING, FullModel, FullModelFlow, slow_down
from sweep_service.dynamics.overlap_flow import radial_derivative
from sweep_service.dynamics.state import State
from sweep_service.model.activations import Activation
from sweep_service.model.averages.two_point import Pairs
from sweep_service.model.overlaps import invert_gram
from sweep_service.numerics.types import Array
from sweep_service.status import DivergedQuantity


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


class MeanFieldFlow(FullModelFlow):
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
        self.small_norms = self.first_norms / FAR_FROM_VANISHING
        self.has_kink = system.student.curvature is None
        self.y0 = self._pack(M, q, None if system.readout is None else system.readout.student)

    def _pack(self, M: Array, q: Array, a: Array | None) -> Array:
        y = M.ravel().copy() if self.system.is_frozen else np.concatenate([M.ravel(), q])
        return self.append_second_layer(y, a)

    @cached_property
    def degrees(self) -> Array:
        linear, quadratic = self.p * self.k, 0 if self.system.is_frozen else self.p
        return np.repeat([1.0, 2.0, 0.0], [linear, quadratic, len(self.y0) - linear - quadratic])

    def change(self, y: Array, t: float) -> Array:
        system, u = self.system, self.system.rate_factor(t)
        (M, q), a = self.unpack(y), self.second_layer(y)
        dM, dq, da = self.derivative(M, q, a)
        if a is not None:
            own = a
            if self.has_kink and (q < self.small_norms).any():  # or else the factor is 1
                own = a * slow_down(self.norms(M, q), self.first_norms)
            dM, dq = own[:, None] * dM, own * dq
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
        """The gradient flow of one neuron, without noise; a is None for ones."""

    @abstractmethod
    def risk(self, y: Array) -> float:
        """R at a state."""

    def refine(self) -> MeanFieldFlow | None:
        """The same flow on a finer quadrature, or None if there is nothing to refine."""
        return None
