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

from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import fma, load8, round_up_to_lanes
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.block_steps import make_block_steps
from sweep_service.simulators.chain import FULL_MODEL, Chain, Simulator, compute_overlaps
from sweep_service.simulators.kernels.coefficients import StepFactors
from sweep_service.simulators.kernels.vector_rows import store_column
from sweep_service.simulators.overlap_processes.large_batch import TriangleDraws
from sweep_service.simulators.overlap_processes.wide_overlap_process import Draws

BLOCKS_PER_DECOMPOSITION = 4
# The longest sum that BLAS adds in the order of `fill_earlier_gram`. Longer sums it splits, and it treats the
# columns beyond a multiple of 16 differently; they are left to BLAS, so that stored runs keep their bits.
MAX_SUM_IN_ORDER = 256


@kernel()
def fill_earlier_gram(X, D, n, rest, batch, G):
    """Fill G = XᵀX (n, n) for pairs of a sample and one of an earlier batch, which are all that steps need.

    X (D + rest, n) is upper triangular from row D on, and its zeros are skipped; n is a multiple of 16. X
    and G are flat; other entries of G are arbitrary.
    """
    for b in range(0, n, 4):
        earlier = b + 3 - (b + 3) % batch
        for q in range(0, earlier, 16):
            _fill_tile(X, D + min(rest, earlier, q + 16), n, b, q, G)


@kernel(force_inline=True)
def _fill_tile(X, count, n, b, q, G):
    """Fill G[b + i, q + j] = Σ_e X[e, b + i] X[e, q + j] for e < count, i < 4 and j < 16.

    Eight independent sums, as fewer would wait for each addition.
    """
    zero = 0.0 * load8(X, q)
    f0, f1, f2, f3 = zero, zero, zero, zero
    g0, g1, g2, g3 = zero, zero, zero, zero
    for e in range(count):
        x, y, own = load8(X, e * n + q), load8(X, e * n + q + 8), e * n + b
        c0, c1, c2, c3 = X[own], X[own + 1], X[own + 2], X[own + 3]
        f0, f1, f2, f3 = fma(x, c0, f0), fma(x, c1, f1), fma(x, c2, f2), fma(x, c3, f3)
        g0, g1, g2, g3 = fma(y, c0, g0), fma(y, c1, g1), fma(y, c2, g2), fma(y, c3, g3)
    store_column(G, b * n + q, n, f0, f1, f2, f3)
    store_column(G, b * n + q + 8, n, g0, g1, g2, g3)


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
        self.C, self.G = np.empty((B, wide)), np.zeros(B * B)

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
        scale = self.steps.take(step, L, T, self._gram(X, D, n), z, C)
        self.frame[0] = len(X)
        self.W[:, : len(X)] += C.T @ X.T
        if scale != 1.0:
            self.W *= scale

    def _gram(self, X: Array, D: int, n: int) -> Array:
        """The Gram matrix of n inputs, the columns of X, as far as the steps need it."""
        batch = self.chains[0].batch
        if batch == 1 or n % 16 or len(X) > MAX_SUM_IN_ORDER:
            return np.asarray(dsyrk(1.0, X.T, trans=0, lower=0).T)
        fill_earlier_gram(X.reshape(-1), D, n, len(X) - D, batch, self.G)
        return self.G[: n * n].reshape(n, n)

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
