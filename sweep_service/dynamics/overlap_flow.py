"""The flow of the full state (M, Q, a): its derivatives as sums of terms, by Stein's lemma.

With the readout c_β = -a_β/p of a student and +a*_β/k of a teacher,
    A_i  = Σ_β c_β E[σ''(λ_i) σ_β(λ_β)]        B_iβ = c_β E[σ'(λ_i) σ'_β(λ_β)]
    G    = diag(a) (diag(A) + B)                Φ    = G Ω
    Ψ_M  = Φ[:, teachers]                       Ψ_GF = Φ[:, students] + transpose
so two-point functions suffice for any activations. Second layers of ones are left out of the sums, and
a schedule multiplies the rate of every term by u(t).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sweep_service.dynamics.full_model import FullModel, FullModelFlow, slow_down
from sweep_service.dynamics.sampling.variance import QuasiMonteCarlo, Variance
from sweep_service.dynamics.state import State, pack, unpack
from sweep_service.model.averages.two_point import Pairs
from sweep_service.model.overlaps import Overlaps, coordinates
from sweep_service.model.parameters import Scalar
from sweep_service.model.risk import risk, teacher_power
from sweep_service.model.second_layer import Readout
from sweep_service.numerics.types import Array
from sweep_service.status import DivergedQuantity

# Half-width of the central difference for the radial derivative: error h² ~ 1e-8, rounding eps/h ~ 1e-12.
RADIAL_STEP = 1e-4


@dataclass(frozen=True)
class System(FullModel):
    """Constants of a trajectory of the full state."""

    gamma_over_p: float
    noise: float
    P: Array
    pairs: Pairs
    variance: Variance | None = None
    variance_method: str = "none"
    finite_d: int | None = None  # d if the factor ‖x‖² is kept, None if it is replaced by 1
    batch: int = 1
    first_norms: Array | None = None  # Q_ii(0) if neurons can vanish: a kink, and second layers of any sign
    others: Mapping[str, Scalar] = field(
        default_factory=dict
    )  # values of the parameters outside FIRST_PARAMETERS

    @property
    def noise_rate(self) -> float:
        """γ/(pb), the factor of the terms of single samples."""
        return self.gamma_over_p / self.batch


class Moments:
    """The state with its two-point averages (E[σ'σ'], E[σ''σ]), computed on first access.

    `second_layer` is None for ones. `u` is the factor of the learning rate.
    """

    def __init__(
        self, system: System, M: Array, Q: Array, second_layer: Array | None = None, u: float = 1.0
    ) -> None:
        self.system, self.M, self.Q, self.second_layer, self.u = system, M, Q, second_layer, u
        self.norms = np.diag(Q).copy()
        self.teacher_norms = np.diag(system.P).copy()

    @cached_property
    def students(self) -> tuple[Array, Array]:
        return self.system.pairs.students.slopes(self.norms, self.norms, self.Q)

    @cached_property
    def mixed(self) -> tuple[Array, Array]:
        return self.system.pairs.mixed.slopes(self.norms, self.teacher_norms, self.M)

    @cached_property
    def shares(self) -> tuple[Array, Array]:
        """a/p and a*/k."""
        assert self.second_layer is not None
        assert self.system.readout is not None
        teacher = self.system.readout.teacher
        return self.second_layer / len(self.second_layer), teacher / len(teacher)

    @property
    def readout(self) -> Array | None:
        """c = (-a/p, a*/k), None for second layers of ones."""
        if self.second_layer is None:
            return None
        student, teacher = self.shares
        return np.concatenate([-student, teacher])

    @cached_property
    def push(self) -> tuple[Array, Array, Array]:
        """diag G with the blocks of G for students and teachers, without its diagonal part."""
        (slopes, curved), (slopes_teacher, curved_teacher) = self.students, self.mixed
        if self.second_layer is None:
            p, k = self.M.shape
            return curved_teacher.mean(1) - curved.mean(1), -slopes / p, slopes_teacher / k
        own, (student, teacher) = self.second_layer[:, None], self.shares
        A = self.second_layer * (curved_teacher @ teacher - curved @ student)
        return A, -own * slopes * student, own * slopes_teacher * teacher

    def weigh(self, average: Array) -> Array:
        """a_i a_j times an average over the samples that move w_i and w_j."""
        return (
            average if self.second_layer is None else average * np.outer(self.second_layer, self.second_layer)
        )


Term = Callable[[System, Moments], tuple[Array | float, Array]]  # -> dM, dQ


def drift(system: System, now: Moments) -> tuple[Array, Array]:
    """The gradient flow: u Ψ_M, u Ψ_GF."""
    if now.second_layer is None:
        p, k = now.M.shape
        (slopes, curved), (slopes_teacher, curved_teacher) = now.students, now.mixed
        A = curved_teacher.mean(1) - curved.mean(1)
        dM = A[:, None] * now.M - slopes @ now.M / p + slopes_teacher @ system.P / k
        half = A[:, None] * now.Q - slopes @ now.Q / p + slopes_teacher @ now.M.T / k
    else:
        A, B, B_teacher = now.push
        dM = A[:, None] * now.M + B @ now.M + B_teacher @ system.P
        half = A[:, None] * now.Q + B @ now.Q + B_teacher @ now.M.T
    if system.first_norms is not None:
        factor = slow_down(now.norms, system.first_norms)[:, None]
        dM, half = factor * dM, factor * half
    if now.u != 1.0:
        dM, half = now.u * dM, now.u * half
    return dM, half + half.T


def label_noise(system: System, now: Moments) -> tuple[float, Array]:
    """(γ/(pb)) u² Δ a_i a_j E[σ'_i σ'_j ‖x‖²]."""
    if system.noise == 0.0:
        return 0.0, np.zeros_like(now.Q)
    average = now.students[0]
    if system.finite_d is not None:
        average = average + radial_derivative(lambda s: _slopes(system.pairs, s * now.Q), system.finite_d)
    return 0.0, system.noise_rate * now.u**2 * system.noise * now.weigh(average)


def sampling(system: System, now: Moments) -> tuple[float, Array]:
    """(γ/(pb)) u² a_i a_j E[σ'_i σ'_j 𝓔*² ‖x‖²]: the effect of single samples, without the label noise."""
    assert system.variance is not None
    variance, P, c = system.variance, system.P, now.readout
    average = variance(now.M, now.Q, P, c)
    if system.finite_d is not None:
        average = average + radial_derivative(
            lambda s: variance(s * now.M, s * now.Q, s * P, c), system.finite_d
        )
    return 0.0, system.noise_rate * now.u**2 * now.weigh(average)


def learn_second_layer(system: System, now: Moments) -> Array:
    """da_i/dt = u ρ Σ_β c_β E[σ_i σ_β]."""
    pairs, (student, teacher) = system.pairs, now.shares
    inside = pairs.students.values(now.norms, now.norms, now.Q) @ student
    target = pairs.mixed.values(now.norms, now.teacher_norms, now.M) @ teacher
    return now.u * system.second_layer_rate * (target - inside)


def _slopes(pairs: Pairs, Q: Array) -> Array:
    a = np.diag(Q).copy()
    return pairs.students.slopes(a, a, Q)[0]


def radial_derivative(average: Callable[[float], Array], d: int) -> Array:
    """(2/d) ∂_s of an average over fields of covariance sΩ at s = 1.

    For Gaussian x, E[‖x‖² g(λ)] = E[g] + (2/d) ∂_s E_{sΩ}[g] for any g: the factor ‖x‖² costs one radial
    derivative. (erf: 1 - tr(C(I+C)⁻¹)/d; square: 1 + 2/d; relu: 1.)
    """
    h = RADIAL_STEP
    return (average(1.0 + h) - average(1.0 - h)) / (h * d)


class FlowOfOverlaps(FullModelFlow):
    """What the flows of the full state have in common."""

    system: System
    delta_t: float | None = None  # of a map, which takes steps of this size
    final_state_guess: Array | None = None

    @abstractmethod
    def overlaps(self, y: Array) -> Overlaps:
        """M, Q and P at a state."""

    def state(self, y: Array) -> State:
        overlaps = self.overlaps(y)
        second_layer = self.second_layer(y) if self.system.is_learned else None
        return State(overlaps.M, overlaps.Q, second_layer=second_layer)

    def risk(self, y: Array) -> float:
        second_layer, start = self.second_layer(y), self.system.readout
        readout = None if second_layer is None or start is None else Readout(second_layer, start.teacher)
        return risk(self.overlaps(y), self.system.pairs, readout=readout, power=self.teacher_power)

    @cached_property
    def teacher_power(self) -> float:
        """E[f*²], the same at all times."""
        system = self.system
        return teacher_power(system.P, system.pairs.teachers, system.teacher_second_layer)

    def refine(self) -> None:
        """The same flow on a finer quadrature: there is none."""
        return


class OverlapFlow(FlowOfOverlaps):
    """y = (M, lower triangle of Q), followed by a if it is learned; dy/dt = the sum of the terms."""

    def __init__(self, system: System, terms: tuple[Term, ...], start: Overlaps) -> None:
        self.system, self.terms = system, terms
        self.p, self.k = start.M.shape
        self.precision = system.variance.precision if isinstance(system.variance, QuasiMonteCarlo) else 1e-10
        self.y0 = self.append_second_layer(
            pack(start.M, start.Q), None if system.readout is None else system.readout.student
        )

    def change(self, y: Array, t: float) -> Array:
        system, now = self.system, self.moments(y, t)
        dM, dQ = np.zeros_like(now.M), np.zeros_like(now.Q)
        for term in self.terms:
            more_M, more_Q = term(system, now)
            dM, dQ = dM + more_M, dQ + more_Q
        return self.append_second_layer(
            pack(dM, dQ), learn_second_layer(system, now) if system.is_learned else None
        )

    @cached_property
    def degrees(self) -> Array:
        p, mixed = self.p, self.p * self.k
        return np.repeat([1.0, 2.0, 0.0], [mixed, p * (p + 1) // 2, len(self.y0) - mixed - p * (p + 1) // 2])

    def moments(self, y: Array, t: float) -> Moments:
        M, Q = unpack(y, self.p, self.k)
        return Moments(self.system, M, Q, self.second_layer(y), self.system.rate_factor(t))

    @property
    def jacobian(self) -> Callable[[Array, float], Array] | None:
        """∂f/∂y if it is compiled; otherwise an integrator that needs it uses finite differences."""
        return None

    def overlaps(self, y: Array) -> Overlaps:
        M, Q = unpack(y, self.p, self.k)
        return Overlaps(M, Q, self.system.P)

    def diverged_quantity(self, y: Array) -> DivergedQuantity:
        """The quantity whose entry is the largest; M is bounded by Q, which is named if both are."""
        size, cut = np.nan_to_num(np.abs(y), nan=np.inf, posinf=np.inf), self.p * self.k
        end = cut + self.p * (self.p + 1) // 2
        if np.any(size[cut:end] == np.max(size)):
            return DivergedQuantity.OVERLAP_STUDENT
        is_second_layer = np.any(size[end:] == np.max(size))
        return DivergedQuantity.SECOND_LAYER if is_second_layer else DivergedQuantity.OVERLAP_STUDENT_TEACHER


class WeightFlow(FlowOfOverlaps):
    """The gradient flow on weights, dw_i/dt = u (A_i w_i + Σ_β B_iβ w_β), in the span of the start.

    The flow never leaves that span, so the state is p by rank Ω(0) instead of p (p+1)/2 + p k; a follows
    if it is learned.
    """

    def __init__(self, system: System, start: Overlaps) -> None:
        self.system = system
        students, self.teachers = coordinates(start)
        self.shape = students.shape
        self.precision = 1e-10
        self.y0 = self.append_second_layer(
            students.ravel(), None if system.readout is None else system.readout.student
        )

    def change(self, y: Array, t: float) -> Array:
        X, T, system = self.weights(y), self.teachers, self.system
        now = Moments(system, X @ T.T, X @ X.T, self.second_layer(y), system.rate_factor(t))
        if now.second_layer is None:
            (slopes, curved), (slopes_teacher, curved_teacher) = now.students, now.mixed
            A = curved_teacher.mean(1) - curved.mean(1)
            dX = A[:, None] * X - slopes @ X / len(X) + slopes_teacher @ T / len(T)
        else:
            A, B, B_teacher = now.push
            dX = A[:, None] * X + B @ X + B_teacher @ T
        if system.first_norms is not None:
            dX = slow_down(now.norms, system.first_norms)[:, None] * dX
        if now.u != 1.0:
            dX = now.u * dX
        return self.append_second_layer(
            dX.ravel(), learn_second_layer(system, now) if system.is_learned else None
        )

    jacobian: Callable[[Array, float], Array] | None = None

    @cached_property
    def degrees(self) -> Array:
        size = self.shape[0] * self.shape[1]
        return np.repeat([1.0, 0.0], [size, len(self.y0) - size])

    def weights(self, y: Array) -> Array:
        """Coordinates of the students."""
        return y[: self.shape[0] * self.shape[1]].reshape(self.shape)

    def overlaps(self, y: Array) -> Overlaps:
        return Overlaps.of(self.weights(y), self.teachers)

    def diverged_quantity(self, y: Array) -> DivergedQuantity:
        """The norm of the weights, or the second layer if it is larger."""
        size = np.nan_to_num(np.abs(y), nan=np.inf, posinf=np.inf)
        cut = self.shape[0] * self.shape[1]
        is_weights = np.any(size[:cut] == np.max(size))
        return DivergedQuantity.OVERLAP_STUDENT if is_weights else DivergedQuantity.SECOND_LAYER
