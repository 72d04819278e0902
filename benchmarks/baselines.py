"""The same equations as public code writes them, compiled but without our ideas.

Three-point right-hand sides, explicit Euler, mean field by a loop over pairs, and the four-point
sum of the sampling term. `tests/test_benchmarks.py` holds each equal to the package.
"""

from __future__ import annotations

import math

import numpy as np

from sweep_service.dynamics.small_flow import closed_flow
from sweep_service.kernels import kernel

TWO_OVER_PI = 2.0 / math.pi
# What a careful author would allow the compiler in a loop of sums.
SUMS = {"contract", "nsz", "arcp", "reassoc"}


@kernel()
def field_covariance(M, Q, P):
    """Ω = [[Q, M], [Mᵀ, P]]."""
    p, k = M.shape
    omega = np.empty((p + k, p + k))
    omega[:p, :p] = Q
    omega[:p, p:] = M
    omega[p:, :p] = M.T
    omega[p:, p:] = P
    return omega


@kernel()
def three_point(c11, c12, c13, c23, c33):
    """I3 = E[σ'(λ_1) λ_2 σ(λ_3)] for erf."""
    a = 1.0 + c11
    return TWO_OVER_PI * (c23 * a - c12 * c13) / (a * math.sqrt(a * (1.0 + c33) - c13 * c13))


@kernel()
def three_point_flow(M, Q, P, noise, dM, dQ):
    """dM and dQ of gradient flow with label noise (noise = γΔ/p), from p n² calls of I3."""
    p, k = M.shape
    n = p + k
    omega = field_covariance(M, Q, P)
    push = np.empty((p, n))  # E[σ'(λ_i) λ_β 𝓔]
    for i in range(p):
        for b in range(n):
            total = 0.0
            for j in range(n):
                c = -1.0 / p if j < p else 1.0 / k
                total += c * three_point(omega[i, i], omega[i, b], omega[i, j], omega[b, j], omega[j, j])
            push[i, b] = total
    for i in range(p):
        for r in range(k):
            dM[i, r] = push[i, p + r]
        for j in range(p):
            slopes = TWO_OVER_PI / math.sqrt((1.0 + Q[i, i]) * (1.0 + Q[j, j]) - Q[i, j] * Q[i, j])
            dQ[i, j] = push[i, j] + push[j, i] + noise * slopes


@kernel()
def euler_three_point(M, Q, P, noise, step, steps):
    """M and Q after so many explicit Euler steps of the three-point flow."""
    M, Q = M.copy(), Q.copy()
    dM, dQ = np.empty_like(M), np.empty_like(Q)
    for _ in range(steps):
        three_point_flow(M, Q, P, noise, dM, dQ)
        M += step * dM
        Q += step * dQ
    return M, Q


@kernel()
def euler_closed(code, y0, p, k, P, noise, step, stops):
    """States at these numbers of Euler steps (increasing), with the package's own right-hand side."""
    y, dy = y0.copy(), np.empty_like(y0)
    B, Q = np.empty((p, p + k)), np.empty((p, p))
    states = np.empty((stops.size, y.size))
    done = 0
    for row in range(stops.size):
        while done < stops[row]:
            closed_flow(code, y, p, k, P, noise, B, Q, dy)
            for i in range(y.size):
                y[i] += step * dy[i]
            done += 1
        states[row] = y
    return states


@kernel(fastmath=SUMS)
def pairwise_flow(M, q, P, inverse, nodes, weights):
    """dM, dq of the erf mean field by one loop over pairs j < i and the nodes of ξ."""
    p, k = M.shape
    N = M @ inverse
    a, root = np.empty(p), np.sqrt(q)
    A, dM, dq = np.zeros(p), np.zeros((p, k)), np.zeros(p)
    for i in range(p):
        a[i] = 1.0 + q[i]
        for r in range(k):
            a[i] += N[i, r] * M[i, r]
    for i in range(p):
        for j in range(i):
            o, scale = 0.0, root[i] * root[j]
            for r in range(k):
                o += N[i, r] * M[j, r]
            b0 = b1 = 0.0
            for x in range(nodes.size):
                outside = scale * nodes[x]
                h = weights[x] / math.sqrt(a[i] * a[j] - (o + outside) * (o + outside))
                b0 += h
                b1 += h * outside
            pull = b0 * o + b1
            A[i] += pull
            A[j] += pull
            dq[i] -= b1
            dq[j] -= b1
            for r in range(k):
                dM[i, r] -= b0 * M[j, r]
                dM[j, r] -= b0 * M[i, r]
    for i in range(p):
        own = 1.0 / math.sqrt(2.0 * a[i] - 1.0)
        stretch = TWO_OVER_PI * (A[i] + own * (a[i] - 1.0)) / (a[i] * p)
        for r in range(k):
            dM[i, r] = TWO_OVER_PI * (dM[i, r] - own * M[i, r]) / p
        for s in range(k):
            slope = TWO_OVER_PI / math.sqrt(a[i] * (1.0 + P[s, s]) - M[i, s] * M[i, s]) / k
            stretch -= slope * M[i, s] / a[i]
            for r in range(k):
                dM[i, r] += slope * P[s, r]
        for r in range(k):
            dM[i, r] += stretch * M[i, r]
        dq[i] = 2.0 * (q[i] * stretch + TWO_OVER_PI * (dq[i] - q[i] * own) / p)
    return dM, dq


@kernel()
def four_point(c11, c12, c13, c14, c22, c23, c24, c33, c34, c44):
    """I4 = E[σ'(λ_1) σ'(λ_2) σ(λ_3) σ(λ_4)] for erf."""
    a, b = 1.0 + c11, 1.0 + c22
    l4 = a * b - c12 * c12
    l0 = l4 * c34 - c23 * c24 * a - c13 * c14 * b + c12 * c13 * c24 + c12 * c14 * c23
    l1 = l4 * (1.0 + c33) - c23 * c23 * a - c13 * c13 * b + 2.0 * c12 * c13 * c23
    l2 = l4 * (1.0 + c44) - c24 * c24 * a - c14 * c14 * b + 2.0 * c12 * c14 * c24
    return TWO_OVER_PI * TWO_OVER_PI / math.sqrt(l4) * math.asin(l0 / math.sqrt(l1 * l2))


@kernel()
def four_point_variance(M, Q, P):
    """Ψ_Var without noise: Σ_βγ c_β c_γ I4(i, j, β, γ) for i <= j."""
    p, k = M.shape
    n = p + k
    w = field_covariance(M, Q, P)
    c = np.empty(n)
    c[:p] = -1.0 / p
    c[p:] = 1.0 / k
    out = np.empty((p, p))
    for i in range(p):
        for j in range(i, p):
            total = 0.0
            for b in range(n):
                for g in range(n):
                    total += c[b] * c[g] * four_point(
                        w[i, i], w[i, j], w[i, b], w[i, g], w[j, j], w[j, b], w[j, g], w[b, b], w[b, g], w[g, g]
                    )
            out[i, j] = out[j, i] = total
    return out
