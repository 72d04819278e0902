"""S3 carrying a factor of Ω instead of Ω: a few times the cost, and risks that fall to 1e-17.

The weights live in an abstract orthonormal frame of D dimensions, at first their span. Each block
adds the directions that its inputs open; when the frame is full, a QR decomposition turns it back
to the span. Overlaps are never subtracted from each other, so small risks keep their digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.linalg.blas import dsyrk

from sweep_service.numerics.simd import padded
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.block_steps import sequence
from sweep_service.simulators.chain import Chain, Simulator, gram_of
from sweep_service.simulators.wide_overlap_process import Draws

GROWTH = 4  # blocks between two decompositions


class FactoredOverlapProcess(Simulator):
    def __init__(self, chains: Sequence[Chain]) -> None:
        super().__init__(chains)
        (chain,) = chains
        n, wide, tall = chain.rows + chain.k, padded(chain.rows), padded(chain.k)
        self.grain = B = 64 if n <= 200 else 128
        self.room = min(chain.d, n + GROWTH * B)
        self.W, self.W_star = np.zeros((wide, self.room)), np.zeros((tall, self.room))
        self.frame = np.zeros(1, dtype=np.int64)  # D, an array because checkpoints hold arrays
        self._turn(math.sqrt(chain.d) * chain.students, math.sqrt(chain.d) * chain.teachers)
        self.draws, self.sequence = Draws(chain, self.room, B), sequence(chain)
        self.C = np.empty((B, wide))

    def _turn(self, students: Array, teachers: Array) -> None:
        """Coordinates in an orthonormal basis of the rows' span, the teachers' first."""
        rows, k = self.chains[0].rows, self.chains[0].k
        _, triangular = np.linalg.qr(np.vstack([teachers, students]).T)
        turned = triangular.T
        self.frame[0] = D = turned.shape[1]
        self.W[:rows, D:] = 0.0
        self.W[:rows, :D], self.W_star[:k, :D] = turned[k:], turned[:k]
        self.W_star[:k, D:] = 0.0

    def advance(self, first: int, last: int) -> None:
        (chain,) = self.chains
        for begin in range(first, last, self.grain):
            end = min(begin + self.grain, last)
            self._block(chain, begin, end - begin)
            if not np.vdot(self.W, self.W) < chain.limit * chain.d:
                self.diverged[0] = end
                return

    def _block(self, chain: Chain, step: int, n: int) -> None:
        D = int(self.frame[0])
        if D + min(n, chain.d - D) > self.room:
            self._turn(self.W[: chain.rows, :D].copy(), self.W_star[: chain.k, :D].copy())
            D = int(self.frame[0])
        z, Z, R = self.draws.block(step, n, D)
        X = np.vstack([Z, R])
        X /= math.sqrt(chain.d)
        L, T, C = X[:D].T @ self.W[:, :D].T, X[:D].T @ self.W_star[:, :D].T, self.C[:n]
        self.sequence(L, T, dsyrk(1.0, X.T, trans=0, lower=0).T, z, C)
        self.frame[0] = len(X)
        self.W[:, : len(X)] += C.T @ X.T

    def overlaps(self) -> tuple[Array, Array]:
        (chain,), D = self.chains, int(self.frame[0])
        return gram_of(self.W[None, : chain.rows, :D], self.W_star[None, : chain.k, :D], chain.d)

    def state(self) -> dict[str, AnyArray]:
        return {"W": self.W, "W_star": self.W_star, "frame": self.frame}
