"""The steps inside a block, in order: what S2 and the wide forms of S3 share.

Given the fields L of a block's inputs on the weights it started with and the inputs' Gram matrix
G, step b sees λ_b = L_b + Σ_{b'<b} G_bb' c_b' with c = (γ/p) 𝓔 σ'(λ). A block is done in short
stretches; before each, one matrix product brings in what the earlier ones did.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sweep_service.numerics.simd import padded
from sweep_service.numerics.types import Array
from sweep_service.simulators.chain import Chain
from sweep_service.simulators.vector_rows import walk


class Sequence(Protocol):
    def __call__(self, L: Array, T: Array, G: Array, z: Array, C: Array) -> None:
        """Fields of students L (B, wide) and teachers T (B, tall), Gram matrix G (B, B, its lower half),
        normals z (B): L becomes the moving fields and C (B, wide) is filled."""


def sequence(chain: Chain) -> Sequence:
    """Compiled where the activations allow."""
    return _compiled(chain) if chain.compiled else _plain(chain)


def _compiled(chain: Chain) -> Sequence:
    codes, shares, mask = chain.codes, chain.shares, chain.mask
    rate, root_noise, work = chain.rate, chain.root_noise, np.empty(padded(chain.k))
    stretch = 64 if chain.rows <= 300 else 16  # where BLAS overtakes the loop

    def run(L: Array, T: Array, G: Array, z: Array, C: Array) -> None:
        for begin in range(0, len(L), stretch):
            end = min(begin + stretch, len(L))
            if begin:
                L[begin:end] += G[begin:end, :begin] @ C[:begin]
            walk(
                L.reshape(-1), T.reshape(-1), G.reshape(-1), z, C.reshape(-1), mask, begin, end,
                rate, root_noise, shares, codes, work,
            )  # fmt: skip

    return run


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
