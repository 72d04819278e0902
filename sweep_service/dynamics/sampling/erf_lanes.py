"""The sampling term of erf with eight pairs of students in the lanes of vectors.

Var_ij = (2/π)²/√L4 Σ_βγ c_β c_γ asin(x_βγ), where x_βγ = C_βγ/√((1+C_ββ)(1+C_γγ)) at the tilted overlaps C of
the pair (see `variance.sum_erf_variance`). As C <= Ω, no |x_βγ| exceeds B = max Ω_ββ/(1+Ω_ββ). So asin x is
x times a polynomial in x² on [0, B²], without a root or a branch; its degree grows with B.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sweep_service.model.averages.closed_forms import TWO_OVER_PI
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import CHAIN_LANES, fma, lane, load8, square_root, store
from sweep_service.numerics.types import Array
from sweep_service.numerics.vector_math import fit_polynomial

MIN_WIDTH = 8  # of students; fewer pairs do not repay the choice of a series
# Ranges of x²; the last holds at all norms below 4.7, beyond which a root is cheaper than more terms.
LARGEST_SQUARES = (0.15, 0.25, 0.35, 0.45, 0.57, 0.68)
ROUNDING = 1e-16
COLUMNS = 4  # terms that are summed at once, because each waits for its polynomial


class ArcsineSeries(NamedTuple):
    """asin(x)/x as a polynomial in s = slope·x² - 1, lowest power first."""

    coefficients: Array
    slope: float


def choose_series(Q: Array, P: Array) -> ArcsineSeries | None:
    """The series for a state; None if there are too few students, or if norms are too large or NaN."""
    if len(Q) < MIN_WIDTH:
        return None
    largest = max(float(Q.max()), float(P.max()))  # on the diagonals
    bound = (largest / (1.0 + largest)) ** 2
    return next((arcsine_series(square) for square in LARGEST_SQUARES if bound <= square), None)


@lru_cache(maxsize=len(LARGEST_SQUARES))
def arcsine_series(largest_square: float) -> ArcsineSeries:
    """The series for x² up to `largest_square`, exact to rounding."""

    def ratio(s: Any) -> Any:
        x = np.sqrt(np.maximum((np.asarray(s) + 1.0) * (0.5 * largest_square), 1e-300))
        return np.arcsin(x) / x

    # Chebyshev coefficients fall like rate^-n, because asin(√z) is singular at z = 1.
    middle = 2.0 / largest_square - 1.0
    rate = middle + math.sqrt(middle * middle - 1.0)
    degree = math.ceil(-math.log(ROUNDING) / math.log(rate))
    return ArcsineSeries(np.array(fit_polynomial(ratio, degree)), 2.0 / largest_square)


@kernel(force_inline=True)
def _correlation(m, um, vm, gm, omega, first, second, g, l):
    """x_ml in each lane."""
    C = fma(um, load8(first, 8 * l), fma(vm, load8(second, 8 * l), 0.0 * um + omega[m, l]))
    return C * (gm * load8(g, 8 * l))


@kernel()
def sum_pairs_in_lanes(series, M, Q, P, c):
    """Var (p, p), with all x² in the range of the series."""
    p, k = M.shape
    n, wide = p + k, p + k + COLUMNS
    omega = np.zeros((n, wide))
    for i in range(n):
        for j in range(n):
            if j < p:
                omega[i, j] = Q[i, j] if i < p else M[j, i - p]
            else:
                omega[i, j] = M[i, j - p] if i < p else P[i - p, j - p]
    # Of the pairs in the lanes: Ω_iβ, Ω_jβ, what a tilt subtracts of them, and (1 + C_ββ)^-½.
    first, second = np.zeros(8 * wide), np.zeros(8 * wide)
    u, v, g = np.zeros(8 * wide), np.zeros(8 * wide), np.zeros(8 * wide)
    own, other, both = np.ones(8), np.ones(8), np.zeros(8)
    rows, columns, weights = np.zeros(8, np.int64), np.zeros(8, np.int64), np.zeros(wide)
    coefficients, slope, top = series.coefficients, series.slope, series.coefficients.size - 1
    out = np.empty((p, p))
    i = j = used = 0
    while i < p:
        rows[used], columns[used] = i, j
        used += 1
        j += 1
        if j > i:
            i, j = i + 1, 0
        if used < CHAIN_LANES and i < p:
            continue
        for s in range(used):
            a, b = rows[s], columns[s]
            own[s], other[s], both[s] = 1.0 + omega[a, a], 1.0 + omega[b, b], omega[a, b]
            for m in range(n):
                first[8 * m + s], second[8 * m + s] = omega[a, m], omega[b, m]
        A, B, x = load8(own, 0), load8(other, 0), load8(both, 0)
        det = A * B - x * x
        inverse = -1.0 / det
        for m in range(n):
            o, q = load8(first, 8 * m), load8(second, 8 * m)
            um, vm = (B * o - x * q) * inverse, (A * q - x * o) * inverse
            store(u, 8 * m, um)
            store(v, 8 * m, vm)
            store(g, 8 * m, 1.0 / square_root(fma(um, o, fma(vm, q, 0.0 * o + (1.0 + omega[m, m])))))
            weights[m] = 0.0
        total = 0.0 * det
        for m in range(n):
            um, vm, gm = load8(u, 8 * m), load8(v, 8 * m), load8(g, 8 * m)
            weights[m] = c[m]  # pairs with l < m count twice
            row = 0.0 * det
            for l in range(0, m + 1, COLUMNS):
                x0 = _correlation(m, um, vm, gm, omega, first, second, g, l)
                x1 = _correlation(m, um, vm, gm, omega, first, second, g, l + 1)
                x2 = _correlation(m, um, vm, gm, omega, first, second, g, l + 2)
                x3 = _correlation(m, um, vm, gm, omega, first, second, g, l + 3)
                s0, s1 = fma(x0 * x0, slope, -1.0), fma(x1 * x1, slope, -1.0)
                s2, s3 = fma(x2 * x2, slope, -1.0), fma(x3 * x3, slope, -1.0)
                f0 = f1 = f2 = f3 = 0.0 * row + coefficients[top]
                for power in range(top - 1, -1, -1):
                    term = coefficients[power]
                    f0, f1 = fma(f0, s0, term), fma(f1, s1, term)
                    f2, f3 = fma(f2, s2, term), fma(f3, s3, term)
                row = fma(x0 * weights[l], f0, row)
                row = fma(x1 * weights[l + 1], f1, row)
                row = fma(x2 * weights[l + 2], f2, row)
                row = fma(x3 * weights[l + 3], f3, row)
            total = fma(row, c[m], total)
            weights[m] = 2.0 * c[m]
        total = TWO_OVER_PI * TWO_OVER_PI * total / square_root(det)
        for s in range(used):
            out[rows[s], columns[s]] = out[columns[s], rows[s]] = lane(total, s)
        used = 0
    return out
