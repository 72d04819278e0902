"""S3 with a factor of Ω as its state: a few times the cost, and risks down to 1e-17.

The weights are coordinates in an abstract orthonormal frame of D dimensions, initially their span. Each
block adds the new directions of its inputs; when the frame is full, a QR decomposition reduces it to the
span. Overlaps are never subtracted from each other, so small risks keep their digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.linalg.blas import dsyrk

from sweep_service.numerics.simd import round_up_to_lanes
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.block_steps import make_block_steps
from sweep_service.simulators.chain import Chain, Simulator, compute_overlaps
from sweep_service.simulators.wide_overlap_process import Draws

BLOCKS_PER_DECOMPOSITION = 4


class FactoredOverlapProcess(Simulator):
    """One chain, by coordinates of its weights in a frame of few dimensions."""

    def __init__(self, chains: Sequence[Chain]) -> None:
        super().__init__(chains)
        (chain,) = chains
        n, wide, tall = chain.rows + chain.k, round_up_to_lanes(chain.rows), round_up_to_lanes(chain.k)
        self.block_size = B = 64 if n <= 200 else 128
        self.capacity = min(chain.d, n + BLOCKS_PER_DECOMPOSITION * B)
        self.W, self.W_star = np.zeros((wide, self.capacity)), np.zeros((tall, self.capacity))
        self.frame = np.zeros(1, dtype=np.int64)  # D, an array because checkpoints hold arrays
        self._set_weights(math.sqrt(chain.d) * chain.students, math.sqrt(chain.d) * chain.teachers)
        self.draws, self.take_steps = Draws(chain, self.capacity, B), make_block_steps(chain)
        self.C = np.empty((B, wide))

    def _set_weights(self, students: Array, teachers: Array) -> None:
        """Store the weights as coordinates in an orthonormal basis of their span, the teachers' first."""
        rows, k = self.chains[0].rows, self.chains[0].k
        _, triangular = np.linalg.qr(np.vstack([teachers, students]).T)
        coordinates = triangular.T
        self.frame[0] = D = coordinates.shape[1]
        self.W[:rows, D:] = 0.0
        self.W[:rows, :D], self.W_star[:k, :D] = coordinates[k:], coordinates[:k]
        self.W_star[:k, D:] = 0.0

    def advance(self, first: int, last: int) -> None:
        (chain,) = self.chains
        for begin in range(first, last, self.block_size):
            end = min(begin + self.block_size, last)
            self._block(chain, begin, end - begin)
            if not np.vdot(self.W, self.W) < chain.divergence_limit * chain.d:
                self.diverged[0] = end
                return

    def _block(self, chain: Chain, step: int, n: int) -> None:
        D = int(self.frame[0])
        if D + min(n, chain.d - D) > self.capacity:
            self._set_weights(self.W[: chain.rows, :D].copy(), self.W_star[: chain.k, :D].copy())
            D = int(self.frame[0])
        z, Z, R = self.draws.draw_block(step, n, D)
        X = np.vstack([Z, R])
        X /= math.sqrt(chain.d)
        L, T, C = X[:D].T @ self.W[:, :D].T, X[:D].T @ self.W_star[:, :D].T, self.C[:n]
        self.take_steps(L, T, dsyrk(1.0, X.T, trans=0, lower=0).T, z, C)
        self.frame[0] = len(X)
        self.W[:, : len(X)] += C.T @ X.T

    def overlaps(self) -> tuple[Array, Array]:
        (chain,), D = self.chains, int(self.frame[0])
        return compute_overlaps(self.W[None, : chain.rows, :D], self.W_star[None, : chain.k, :D], chain.d)

    def state(self) -> dict[str, AnyArray]:
        return {"W": self.W, "W_star": self.W_star, "frame": self.frame}
