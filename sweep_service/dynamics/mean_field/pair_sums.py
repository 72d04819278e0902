"""Compiled sums over pairs of neurons in mean field, where the averages have a closed form."""

from __future__ import annotations

import math

import numpy as np

from sweep_service.dynamics.mean_field.half_rule import HalfRule
from sweep_service.dynamics.mean_field.pair_series import Series, count_terms, series_averages
from sweep_service.model.averages.closed_forms import (
    ERF_CODE,
    MIXTURES,
    RELU_CODE,
    TWO_OVER_PI,
    slope_pair,
    value_pair,
)
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import CHAIN_LANES, fma, load8, square_root, store
from sweep_service.numerics.types import Array
from sweep_service.numerics.vector_math import ELEMENTWISE, REDUCTION, asin_unit, unit_angle

MIN_PRODUCT, MIN_NORM = 1e-300, 1e-150  # of squared norms, which only avoid 0/0
NEARLY_ONE = 1.0 - 1e-15  # correlations within rounding of ±1 become ±1: asin turns 1e-16 there into 1e-8


def sum_pairs(
    code: int | None,
    series: Series | None,
    state: tuple[Array, ...],
    rule: HalfRule,
    self_terms: bool,
    a: Array,
    da: Array | None,
) -> tuple[Array, Array, Array]:
    """`PairwiseFlow.sum_matrices` without matrices, in closed form or by series; the state is (M, N, q, Qd).

    All averages are symmetric, so half of the pairs suffice. The sums for da/dt are added to `da`, or left
    out if it is None.
    """
    arguments = *state, rule, self_terms, a, da
    if series is None and code not in MIXTURES and code != RELU_CODE:
        return other_pairs(code, *arguments)
    code = ERF_CODE if code is None else code  # not used by a complete series
    return symmetric_pairs(code, *MIXTURES.get(code, MIXTURES[ERF_CODE]), series, *arguments)


@kernel(fastmath=REDUCTION)
def symmetric_pairs(code, squares, shares, series, M, N, q, norms, rule, self_terms, a, da):
    """`sum_pairs` of erf, tanh and relu, or by a series unless it is None.

    Loops over neurons are SIMD, so each has few arrays.
    """
    p, k = M.shape
    MT, weighted_MT, root, factor = M.T.copy(), M.T * a, np.sqrt(q), TWO_OVER_PI / p
    A, pull, dq = np.zeros(p), np.zeros((k, p)), np.zeros(p)
    wide = p + CHAIN_LANES  # the last vector may reach beyond p
    o, scale, work = np.zeros(wide), np.zeros(wide), np.empty((4, p))
    slope, outside, curved, curved_other = np.empty(wide), np.empty(wide), np.empty(wide), np.empty(wide)
    value, padded_norms, powers = np.empty(wide), np.ones(wide), (np.empty(0), np.empty(0))
    padded_norms[:p] = norms
    if series is not None:
        powers = np.empty(series.reach.size * CHAIN_LANES), np.empty(series.reach.size * CHAIN_LANES)
    for i in range(p):
        size = i if self_terms else i + 1
        for j in range(size):
            o[j] = 0.0
            scale[j] = root[i] * root[j]
        for r in range(k):
            c = N[i, r]
            for j in range(size):
                o[j] += c * MT[r, j]
        sums = slope, outside, curved, curved_other
        if code == RELU_CODE:
            _relu_row(norms[i], norms[:size], o, scale, rule, sums, None if da is None else value, work)
        else:
            arguments = padded_norms, o, scale, rule, sums, value, da, powers
            _smooth_row(squares, shares, series, i, size, *arguments)
        own = factor * a[i]
        for j in range(i):
            A[j] += own * curved_other[j]
        for j in range(i):
            dq[j] -= 2.0 * own * outside[j]
        A[i] += factor * _dot(a, curved, size)
        dq[i] -= 2.0 * factor * _dot(a, outside, size)
        for r in range(k):
            c = own * M[i, r]
            for j in range(i):
                pull[r, j] -= c * slope[j]
            pull[r, i] -= factor * _dot(weighted_MT[r], slope, size)
        if da is not None:
            for j in range(i):
                da[j] -= own * value[j]
            da[i] -= factor * _dot(a, value, size)
        if self_terms:
            if series is not None and series.is_complete:
                s, g, v = series.own_slope[i], series.own_curved[i], series.own_value[i]
            else:
                s, g = slope_pair(code, norms[i], norms[i], norms[i])
                v = 0.0 if da is None else value_pair(code, norms[i], norms[i], norms[i])
            A[i] -= a[i] * g / p
            dq[i] -= 2.0 * a[i] * q[i] * s / p
            for r in range(k):
                pull[r, i] -= a[i] * s * M[i, r] / p
            if da is not None:
                da[i] -= a[i] * v / p
    return A, pull.T.copy(), dq


@kernel(fastmath=REDUCTION)
def _dot(x, y, size):
    total = 0.0
    for j in range(size):
        total += x[j] * y[j]
    return total


@kernel()
def _smooth_row(squares, shares, series, i, size, norms, o, scale, rule, sums, value, da, powers):
    """Averages of neuron i with the first `size` ones, divided by 2/π.

    Fills E_ξ of E[σ'σ'], of √(q_i q_j) ξ E[σ'σ'], and of -E[σ''σ] in both orders, and unless `da` is None
    `value` with E[σσ]; a series is used at the nodes of ξ where it has enough terms.
    """
    slope, outside, curved, curved_other = sums
    unit, nodes = 1.0 / TWO_OVER_PI, rule.nodes
    for at in range(0, size, CHAIN_LANES):
        pairs = norms[i], load8(norms, at), load8(o, at), load8(scale, at)
        if series is None:
            s, x, c, d, v = mixture_averages(squares, shares, *pairs, rule, rule.nodes.size, da)
        else:
            inside, spread = load8(o, at), load8(scale, at)
            root = load8(series.roots, at) * series.roots[i]
            first = 0  # the nodes before it are left to the closed form
            while first < nodes.size and not count_terms(series, inside, spread, root, nodes[first]):
                first += 1
            s, x, c, d, v = series_averages(series, i, at, inside, spread, root, rule, first, da, powers)
            s, x, c, d, v = s * unit, x * unit, c * unit, d * unit, v * unit
            if first > 0:
                more = mixture_averages(squares, shares, *pairs, rule, first, da)
                s, x, c, d, v = s + more[0], x + more[1], c + more[2], d + more[3], v + more[4]
        store(slope, at, s)
        store(outside, at, x)
        store(curved, at, c)
        store(curved_other, at, d)
        store(value, at, v)


@kernel(force_inline=True)
def mixture_averages(squares, shares, norm, norms, inside, spread, rule, count, da):
    """The averages of `_smooth_row` for a vector of pairs in closed form, at the first `count` nodes of ξ.

    The angles asin(up/√product) + asin(down/√product) come from sine and cosine of their sum.
    """
    zero = inside - inside
    slope, outside, curved, curved_other, value = zero, zero, zero, zero, zero
    is_whole = count == rule.nodes.size
    for left in range(squares.size):
        own = squares[left] + norm
        for right in range(squares.size):
            share = shares[left] * shares[right]
            product, part, part_outside, part_value = own * (squares[right] + norms), zero, zero, zero
            inverse_product = 1.0 / product
            for x in range(count):
                step, weight = spread * rule.nodes[x], rule.weights[x]
                up, down = inside + step, inside - step
                high = square_root(fma(-1.0 * up, up, product))
                low = square_root(fma(-1.0 * down, down, product))
                inverse = 1.0 / (high * low)
                part = fma((high + low) * inverse, weight, part)
                difference = (low - high) * inverse
                part_outside = fma(difference, weight * step, part_outside)
                if da is not None:
                    if is_whole:
                        part_value = fma(difference, rule.first[x], part_value)
                        if rule.second[x] != 0.0:
                            steep, flat = low * inverse, high * inverse
                            bend = fma(up * steep, steep * steep, down * flat * flat * flat)
                            part_value = fma(spread * rule.second[x], bend, part_value)
                    else:
                        sine, cosine = fma(up, low, down * high), fma(high, low, -1.0 * up * down)
                        angle = unit_angle(sine * inverse_product, cosine * inverse_product)
                        value = fma(share * weight, angle, value)
            if da is not None and is_whole:
                step = spread * rule.anchor
                up, down = inside + step, inside - step
                high = square_root(fma(-1.0 * up, up, product))
                low = high if rule.anchor == 0.0 else square_root(fma(-1.0 * down, down, product))
                sine, cosine = fma(up, low, down * high), fma(high, low, -1.0 * up * down)
                angle = unit_angle(sine * inverse_product, cosine * inverse_product)
                value = fma(0.5 * share, fma(spread, part_value, angle), value)
            slope, outside = fma(part, share, slope), fma(part_outside, share, outside)
            part = share * fma(inside, part, part_outside)
            curved = fma(part, 1.0 / own, curved)
            curved_other = fma(part, own * inverse_product, curved_other)
    return slope, outside, curved, curved_other, value


@kernel(fastmath=ELEMENTWISE)
def _relu_row(norm, norms, o, scale, rule, sums, value, work):
    """`_smooth_row` of relu: E[σ'σ'] = (π/2 + asin ρ)/2π and E[σ''_i σ_j] = √(b/a) √(1-ρ²)/2π."""
    slope, outside, curved, curved_other = sums
    inverse, high, low, arc = work[0], work[1], work[2], work[3]
    size = norms.size
    for j in range(size):
        inverse[j] = 1.0 / math.sqrt(max(norm * norms[j], MIN_PRODUCT))
    slope[:] = 0.0
    outside[:] = 0.0
    arc[:size] = 0.0
    for x in range(rule.nodes.size):
        node, weight = rule.nodes[x], rule.weights[x]
        for j in range(size):
            up = (o[j] + node * scale[j]) * inverse[j]
            high[j] = up if abs(up) < NEARLY_ONE else math.copysign(1.0, up)
        for j in range(size):
            down = (o[j] - node * scale[j]) * inverse[j]
            low[j] = down if abs(down) < NEARLY_ONE else math.copysign(1.0, down)
        for j in range(size):
            arc[j] += weight * math.sqrt((1.0 - high[j]) * (1.0 + high[j]))
        for j in range(size):
            arc[j] += weight * math.sqrt((1.0 - low[j]) * (1.0 + low[j]))
        for j in range(size):
            high[j] = asin_unit(high[j])
        for j in range(size):
            low[j] = asin_unit(low[j])
        for j in range(size):
            slope[j] += weight * (high[j] + low[j])
        for j in range(size):
            outside[j] += weight * node * scale[j] * (high[j] - low[j])
    for j in range(size):
        slope[j] = 0.25 * (0.5 * math.pi + slope[j])
    for j in range(size):
        outside[j] *= 0.25
    for j in range(size):
        high[j] = math.sqrt(norms[j] / max(norm, MIN_NORM))
    for j in range(size):
        curved[j] = -0.25 * arc[j] * high[j]
    for j in range(size):
        curved_other[j] = -0.25 * arc[j] / max(high[j], MIN_NORM)
    if value is not None:  # relu(v) = v θ(v)
        for j in range(size):
            value[j] = o[j] * slope[j] + outside[j] - norm * curved[j]


@kernel()
def square_pairs(M, N, q, norms, spread, self_terms, a, da):
    """`sum_pairs` of x², whose averages are moments of C_ij: O(p k²). `spread` is E ξ²."""
    p, k = M.shape
    A, pull, dq = np.zeros(p), np.empty((p, k)), np.empty(p)
    gram, total, power = M.T @ (M.T * a).T, 0.0, 0.0
    for j in range(p):
        total += a[j] * q[j]
        power += a[j] * norms[j]
    for i in range(p):
        itself = a[i] if self_terms else 0.0
        others = total - itself * q[i]
        A[i] = -2.0 * power / p
        dq[i] = -8.0 * q[i] * (spread * others + itself * norms[i]) / p
        squares = spread * q[i] * others + itself * q[i] * (2.0 * norms[i] - q[i])  # Σ_j a_j E[C_ij²]
        for t in range(k):
            inside = 0.0
            for r in range(k):
                inside += N[i, r] * gram[r, t]
            squares += inside * N[i, t]
            pull[i, t] = -4.0 * (inside + itself * q[i] * M[i, t]) / p
        if da is not None:
            da[i] = -(power * norms[i] + 2.0 * squares) / p
    return A, pull, dq


@kernel(fastmath=REDUCTION)
def other_pairs(code, M, N, q, norms, rule, self_terms, a, da):
    """`sum_pairs` of any closed form."""
    p, k = M.shape
    nodes, weights = rule.nodes, rule.weights
    A, pull, dq, root = np.zeros(p), np.zeros((p, k)), np.zeros(p), np.sqrt(q)
    for i in range(p):
        for j in range(i + 1):
            slope = curved = curved_other = outside = value = o = 0.0
            if i == j and self_terms:
                slope, curved = slope_pair(code, norms[i], norms[i], norms[i])
                outside, value = q[i] * slope, value_pair(code, norms[i], norms[i], norms[i])
            else:
                for r in range(k):
                    o += N[i, r] * M[j, r]
                for x in range(2 * nodes.size):
                    c, weight = root[i] * root[j] * nodes[x // 2] * (1.0 - 2.0 * (x % 2)), weights[x // 2]
                    s, g = slope_pair(code, norms[i], norms[j], o + c)
                    _, g_other = slope_pair(code, norms[j], norms[i], o + c)
                    v = value_pair(code, norms[i], norms[j], o + c) if da is not None else 0.0
                    slope += weight * s
                    curved += weight * g
                    curved_other += weight * g_other
                    outside += weight * c * s
                    value += weight * v
            own, other = a[i] / p, a[j] / p
            A[i] -= curved * other
            dq[i] -= 2.0 * outside * other
            for r in range(k):
                pull[i, r] -= slope * M[j, r] * other
            if da is not None:
                da[i] -= value * other
            if i != j:
                A[j] -= curved_other * own
                dq[j] -= 2.0 * outside * own
                for r in range(k):
                    pull[j, r] -= slope * M[i, r] * own
                if da is not None:
                    da[j] -= value * own
    return A, pull, dq


@kernel()
def add_teachers(code, M, P, q, norms, share, A, dM, dq, da):
    """Complete the sums over students by those over teachers, with share = a*/k."""
    p, k = M.shape
    for i in range(p):
        for r in range(k):
            slope, curved = slope_pair(code, norms[i], P[r, r], M[i, r])
            A[i] += share[r] * curved
            for t in range(k):
                dM[i, t] += share[r] * slope * P[r, t]
            if da is not None:
                da[i] += share[r] * value_pair(code, norms[i], P[r, r], M[i, r])
        for t in range(k):
            dM[i, t] += A[i] * M[i, t]
        dq[i] += 2.0 * q[i] * A[i]
