"""S3 with a factor of Ω as its state: a few times the cost, and risks down to 1e-17.

The weights are coordinates in an abstract orthonormal frame of D dimensions, initially their span. Each
block adds the new directions of its inputs; when the frame is full, a QR decomposition reduces it to the
span. Overlaps are never subtracted from each other, so small risks keep their digits. A batch that fills a
block adds at most p directions, drawn as in large_batch.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.linalg.blas import dsyrk

from sweep_service.numerics.simd import round_up_to_lanes
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.block_steps import make_block_steps
from sweep_service.simulators.chain import FULL_MODEL, Chain, Simulator, compute_overlaps
from sweep_service.simulators.kernels.coefficients import StepFactors
from sweep_service.simulators.overlap_processes.large_batch import TriangleDraws
from sweep_service.simulators.overlap_processes.wide_overlap_process import Draws

BLOCKS_PER_DECOMPOSITION = 4


class FactoredOverlapProcess(Simulator):
    """One chain, by coordinates of its weights in a frame of few dimensions."""

    supports = FULL_MODEL

    def __init__(self, chains: Sequence[Chain]) -> None:
        super().__init__(chains)
        (chain,) = chains
        n, wide, tall = chain.rows + chain.k, round_up_to_lanes(chain.rows), round_up_to_lanes(chain.k)
        self.samples = B = choose_block_size(n)
        self.has_large_batches = chain.batch >= B
        self.block_size = 1 if self.has_large_batches else chain.limit_steps(B // chain.batch)
        directions = max(B, chain.rows) if self.has_large_batches else B
        self.capacity = min(chain.d, n + BLOCKS_PER_DECOMPOSITION * directions)
        self.W, self.W_star = np.zeros((wide, self.capacity)), np.zeros((tall, self.capacity))
        self.frame = np.zeros(1, dtype=np.int64)  # D, an array because checkpoints hold arrays
        self._set_weights(math.sqrt(chain.d) * chain.students, math.sqrt(chain.d) * chain.teachers)
        self.draws = Draws(chain, self.capacity, B, gram=not self.has_large_batches)
        self.moving, self.triangle = chain.moving(), TriangleDraws(chain)
        self.steps = make_block_steps(chain, self.moving)
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

    def _advance(self, first: int, last: int, factors: StepFactors) -> None:
        (chain,) = self.chains
        self.steps.set_factors(first, factors)
        for begin in range(first, last, self.block_size):
            end = min(begin + self.block_size, last)
            if self.has_large_batches:
                self._take_large_step(chain, begin)
            else:
                self._block(chain, begin, (end - begin) * chain.batch)
            if not np.vdot(self.W, self.W) < chain.divergence_limit * chain.d:
                self.diverged[0] = end
                return

    def _make_room(self, directions: int) -> int:
        """Reduce the frame to the span if it has no room for new directions; returns its dimension D."""
        (chain,), D = self.chains, int(self.frame[0])
        if D + min(directions, chain.d - D) > self.capacity:
            self._set_weights(self.W[: chain.rows, :D].copy(), self.W_star[: chain.k, :D].copy())
        return int(self.frame[0])

    def _block(self, chain: Chain, step: int, n: int) -> None:
        D = self._make_room(n)
        z, Z, R = self.draws.draw_block(step * chain.batch, n, D)
        X = np.vstack([Z, R])
        X /= math.sqrt(chain.d)
        L, T, C = X[:D].T @ self.W[:, :D].T, X[:D].T @ self.W_star[:, :D].T, self.C[:n]
        scale = self.steps.take(step, L, T, dsyrk(1.0, X.T, trans=0, lower=0).T, z, C)
        self.frame[0] = len(X)
        self.W[:, : len(X)] += C.T @ X.T
        if scale != 1.0:
            self.W *= scale

    def _take_large_step(self, chain: Chain, step: int) -> None:
        D, p = self._make_room(chain.rows), chain.rows
        W, W_star = self.W[:, :D], self.W_star[:, :D]
        change, root = np.zeros_like(W), np.zeros((p, p))  # rootᵀ root = CᵀC
        for begin in range(step * chain.batch, (step + 1) * chain.batch, self.samples):
            n = min(self.samples, (step + 1) * chain.batch - begin)
            z, Z = self.draws.draw_fields(begin, n, D)
            X, C = Z.T / math.sqrt(chain.d), self.C[:n]
            self.steps.push(step, X @ W.T, X @ W_star.T, z, C)
            change += C.T @ X
            root = np.asarray(np.linalg.qr(np.vstack([root, C[:, :p]]), mode="r"))
        W *= self.steps.finish(step)
        W += change
        T = self.triangle.draw(step, chain.d - D)
        self.frame[0] = D + T.shape[1]
        self.W[:p, D : D + T.shape[1]] = root.T @ T / math.sqrt(chain.d)

    def overlaps(self) -> tuple[Array, Array]:
        (chain,), D = self.chains, int(self.frame[0])
        return compute_overlaps(self.W[None, : chain.rows, :D], self.W_star[None, : chain.k, :D], chain.d)

    def weight_state(self) -> dict[str, AnyArray]:
        return {"W": self.W, "W_star": self.W_star, "frame": self.frame}


def choose_block_size(n: int) -> int:
    """Measured best number of samples per block, a multiple of 8."""
    return 64 if n <= 200 else 128
