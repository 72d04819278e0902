"""Independent computations in plain NumPy and SciPy, without a line of the package.

Averages over fields are integrals in polar coordinates over the definitions of the equations, without Stein's
lemma and without closed forms; the dynamics are those of weights, step by step.
"""

from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from scipy import special
from scipy.integrate import solve_ivp
from scipy.optimize import brentq


class Sigma(NamedTuple):
    value: object
    slope: object


SIGMAS = {
    "erf": Sigma(
        lambda x: special.erf(x / np.sqrt(2.0)), lambda x: np.sqrt(2.0 / np.pi) * np.exp(-0.5 * x * x)
    ),
    "square": Sigma(lambda x: x * x, lambda x: 2.0 * x),
    "relu": Sigma(lambda x: np.maximum(x, 0.0), lambda x: (x > 0.0).astype(float)),
    "tanh": Sigma(np.tanh, lambda x: np.cosh(np.clip(x, -300.0, 300.0)) ** -2.0),
}


def panel_rule(edges, order):
    """Composite Gauss-Legendre rule on the panels between the edges."""
    x, w = np.polynomial.legendre.leggauss(order)
    half = np.diff(edges)[:, None] / 2.0
    return (edges[:-1, None] + half * (1.0 + x)).ravel(), (half * w).ravel()


RADII, RADIAL_WEIGHTS = panel_rule(np.linspace(0.0, 9.0, 10), 10)  # beyond 9 lies 3e-18 of the weight
RADIAL_WEIGHTS = RADIAL_WEIGHTS * RADII * np.exp(-0.5 * RADII**2)


def average(functions, a, b, c):
    """E[f(u, v)] of each function, for Var u = a, Var v = b, Cov = c, in polar coordinates.

    Panels of the angle end where u or v vanishes, so that kinks lie on their edges.
    """
    x, y = np.sqrt(a), c / np.sqrt(a)
    rest = np.sqrt(max(b - y * y, 0.0))
    kinks = np.array([np.pi / 2, np.arctan2(-y, rest)])
    breaks = np.concatenate([kinks, kinks + np.pi, np.linspace(0.0, 2.0 * np.pi, 13)]) % (2.0 * np.pi)
    angles, weights = panel_rule(np.unique(np.append(breaks, [0.0, 2.0 * np.pi])), 12)
    u = x * np.outer(RADII, np.cos(angles))
    v = np.outer(RADII, y * np.cos(angles) + rest * np.sin(angles))
    measure = np.outer(RADIAL_WEIGHTS, weights) / (2.0 * np.pi)
    return np.array([np.sum(measure * f(u, v)) for f in functions])


def pulls(student, other, cov, thirds):
    """E[σ'(u) w σ_other(v)] for each w; `cov` is of (u, v), a row of `thirds` that of w with (u, v).

    Given u and v, the mean of w is its regression on them.
    """
    (a, c), (_, b) = cov
    moments = average(
        [
            lambda u, v: student.slope(u) * u * other.value(v),
            lambda u, v: student.slope(u) * v * other.value(v),
        ],
        a, b, c,
    )  # fmt: skip
    return np.asarray(thirds) @ np.linalg.pinv(np.asarray(cov), rcond=1e-12) @ moments


def overlap_flow(student, teacher, M, Q, P):
    """dM, dQ of the gradient flow: E[σ'(λ_i) λ*_r 𝓔] and E[σ'(λ_i) λ_j 𝓔] + transpose."""
    p, k = M.shape
    omega = np.block([[Q, M], [M.T, P]])
    phi = np.zeros((p, p + k))
    for i in range(p):
        for beta in range(p + k):
            sign, other = (-1.0 / p, student) if beta < p else (1.0 / k, teacher)
            cov = omega[np.ix_((i, beta), (i, beta))]
            phi[i] += sign * pulls(student, other, cov, omega[:, (i, beta)])
    return phi[:, p:], phi[:, :p] + phi[:, :p].T


def xi_rule(D, nodes=32):
    """The inner product of random unit vectors in D dimensions: their angle has the density sin^(D-2)."""
    if D == 1:
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    angles, weights = panel_rule(np.linspace(0.0, np.pi, 3), nodes // 2)
    weights = weights * np.sin(angles) ** (D - 2)
    return np.cos(angles), weights / weights.sum()


def mean_field_flow(student, teacher, M, q, P, D):
    """dM, dq: a pair of neurons overlaps by o_ij + √(q_i q_j) ξ, a neuron with itself by o_ii + q_i."""
    p, k = M.shape
    N = M @ np.linalg.inv(P)
    inside = N @ M.T
    norms = np.diag(inside) + q
    nodes, weights = xi_rule(D) if D else (np.zeros(1), np.ones(1))
    dM, d_norms = np.zeros_like(M), np.zeros(p)
    for i in range(p):
        total = np.zeros(k + 1)  # E[σ'(λ_i) w 𝓔] for w = λ*_1, ..., λ*_k and λ_i
        for r in range(k):
            cov = [[norms[i], M[i, r]], [M[i, r], P[r, r]]]
            thirds = [*np.column_stack([M[i], P[r]]), (norms[i], M[i, r])]
            total += pulls(student, teacher, cov, thirds) / k
        for j in range(p):
            overlaps = [(norms[i], 1.0)] if i == j else zip(
                inside[i, j] + np.sqrt(q[i] * q[j]) * nodes, weights, strict=True
            )  # fmt: skip
            for c, weight in overlaps:
                cov = [[norms[i], c], [c, norms[j]]]
                thirds = [*np.column_stack([M[i], M[j]]), (norms[i], c)]
                total -= weight * pulls(student, student, cov, thirds) / p
        dM[i], d_norms[i] = total[:k], 2.0 * total[k]
    return dM, d_norms - 2.0 * np.sum(N * dM, axis=1)


def sampling_term(student, teacher, m, q, t):
    """E[σ'(λ)² (σ*(λ*) - σ(λ))²] of one student and one teacher."""
    return average(
        [lambda u, v: student.slope(u) ** 2 * (teacher.value(v) - student.value(u)) ** 2], q, t, m
    )[0]


def four_point_sampling_term(M, Q, P):
    """E[σ'_i σ'_j 𝓔²] for erf by the four-point function of Saad and Solla."""
    p, k = M.shape
    omega, c = np.block([[Q, M], [M.T, P]]), np.append(np.full(p, -1.0 / p), np.full(k, 1.0 / k))

    def four_point(C):
        L4 = (1 + C[0, 0]) * (1 + C[1, 1]) - C[0, 1] ** 2
        L0 = (
            L4 * C[2, 3] - C[1, 2] * C[1, 3] * (1 + C[0, 0]) - C[0, 2] * C[0, 3] * (1 + C[1, 1])
            + C[0, 1] * C[0, 2] * C[1, 3] + C[0, 1] * C[0, 3] * C[1, 2]
        )  # fmt: skip
        L1, L2 = (
            L4 * (1 + C[n, n]) - C[1, n] ** 2 * (1 + C[0, 0]) - C[0, n] ** 2 * (1 + C[1, 1])
            + 2 * C[0, 1] * C[0, n] * C[1, n]
            for n in (2, 3)
        )  # fmt: skip
        return 4.0 / np.pi**2 / np.sqrt(L4) * np.arcsin(L0 / np.sqrt(L1 * L2))

    result = np.zeros((p, p))
    for i, j in np.ndindex(p, p):
        for x, y in np.ndindex(p + k, p + k):
            at = (i, j, x, y)
            result[i, j] += c[x] * c[y] * four_point(omega[np.ix_(at, at)])
    return result


def erf_flow(M, Q, P):
    """The gradient flow for erf by the three-point function of Saad and Solla, for all triples at once."""
    p, k = M.shape
    omega, c = np.block([[Q, M], [M.T, P]]), np.append(np.full(p, -1.0 / p), np.full(k, 1.0 / k))
    norms = np.diag(omega)
    C11, C33 = 1.0 + norms[:p, None, None], 1.0 + norms[None, None, :]
    C12, C13, C23 = omega[:p, :, None], omega[:p, None, :], omega[None, :, :]
    I3 = 2.0 / np.pi * (C23 * C11 - C12 * C13) / (C11 * np.sqrt(C11 * C33 - C13**2))
    phi = I3 @ c
    return phi[:, p:], phi[:, :p] + phi[:, :p].T


def erf_risk(M, Q, P):
    terms = []
    for C, a, b in ((Q, np.diag(Q), np.diag(Q)), (M, np.diag(Q), np.diag(P)), (P, np.diag(P), np.diag(P))):
        terms.append(2.0 / np.pi * np.mean(np.arcsin(C / np.sqrt(np.outer(1 + a, 1 + b)))))
    return 0.5 * (terms[0] - 2.0 * terms[1] + terms[2])


def lower_triangle(M, Q):
    return np.concatenate([M.ravel(), Q[np.tril_indices(len(Q))]])


def spectrum(flow, M, Q, step=1e-5):
    """Real parts of the eigenvalues of a flow's linearisation, the largest first, by central differences."""
    (p, k), rows = M.shape, np.tril_indices(len(Q))
    start = lower_triangle(M, Q)

    def evaluate(y):
        full = np.zeros((p, p))
        full[rows] = y[p * k :]
        return lower_triangle(*flow(y[: p * k].reshape(p, k), full + np.tril(full, -1).T))

    units = np.eye(start.size)
    J = np.array([(evaluate(start + step * e) - evaluate(start - step * e)) / (2.0 * step) for e in units]).T
    return np.sort(np.linalg.eigvals(J).real)[::-1]


def plateau(k):
    """The unspecialised fixed point of erf students with P = I: M_ir = m and Q_ij = k m², by root finding."""

    def residual(m):
        return erf_flow(np.full((2, k), m), np.full((2, 2), k * m * m), np.eye(k))[0][0, 0]

    return brentq(residual, 0.05, 1.0, xtol=1e-15)


def critical_rate(sigma, k):
    """The γ/p at which W = W* becomes unstable, for p = k students in high dimension without noise.

    With W = W* + δ, 𝓔 = -(1/k) Σ_l σ'(λ*_l) δ_l·x to first order, and C = δ δᵀ/d outside the span of the
    teacher obeys dC/dt = -(HC + CH)/k + (γ/p) V[C]/k² with H_ij = E[σ'_i σ'_j] and
    V[C]_ij = Σ_lm E[σ'_i σ'_j σ'_l σ'_m] C_lm, of independent fields λ* ~ N(0, 1).
    """
    x, w = panel_rule(np.linspace(-10.0, 10.0, 41), 12)
    w = w * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
    power = [w @ sigma.slope(x) ** n for n in range(5)]

    def moment(*indices):
        return np.prod([power[n] for n in np.bincount(indices)])

    H = np.array([[moment(i, j) for j in range(k)] for i in range(k)])
    pairs = list(combinations_with_replacement(range(k), 2))
    drift, noise = np.zeros((len(pairs), len(pairs))), np.zeros((len(pairs), len(pairs)))
    for column, (l, m) in enumerate(pairs):
        C = np.zeros((k, k))
        C[l, m] = C[m, l] = 1.0
        D = -(H @ C + C @ H) / k
        for row, (i, j) in enumerate(pairs):
            drift[row, column] = D[i, j]
            noise[row, column] = moment(i, j, l, m) * C.sum() / k**2
    return brentq(lambda rate: np.linalg.eigvals(drift + rate * noise).real.max(), 0.01, 100.0)


def sgd_ensemble(student, teacher, W, W_star, *, gamma, noise, steps, seed):
    """M and Q of chains W (chain, p, d) after each of `steps`, by the definition, on own random numbers."""
    W, rng = W.copy(), np.random.default_rng(seed)
    (chains, p, d), k = W.shape, len(W_star)
    result = []
    for step in range(max(steps) + 1):
        if step in steps:
            result.append((W @ W_star.T / d, W @ W.transpose(0, 2, 1) / d))
        x = rng.standard_normal((chains, d)) / np.sqrt(d)
        fields = (W @ x[:, :, None])[:, :, 0]
        labels = teacher.value(x @ W_star.T).sum(1) / k + np.sqrt(noise) * rng.standard_normal(chains)
        error = labels - student.value(fields).sum(1) / p
        W += (gamma / p) * (student.slope(fields) * error[:, None])[:, :, None] * x[:, None, :]
    M, Q = zip(*result, strict=True)
    return np.stack(M, axis=1), np.stack(Q, axis=1)


def weight_flow_risk(sigma, W, W_star, times, nodes=10):
    """R(t) along dW/dt = d E[σ'(Wx) 𝓔 x], the average over x by Gauss-Hermite in d dimensions; odd σ."""
    (p, d), k = W.shape, len(W_star)
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    X = np.stack(np.meshgrid(*[x] * d), axis=-1).reshape(-1, d) / np.sqrt(d)
    weights = np.prod(np.stack(np.meshgrid(*[w / w.sum()] * d), axis=-1).reshape(-1, d), axis=1)
    half = X @ np.array([1.0, 1e-3, 1e-6, 1e-9])[:d] > 0.0  # x and -x contribute the same
    X, weights = X[half], 2.0 * weights[half]
    labels = sigma.value(X @ W_star.T).sum(1) / k

    def field(_, y):
        fields = X @ y.reshape(p, d).T
        error = labels - sigma.value(fields).sum(1) / p
        return d * ((sigma.slope(fields) * (weights * error)[:, None]).T @ X).ravel()

    path = solve_ivp(field, (0.0, times[-1]), W.ravel(), "RK45", times, rtol=1e-4, atol=1e-6)
    risks = [labels - sigma.value(X @ y.reshape(p, d).T).sum(1) / p for y in path.y.T]
    return np.array([0.5 * weights @ error**2 for error in risks])
