"""Averages of pairs of neurons as power series in their correlation, for sums over many pairs.

With the coefficients a_m = E[σ(√C x) h_m(x)] of a neuron of squared norm C, Mehler's formula gives
    E[σ'_i σ'_j] = Σ_m b_m,i b_m,j ρ^m      E[σ''_i σ_j] = Σ_m c_m,i a_m,j ρ^m      ρ = C_ij/√(C_ii C_jj)
and E[σ_i σ_j] = Σ_m a_m,i a_m,j ρ^m, where b_m and c_m are the coefficients of σ' and σ''. The coefficients
cost O(p). Of a pair only E_ξ ρ^m is needed, and then a few products for each term, much less than an average
in closed form of tanh, which has 64 square roots.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sweep_service.model.activations import TANH, Activation
from sweep_service.model.averages.closed_forms import ROOT_TWO_OVER_PI, TANH_SQUARES, TANH_WEIGHTS
from sweep_service.model.averages.two_point import MIN_VARIANCE, coefficients, is_resolved
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import CHAIN_LANES, absolute, fma, lane, load8, round_up_to_lanes, store
from sweep_service.numerics.types import Array
from sweep_service.numerics.vector_math import ELEMENTWISE

TANH_TERMS = (64, 128)  # of odd order, up to 255
# Terms below this share of the largest one are left out; a last term above the other means that the series
# does not converge fast enough. These hold for ρ = 1: for most pairs the last terms are far smaller.
NEGLIGIBLE, MAX_LAST_TERM = 1e-12, 1e-10


class Series(NamedTuple):
    """Coefficients b, a, c of all neurons, shape (terms, p padded to vectors), and averages with themselves.

    If σ is odd, the terms of order m of b and a, c are those of the orders 2n and 2n + 1.
    """

    slope: Array
    value: Array
    curvature: Array
    reach: Array  # the largest x = ρ, or ρ² if σ is odd, for which the terms before this one suffice
    is_complete: bool  # whether all of them suffice for every x
    roots: Array  # C^-½, padded
    is_odd: bool
    own_slope: Array  # E[σ'²], if complete
    own_curved: Array  # E[σ''σ]
    own_value: Array  # E[σ²]

    @classmethod
    def make(cls, act: Activation, norms: Array) -> Series | None:
        """The series at these squared norms, or None if it does not converge fast enough.

        That of tanh may be incomplete: a closed form then serves pairs of large correlation.
        """
        C = np.maximum(norms, MIN_VARIANCE)
        if act is TANH:
            wide = round_up_to_lanes(len(C), CHAIN_LANES)
            for terms in TANH_TERMS:
                b, a, c = mixture_series(TANH_SQUARES, TANH_WEIGHTS, C, terms, wide)
                series = cls(*complete_series(b, a, c, C, True))
                if series.is_complete:
                    break
            return series
        if not is_resolved(act, C):
            return None
        b, a, c = (coefficients(act, derivative, C).T for derivative in (1, 0, 2))
        if act.odd:
            b, a, c = b[0::2], a[1::2], c[1::2]
        terms = min(len(b), len(a), len(c))
        b, a, c = (_pad(rows[:terms]) for rows in (b, a, c))
        series = cls(*complete_series(b, a, c, C, act.odd))
        return series if series.is_complete else None


def _pad(rows: Array) -> Array:
    """Append zeros to the last axis, up to whole vectors."""
    padded = np.zeros((len(rows), round_up_to_lanes(rows.shape[1], CHAIN_LANES)))
    padded[:, : rows.shape[1]] = rows
    return padded


@kernel(fastmath=ELEMENTWISE)
def mixture_series(squares, weights, C, terms, wide):
    """b_2n, a_2n+1 and c_2n+1 of a mixture of error functions, shape (terms, wide >= p)."""
    p = C.size
    a = np.zeros((terms + 1, wide))
    power, share = np.empty(p), np.empty(p)
    for component in range(squares.size):
        for j in range(p):
            share[j] = C[j] / (squares[component] + C[j])
        for j in range(p):
            power[j] = weights[component] * math.sqrt(share[j])
        for n in range(terms + 1):
            for j in range(p):
                a[n, j] += power[j]
            for j in range(p):
                power[j] *= share[j]
    at_zero = ROOT_TWO_OVER_PI  # of h_2n
    for n in range(terms + 1):
        for j in range(p):
            a[n, j] *= at_zero / math.sqrt(2.0 * n + 1.0)
        at_zero *= -math.sqrt((2.0 * n + 1.0) / (2.0 * n + 2.0))
    b, c = np.zeros((terms, wide)), np.zeros((terms, wide))
    for j in range(p):
        share[j] = 1.0 / math.sqrt(C[j])
    for n in range(terms):
        first, second = math.sqrt(2.0 * n + 1.0), math.sqrt((2.0 * n + 2.0) * (2.0 * n + 3.0))
        for j in range(p):
            b[n, j] = first * a[n, j] * share[j]
        for j in range(p):
            c[n, j] = second * a[n + 1, j] * share[j] * share[j]
    return b, a[:terms].copy(), c


@kernel(fastmath=ELEMENTWISE)
def complete_series(b, a, c, C, is_odd):
    """The fields of `Series` from the coefficients."""
    p, (terms, wide) = C.size, b.shape
    bounds, top = np.empty(terms), 0.0
    for n in range(terms):
        slope = value = curvature = 0.0
        for j in range(p):
            slope = max(slope, abs(b[n, j]))
        for j in range(p):
            value = max(value, abs(a[n, j]))
        for j in range(p):
            curvature = max(curvature, abs(c[n, j]))
        bounds[n] = max(slope * slope, value * curvature)
        top = max(top, bounds[n])
    is_complete = bounds[terms - 1] <= MAX_LAST_TERM * top
    while terms > 1 and bounds[terms - 1] <= NEGLIGIBLE * top:
        terms -= 1
    reach = np.zeros(terms)
    for n in range(1, terms):  # the rest is less than about ten times its first term
        share = max(bounds[n] / top, np.finfo(np.float64).tiny)
        reach[n] = max(reach[n - 1], (0.1 * NEGLIGIBLE / share) ** (1.0 / n))
    roots, own = np.zeros(wide), np.zeros((3, p))
    for j in range(p):
        roots[j] = 1.0 / math.sqrt(C[j])
    for n in range(terms):
        for j in range(p):
            own[0, j] += b[n, j] * b[n, j]
            own[1, j] += a[n, j] * c[n, j]
            own[2, j] += a[n, j] * a[n, j]
    return b, a, c, reach, is_complete, roots, is_odd, own[0].copy(), own[1].copy(), own[2].copy()


@kernel(force_inline=True)
def count_terms(series, inside, spread, root, node):
    """The number of terms that the correlations of a vector of pairs need at a node of ξ, of either sign.

    It is 0 if the series has too few.
    """
    largest = (absolute(inside) + absolute(spread * node)) * root
    x = 0.0
    for at in range(CHAIN_LANES):
        x = max(x, lane(largest, at))
    if series.is_odd:
        x *= x
    low, high = 1, series.reach.size  # terms from `high` on are not needed, those before `low` are
    if not x <= series.reach[high - 1]:
        return high if series.is_complete else 0
    while low < high:
        middle = (low + high) // 2
        if x <= series.reach[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@kernel(force_inline=True)
def average_powers(series, inside, spread, root, rule, first, even, odd):
    """E_ξ of x^n and of √(q_i q_j) ξ x^n for a vector of pairs; x is ρ, or ρ² if σ is odd.

    Only the nodes from `first` on are used, of which each is nearer to zero than those before it, and needs
    fewer terms. Returns the number of terms of the first.
    """
    zero, most, nodes = inside - inside, 0, rule.nodes
    for x in range(first, nodes.size):
        terms = count_terms(series, inside, spread, root, nodes[x])
        if x == first:
            most = terms
            for n in range(most):
                store(even, n * CHAIN_LANES, zero)
                store(odd, n * CHAIN_LANES, zero)
        step = spread * nodes[x]
        up, down = (inside + step) * root, (inside - step) * root
        if series.is_odd:
            up, down = up * up, down * down
        high, low = zero + rule.weights[x], zero + rule.weights[x]
        for n in range(0, terms * CHAIN_LANES, CHAIN_LANES):
            store(even, n, load8(even, n) + (high + low))
            store(odd, n, fma(high - low, step, load8(odd, n)))
            high, low = high * up, low * down
    return most


@kernel(force_inline=True)
def series_averages(series, i, at, inside, spread, root, rule, first, da, powers):
    """The averages of `mixture_averages` of neuron i with the vector from `at` on, each times π/2.

    Only the nodes from `first` on are used.
    """
    even, odd = powers
    wide, row = series.slope.shape[1], at
    S, V, D = series.slope.reshape(-1), series.value.reshape(-1), series.curvature.reshape(-1)
    zero = root - root
    slope, outside, curved, curved_other, value = zero, zero, zero, zero, zero
    for n in range(average_powers(series, inside, spread, root, rule, first, even, odd)):
        power, power_outside = load8(even, n * CHAIN_LANES), load8(odd, n * CHAIN_LANES)
        s, v = load8(S, row) * S[row - at + i], load8(V, row)
        slope, outside = fma(s, power, slope), fma(s, power_outside, outside)
        if series.is_odd:  # E ρ^(2n+1)
            power = fma(inside, power, power_outside) * root
        curved = fma(v * D[row - at + i], power, curved)
        curved_other = fma(load8(D, row) * V[row - at + i], power, curved_other)
        if da is not None:
            value = fma(v * V[row - at + i], power, value)
        row += wide
    return slope, outside, -1.0 * curved, -1.0 * curved_other, value
