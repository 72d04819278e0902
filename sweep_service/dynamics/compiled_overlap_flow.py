"""The overlap flow in one compiled call, for narrow students whose averages have a closed form.

Below p ≈ 30 a right-hand side takes a few microseconds, less than Python needs to sum its terms. The
equations are those of `overlap_flow`; tests check that both agree.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sweep_service.dynamics.overlap_flow import (
    Moments,
    OverlapFlow,
    System,
    Term,
    drift,
    label_noise,
    pack,
    sampling,
    unpack,
)
from sweep_service.model.closed_forms import ClosedForm, slope_pair
from sweep_service.model.overlaps import Overlaps
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.types import Array

MAX_COMPILED_WIDTH = 30
DIFFERENCE_STEP = 1.5e-8  # √eps: the step of a forward difference


@kernel()
def closed_flow(students, mixed, y, p, k, P, noise, B, Q, out):
    """Drift plus noise · E[σ'σ'], with the codes of two pairs and work arrays B (p, p+k) and Q (p, p)."""
    M = y[: p * k].reshape(p, k)
    at = p * k
    for i in range(p):
        for j in range(i + 1):
            Q[i, j] = Q[j, i] = y[at]
            at += 1
    dM = out[: p * k].reshape(p, k)
    half = np.empty((p, p))
    student, teacher = 1.0 / p, 1.0 / k
    for i in range(p):
        A = 0.0
        for j in range(p):
            s, g = slope_pair(students, Q[i, i], Q[j, j], Q[i, j])
            B[i, j] = -s * student
            A -= g * student
        for r in range(k):
            s, g = slope_pair(mixed, Q[i, i], P[r, r], M[i, r])
            B[i, p + r] = s * teacher
            A += g * teacher
        for s in range(k):
            dM[i, s] = A * M[i, s]
        for l in range(p):
            half[i, l] = A * Q[i, l]
        for j in range(p):
            b = B[i, j]
            for s in range(k):
                dM[i, s] += b * M[j, s]
            for l in range(p):
                half[i, l] += b * Q[j, l]
        for r in range(k):
            b = B[i, p + r]
            for s in range(k):
                dM[i, s] += b * P[r, s]
            for l in range(p):
                half[i, l] += b * M[l, r]
    at = p * k
    for i in range(p):
        for j in range(i + 1):
            out[at] = half[i, j] + half[j, i] - noise * p * B[i, j]
            at += 1


@kernel()
def closed_jacobian(students, mixed, y, p, k, P, noise, B, Q):
    """∂f_i/∂y_j by forward differences."""
    n = y.size
    J = np.empty((n, n))
    base, moved, x = np.empty(n), np.empty(n), y.copy()
    closed_flow(students, mixed, x, p, k, P, noise, B, Q, base)
    for j in range(n):
        h = DIFFERENCE_STEP * max(1.0, abs(y[j]))
        x[j] = y[j] + h
        closed_flow(students, mixed, x, p, k, P, noise, B, Q, moved)
        x[j] = y[j]
        for i in range(n):
            J[i, j] = (moved[i] - base[i]) / h
    return J


class SmallFlow(OverlapFlow):
    """`OverlapFlow` with compiled drift and label noise, to which other terms are added."""

    def __init__(self, system: System, terms: tuple[Term, ...], start: Overlaps) -> None:
        super().__init__(system, terms, start)
        students, mixed = system.pairs.students, system.pairs.mixed
        assert isinstance(students, ClosedForm)
        assert isinstance(mixed, ClosedForm)
        self.codes = students.code, mixed.code
        self.noise = system.gamma_over_p * system.noise if label_noise in terms else 0.0
        self.other_terms = tuple(term for term in terms if term not in (drift, label_noise))
        self.work = np.empty((self.p, self.p + self.k)), np.empty((self.p, self.p))

    @staticmethod
    def is_applicable(system: System, p: int) -> bool:
        """Whether this flow can be used, and is the faster one, at width p."""
        pairs = system.pairs
        return (
            isinstance(pairs.students, ClosedForm)
            and isinstance(pairs.mixed, ClosedForm)
            and p <= MAX_COMPILED_WIDTH
            and system.finite_d is None
        )

    def __call__(self, y: Array) -> Array:
        out = np.empty_like(y)
        closed_flow(*self.codes, y, self.p, self.k, self.system.P, self.noise, *self.work, out)
        if self.other_terms:
            now = Moments(self.system, *unpack(y, self.p, self.k))
            for term in self.other_terms:
                dM, dQ = term(self.system, now)
                out += pack(dM + np.zeros_like(now.M), dQ)
        return out

    @property
    def jacobian(self) -> Callable[[Array], Array] | None:
        """Jacobian of the compiled part: sampling is of order γ/p, and implicit steps converge without it.

        Other terms may be stiff, so with them an integrator takes differences of the whole right-hand side.
        """
        if any(term is not sampling for term in self.other_terms):
            return None
        return lambda y: closed_jacobian(
            *self.codes, y, self.p, self.k, self.system.P, self.noise, *self.work
        )
