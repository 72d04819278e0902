"""The overlap flow in one compiled call, for narrow students.

Averages of pairs in closed form are computed in that call; those of a user's activation are given to it.

Below p ≈ 30 a right-hand side takes a few microseconds, less than Python needs to sum its terms. The
equations are those of `overlap_flow`; tests check that both agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sweep_service.dynamics.full_model import VANISHED_SHARE
from sweep_service.dynamics.overlap_flow import (
    OverlapFlow,
    System,
    Term,
    drift,
    label_noise,
    sampling,
)
from sweep_service.dynamics.state import pack, unpack
from sweep_service.model.averages.closed_forms import ClosedForm, slope_pair, value_pair
from sweep_service.model.overlaps import Overlaps
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.types import Array

MAX_COMPILED_WIDTH = 30
NO_CODE = -1  # of a pair without a closed form
DIFFERENCE_STEP = 1.5e-8  # √eps: the step of a forward difference


class Coefficients(NamedTuple):
    """Constants of a compiled flow. Second layers of ones are given as ones, which changes no bit."""

    students: int  # code of the pair
    mixed: int
    P: Array
    second_layer: Array  # a at t = 0
    teacher: Array  # a*
    second_layer_rate: float
    noise: float  # γΔ/(pb)
    vanishing: Array  # squared norms at which neurons count as vanished; 0 for neurons that cannot vanish


@kernel()
def closed_flow(coefficients, averages, y, u, B, Q, out):
    """Drift and noise · E[σ'σ'] at the factor u of the rate, with work arrays B (p, p+k) and Q (p, p).

    If y is longer than M and the lower triangle of Q, its last p entries are a. `averages` are E[σ'σ'] and
    E[σ''σ] of students with students and with teachers, or None if they have closed forms.
    """
    students, mixed, P, a, a_star, rate, noise, vanishing = coefficients
    p, k = a.size, a_star.size
    M = y[: p * k].reshape(p, k)
    at = p * k
    for i in range(p):
        for j in range(i + 1):
            Q[i, j] = Q[j, i] = y[at]
            at += 1
    is_learned = y.size > at
    if is_learned:
        a = y[at:]
        for i in range(p):
            change = 0.0
            for j in range(p):
                change -= a[j] * value_pair(students, Q[i, i], Q[j, j], Q[i, j]) / p
            for r in range(k):
                change += a_star[r] * value_pair(mixed, Q[i, i], P[r, r], M[i, r]) / k
            out[at + i] = rate * u * change
    dM = out[: p * k].reshape(p, k)
    half = np.empty((p, p))
    student, teacher = 1.0 / p, 1.0 / k
    for i in range(p):
        A, own = 0.0, a[i]
        for j in range(p):
            if averages is None:
                s, g = slope_pair(students, Q[i, i], Q[j, j], Q[i, j])
            else:
                s, g = averages[0][i, j], averages[1][i, j]
            B[i, j] = -s * student * a[j] * own
            A -= g * student * a[j]
        for r in range(k):
            if averages is None:
                s, g = slope_pair(mixed, Q[i, i], P[r, r], M[i, r])
            else:
                s, g = averages[2][i, r], averages[3][i, r]
            B[i, p + r] = s * teacher * a_star[r] * own
            A += g * teacher * a_star[r]
        A *= own
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
        if vanishing[i] > 0.0:  # `full_model.slow_down`
            factor = 1.0 / (1.0 + (vanishing[i] / max(Q[i, i], 1e-300)) ** 4)
            for s in range(k):
                dM[i, s] *= factor
            for l in range(p):
                half[i, l] *= factor
    at = p * k
    for i in range(p):
        for j in range(i + 1):
            out[at] = half[i, j] + half[j, i] - noise * u * p * B[i, j]
            at += 1
    if u != 1.0:
        for n in range(at):
            out[n] *= u


@kernel()
def closed_jacobian(coefficients, y, u, B, Q):
    """∂f_i/∂y_j by forward differences."""
    n = y.size
    J = np.empty((n, n))
    base, moved, x = np.empty(n), np.empty(n), y.copy()
    closed_flow(coefficients, None, x, u, B, Q, base)
    for j in range(n):
        h = DIFFERENCE_STEP * max(1.0, abs(y[j]))
        x[j] = y[j] + h
        closed_flow(coefficients, None, x, u, B, Q, moved)
        x[j] = y[j]
        for i in range(n):
            J[i, j] = (moved[i] - base[i]) / h
    return J


class SmallFlow(OverlapFlow):
    """`OverlapFlow` with compiled drift and label noise, to which other terms are added."""

    def __init__(self, system: System, terms: tuple[Term, ...], start: Overlaps) -> None:
        super().__init__(system, terms, start)
        students, mixed, readout = system.pairs.students, system.pairs.mixed, system.readout
        self.is_closed = isinstance(students, ClosedForm) and isinstance(mixed, ClosedForm)
        self.coefficients = Coefficients(
            students.code if isinstance(students, ClosedForm) else NO_CODE,
            mixed.code if isinstance(mixed, ClosedForm) else NO_CODE,
            system.P,
            np.ones(self.p) if readout is None else readout.student,
            np.ones(self.k) if readout is None else readout.teacher,
            system.second_layer_rate,
            system.noise_rate * system.noise if label_noise in terms else 0.0,
            np.zeros(self.p) if system.first_norms is None else VANISHED_SHARE * system.first_norms,
        )
        compiled = (drift, label_noise)
        self.other_terms = tuple(term for term in terms if term not in compiled)
        self.work = np.empty((self.p, self.p + self.k)), np.empty((self.p, self.p))

    @staticmethod
    def is_applicable(system: System, p: int) -> bool:
        """Whether this flow can be used, and is the faster one, at width p."""
        pairs = system.pairs
        is_closed = isinstance(pairs.students, ClosedForm) and isinstance(pairs.mixed, ClosedForm)
        return p <= MAX_COMPILED_WIDTH and system.finite_d is None and (is_closed or not system.is_learned)

    def averages(self, y: Array) -> tuple[Array, Array, Array, Array] | None:
        """Averages of pairs at a state, None if they have closed forms."""
        if self.is_closed:
            return None
        (M, Q), P, pairs = unpack(y, self.p, self.k), self.system.P, self.system.pairs
        norms = np.diag(Q).copy()
        return *pairs.students.slopes(norms, norms, Q), *pairs.mixed.slopes(norms, np.diag(P).copy(), M)

    def change(self, y: Array, t: float) -> Array:
        out = np.empty_like(y)
        closed_flow(self.coefficients, self.averages(y), y, self.system.rate_factor(t), *self.work, out)
        if self.other_terms:
            now, size = self.moments(y, t), self.p * self.k + self.p * (self.p + 1) // 2
            for term in self.other_terms:
                dM, dQ = term(self.system, now)
                out[:size] += pack(dM + np.zeros_like(now.M), dQ)
        return out

    @property
    def jacobian(self) -> Callable[[Array, float], Array] | None:
        """Jacobian of the compiled part: sampling is of order γ/p, and implicit steps converge without it.

        Other terms may be stiff, so with them an integrator takes differences of the whole right-hand side.
        """
        if not self.is_closed or any(term is not sampling for term in self.other_terms):
            return None
        return self._differentiate

    def _differentiate(self, y: Array, t: float = 0.0) -> Array:
        J = np.asarray(closed_jacobian(self.coefficients, y, self.system.rate_factor(t), *self.work))
        return self.damp_jacobian(J, t)
