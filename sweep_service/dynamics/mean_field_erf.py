"""Compiled mean field in O(p) for erf students: the functions of one neuron are Hermite functions.

It is the most used O(p) form and written for speed: inner loops run over blocks of neurons, so that
LLVM vectorises them.
"""

from __future__ import annotations

import math

import numpy as np

from sweep_service.dynamics.mean_field import MeanFieldSystem
from sweep_service.dynamics.mean_field_nodes import NodeFlow
from sweep_service.dynamics.xi import Xi
from sweep_service.model.activations import ERF
from sweep_service.model.closed_forms import TWO_OVER_PI
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.types import Array
from sweep_service.numerics.vector_math import ELEMENTWISE, REDUCTION, erf_and_gauss, gauss

ROOT = math.sqrt(TWO_OVER_PI)


class ErfNodeFlow(NodeFlow):
    """Erf students with any teacher: the functions of one neuron are Hermite functions in closed form."""

    def __init__(
        self, system: MeanFieldSystem, M: Array, q: Array, order: int = 32, series: int = 10
    ) -> None:
        assert system.student is ERF
        super().__init__(system, M, q, order, series)
        D = 0 if system.is_frozen else system.D
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
        """The arguments of single-neuron functions: Mᵀ, (1+q)^-½ and √θ = √(q/(1+q))."""
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


BLOCK = 256  # neurons per block: the inner loops run over them, in cache and in SIMD


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
    """Advance low, high from H_{m-2}, H_{m-1} to H_m, H_{m+1}.

    H_m = θ^{m/2} He_m e, `root` is √θ and u comes multiplied by it.
    Two loops, because with more arrays in a loop LLVM cannot prove that they do not overlap.
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
    """Add the difference, of order 1/p, between a neuron's exact overlap with itself and that through ξ."""
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
