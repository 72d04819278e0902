"""The same equations as in public code, compiled but otherwise straightforward.

Three-point right-hand sides, explicit Euler, mean field by a loop over pairs, and the four-point
sum of the sampling term. `tests/test_benchmarks.py` checks that each agrees with the package.
"""

from __future__ import annotations

import math

import numpy as np

from sweep_service.dynamics.compiled_overlap_flow import closed_flow
from sweep_service.numerics.jit import kernel

TWO_OVER_PI = 2.0 / math.pi
# Optimisations that a careful author would allow in a loop of sums.
SUMS = {"contract", "nsz", "arcp", "reassoc"}


@kernel()
def field_covariance(M, Q, P):
    """Ω = [[Q, M], [Mᵀ, P]]."""
    p, k = M.shape
    omega = np.empty((p + k, p + k))
    for i in range(p):
        for j in range(p):
            omega[i, j] = Q[i, j]
        for r in range(k):
            omega[i, p + r] = omega[p + r, i] = M[i, r]
    for r in range(k):
        for s in range(k):
            omega[p + r, p + s] = P[r, s]
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
    """M and Q after `steps` explicit Euler steps of the three-point flow."""
    M, Q = M.copy(), Q.copy()
    dM, dQ = np.empty_like(M), np.empty_like(Q)
    for _ in range(steps):
        three_point_flow(M, Q, P, noise, dM, dQ)
        M += step * dM
        Q += step * dQ
    return M, Q


@kernel()
def euler_closed(sizes, work, y0, step, stops):
    """States at these numbers of Euler steps (increasing), with the package's own right-hand side."""
    y, dy = y0.copy(), np.empty_like(y0)
    states = np.empty((stops.size, y.size))
    done = 0
    for row in range(stops.size):
        while done < stops[row]:
            closed_flow(sizes, None, y, 1.0, work, dy)
            for i in range(y.size):
                y[i] += step * dy[i]
            done += 1
        states[row] = y
    return states


@kernel()
def pair_sums(M, N, a, root, nodes, weights):
    """Σ_{j≠i} of b0_ij o_ij + b1_ij, b0_ij M_j and b1_ij, as the equations are printed; a = 1 + Qd."""
    p, k = M.shape
    pull, turn, stretch = np.zeros(p), np.zeros((p, k)), np.zeros(p)
    for i in range(p):
        for j in range(p):
            if j != i:
                b0, b1, o = pair(M, N, a, root, nodes, weights, i, j)
                pull[i] += b0 * o + b1
                stretch[i] += b1
                for r in range(k):
                    turn[i, r] += b0 * M[j, r]
    return pull, turn, stretch


@kernel(fastmath=SUMS)
def half_pair_sums(M, N, a, root, nodes, weights):
    """`pair_sums` from half of the pairs, with sums over ξ that may be vectorised."""
    p, k = M.shape
    pull, turn, stretch = np.zeros(p), np.zeros((p, k)), np.zeros(p)
    for i in range(p):
        for j in range(i):
            b0, b1, o = pair(M, N, a, root, nodes, weights, i, j)
            pull[i] += b0 * o + b1
            pull[j] += b0 * o + b1
            stretch[i] += b1
            stretch[j] += b1
            for r in range(k):
                turn[i, r] += b0 * M[j, r]
                turn[j, r] += b0 * M[i, r]
    return pull, turn, stretch


@kernel(inline=True)
def pair(M, N, a, root, nodes, weights, i, j):
    """b0_ij and b1_ij without their 2/π, and o_ij."""
    o, scale = 0.0, root[i] * root[j]
    for r in range(M.shape[1]):
        o += N[i, r] * M[j, r]
    b0, b1 = 0.0, 0.0
    for x in range(nodes.size):
        outside = scale * nodes[x]
        h = weights[x] / math.sqrt(a[i] * a[j] - (o + outside) * (o + outside))
        b0 += h
        b1 += h * outside
    return b0, b1, o


def pairwise_flow(M, q, P, nodes, weights, sums):
    """dM and dq of the erf mean field, with `pair_sums` or `half_pair_sums`; the rest is O(p)."""
    p, k = M.shape
    N = M @ np.linalg.inv(P)
    norm = np.sum(N * M, axis=1) + q
    pull, turn, stretch = sums(M, N, 1.0 + norm, np.sqrt(q), nodes, weights)
    own = 1.0 / np.sqrt(1.0 + 2.0 * norm)
    teacher = TWO_OVER_PI / np.sqrt(np.outer(1.0 + norm, 1.0 + np.diag(P)) - M * M) / k
    A = (TWO_OVER_PI / p * (pull + own * norm) - np.sum(teacher * M, axis=1)) / (1.0 + norm)
    dM = A[:, None] * M + teacher @ P - TWO_OVER_PI / p * (turn + own[:, None] * M)
    dq = 2.0 * (q * A - TWO_OVER_PI / p * (stretch + q * own))
    return dM, dq


@kernel()
def four_point(C, i, j, b, g):
    """I4 = E[σ'(λ_i) σ'(λ_j) σ(λ_b) σ(λ_g)] for erf."""
    ai, aj, x = 1.0 + C[i, i], 1.0 + C[j, j], C[i, j]
    l4 = ai * aj - x * x
    l0 = l4 * C[b, g] - C[j, b] * C[j, g] * ai - C[i, b] * C[i, g] * aj
    l0 += x * (C[i, b] * C[j, g] + C[i, g] * C[j, b])
    l1 = l4 * (1.0 + C[b, b]) - C[j, b] ** 2 * ai - C[i, b] ** 2 * aj + 2.0 * x * C[i, b] * C[j, b]
    l2 = l4 * (1.0 + C[g, g]) - C[j, g] ** 2 * ai - C[i, g] ** 2 * aj + 2.0 * x * C[i, g] * C[j, g]
    return TWO_OVER_PI * TWO_OVER_PI / math.sqrt(l4) * math.asin(l0 / math.sqrt(l1 * l2))


@kernel()
def four_point_variance(M, Q, P):
    """Ψ_Var without noise: Σ_βγ c_β c_γ I4(i, j, β, γ) for i <= j."""
    p, k = M.shape
    n = p + k
    C = field_covariance(M, Q, P)
    c = np.empty(n)
    c[:p] = -1.0 / p
    c[p:] = 1.0 / k
    out = np.empty((p, p))
    for i in range(p):
        for j in range(i, p):
            total = 0.0
            for b in range(n):
                for g in range(n):
                    total += c[b] * c[g] * four_point(C, i, j, b, g)
            out[i, j] = out[j, i] = total
    return out
