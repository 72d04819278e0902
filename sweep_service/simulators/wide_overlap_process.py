"""S3 for many neurons: the overlap process with matrix products by BLAS."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf

from sweep_service.numerics.types import Array
from sweep_service.simulators.block_steps import sequence
from sweep_service.simulators.chain import Chain
from sweep_service.simulators.overlap_process import PIVOT, OverlapProcess, factor, triangle
from sweep_service.simulators.streams import fill_radii, fill_steps

# Wider than this, LAPACK's factorisation overtakes ours.
LAPACK = 220


class Draws:
    """The random numbers of a block: noise, fields, and what the inputs are outside the weights' span."""

    def __init__(self, chain: Chain, most: int, B: int) -> None:
        self.key, self.d, self.B = chain.key, chain.d, B
        self.extra = 1 + B // 2
        self.pairs = (self.extra + most + 1) // 2
        self.normals, self.rest = np.empty((2 * self.pairs, B)), np.zeros((B, B))
        self.radii, self.work = np.empty(B), np.empty(40)

    def block(self, step: int, steps: int, rank: int) -> tuple[Array, Array, Array]:
        """z (steps) and Z (rank, steps) normal, R (rows, steps) with RᵀR the Gram matrix outside the span."""
        B, rows = self.B, min(steps, self.d - rank)
        drawn = (self.extra + rank + 1) // 2
        fill_steps(self.key, step, self.pairs, drawn, B, self.normals.reshape(-1))
        fill_radii(self.key, step, self.d - rank, rows, self.radii, self.work)
        triangle(self.normals[1 : self.extra].reshape(-1), self.radii, rows, B, self.rest.reshape(-1))
        fields = self.normals[self.extra : self.extra + rank, :steps]
        return self.normals[0, :steps], fields, self.rest[:rows, :steps]


class WideOverlapProcess(OverlapProcess):
    """The state of the compiled form, moved by matrix products."""

    def __init__(self, chains: Sequence[Chain]) -> None:
        super().__init__(chains)
        (chain,) = chains
        n, wide = chain.rows + chain.k, self.mask.size
        self.grain = B = block(n)
        self.F, self.A, self.C = np.zeros((n, wide)), np.zeros((chain.rows, wide)), np.empty((B, wide))
        self.draws, self.sequence = Draws(chain, n, B), sequence(chain)

    def advance(self, first: int, last: int) -> None:
        (chain,) = self.chains
        for begin in range(first, last, self.grain):
            end = min(begin + self.grain, last)
            self._block(chain, begin, end - begin)
            if not np.trace(self.Q) < chain.limit:
                self.diverged[0] = end
                return

    def _block(self, chain: Chain, step: int, n: int) -> None:
        p, k, d = chain.rows, chain.k, chain.d
        rank = k + min(self._factor(p, k), d - k)
        z, Z, R = self.draws.block(step, n, rank)
        X = np.vstack([Z, R])
        T = Z[:k].T @ self.L_star_rows
        L = Z.T @ self.F[:rank]
        C = self.C[:n]
        G = dsyrk(1.0 / d, X.T, trans=0, lower=0).T
        self.sequence(L, T, G, z, C)
        L += np.multiply(C, 0.5 * np.diag(G)[:, None])  # λ + ½‖x‖² c, which makes the change of Q exact
        C /= d
        self.M += T[:, :k].T @ C
        half = C[:, :p].T @ L[:, :p]
        self.Q[:, :p] += half + half.T

    def _factor(self, p: int, k: int) -> int:
        """Rows of F with Q = Fᵀ F, the teachers' directions first; returns how many there are for Q⊥."""
        if p > LAPACK:
            self.F[:k] = solve_triangular(self.L_star, self.M, lower=True, check_finite=False)
            inside = self.F[:k, :p]
            outside = dsyrk(-1.0, inside.T, beta=1.0, c=self.Q[:, :p].T, lower=0)
            upper, failed = dpotrf(outside, lower=0, clean=1, overwrite_a=1)
            if not failed and np.min(np.diag(upper)) ** 2 > PIVOT * p * np.max(np.diag(self.Q)):
                self.F[k:, :p] = upper
                return p
        Q, M, F, A = (array.reshape(-1) for array in (self.Q, self.M, self.F, self.A))
        return factor(Q, M, self.L_star.reshape(-1), p, k, self.F.shape[1], F, A)


def block(n: int) -> int:
    """Steps per block, by measurement; a multiple of 8."""
    return 64 if n <= 150 else 128 if n <= 400 else 256
