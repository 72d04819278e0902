"""Averages of pairs of neurons as power series in their correlation, for sums over many pairs.

With the coefficients a_m = E[σ(√C x) h_m(x)] of a neuron of squared norm C, Mehler's formula gives
    E[σ'_i σ'_j] = Σ_m b_m,i b_m,j ρ^m      E[σ''_i σ_j] = Σ_m c_m,i a_m,j ρ^m      ρ = C_ij/√(C_ii C_jj)
where b_m and c_m are the coefficients of σ' and σ''. The coefficients cost O(p), and a pair a few products
for each term, much less than an average in closed form of tanh, which has 64 square roots.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sweep_service.model.activations import TANH, Activation
from sweep_service.model.averages.closed_forms import (
    ROOT_TWO_OVER_PI,
    TANH_SQUARES,
    TANH_WEIGHTS,
    TWO_OVER_PI,
)
from sweep_service.model.averages.two_point import MIN_VARIANCE, coefficients, is_resolved
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import CHAIN_LANES, absolute, fma, lane, load8, round_up_to_lanes, store
from sweep_service.numerics.types import Array
from sweep_service.numerics.vector_math import ELEMENTWISE

MIN_SERIES_WIDTH = 32  # fewer pairs do not repay the coefficients
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
    roots: Array  # C^-½, padded
    is_odd: bool
    own_slope: Array  # E[σ'²]
    own_curved: Array  # E[σ''σ]
    own_value: Array  # E[σ²]

    @classmethod
    def make(cls, act: Activation, norms: Array) -> Series | None:
        """The series at these squared norms, or None if it does not converge fast enough."""
        C = np.maximum(norms, MIN_VARIANCE)
        if act is not TANH and not is_resolved(act, C):
            return None
        for b, a, c in _list_coefficients(act, C):
            bounds = np.maximum(np.abs(b).max(1) ** 2, np.abs(a).max(1) * np.abs(c).max(1))
            bounds = np.maximum(bounds / bounds.max(), np.finfo(float).tiny)
            if bounds[-1] <= MAX_LAST_TERM:
                break
        else:
            return None
        terms = 1 + int(np.max(np.nonzero(bounds > NEGLIGIBLE)[0]))
        # the rest is less than about ten times its first term
        reach = np.append(0.0, (0.1 * NEGLIGIBLE / bounds[1:terms]) ** (1.0 / np.arange(1, terms)))
        return cls(
            slope=_pad(b[:terms]),
            value=_pad(a[:terms]),
            curvature=_pad(c[:terms]),
            reach=np.maximum.accumulate(reach),
            roots=_pad(1.0 / np.sqrt(C)),
            is_odd=act.odd,
            own_slope=np.sum(b * b, axis=0),
            own_curved=np.sum(a * c, axis=0),
            own_value=np.sum(a * a, axis=0),
        )


def _list_coefficients(act: Activation, C: Array) -> Iterator[tuple[Array, Array, Array]]:
    """b, a and c of more and more orders, shape (terms, p)."""
    if act is TANH:
        for terms in TANH_TERMS:
            yield tanh_series(TANH_SQUARES, TANH_WEIGHTS, C, terms)
        return
    b, a, c = (coefficients(act, derivative, C).T for derivative in (1, 0, 2))
    if act.odd:
        b, a, c = b[0::2], a[1::2], c[1::2]
    terms = min(len(b), len(a), len(c))
    yield b[:terms], a[:terms], c[:terms]


def _pad(rows: Array) -> Array:
    """Append zeros to the last axis, up to whole vectors."""
    missing = round_up_to_lanes(rows.shape[-1], CHAIN_LANES) - rows.shape[-1]
    return np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, missing)])


@kernel(fastmath=ELEMENTWISE)
def tanh_series(squares, weights, C, terms):
    """b_2n, a_2n+1 and c_2n+1 of tanh, shape (terms, p), from those of the error functions it consists of."""
    p = C.size
    a = np.zeros((terms + 1, p))
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
    b, c = np.empty((terms, p)), np.empty((terms, p))
    for n in range(terms):
        first, second = math.sqrt(2.0 * n + 1.0), math.sqrt((2.0 * n + 2.0) * (2.0 * n + 3.0))
        for j in range(p):
            b[n, j] = first * a[n, j] / math.sqrt(C[j])
        for j in range(p):
            c[n, j] = second * a[n + 1, j] / C[j]
    return b, a[:terms].copy(), c


@kernel(force_inline=True)
def count_terms(series, inside, spread, root, node):
    """The number of terms that the correlations of a vector of pairs need; `node` is the outermost one."""
    largest = (absolute(inside) + absolute(spread * node)) * root
    x = 0.0
    for at in range(CHAIN_LANES):
        x = max(x, lane(largest, at))
    if series.is_odd:
        x *= x
    low, high = 1, series.reach.size  # terms from `high` on are not needed, those before `low` are
    while low < high:
        middle = (low + high) // 2
        if x <= series.reach[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@kernel()
def series_row(series, i, size, o, scale, nodes, weights, sums):
    """The averages of `_mixture_row` from a series, for neuron i with the first `size` ones."""
    slope, outside, curved, curved_other = sums
    wide = series.slope.shape[1]
    S, V, D = series.slope.reshape(-1), series.value.reshape(-1), series.curvature.reshape(-1)
    for at in range(0, size, CHAIN_LANES):
        inside, spread = load8(o, at), load8(scale, at)
        root = load8(series.roots, at) * series.roots[i]
        zero = root - root
        terms = count_terms(series, inside, spread, root, nodes[0])
        total, total_outside, total_curved, total_other = zero, zero, zero, zero
        for x in range(nodes.size):
            step = spread * nodes[x]
            up, down = (inside + step) * root, (inside - step) * root
            x_up, x_down = up, down
            if series.is_odd:
                x_up, x_down = up * up, down * down
            s_up, s_down, c_up, c_down, d_up, d_down = zero, zero, zero, zero, zero, zero
            for n in range(terms - 1, -1, -1):
                row = n * wide
                s = load8(S, row + at) * S[row + i]
                c, d = load8(V, row + at) * D[row + i], load8(D, row + at) * V[row + i]
                s_up, s_down = fma(s_up, x_up, s), fma(s_down, x_down, s)
                c_up, c_down = fma(c_up, x_up, c), fma(c_down, x_down, c)
                d_up, d_down = fma(d_up, x_up, d), fma(d_down, x_down, d)
            if series.is_odd:
                c_up, c_down, d_up, d_down = c_up * up, c_down * down, d_up * up, d_down * down
            weight = weights[x] / TWO_OVER_PI
            total = fma(s_up + s_down, weight, total)
            total_outside = fma((s_up - s_down) * step, weight, total_outside)
            total_curved = fma(c_up + c_down, -weight, total_curved)
            total_other = fma(d_up + d_down, -weight, total_other)
        store(slope, at, total)
        store(outside, at, total_outside)
        store(curved, at, total_curved)
        store(curved_other, at, total_other)


@kernel()
def series_power(series, M, N, q, nodes, weights, self_terms, a):
    """Σ_ij a_i a_j E[σ_i σ_j] by a series, on one half of a symmetric rule of ξ."""
    p, k = M.shape
    wide = series.value.shape[1]
    V, MT = series.value.reshape(-1), np.zeros((k, wide))
    MT[:, :p] = M.T
    flat, root, share = MT.reshape(-1), np.zeros(wide), np.zeros(wide)
    root[:p] = np.sqrt(q)
    lanes, total = np.empty(CHAIN_LANES), 0.0
    for i in range(p):
        if self_terms:
            total += a[i] * a[i] * series.own_value[i]
        else:
            share[i] = 0.5 * a[i]  # a pair of two neurons counts twice
        sums = load8(root, 0)
        sums = sums - sums
        for at in range(0, i + 1, CHAIN_LANES):
            inside = sums - sums
            for r in range(k):
                inside = fma(load8(flat, r * wide + at), N[i, r], inside)
            roots = load8(series.roots, at) * series.roots[i]
            spread = load8(root, at) * root[i]
            terms = count_terms(series, inside, spread, roots, nodes[0])
            for x in range(nodes.size):
                step = spread * nodes[x]
                up, down = (inside + step) * roots, (inside - step) * roots
                x_up, x_down = up, down
                if series.is_odd:
                    x_up, x_down = up * up, down * down
                v_up, v_down = sums - sums, sums - sums
                for n in range(terms - 1, -1, -1):
                    v = load8(V, n * wide + at) * V[n * wide + i]
                    v_up, v_down = fma(v_up, x_up, v), fma(v_down, x_down, v)
                if series.is_odd:
                    v_up, v_down = v_up * up, v_down * down
                sums = fma((v_up + v_down) * load8(share, at), weights[x], sums)
        store(lanes, 0, sums)
        share[i] = a[i]
        for at in range(CHAIN_LANES):
            total += 2.0 * a[i] * lanes[at]
    return total
