"""The sampling term by quasi-Monte Carlo in compiled calls, for students and teachers with kernels.

Up to p ≈ 30 the products of matrices are small, and what costs is to pass over the samples once for each
operation; here eight samples at a time are taken from their normals to the weighted slopes. The equations are
those of `control_variate`, with which tests compare.
"""

from __future__ import annotations

import math

import numpy as np

from sweep_service.dynamics.sampling.control_variate import average_over_mixture, average_over_wedges
from sweep_service.model.activate import activate
from sweep_service.model.averages.closed_forms import RELU_CODE, ROOT_TWO_OVER_PI
from sweep_service.model.averages.two_point import MIN_VARIANCE
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import CHAIN_LANES, fma, load8, store

MAX_COMPILED_SAMPLING_WIDTH = 30  # measured: products of matrices by BLAS are faster from about 40 on
BLOCK = 64  # samples whose slopes stay in cache
# A pivot below this share of the variance is rounding: the field is a combination of earlier ones.
MIN_PIVOT = 1e-13


@kernel()
def factor_covariance(M, Q, P):
    """L with L Lᵀ = Ω, teachers before students; NaN if an entry of Ω is not finite.

    Teachers come first because the fields of students that have learnt depend mostly on them, and the first
    entries of Sobol points are best: late in a trajectory errors are two to four times smaller than with the
    symmetric root.
    """
    p, k = M.shape
    n = p + k
    L = np.zeros((n, n))
    L[:k, :k] = P
    L[k:, :k] = M
    L[k:, k:] = Q
    if not np.all(np.isfinite(L)):
        L[:] = np.nan
        return L
    for j in range(n):
        norm = L[j, j]
        for m in range(j):
            L[j, j] -= L[j, m] * L[j, m]
        L[j, j] = math.sqrt(L[j, j]) if L[j, j] > MIN_PIVOT * norm else 0.0
        for i in range(j + 1, n):
            for m in range(j):
                L[i, j] -= L[i, m] * L[j, m]
            L[i, j] = L[i, j] / L[j, j] if L[j, j] > 0.0 else 0.0
            L[j, i] = 0.0
    return L


@kernel()
def project_students(code, squares, weights, norms, c, b, A):
    """Coefficients b and A of `Quadratic` for students with the readout c; returns their mean."""
    mean = 0.0
    for i in range(norms.size):
        root = math.sqrt(norms[i])
        if code == RELU_CODE:
            b[i] = 0.5 * c[i]
            A[i] = c[i] / (2.0 * math.sqrt(2.0 * math.pi) * root) if root > 0.0 else 0.0
            mean += c[i] * root / math.sqrt(2.0 * math.pi)
        else:
            slope = 0.0
            for m in range(squares.size):
                slope += weights[m] / math.sqrt(squares[m] + norms[i])
            b[i], A[i] = c[i] * ROOT_TWO_OVER_PI * slope, 0.0
    return mean


@kernel()
def average_samples(student, teacher, Z, L, c, b, A, offset, p):
    """E[σ'_i σ'_j (𝓔 - q)(𝓔 + q)] over samples L z with z the columns of Z (n, N), shape (p, p).

    𝓔 = Σ_β c_β σ_β(λ_β) and q = offset + Σ_β b_β λ_β + A_β λ_β²; teachers come before students.
    """
    n, count = Z.shape
    k, z = n - p, Z.reshape(-1)
    slopes, weighted = np.empty(p * BLOCK), np.empty(p * BLOCK)
    sums = np.zeros(p * (p + 1) // 2 * CHAIN_LANES)
    size = min(BLOCK, count)
    for begin in range(0, count, size):
        for at in range(0, size, CHAIN_LANES):
            q = fma(load8(z, begin + at), 0.0, offset)
            error = q - q
            for i in range(n):
                field = load8(z, begin + at) * L[i, 0]
                for m in range(1, i + 1):
                    field = fma(load8(z, m * count + begin + at), L[i, m], field)
                q = fma(fma(field, A[i], b[i]), field, q)
                if i < k:
                    value, _ = activate(teacher, field)
                else:
                    value, slope = activate(student, field)
                    store(slopes, (i - k) * BLOCK + at, slope)
                error = fma(value, c[i], error)
            weight = (error - q) * (error + q)
            for i in range(p):
                store(weighted, i * BLOCK + at, weight * load8(slopes, i * BLOCK + at))
        entry = 0
        for i in range(p):
            for j in range(i + 1):
                total = load8(sums, entry)
                for at in range(0, size, CHAIN_LANES):
                    total = fma(load8(weighted, i * BLOCK + at), load8(slopes, j * BLOCK + at), total)
                store(sums, entry, total)
                entry += CHAIN_LANES
    out = np.empty((p, p))
    entry = 0
    for i in range(p):
        for j in range(i + 1):
            total = 0.0
            for at in range(CHAIN_LANES):
                total += sums[entry + at]
            out[i, j] = out[j, i] = total / count
            entry += CHAIN_LANES
    return out


@kernel()
def contract_quadratic(M, Q, P, b, A):
    """`Contractions` of a quadratic for fields with teachers first."""
    p, k = M.shape
    n = p + k
    omega = np.empty((n, n))
    omega[:k, :k] = P
    omega[:k, k:] = M.T
    omega[k:, :k] = M
    omega[k:, k:] = Q
    s = np.zeros(n)
    power = 0.0
    for i in range(n):
        for j in range(n):
            s[i] += omega[i, j] * b[j]
        power += b[i] * s[i]
    w, X, Y = np.zeros(p), np.zeros((p, p)), np.zeros((p, p))
    if np.any(A != 0.0):
        row = np.empty(n)
        for i in range(n):
            for j in range(n):
                power += 2.0 * A[i] * A[j] * omega[i, j] * omega[i, j]
        for i in range(p):
            row[:] = 0.0
            for m in range(n):
                share = omega[k + i, m] * A[m]
                for j in range(n):
                    row[j] += share * omega[m, j]
            for j in range(n):
                w[i] += row[j] * b[j]
            for j in range(p):
                X[i, j] = row[k + j]
            for m in range(n):
                share = row[m] * A[m]
                for j in range(p):
                    Y[i, j] += share * omega[m, k + j]
    return Q.copy(), s[k:].copy(), w, X, Y, power


@kernel()
def sample_variance(codes, squares, weights, teachers, Z, M, Q, P, c):
    """E[σ'_i σ'_j 𝓔²] by samples with a control variate, for students with a kernel.

    `codes` are those of student and teacher, `squares` and `weights` the mixture of the student, and
    `teachers` (k, 3) the first coefficients of the teacher; c has students first, as everywhere else.
    """
    p, k = M.shape
    student, teacher = codes
    L = factor_covariance(M, Q, P)
    if not math.isfinite(L[0, 0]):
        return np.full((p, p), np.nan)
    readout = np.concatenate((c[p:], c[:p]))
    b, A, mean, offset = np.empty(p + k), np.empty(p + k), 0.0, 0.0
    for r in range(k):
        norm = max(P[r, r], MIN_VARIANCE)
        mean += readout[r] * teachers[r, 0]
        b[r] = readout[r] * teachers[r, 1] / math.sqrt(norm)
        A[r] = readout[r] * teachers[r, 2] / (math.sqrt(2.0) * norm)
    mean += project_students(student, squares, weights, np.diag(Q), c, b[k:], A[k:])
    for r in range(k):
        offset += A[r] * P[r, r]
    for i in range(p):
        offset += A[k + i] * Q[i, i]
    sampled = average_samples(student, teacher, Z, L, readout, b, A, mean - offset, p)
    omega, v, w, X, Y, power = contract_quadratic(M, Q, P, b, A)
    if student == RELU_CODE:
        return sampled + average_over_wedges(mean, omega, v, w, X, Y, power)
    return sampled + average_over_mixture(squares, weights, mean, omega, v, w, X, Y, power)
