"""The steps inside a block, shared by S2 and the wide forms of S3.

L are the fields of the block's inputs on the weights at its beginning, and G is the Gram matrix of the
inputs. The field at step b is λ_b = L_b + Σ_{b'<b} G_bb' c_b' with c = (γ/p) 𝓔 σ'(λ). A block is
computed in short stretches; before each, one matrix product adds the effect of the earlier ones.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sweep_service.numerics.simd import round_up_to_lanes
from sweep_service.numerics.types import Array
from sweep_service.simulators.chain import Chain
from sweep_service.simulators.vector_rows import take_steps


class BlockSteps(Protocol):
    def __call__(self, L: Array, T: Array, G: Array, z: Array, C: Array) -> None:
        """Take the steps of a block.

        L (B, wide) and T (B, tall) are the fields of students and teachers, G (B, B) is the Gram matrix, of
        which the lower half is used, and z (B) are normals. L is updated to the fields at each step, and
        C (B, wide) is filled.
        """


def make_block_steps(chain: Chain) -> BlockSteps:
    """The compiled steps if both activations have kernels, else those in Python."""
    return _make_compiled(chain) if chain.compiled else _make_python(chain)


def _make_compiled(chain: Chain) -> BlockSteps:
    codes, shares, mask = chain.codes, chain.shares, chain.mask
    rate, root_noise, work = chain.rate, chain.root_noise, np.empty(round_up_to_lanes(chain.k))
    stretch = 64 if chain.rows <= 300 else 16  # steps from which BLAS is faster than the loop

    def run(L: Array, T: Array, G: Array, z: Array, C: Array) -> None:
        for begin in range(0, len(L), stretch):
            end = min(begin + stretch, len(L))
            if begin:
                L[begin:end] += G[begin:end, :begin] @ C[:begin]
            take_steps(
                L.reshape(-1), T.reshape(-1), G.reshape(-1), z, C.reshape(-1), mask, begin, end,
                rate, root_noise, shares, codes, work,
            )  # fmt: skip

    return run


def _make_python(chain: Chain) -> BlockSteps:
    """Steps in Python, with the NumPy functions of the activations."""
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
