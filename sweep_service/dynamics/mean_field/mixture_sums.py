"""Compiled functions of neurons at nodes of λ*, for erf and the components of tanh."""

from __future__ import annotations

import math

import numpy as np

from sweep_service.model.averages.closed_forms import TWO_OVER_PI
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.vector_math import ELEMENTWISE, REDUCTION, asin_unit, erf_and_gauss, gauss

ROOT = math.sqrt(TWO_OVER_PI)
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
def erf_averages(MT, shrink, root, y, orders, a):
    """F_0 = mean_j erf(u/√2), F_m = -mean_j √θ_j H_{m-1}, H_m = θ^{m/2} He_m(u) e; shape (orders, n).

    The means have the weights a of neurons, or none if it is None.
    """
    p, n = MT.shape[1], y.shape[0]
    F = np.zeros((orders, n))
    u, value, low, high = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for at in range(0, p, BLOCK):
        size, own = min(BLOCK, p - at), root[at:]
        share = own
        if a is not None:
            share = root[at : at + size] * a[at : at + size]
        for node in range(n):
            _fields(MT, shrink, y[node], at, size, u)
            for j in range(size):
                value[j], bell = erf_and_gauss(u[j])
                low[j] = ROOT * bell
            if a is None:
                F[0, node] += _sum(value, size)
            else:
                F[0, node] += _dot(a[at:], value, size)
            if orders > 1:
                for j in range(size):
                    u[j] *= own[j]
                for j in range(size):
                    high[j] = u[j] * low[j]
            for order in range(1, orders):
                F[order, node] -= _dot(share, high, size)
                _next_hermite(2 * order, own, u, low, high, size)
    return F / p


@kernel(fastmath=ELEMENTWISE)
def erf_push(MT, shrink, root, y, lam, G, values):
    """dM_i = Σ λ* (1+q_i)^-½ Σ_m H_m G_m and dq_i = -2 √θ_i Σ Σ_m [H_{m+1} + m H_{m-1}] G_m over the nodes.

    dM is returned as (k, p). da_i = Σ [erf(u/√2) G_0 - √θ_i Σ_m H_{m-1} G_m] is added to `values` unless it
    is None.
    """
    k, p = MT.shape
    orders, n = G.shape
    dMT, dq = np.zeros((k, p)), np.zeros(p)
    u, low, high = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    push, stretch, value, inside = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for at in range(0, p, BLOCK):
        size, own = min(BLOCK, p - at), root[at:]
        if values is not None:
            for j in range(size):
                inside[j] = 0.0
        for node in range(n):
            _fields(MT, shrink, y[node], at, size, u)
            g = G[0, node]
            if values is None:
                for j in range(size):
                    low[j] = ROOT * gauss(u[j])
            else:
                for j in range(size):
                    value[j], bell = erf_and_gauss(u[j])
                    low[j] = ROOT * bell
                for j in range(size):
                    values[at + j] += g * value[j]
            for j in range(size):
                u[j] *= own[j]
            for j in range(size):
                high[j] = u[j] * low[j]
            for j in range(size):
                push[j] = g * low[j]
            for j in range(size):
                stretch[j] = g * high[j]
            for order in range(1, orders):
                m, g = 2 * order, G[order, node]
                for j in range(size):
                    stretch[j] += g * m * high[j]
                if values is not None:
                    for j in range(size):
                        inside[j] += g * high[j]
                _next_hermite(m, own, u, low, high, size)
                for j in range(size):
                    push[j] += g * low[j]
                for j in range(size):
                    stretch[j] += g * high[j]
            for j in range(size):
                dq[at + j] -= stretch[j]
            for r in range(k):
                c = lam[node, r]
                for j in range(size):
                    dMT[r, at + j] += c * push[j]
        if values is not None:
            for j in range(size):
                values[at + j] -= own[j] * inside[j]
    for j in range(p):
        dq[j] *= 2.0 * root[j]
    for r in range(k):
        for j in range(p):
            dMT[r, j] *= shrink[j]
    return dMT, dq


@kernel(fastmath=ELEMENTWISE)
def mixture_self_sums(squares, shares, q, norms, rule, values):
    """How averages of a neuron with itself differ from those through ξ, a difference of order 1/p.

    Returns that of E[σ'²], of q E[σ'²] with ξ, and of E[σ''σ]; that of E[σ²] is added to `values`, unless
    it is None.
    """
    p = q.size
    slope, stretch, curved = np.zeros(p), np.zeros(p), np.zeros(p)
    inside, product, inverse, high, low = norms - q, np.empty(p), np.empty(p), np.empty(p), np.empty(p)
    for left in range(squares.size):
        for right in range(left + 1):
            share = TWO_OVER_PI * shares[left] * shares[right] * (1.0 if left == right else 2.0)
            for i in range(p):
                product[i] = (squares[left] + norms[i]) * (squares[right] + norms[i])
            for i in range(p):  # the mean of σ'' in both orders
                inverse[i] = 0.5 * (squares[left] + squares[right] + 2.0 * norms[i]) / product[i]
            for i in range(p):
                high[i] = share / math.sqrt(product[i] - norms[i] * norms[i])
            for i in range(p):
                slope[i] += high[i]
            for i in range(p):
                stretch[i] += q[i] * high[i]
            for i in range(p):
                curved[i] -= norms[i] * high[i] * inverse[i]
            for x in range(rule.nodes.size):
                node, weight = rule.nodes[x], share * rule.weights[x]
                for i in range(p):
                    up = inside[i] + node * q[i]
                    high[i] = 1.0 / math.sqrt(product[i] - up * up)
                for i in range(p):
                    down = inside[i] - node * q[i]
                    low[i] = 1.0 / math.sqrt(product[i] - down * down)
                for i in range(p):
                    slope[i] -= weight * (high[i] + low[i])
                for i in range(p):
                    stretch[i] -= weight * node * q[i] * (high[i] - low[i])
                for i in range(p):
                    up, down = inside[i] + node * q[i], inside[i] - node * q[i]
                    curved[i] += weight * (up * high[i] + down * low[i]) * inverse[i]
                if values is not None:
                    first, second = 0.5 * share * rule.first[x], 0.5 * share * rule.second[x]
                    for i in range(p):
                        up, down = inside[i] + node * q[i], inside[i] - node * q[i]
                        bend = up * high[i] * high[i] * high[i] + down * low[i] * low[i] * low[i]
                        values[i] -= q[i] * (first * (high[i] - low[i]) + second * q[i] * bend)
            if values is not None:
                for i in range(p):
                    values[i] += share * asin_unit(norms[i] / math.sqrt(product[i]))
                for i in range(p):
                    up = (inside[i] + rule.anchor * q[i]) / math.sqrt(product[i])
                    values[i] -= 0.5 * share * asin_unit(up)
                for i in range(p):
                    down = (inside[i] - rule.anchor * q[i]) / math.sqrt(product[i])
                    values[i] -= 0.5 * share * asin_unit(down)
    return slope, stretch, curved
