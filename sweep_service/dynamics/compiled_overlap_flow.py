"""The overlap flow in one compiled call, for narrow students.

Averages of pairs in closed form are computed in that call; those of a user's activation are given to it. Sums
over neurons run in the lanes of vectors.

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
from sweep_service.model.averages.closed_forms import (
    ERF_CODE,
    TWO_OVER_PI,
    ClosedForm,
    slope_pair,
    sum_lanes,
    value_pair,
)
from sweep_service.model.overlaps import Overlaps
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import CHAIN_LANES, fma, load8, round_up_to_lanes, square_root, store
from sweep_service.numerics.types import Array

MAX_COMPILED_WIDTH = 100  # beyond it, products of matrices are faster
NO_CODE = -1  # of a pair without a closed form
DIFFERENCE_STEP = 1.5e-8  # √eps: the step of a forward difference
ROWS = 4  # sums of products that are formed at once, because each waits for itself


class Sizes(NamedTuple):
    """Numbers of a flow, apart from its arrays, because numba takes a microsecond to read a tuple of both."""

    students: int  # code of the pair
    mixed: int
    p: int
    k: int
    second_layer_rate: float
    noise: float  # γΔ/(pb)


class Arrays(NamedTuple):
    """Constants of a flow and arrays that evaluations fill, flat.

    Rows over students and teachers have `wide` entries, padded with zeros.
    """

    P: Array
    second_layer: Array  # a at t = 0; ones for second layers of ones, which changes no bit
    teacher: Array  # a*
    vanishing: Array  # squared norms at which neurons count as vanished; 0 for neurons that cannot vanish
    above: Array  # 1 + Ω_ββ
    shares: Array  # c_β
    omega: Array  # Ω: its p + k rows, and more rows of zeros
    push: Array  # B, p rows
    half: Array  # dM and half of dQ, p rows


@kernel()
def divide_work(work, p, k):
    """The arrays that `make_work` has put into one."""
    wide = (p + k + CHAIN_LANES - 1) // CHAIN_LANES * CHAIN_LANES
    rows = (p + k + ROWS - 1) // ROWS * ROWS
    teachers, above = k * k + p, k * k + 2 * p + k
    omega = above + 2 * wide
    push = omega + rows * wide
    half = push + p * wide
    return Arrays(
        work[: k * k], work[k * k : teachers], work[teachers : teachers + k], work[teachers + k : above],
        work[above : above + wide], work[above + wide : omega],
        work[omega:push], work[push:half], work[half:],
    )  # fmt: skip


def make_work(P: Array, second_layer: Array, teacher: Array, vanishing: Array) -> Array:
    """The arrays of a flow in one, with its constants."""
    p, k = len(second_layer), len(teacher)
    wide, rows = round_up_to_lanes(p + k, CHAIN_LANES), round_up_to_lanes(p + k, ROWS)
    constants = (P.ravel(), second_layer, teacher, vanishing, np.ones(wide))
    return np.concatenate([*constants, np.zeros((1 + rows + 2 * p) * wide)])


@kernel()
def fill_overlaps(arrays, p, k, y):
    """Read M and Q of a state into Ω; returns the number of entries read, beyond which a is."""
    omega, above, wide = arrays.omega, arrays.above, arrays.above.size
    for i in range(p):
        for r in range(k):
            omega[i * wide + p + r] = omega[(p + r) * wide + i] = y[i * k + r]
    at = p * k
    for i in range(p):
        for j in range(i + 1):
            omega[i * wide + j] = omega[j * wide + i] = y[at]
            at += 1
    for r in range(k):
        for s in range(k):
            omega[(p + r) * wide + p + s] = arrays.P[r * k + s]
    for b in range(p + k):
        above[b] = 1.0 + omega[b * wide + b]
    return at


@kernel()
def push_by_erf(arrays, i, own):
    """Row i of B for error functions, own · c_β E[σ'σ'_β]; returns Σ_β c_β E[σ''σ_β]."""
    omega, push, above, shares = arrays.omega, arrays.push, arrays.above, arrays.shares
    wide = above.size
    scale, row = above[i], i * wide
    pull = 0.0 * load8(above, 0)
    for q in range(0, wide, CHAIN_LANES):
        x = load8(omega, row + q)
        weighted = TWO_OVER_PI * load8(shares, q) / square_root(fma(-1.0 * x, x, scale * load8(above, q)))
        store(push, row + q, weighted * own)
        pull = fma(weighted, x, pull)
    return -sum_lanes(pull) / scale


@kernel()
def push_by_pairs(sizes, averages, arrays, i, own):
    """`push_by_erf` for any activations: with averages of pairs that are given or have closed forms."""
    omega, push, shares, wide = arrays.omega, arrays.push, arrays.shares, arrays.above.size
    row, A, p = i * wide, 0.0, sizes.p
    for b in range(p + sizes.k):
        if averages is None:
            code = sizes.students if b < p else sizes.mixed
            s, g = slope_pair(code, omega[row + i], omega[b * wide + b], omega[row + b])
        elif b < p:
            s, g = averages[0][i, b], averages[1][i, b]
        else:
            s, g = averages[2][i, b - p], averages[3][i, b - p]
        push[row + b] = s * shares[b] * own
        A += g * shares[b]
    return A


@kernel()
def closed_flow(sizes, averages, y, u, work, out):
    """Drift and noise · E[σ'σ'] at the factor u of the rate.

    If y is longer than M and the lower triangle of Q, its last p entries are a. `averages` are E[σ'σ'] and
    E[σ''σ] of students with students and with teachers, or None if they have closed forms.
    """
    students, mixed, p, k, rate, noise = sizes
    arrays = divide_work(work, p, k)
    a, a_star, vanishing, shares = arrays.second_layer, arrays.teacher, arrays.vanishing, arrays.shares
    omega, push, half, wide = arrays.omega, arrays.push, arrays.half, arrays.above.size
    at = fill_overlaps(arrays, p, k, y)
    if y.size > at:  # a is learned
        a = y[at:]
        for i in range(p):
            change = 0.0
            for j in range(p):
                norm, other = omega[i * wide + i], omega[j * wide + j]
                change -= a[j] * value_pair(students, norm, other, omega[i * wide + j]) / p
            for r in range(k):
                norm, other = omega[i * wide + i], arrays.P[r * k + r]
                change += a_star[r] * value_pair(mixed, norm, other, y[i * k + r]) / k
            out[at + i] = rate * u * change
    for j in range(p):
        shares[j] = -a[j] / p
    for r in range(k):
        shares[p + r] = a_star[r] / k
    for i in range(p):
        own, row = a[i], i * wide
        if averages is None and students == ERF_CODE and mixed == ERF_CODE:
            A = own * push_by_erf(arrays, i, own)
        else:
            A = own * push_by_pairs(sizes, averages, arrays, i, own)
        factor = 1.0
        if vanishing[i] > 0.0:  # `full_model.slow_down`
            factor = 1.0 / (1.0 + (vanishing[i] / max(omega[row + i], 1e-300)) ** 4)
        for q in range(0, wide, CHAIN_LANES):
            t0 = A * load8(omega, row + q)
            t1 = t2 = t3 = 0.0 * t0
            for b in range(0, p + k, ROWS):
                t0 = fma(push[row + b], load8(omega, b * wide + q), t0)
                t1 = fma(push[row + b + 1], load8(omega, (b + 1) * wide + q), t1)
                t2 = fma(push[row + b + 2], load8(omega, (b + 2) * wide + q), t2)
                t3 = fma(push[row + b + 3], load8(omega, (b + 3) * wide + q), t3)
            store(half, row + q, factor * ((t0 + t1) + (t2 + t3)))
    at = p * k
    for i in range(p):
        for r in range(k):
            out[i * k + r] = u * half[i * wide + p + r]
        for j in range(i + 1):
            change = half[i * wide + j] + half[j * wide + i]
            out[at] = u * (change - noise * u * p * push[i * wide + j])
            at += 1


@kernel()
def closed_jacobian(sizes, y, u, work):
    """∂f_i/∂y_j by forward differences."""
    n = y.size
    J = np.empty((n, n))
    base, moved, x = np.empty(n), np.empty(n), y.copy()
    closed_flow(sizes, None, x, u, work, base)
    for j in range(n):
        h = DIFFERENCE_STEP * max(1.0, abs(y[j]))
        x[j] = y[j] + h
        closed_flow(sizes, None, x, u, work, moved)
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
        self.sizes = Sizes(
            students.code if isinstance(students, ClosedForm) else NO_CODE,
            mixed.code if isinstance(mixed, ClosedForm) else NO_CODE,
            self.p,
            self.k,
            system.second_layer_rate,
            system.noise_rate * system.noise if label_noise in terms else 0.0,
        )
        self.work = make_work(
            system.P,
            np.ones(self.p) if readout is None else readout.student,
            np.ones(self.k) if readout is None else readout.teacher,
            np.zeros(self.p) if system.first_norms is None else VANISHED_SHARE * system.first_norms,
        )
        compiled = (drift, label_noise)
        self.other_terms = tuple(term for term in terms if term not in compiled)

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
        closed_flow(self.sizes, self.averages(y), y, self.system.rate_factor(t), self.work, out)
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
        J = np.asarray(closed_jacobian(self.sizes, y, self.system.rate_factor(t), self.work))
        return self.damp_jacobian(J, t)
