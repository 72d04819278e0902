"""S3 for many neurons: the overlap process with matrix products in BLAS."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf

from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import load4, store
from sweep_service.numerics.types import Array
from sweep_service.simulators.block_steps import make_block_steps
from sweep_service.simulators.chain import Chain
from sweep_service.simulators.kernels.coefficients import StepFactors
from sweep_service.simulators.kernels.streams import fill_radii, fill_steps
from sweep_service.simulators.kernels.vector_rows import add_inside_batches
from sweep_service.simulators.overlap_processes.overlap_process import (
    PIVOT_TOLERANCE,
    OverlapProcess,
    factorise,
    fill_triangle,
)

# For wider students, LAPACK's factorisation is faster than `factorise`.
MIN_LAPACK_WIDTH = 220


class Draws:
    """The random numbers of a block: noise, fields, and the inputs outside the span of the weights."""

    def __init__(self, chain: Chain, max_rank: int, B: int, gram: bool = True) -> None:
        self.key, self.d, self.B = chain.key, chain.d, B
        self.extra = 1 + (B // 2 if gram else 0)
        self.pairs = (self.extra + max_rank + 1) // 2
        self.normals, self.rest = np.empty((2 * self.pairs, B)), np.zeros((B, B))
        self.radii, self.work = np.empty(B), np.empty(40)

    def draw_block(self, sample: int, samples: int, rank: int) -> tuple[Array, Array, Array]:
        """Draw normals z (samples) and Z (rank, samples), and R (rows, samples).

        RᵀR is the Gram matrix of the inputs outside the span.
        """
        B, rows = self.B, min(samples, self.d - rank)
        z, Z = self.draw_fields(sample, samples, rank)
        fill_radii(self.key, sample, self.d - rank, rows, self.radii, self.work)
        fill_triangle(self.normals[1 : self.extra].reshape(-1), self.radii, rows, B, self.rest.reshape(-1))
        return z, Z, self.rest[:rows, :samples]

    def draw_fields(self, sample: int, samples: int, rank: int) -> tuple[Array, Array]:
        """Draw normals z (samples) and Z (rank, samples)."""
        used_pairs = (self.extra + rank + 1) // 2
        fill_steps(self.key, sample, self.pairs, used_pairs, self.B, self.normals.reshape(-1))
        return self.normals[0, :samples], self.normals[self.extra : self.extra + rank, :samples]


@kernel()
def complete_fields(L, G, C, batch, samples, wide, d):
    """Add ½ G_bb c_b, and Σ_b' G_bb' c_b' over the earlier samples b' of its batch, to row b of L.

    C is divided by d afterwards.
    """
    for b in range(samples):
        half, row = 0.5 * G[b * samples + b], b * wide
        for i in range(row, row + wide, 4):
            store(L, i, load4(L, i) + load4(C, i) * half)
    add_inside_batches(L, G, C, batch, samples, wide, samples)
    for i in range(0, samples * wide, 4):
        store(C, i, load4(C, i) / d)


class WideOverlapProcess(OverlapProcess):
    """The same state as the compiled form, updated by matrix products."""

    def __init__(self, chains: Sequence[Chain]) -> None:
        super().__init__(chains)
        (chain,) = chains
        n, wide = chain.rows + chain.k, self.mask.size
        self.set_block(choose_block_size(n))
        self.F, self.A = np.zeros((n, wide)), np.zeros((chain.rows, wide))
        self.C = np.empty((self.samples, wide))
        self.draws, self.steps = self._make_draws(n), make_block_steps(chain, self.moving)

    def _make_draws(self, n: int) -> Draws:
        return Draws(self.chains[0], n, self.samples)

    def _advance(self, first: int, last: int, factors: StepFactors) -> None:
        (chain,) = self.chains
        self.steps.set_factors(first, factors)
        for begin in range(first, last, self.block_size):
            end = min(begin + self.block_size, last)
            self._block(chain, begin, end - begin)
            if not np.trace(self.Q) < chain.divergence_limit:
                self.diverged[0] = end
                return

    def _block(self, chain: Chain, step: int, steps: int) -> None:
        p, k, d, n = chain.rows, chain.k, chain.d, steps * chain.batch
        rank = k + min(self._factor(p, k), d - k)
        z, Z, R = self.draws.draw_block(step * chain.batch, n, rank)
        X = np.vstack([Z, R])
        T = Z[:k].T @ self.L_star_rows
        L = Z.T @ self.F[:rank]
        C = self.C[:n]
        G = dsyrk(1.0 / d, X.T, trans=0, lower=0).T
        scale = self.steps.take(step, L, T, G, z, C)
        # λ + ½‖x‖² c, and the effect of earlier samples of the batch, make the change of Q exact
        if chain.batch == 1:
            L += np.multiply(C, 0.5 * np.diag(G)[:, None])
            C /= d
        else:
            complete_fields(L.reshape(-1), G.reshape(-1), C.reshape(-1), chain.batch, n, L.shape[1], d)
        self.M += T[:, :k].T @ C
        half = C[:, :p].T @ L[:, :p]
        self.Q[:, :p] += half + half.T
        if scale != 1.0:
            self.M *= scale
            self.Q *= scale**2

    def _factor(self, p: int, k: int) -> int:
        """Fill F with Q = Fᵀ F, the teachers' directions first; returns the rank of Q⊥."""
        if p > MIN_LAPACK_WIDTH:
            self.F[:k] = solve_triangular(self.L_star, self.M, lower=True, check_finite=False)
            inside = self.F[:k, :p]
            outside = dsyrk(-1.0, inside.T, beta=1.0, c=self.Q[:, :p].T, lower=0)
            upper, failed = dpotrf(outside, lower=0, clean=1, overwrite_a=1)
            if not failed and np.min(np.diag(upper)) ** 2 > PIVOT_TOLERANCE * p * np.max(np.diag(self.Q)):
                self.F[k:, :p] = upper
                return p
        Q, M, F, A = (array.reshape(-1) for array in (self.Q, self.M, self.F, self.A))
        return factorise(Q, M, self.L_star.reshape(-1), p, k, self.F.shape[1], F, A)


def choose_block_size(n: int) -> int:
    """Measured best number of samples per block, a multiple of 8."""
    return 64 if n <= 150 else 128 if n <= 400 else 256
