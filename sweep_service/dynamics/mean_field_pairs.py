"""Compiled sums over pairs of neurons in mean field, where the averages have a closed form."""

from __future__ import annotations

import math

import numpy as np

from sweep_service.model.closed_forms import ERF_CODE, TWO_OVER_PI, slope_pair, value_pair
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.vector_math import REDUCTION, asin_unit


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


@kernel(fastmath=REDUCTION)
def weighted_pairs(code, M, N, q, norms, nodes, weights, self_terms, a, da):
    """`closed_pairs` with the weights a of neurons, over half of the pairs, as all averages are symmetric.

    The sums for da/dt are added to `da`, or left out if it is None.
    """
    p, k = M.shape
    A, pull, dq, root = np.zeros(p), np.zeros((p, k)), np.zeros(p), np.sqrt(q)
    for i in range(p):
        for j in range(i + 1):
            value = 0.0
            if i == j and self_terms:
                slope, curved = slope_pair(code, norms[i], norms[i], norms[i])
                curved_other, outside = curved, q[i] * slope
                if da is not None:
                    value = value_pair(code, norms[i], norms[i], norms[i])
            else:
                o = 0.0
                for r in range(k):
                    o += N[i, r] * M[j, r]
                scale = root[i] * root[j]
                if code == ERF_CODE:
                    product = (1.0 + norms[i]) * (1.0 + norms[j])
                    slope, outside = _erf_slopes(product, o, scale, nodes, weights)
                    curved = -(o * slope + outside) / (1.0 + norms[i])
                    curved_other = -(o * slope + outside) / (1.0 + norms[j])
                    if da is not None:
                        value = _erf_values(product, o, scale, nodes, weights)
                else:
                    slope = curved = curved_other = outside = 0.0
                    for x in range(nodes.size):
                        c = scale * nodes[x]
                        s, g = slope_pair(code, norms[i], norms[j], o + c)
                        _, g_other = slope_pair(code, norms[j], norms[i], o + c)
                        slope += weights[x] * s
                        curved += weights[x] * g
                        curved_other += weights[x] * g_other
                        outside += weights[x] * c * s
                        if da is not None:
                            value += weights[x] * value_pair(code, norms[i], norms[j], o + c)
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
    return A, pull, dq, da


@kernel(fastmath=REDUCTION)
def _erf_slopes(product, o, scale, nodes, weights):
    """E_ξ of E[σ'σ'] and of √(q_i q_j) ξ E[σ'σ'] for erf; `product` is (1 + Q_ii)(1 + Q_jj)."""
    slope = outside = 0.0
    for x in range(nodes.size):
        c = scale * nodes[x]
        s = weights[x] / math.sqrt(product - (o + c) * (o + c))
        slope += s
        outside += c * s
    return TWO_OVER_PI * slope, TWO_OVER_PI * outside


@kernel(fastmath=REDUCTION)
def _erf_values(product, o, scale, nodes, weights):
    """E_ξ of E[σσ] for erf: the angles of ξ and -ξ are added before a single inverse sine."""
    total, n, inverse = 0.0, nodes.size, 1.0 / product
    for x in range((n + 1) // 2):
        c = scale * nodes[x]
        high, low = o + c, o - c
        root, root_low = math.sqrt(product - high * high), math.sqrt(product - low * low)
        sine = (high * root_low + low * root) * inverse
        cosine = (root * root_low - high * low) * inverse
        steep = abs(sine) > abs(cosine)  # near a right angle its cosine is the accurate one
        angle = asin_unit(cosine if steep else sine)
        if steep:
            angle = math.copysign(0.5 * math.pi - angle, sine)
        elif cosine < 0.0:
            angle = math.copysign(math.pi, sine) - angle
        total += weights[x] * (angle if x < n - 1 - x else 0.5 * angle)
    return TWO_OVER_PI * total
