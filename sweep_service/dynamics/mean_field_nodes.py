"""Mean field in O(p): each neuron meets the average of all others at nodes of λ* ~ N(0, P).

Given λ*, neurons are coupled only through the ξ of their orthogonal parts, and Mehler's formula
turns the average over ξ into a short sum over even orders m of products of single-neuron
functions. So one pass forms the averages F_m over neurons, a second pass applies them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
from scipy import special

from sweep_service.arrays import Array
from sweep_service.dynamics.mean_field import MeanFieldFlow, MeanFieldSystem
from sweep_service.dynamics.variance import normal_points
from sweep_service.dynamics.vector_math import ELEMENTWISE, REDUCTION, erf_and_gauss, gauss
from sweep_service.dynamics.xi import Xi
from sweep_service.kernels import kernel
from sweep_service.model.activations import ERF, Activation, SmoothedMoments
from sweep_service.model.closed_forms import TWO_OVER_PI
from sweep_service.model.risk import teacher_power
from sweep_service.model.two_point import hermite_rule

ROOT = math.sqrt(TWO_OVER_PI)


def teacher_nodes(P: Array, order: int, half: bool, smooth: bool = True) -> tuple[Array, Array]:
    """Nodes λ* (n, k) and weights of N(0, P); `half` keeps one of each pair ±λ*, for even integrands.

    Tensor Gauss-Hermite for smooth integrands up to k = 3. Where a kink would spoil it, or the tensor
    explode, Sobol points take its place.
    """
    k = len(P)
    if k > 3 or not smooth:
        z = normal_points(2 ** round(math.log2(4 * order**2)), k)
        return z @ np.linalg.cholesky(P).T, np.full(len(z), 1.0 / len(z))
    x, w = special.roots_hermitenorm(order)
    w = w / w.sum()
    z = np.array(list(product(x, repeat=k)))
    weights = np.array([math.prod(combination) for combination in product(w, repeat=k)])
    if half:
        side = np.zeros(len(z))  # the sign of the first coordinate that is not zero
        for column in z.T:
            side = np.where(side == 0.0, np.sign(np.where(np.abs(column) < 1e-13, 0.0, column)), side)
        weights = np.where(side > 0.0, 2.0 * weights, np.where(side < 0.0, 0.0, weights))
    keep = weights > 1e-12 * weights.max()  # the rest, most of the tensor, adds less than 1e-10
    return z[keep] @ np.linalg.cholesky(P).T, weights[keep]


class NodeFlow(MeanFieldFlow):
    """What both O(p) forms share: the nodes, and refining them."""

    def __init__(self, system: MeanFieldSystem, M: Array, q: Array, order: int, series: int) -> None:
        super().__init__(system, M, q)
        self.start, self.order, self.series = (M, q), order, series
        student, teacher = system.student, system.teacher
        self.lam, self.weights = teacher_nodes(system.P, order, student.odd, resolves(student, teacher))
        self.y = self.lam @ self.inverse
        self.target, self.floor = teacher.value(self.lam).mean(1), 0.0
        if student.odd and not teacher.odd:
            # an odd student sees only the odd part of f*; the rest, which may have a kink, is a constant of R
            self.target = 0.5 * (self.target - teacher.value(-self.lam).mean(1))
            power = teacher_power(system.P, system.pairs.teachers)
            self.floor = 0.5 * (power - float(self.weights @ self.target**2))

    def refined(self) -> NodeFlow | None:
        if not resolves(self.system.student, self.system.teacher):  # more nodes cost more than they mend
            return None
        return type(self)(self.system, *self.start, self.order * 3 // 2, self.series + 4)


def resolves(student: Activation, teacher: Activation) -> bool:
    """Is what Gauss-Hermite nodes of λ* have to integrate smooth? The odd part of relu is."""
    return student.curvature is not None and (student.odd or teacher.curvature is not None)


class ErfNodeFlow(NodeFlow):
    """Erf students, any teacher: the functions of one neuron are Hermite functions, in closed form."""

    def __init__(
        self, system: MeanFieldSystem, M: Array, q: Array, order: int = 32, series: int = 10
    ) -> None:
        assert system.student is ERF
        super().__init__(system, M, q, order, series)
        D = 0 if system.frozen else system.D
        self.xi = Xi.rule(D, 16)
        self.kappa = self.xi.scaled_moments(series)

    def derivative(self, M: Array, q: Array) -> tuple[Array, Array]:
        single = self.single(M, q)
        F = erf_averages(*single, self.y, self.kappa.size)
        G = -self.weights * self.kappa[:, None] * F
        G[0] = self.weights * (self.target - F[0])
        dMT, dq = erf_push(*single, self.y, self.lam, G)
        dM = np.ascontiguousarray(dMT.T)
        if self.system.self_terms:
            erf_self_terms(M, q, self.norms(M, q), self.xi.nodes, self.xi.weights, dM, dq)
        return dM, dq

    def single(self, M: Array, q: Array) -> tuple[Array, Array, Array]:
        """What the functions of one neuron depend on: Mᵀ, (1+q)^-½ and √θ = √(q/(1+q))."""
        shrink = 1.0 / np.sqrt(1.0 + q)
        return np.ascontiguousarray(M.T), shrink, np.sqrt(q) * shrink

    def slope_power(self, a: Array) -> Array:
        power = TWO_OVER_PI / np.sqrt(1.0 + 2.0 * a)
        d = self.system.finite_d
        return power if d is None else power * (1.0 - 2.0 * a / ((1.0 + 2.0 * a) * d))

    def risk(self, y: Array) -> float:
        M, q = self.state(y)
        F = erf_averages(*self.single(M, q), self.y, self.kappa.size)
        squares = self.kappa[:, None] * F**2
        squares[0] = (self.target - F[0]) ** 2
        total = self.floor + 0.5 * float(np.sum(squares @ self.weights))
        if self.system.self_terms:
            Qd = self.norms(M, q)
            C = (Qd - q)[:, None] + q[:, None] * self.xi.nodes
            own = np.arcsin(Qd / (1.0 + Qd)) - np.arcsin(C / (1.0 + Qd[:, None])) @ self.xi.weights
            total += float(own.sum()) / (np.pi * self.p**2)
        return total


BLOCK = 256  # neurons handled together: the inner loops run over them, in cache and in SIMD


@kernel(fastmath=ELEMENTWISE)
def _fields(MT, shrink, y, at, size, u):
    """u = M_j·P⁻¹λ*/√(1+q_j) for one node."""
    for j in range(size):
        u[j] = 0.0
    for r in range(MT.shape[0]):
        for j in range(size):
            u[j] += y[r] * MT[r, at + j]
    for j in range(size):
        u[j] *= shrink[at + j]


@kernel(fastmath=REDUCTION)
def _sum(x, size):
    total = 0.0
    for j in range(size):
        total += x[j]
    return total


@kernel(fastmath=REDUCTION)
def _dot(x, y, size):
    total = 0.0
    for j in range(size):
        total += x[j] * y[j]
    return total


@kernel(fastmath=ELEMENTWISE)
def _next_hermite(m, root, u, low, high, size):
    """low, high move from H_{m-2}, H_{m-1} to H_m, H_{m+1}, for H_m = θ^{m/2} He_m e and u times root = √θ.

    One loop for each: with more arrays in a loop, LLVM gives up proving that they do not overlap.
    """
    for j in range(size):
        low[j] = u[j] * high[j] - (m - 1) * root[j] * root[j] * low[j]
    for j in range(size):
        high[j] = u[j] * low[j] - m * root[j] * root[j] * high[j]


@kernel(fastmath=ELEMENTWISE)
def erf_averages(MT, shrink, root, y, orders):
    """F_0 = mean_j erf(u/√2), F_m = -mean_j √θ_j H_{m-1}, H_m = θ^{m/2} He_m(u) e; shape (orders, n)."""
    p, n = MT.shape[1], y.shape[0]
    F = np.zeros((orders, n))
    u, value, low, high = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for at in range(0, p, BLOCK):
        size, own = min(BLOCK, p - at), root[at:]
        for a in range(n):
            _fields(MT, shrink, y[a], at, size, u)
            for j in range(size):
                value[j], bell = erf_and_gauss(u[j])
                low[j] = ROOT * bell
            F[0, a] += _sum(value, size)
            if orders > 1:
                for j in range(size):
                    u[j] *= own[j]
                for j in range(size):
                    high[j] = u[j] * low[j]
            for order in range(1, orders):
                F[order, a] -= _dot(own, high, size)
                _next_hermite(2 * order, own, u, low, high, size)
    return F / p


@kernel(fastmath=ELEMENTWISE)
def erf_push(MT, shrink, root, y, lam, G):
    """dM_i = Σ_a λ*_a (1+q_i)^-½ Σ_m H_m G_m and dq_i = -2 √θ_i Σ_a Σ_m [H_{m+1} + m H_{m-1}] G_m.

    dM is returned as (k, p).
    """
    k, p = MT.shape
    orders, n = G.shape
    dMT, dq = np.zeros((k, p)), np.zeros(p)
    u, low, high = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    push, stretch = np.empty(BLOCK), np.empty(BLOCK)
    for at in range(0, p, BLOCK):
        size, own = min(BLOCK, p - at), root[at:]
        for a in range(n):
            _fields(MT, shrink, y[a], at, size, u)
            for j in range(size):
                low[j] = ROOT * gauss(u[j])
            for j in range(size):
                u[j] *= own[j]
            for j in range(size):
                high[j] = u[j] * low[j]
            g = G[0, a]
            for j in range(size):
                push[j] = g * low[j]
            for j in range(size):
                stretch[j] = g * high[j]
            for order in range(1, orders):
                m, g = 2 * order, G[order, a]
                for j in range(size):
                    stretch[j] += g * m * high[j]
                _next_hermite(m, own, u, low, high, size)
                for j in range(size):
                    push[j] += g * low[j]
                for j in range(size):
                    stretch[j] += g * high[j]
            for j in range(size):
                dq[at + j] -= stretch[j]
            for r in range(k):
                c = lam[a, r]
                for j in range(size):
                    dMT[r, at + j] += c * push[j]
    for j in range(p):
        dq[j] *= 2.0 * root[j]
    for r in range(k):
        for j in range(p):
            dMT[r, j] *= shrink[j]
    return dMT, dq


@kernel(fastmath=ELEMENTWISE)
def erf_self_terms(M, q, Qd, nodes, weights, dM, dq):
    """A neuron meets itself exactly, not through ξ: add the difference, of order 1/p."""
    p, k = M.shape
    slope, stretch = np.zeros(p), np.zeros(p)
    for x in range(nodes.size):
        for i in range(p):
            c = Qd[i] - q[i] + q[i] * nodes[x]
            v = weights[x] / math.sqrt((1.0 + Qd[i]) * (1.0 + Qd[i]) - c * c)
            slope[i] += v
            stretch[i] += v * q[i] * nodes[x]
    for i in range(p):
        true = 1.0 / math.sqrt(1.0 + 2.0 * Qd[i])
        A = (true * Qd[i] - (Qd[i] - q[i]) * slope[i] - stretch[i]) / (1.0 + Qd[i])
        for r in range(k):
            dM[i, r] += TWO_OVER_PI / p * (A - true + slope[i]) * M[i, r]
        dq[i] += 2.0 * TWO_OVER_PI / p * (q[i] * (A - true) + stretch[i])


class AnyNodeFlow(NodeFlow):
    """Any activation with a slope: the functions of one neuron by its `SmoothedMoments`.

    With h_m orthonormal and e_m = E ξ^m, neurons i ≠ j meet through Σ_m e_m c_m,i c_m,j, where
    c_m = E_z[σ(μ + √q z) h_m(z)] and μ = M_i·P⁻¹λ*.
    """

    def __init__(self, system: MeanFieldSystem, M: Array, q: Array, order: int = 48, series: int = 8) -> None:
        super().__init__(system, M, q, order, series)
        kappa = Xi.rule(0 if system.frozen else system.D, 2).scaled_moments(series)
        self.m = 2 * np.arange(kappa.size)
        self.e = kappa * special.factorial(self.m)

    def neurons(self, M: Array, q: Array) -> Iterator[tuple[slice, Array, Array, Array, SmoothedMoments]]:
        """Blocks of neurons with c_m, E[σ' h_m] and E[σ' √q z h_m], shapes (rows, nodes, orders)."""
        rows = max(1, (1 << 20) // (len(self.weights) * self.order))
        smoothed = self.system.student.smoothed or partial(
            by_quadrature, self.system.student, nodes=self.order
        )
        m = self.m
        for at in range(0, self.p, rows):
            cut = slice(at, at + rows)
            root = np.sqrt(q[cut])[:, None]
            now = smoothed(M[cut] @ self.y.T, np.broadcast_to(root, (len(root), len(self.y))), m[-1] + 2)
            slope, root = now.slope, root[:, :, None]
            below = np.concatenate([np.zeros_like(slope[..., :1]), slope[..., m[1:] - 1]], axis=-1)
            c = root * below / np.sqrt(np.maximum(m, 1))
            c[..., 0] = now.value
            yield cut, c, slope[..., m], root * (np.sqrt(m + 1) * slope[..., m + 1] + np.sqrt(m) * below), now

    def derivative(self, M: Array, q: Array) -> tuple[Array, Array]:
        neurons = list(self.neurons(M, q))
        G = -self.e * sum(c.sum(0) for _, c, _, _, _ in neurons) / self.p
        G[:, 0] += self.target
        dM, dq = np.empty_like(M), np.empty_like(q)
        for cut, c, slope, stretch, now in neurons:
            push_M, push_q = np.sum(slope * G, axis=2), np.sum(stretch * G, axis=2)
            if self.system.self_terms:
                push_M += (np.sum(self.e * c * slope, axis=2) - now.value_slope) / self.p
                push_q += (
                    np.sum(self.e * c * stretch, axis=2) - np.sqrt(q[cut])[:, None] * now.value_slope_z
                ) / self.p
            dM[cut] = push_M * self.weights @ self.lam
            dq[cut] = 2.0 * push_q @ self.weights
        return dM, dq

    def risk(self, y: Array) -> float:
        M, q = self.state(y)
        neurons = list(self.neurons(M, q))
        F = sum(c.sum(0) for _, c, _, _, _ in neurons) / self.p
        squares = self.e * F**2
        squares[:, 0] = (self.target - F[:, 0]) ** 2
        total = self.floor + 0.5 * float(self.weights @ squares.sum(1))
        if self.system.self_terms:
            for _, c, _, _, now in neurons:
                own = now.value_value - np.sum(self.e * c**2, axis=2)
                total += 0.5 * float((own @ self.weights).sum()) / self.p**2
        return total


def by_quadrature(act: Activation, mu: Array, root: Array, orders: int, nodes: int) -> SmoothedMoments:
    """The moments of one neuron by Gauss-Hermite quadrature over its orthogonal field."""
    z, weights = hermite_rule(max(2, orders), nodes)
    field = mu[..., None] + root[..., None] * z
    value, slope = act.value(field), act.slope(field)
    w = weights[0]
    return SmoothedMoments(
        value @ w, slope @ weights[:orders].T, value**2 @ w, (value * slope) @ w, (value * slope) @ (w * z)
    )
