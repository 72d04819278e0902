"""The flow of the full state (M, Q): dM/dt and dQ/dt as sums of terms, by Stein's lemma.

With c_β = -1/p for a student and +1/k for a teacher,
    A_i  = Σ_β c_β E[σ''(λ_i) σ_β(λ_β)]        B_iβ = c_β E[σ'(λ_i) σ'_β(λ_β)]
    Φ    = diag(A) Ω[students, :] + B Ω
    Ψ_M  = Φ[:, teachers]                       Ψ_GF = Φ[:, students] + transpose
so two-point functions suffice for any activations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sweep_service.dynamics.variance import QuasiMonteCarlo, Variance
from sweep_service.model.overlaps import Overlaps, coordinates
from sweep_service.model.parameters import Scalar
from sweep_service.model.risk import risk
from sweep_service.model.two_point import Pairs
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.types import Array

# Half-width of the central difference for the radial derivative: error h² ~ 1e-8, rounding eps/h ~ 1e-12.
RADIAL_STEP = 1e-4


@dataclass(frozen=True)
class System:
    """Constants of a trajectory."""

    gamma_over_p: float
    noise: float
    P: Array
    pairs: Pairs
    variance: Variance | None = None
    variance_method: str = "none"
    finite_d: int | None = None  # d if the factor ‖x‖² is kept, None if it is replaced by 1
    others: Mapping[str, Scalar] = field(
        default_factory=dict
    )  # values of the parameters outside FIRST_PARAMETERS


class Moments:
    """The state with its two-point averages (E[σ'σ'], E[σ''σ]), computed on first access."""

    def __init__(self, system: System, M: Array, Q: Array) -> None:
        self.system, self.M, self.Q = system, M, Q
        self.a = np.diag(Q).copy()

    @cached_property
    def students(self) -> tuple[Array, Array]:
        return self.system.pairs.students.slopes(self.a, self.a, self.Q)

    @cached_property
    def mixed(self) -> tuple[Array, Array]:
        return self.system.pairs.mixed.slopes(self.a, np.diag(self.system.P).copy(), self.M)


Term = Callable[[System, Moments], tuple[Array | float, Array]]  # -> dM, dQ


def drift(system: System, now: Moments) -> tuple[Array, Array]:
    """The gradient flow: Ψ_M, Ψ_GF."""
    p, k = now.M.shape
    (slopes, curved), (slopes_teacher, curved_teacher) = now.students, now.mixed
    A = curved_teacher.mean(1) - curved.mean(1)
    dM = A[:, None] * now.M - slopes @ now.M / p + slopes_teacher @ system.P / k
    half = A[:, None] * now.Q - slopes @ now.Q / p + slopes_teacher @ now.M.T / k
    return dM, half + half.T


def label_noise(system: System, now: Moments) -> tuple[float, Array]:
    """(γ/p) Δ E[σ'_i σ'_j ‖x‖²]."""
    if system.noise == 0.0:
        return 0.0, np.zeros_like(now.Q)
    average = now.students[0]
    if system.finite_d is not None:
        average = average + radial_derivative(lambda s: _slopes(system.pairs, s * now.Q), system.finite_d)
    return 0.0, system.gamma_over_p * system.noise * average


def sampling(system: System, now: Moments) -> tuple[float, Array]:
    """(γ/p) E[σ'_i σ'_j 𝓔*² ‖x‖²]: the effect of single samples, without the label noise."""
    assert system.variance is not None
    average = system.variance(now.M, now.Q, system.P)
    if system.finite_d is not None:
        variance, P = system.variance, system.P
        average = average + radial_derivative(
            lambda s: variance(s * now.M, s * now.Q, s * P), system.finite_d
        )
    return 0.0, system.gamma_over_p * average


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


class OverlapFlow:
    """y = (M, lower triangle of Q); dy/dt = the sum of the terms."""

    def __init__(self, system: System, terms: tuple[Term, ...], start: Overlaps) -> None:
        self.system, self.terms = system, terms
        self.p, self.k = start.M.shape
        self.precision = system.variance.precision if isinstance(system.variance, QuasiMonteCarlo) else 1e-10
        self.y0 = pack(start.M, start.Q)

    def __call__(self, y: Array) -> Array:
        system = self.system
        now = Moments(system, *unpack(y, self.p, self.k))
        dM, dQ = np.zeros_like(now.M), np.zeros_like(now.Q)
        for term in self.terms:
            more_M, more_Q = term(system, now)
            dM, dQ = dM + more_M, dQ + more_Q
        return pack(dM, dQ)

    @property
    def jacobian(self) -> Callable[[Array], Array] | None:
        """∂f/∂y if it is compiled; otherwise an integrator that needs it uses finite differences."""
        return None

    def overlaps(self, y: Array) -> Overlaps:
        M, Q = unpack(y, self.p, self.k)
        return Overlaps(M, Q, self.system.P)

    def risk(self, y: Array) -> float:
        return risk(self.overlaps(y), self.system.pairs)


@kernel()
def pack(M, Q):
    p, k = M.shape
    y = np.empty(p * k + p * (p + 1) // 2)
    at = 0
    for i in range(p):
        for r in range(k):
            y[at] = M[i, r]
            at += 1
    for i in range(p):
        for j in range(i + 1):
            y[at] = Q[i, j]
            at += 1
    return y


@kernel()
def unpack(y, p, k):
    """M and Q."""
    M, Q = np.empty((p, k)), np.empty((p, p))
    at = 0
    for i in range(p):
        for r in range(k):
            M[i, r] = y[at]
            at += 1
    for i in range(p):
        for j in range(i + 1):
            Q[i, j] = Q[j, i] = y[at]
            at += 1
    return M, Q


class WeightFlow:
    """The gradient flow on weights, dw_i/dt = A_i w_i + Σ_β B_iβ w_β, in the span of the start.

    The flow never leaves that span, so the state is p by rank Ω(0) instead of p (p+1)/2 + p k.
    """

    def __init__(self, system: System, start: Overlaps) -> None:
        self.system = system
        students, self.teachers = coordinates(start)
        self.shape = students.shape
        self.precision = 1e-10
        self.y0 = students.ravel()

    def __call__(self, y: Array) -> Array:
        X, T = y.reshape(self.shape), self.teachers
        now = Moments(self.system, X @ T.T, X @ X.T)
        (slopes, curved), (slopes_teacher, curved_teacher) = now.students, now.mixed
        A = curved_teacher.mean(1) - curved.mean(1)
        return (A[:, None] * X - slopes @ X / len(X) + slopes_teacher @ T / len(T)).ravel()

    jacobian: Callable[[Array], Array] | None = None

    def overlaps(self, y: Array) -> Overlaps:
        return Overlaps.of(y.reshape(self.shape), self.teachers)

    def risk(self, y: Array) -> float:
        return risk(self.overlaps(y), self.system.pairs)
