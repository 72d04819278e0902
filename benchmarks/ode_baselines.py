"""The overlap flow of erf as a strong user compiles it: one function, with sums over half of the pairs.

`tests/test_benchmarks.py` checks that it agrees with the package.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks.baselines import SUMS, TWO_OVER_PI, field_covariance
from sweep_service.numerics.jit import kernel


@kernel(fastmath=SUMS)
def overlap_flow(y, p, P, noise, sampling, out):
    """dM and the lower triangle of dQ, with noise = γΔ/p, and sampling = γ/p or 0."""
    k = P.shape[0]
    n, at = p + k, p * k
    M, Q = y[:at].reshape(p, k), np.empty((p, p))
    for i in range(p):
        for j in range(i + 1):
            Q[i, j] = Q[j, i] = y[at]
            at += 1
    omega, c = field_covariance(M, Q, P), np.empty(n)
    c[:p] = -1.0 / p
    c[p:] = 1.0 / k
    push, var, a = np.zeros((p, n)), np.zeros((p, p)), np.empty(n)
    slopes = np.empty((p, n))
    for i in range(n):
        a[i] = 1.0 + omega[i, i]
    u, v, g = np.empty(n), np.empty(n), np.empty(n)
    for i in range(p):
        pull = 0.0
        for b in range(n):
            x = omega[i, b]
            slopes[i, b] = TWO_OVER_PI / math.sqrt(a[i] * a[b] - x * x)
            pull -= c[b] * slopes[i, b] * x
        pull /= a[i]
        for l in range(n):
            push[i, l] = pull * omega[i, l]
        for b in range(n):
            share = c[b] * slopes[i, b]
            for l in range(n):
                push[i, l] += share * omega[b, l]
        for j in range(i + 1):
            var[i, j] = noise * slopes[i, j]
            if sampling > 0.0:
                var[i, j] += sampling * four_point_sum(omega, c, a, i, j, u, v, g)
    at = p * k
    for i in range(p):
        for r in range(k):
            out[i * k + r] = push[i, p + r]
        for j in range(i + 1):
            out[at] = push[i, j] + push[j, i] + var[i, j]
            at += 1


@kernel(fastmath=SUMS)
def four_point_sum(omega, c, a, i, j, u, v, g):
    """Σ_βγ c_β c_γ I4(i, j, β, γ), with all that does not depend on both β and γ computed once."""
    x = omega[i, j]
    det = a[i] * a[j] - x * x
    n = c.size
    for m in range(n):
        u[m] = (a[j] * omega[i, m] - x * omega[j, m]) / det
        v[m] = (a[i] * omega[j, m] - x * omega[i, m]) / det
        g[m] = 1.0 / math.sqrt(a[m] - u[m] * omega[i, m] - v[m] * omega[j, m])
    total = 0.0
    for m in range(n):
        row = 0.5 * c[m] * math.asin(1.0 - g[m] * g[m])
        for l in range(m):
            row += c[l] * math.asin((omega[m, l] - u[m] * omega[i, l] - v[m] * omega[j, l]) * g[m] * g[l])
        total += 2.0 * c[m] * row
    return TWO_OVER_PI * TWO_OVER_PI / math.sqrt(det) * total
