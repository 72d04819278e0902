"""Compiled sums over pairs of neurons in mean field, where the averages have a closed form."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sweep_service.dynamics.mean_field.pair_series import Series, series_row
from sweep_service.dynamics.mean_field.xi import Xi
from sweep_service.model.averages.closed_forms import (
    ERF_CODE,
    ERF_SQUARES,
    ERF_WEIGHTS,
    RELU_CODE,
    TANH_CODE,
    TANH_SQUARES,
    TANH_WEIGHTS,
    TWO_OVER_PI,
    slope_pair,
    value_pair,
)
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import CHAIN_LANES
from sweep_service.numerics.types import Array
from sweep_service.numerics.vector_math import ELEMENTWISE, REDUCTION, asin_unit

MIN_PRODUCT, MIN_NORM = 1e-300, 1e-150  # of squared norms, which only avoid 0/0
NEARLY_ONE = 1.0 - 1e-15  # correlations within rounding of ±1 become ±1: asin turns 1e-16 there into 1e-8
# σ(x) = Σ_K w_K erf(x/(K√2)): the values K² and w_K by the code of σ
MIXTURES = {ERF_CODE: (ERF_SQUARES, ERF_WEIGHTS), TANH_CODE: (TANH_SQUARES, TANH_WEIGHTS)}


@kernel(fastmath=REDUCTION)
def closed_pairs(code, M, N, q, a, nodes, weights, self_terms):
    """`PairwiseFlow.pair_sums` without temporaries, if the averages have a closed form."""
    p, k = M.shape
    A, pull, dq, root = np.zeros(p), np.zeros((p, k)), np.zeros(p), np.sqrt(q)
    for i in range(p):
        for j in range(p):
            if i == j and self_terms:
                slope, curved = slope_pair(code, a[i], a[i], a[i])
                outside = q[i] * slope
            else:
                o = 0.0
                for r in range(k):
                    o += N[i, r] * M[j, r]
                scale = root[i] * root[j]
                slope = curved = outside = 0.0
                if code == ERF_CODE:  # its curvature follows from the slope, and the loop becomes SIMD
                    product = (1.0 + a[i]) * (1.0 + a[j])
                    for x in range(nodes.size):
                        c = scale * nodes[x]
                        s = weights[x] / math.sqrt(product - (o + c) * (o + c))
                        slope += s
                        outside += c * s
                    slope, outside = TWO_OVER_PI * slope, TWO_OVER_PI * outside
                    curved = -(o * slope + outside) / (1.0 + a[i])
                else:
                    for x in range(nodes.size):
                        c = scale * nodes[x]
                        s, g = slope_pair(code, a[i], a[j], o + c)
                        slope += weights[x] * s
                        curved += weights[x] * g
                        outside += weights[x] * c * s
            A[i] -= curved / p
            dq[i] -= 2.0 * outside / p
            for r in range(k):
                pull[i, r] -= slope * M[j, r] / p
    return A, pull, dq


class HalfRule(NamedTuple):
    """Nodes of one sign of a symmetric rule of ξ; a node at zero has half its weight."""

    nodes: Array
    weights: Array

    @classmethod
    def of(cls, xi: Xi) -> HalfRule:
        size = (len(xi.nodes) + 1) // 2
        weights = xi.weights[:size].copy()
        weights[len(xi.nodes) // 2 :] *= 0.5
        return cls(xi.nodes[:size].copy(), weights)


def weighted_pairs(
    code: int, state: tuple[Array, ...], rule: HalfRule, self_terms: bool, a: Array, da: Array | None
) -> tuple[Array, Array, Array]:
    """`closed_pairs` with the weights a of neurons; the state is (M, N, q, Qd).

    All averages are symmetric, so half of the pairs suffice. The sums for da/dt are added to `da`, or left
    out if it is None.
    """
    arguments = *state, *rule, self_terms, a, da
    if code in MIXTURES or code == RELU_CODE:
        mixture = MIXTURES.get(code, MIXTURES[ERF_CODE])  # not used by relu
        return symmetric_pairs(code, *mixture, None, *arguments)
    return other_pairs(code, *arguments)


def series_pairs(
    series: Series, state: tuple[Array, ...], rule: HalfRule, self_terms: bool, a: Array
) -> tuple[Array, Array, Array]:
    """`weighted_pairs` by series, without the sums for da/dt."""
    arguments = *state, *rule, self_terms, a, None
    return symmetric_pairs(ERF_CODE, *MIXTURES[ERF_CODE], series, *arguments)  # no mixture is used


@kernel(fastmath=REDUCTION)
def symmetric_pairs(code, squares, shares, series, M, N, q, norms, nodes, weights, self_terms, a, da):
    """`weighted_pairs` of erf, tanh and relu, or by a series unless it is None.

    Loops over neurons are SIMD, so each has few arrays.
    """
    p, k = M.shape
    MT, weighted_MT, root, factor = M.T.copy(), M.T * a, np.sqrt(q), TWO_OVER_PI / p
    A, pull, dq = np.zeros(p), np.zeros((k, p)), np.zeros(p)
    wide = p + CHAIN_LANES  # the last vector may reach beyond p
    o, scale, work = np.zeros(wide), np.zeros(wide), np.empty((5, p))
    slope, outside, curved, curved_other = np.empty(wide), np.empty(wide), np.empty(wide), np.empty(wide)
    value = np.empty(p)
    for i in range(p):
        size = i if self_terms else i + 1
        for j in range(size):
            o[j] = 0.0
            scale[j] = root[i] * root[j]
        for r in range(k):
            c = N[i, r]
            for j in range(size):
                o[j] += c * MT[r, j]
        sums = slope[:size], outside[:size], curved[:size], curved_other[:size]
        values = None if da is None else value
        if series is not None:
            whole = slope, outside, curved, curved_other
            series_row(series, i, size, o, scale, nodes, weights, whole)
        elif code == RELU_CODE:
            _relu_row(norms[i], norms, o, scale, nodes, weights, sums, values, work)
        else:
            _mixture_row(squares, shares, norms[i], norms, o, scale, nodes, weights, sums, values, work)
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
            if series is not None:
                s, g = series.own_slope[i], series.own_curved[i]
            else:
                s, g = slope_pair(code, norms[i], norms[i], norms[i])
            A[i] -= a[i] * g / p
            dq[i] -= 2.0 * a[i] * q[i] * s / p
            for r in range(k):
                pull[r, i] -= a[i] * s * M[i, r] / p
            if da is not None:
                da[i] -= a[i] * value_pair(code, norms[i], norms[i], norms[i]) / p
    return A, pull.T.copy(), dq


@kernel(fastmath=REDUCTION)
def _dot(x, y, size):
    total = 0.0
    for j in range(size):
        total += x[j] * y[j]
    return total


@kernel(fastmath=ELEMENTWISE)
def _mixture_row(squares, shares, norm, norms, o, scale, nodes, weights, sums, value, work):
    """Averages of one neuron, of squared norm `norm`, with the first ones of `norms`, divided by 2/π.

    Fills E_ξ of E[σ'σ'], of √(q_i q_j) ξ E[σ'σ'], and of -E[σ''σ] in both orders; `value` with E[σσ].
    """
    slope, outside, curved, curved_other = sums
    product, high, low, part, part_outside = work[0], work[1], work[2], work[3], work[4]
    size = slope.size
    slope[:] = 0.0
    outside[:] = 0.0
    curved[:] = 0.0
    curved_other[:] = 0.0
    if value is not None:
        value[:size] = 0.0
    for left in range(squares.size):
        own = squares[left] + norm
        for right in range(squares.size):
            square = squares[right]
            for j in range(size):
                product[j] = own * (square + norms[j])
            part[:size] = 0.0
            part_outside[:size] = 0.0
            for x in range(nodes.size):
                node, weight = nodes[x], shares[left] * shares[right] * weights[x]
                for j in range(size):
                    up, down = o[j] + node * scale[j], o[j] - node * scale[j]
                    high[j] = math.sqrt(product[j] - up * up)
                    low[j] = math.sqrt(product[j] - down * down)
                for j in range(size):
                    inverse = weight / (high[j] * low[j])
                    part[j] += (low[j] + high[j]) * inverse
                    part_outside[j] += node * scale[j] * ((low[j] - high[j]) * inverse)
                if value is not None:
                    for j in range(size):
                        up, down = o[j] + node * scale[j], o[j] - node * scale[j]
                        value[j] += weight * sum_angles(up, high[j], down, low[j], product[j])
            for j in range(size):
                slope[j] += part[j]
                outside[j] += part_outside[j]
            for j in range(size):
                part[j] = part_outside[j] + o[j] * part[j]
            for j in range(size):
                curved[j] += part[j] / own
            for j in range(size):
                curved_other[j] += part[j] / (square + norms[j])


@kernel(fastmath=ELEMENTWISE)
def _relu_row(norm, norms, o, scale, nodes, weights, sums, value, work):
    """`_mixture_row` of relu: E[σ'σ'] = (π/2 + asin ρ)/2π and E[σ''_i σ_j] = √(b/a) √(1-ρ²)/2π."""
    slope, outside, curved, curved_other = sums
    inverse, high, low, arc = work[0], work[1], work[2], work[3]
    size = slope.size
    for j in range(size):
        inverse[j] = 1.0 / math.sqrt(max(norm * norms[j], MIN_PRODUCT))
    slope[:] = 0.0
    outside[:] = 0.0
    arc[:size] = 0.0
    for x in range(nodes.size):
        node, weight = nodes[x], weights[x]
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


@kernel(fastmath=ELEMENTWISE)
def sum_angles(up, high, down, low, product):
    """asin(up/√product) + asin(down/√product), where high = √(product - up²) and low = √(product - down²)."""
    sine, cosine = up * low + down * high, high * low - up * down  # of the sum, times product
    steep = abs(sine) > abs(cosine)  # near a right angle its cosine is the accurate one
    angle = asin_unit((cosine if steep else sine) / product)
    flat = angle if cosine > 0.0 else math.copysign(math.pi, sine) - angle
    return math.copysign(0.5 * math.pi - angle, sine) if steep else flat


@kernel()
def square_pairs(M, N, q, norms, spread, self_terms, a, da):
    """`weighted_pairs` of x², whose averages are moments of C_ij: O(p k²). `spread` is E ξ²."""
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


def square_power(M: Array, N: Array, q: Array, norms: Array, spread: float, own: bool, a: Array) -> float:
    """Σ_ij a_i a_j E[λ_i² λ_j²]."""
    da = np.empty(len(a))
    square_pairs(M, N, q, norms, spread, own, a, da)
    return -len(a) * float(a @ da)


@kernel(fastmath=REDUCTION)
def other_pairs(code, M, N, q, norms, nodes, weights, self_terms, a, da):
    """`weighted_pairs` of any closed form."""
    p, k = M.shape
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
