"""The steps inside a block, in order: what S2 and the wide forms of S3 share.

Given the fields L of a block's inputs on the weights it started with and the inputs' Gram matrix
G, step b sees λ_b = L_b + Σ_{b'<b} G_bb' c_b' with c = (γ/p) 𝓔 σ'(λ). A block is done in short
stretches; before each, one matrix product brings in what the earlier ones did.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sweep_service.arrays import Array
from sweep_service.kernels import kernel
from sweep_service.simd import fma, lane, load4, store
from sweep_service.simulators.activate import activate
from sweep_service.simulators.chain import Chain


class Sequence(Protocol):
    def __call__(self, L: Array, T: Array, G: Array, z: Array, C: Array) -> None:
        """Fields of students L (B, wide) and teachers T (B, tall), Gram matrix G (B, B, its lower half),
        normals z (B): L becomes the moving fields and C (B, wide) is filled."""


def sequence(chain: Chain) -> Sequence:
    """Compiled where the activations allow."""
    return _compiled(chain) if chain.compiled else _plain(chain)


def _compiled(chain: Chain) -> Sequence:
    codes, shares, mask = chain.codes, chain.shares, chain.mask
    rate, root_noise = chain.rate, chain.root_noise
    stretch = 64 if chain.rows <= 300 else 16  # where BLAS overtakes the loop

    def run(L: Array, T: Array, G: Array, z: Array, C: Array) -> None:
        for begin in range(0, len(L), stretch):
            end = min(begin + stretch, len(L))
            if begin:
                L[begin:end] += G[begin:end, :begin] @ C[:begin]
            _stretch(
                L.reshape(-1),
                T.reshape(-1),
                G,
                z,
                C.reshape(-1),
                mask,
                begin,
                end,
                rate,
                root_noise,
                shares,
                codes,
            )

    return run


@kernel()
def _stretch(L, T, G, z, C, mask, begin, end, rate, root_noise, shares, codes):
    wide, tall = mask.size, T.size // z.size
    for b in range(begin, end):
        total = 0.0 * load4(T, 0)
        for r in range(0, tall, 4):
            value, _ = activate(codes[1], load4(T, b * tall + r))
            total = total + value
        target = (lane(total, 0) + lane(total, 1)) + (lane(total, 2) + lane(total, 3))
        total = 0.0 * total
        i = 0
        while i + 16 <= wide:  # four sums at once: one alone waits for each of its additions
            at = b * wide + i
            f0, f1, f2, f3 = load4(L, at), load4(L, at + 4), load4(L, at + 8), load4(L, at + 12)
            for q in range(begin, b):
                c, g = q * wide + i, G[b, q]
                f0, f1 = fma(load4(C, c), g, f0), fma(load4(C, c + 4), g, f1)
                f2, f3 = fma(load4(C, c + 8), g, f2), fma(load4(C, c + 12), g, f3)
            store(L, at, f0)
            store(L, at + 4, f1)
            store(L, at + 8, f2)
            store(L, at + 12, f3)
            i += 16
        for rest in range(i, wide, 4):
            field = load4(L, b * wide + rest)
            for q in range(begin, b):
                field = fma(load4(C, q * wide + rest), G[b, q], field)
            store(L, b * wide + rest, field)
        for i in range(0, wide, 4):
            value, slope = activate(codes[0], load4(L, b * wide + i))
            store(C, b * wide + i, slope * load4(mask, i))
            total = total + value
        answer = (lane(total, 0) + lane(total, 1)) + (lane(total, 2) + lane(total, 3))
        push = rate * (target * shares[1] + root_noise * z[b] - answer * shares[0])
        for i in range(0, wide, 4):
            store(C, b * wide + i, push * load4(C, b * wide + i))


def _plain(chain: Chain) -> Sequence:
    """By the NumPy functions of the activations, step by step in Python."""
    p, k = chain.rows, chain.k

    def run(L: Array, T: Array, G: Array, z: Array, C: Array) -> None:
        targets = chain.teacher_activation.value(T[:, :k]).mean(axis=1) + chain.root_noise * z
        C[:, p:] = 0.0
        for b in range(len(L)):
            L[b] += G[b, :b] @ C[:b]
            field = L[b, :p]
            error = targets[b] - np.sum(chain.activation.value(field)) / chain.width
            C[b, :p] = chain.rate * error * chain.activation.slope(field)

    return run
