"""S2: SGD on the weights for a block of inputs at a time, almost entirely in matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.linalg.blas import dgemm, dsyrk

from sweep_service.numerics.simd import round_up_to_lanes
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.block_steps import make_block_steps
from sweep_service.simulators.chain import Chain, Simulator, compute_overlaps
from sweep_service.simulators.streams import CHUNK, INPUT, NOISE, fill_normals


class Blocked(Simulator):
    """Pathwise equal to the step loop: the same inputs, up to rounding."""

    def __init__(self, chains: Sequence[Chain]) -> None:
        super().__init__(chains)
        (chain,) = chains
        self.block_size = B = choose_block_size(chain.rows, chain.d)
        wide, tall = round_up_to_lanes(chain.rows), round_up_to_lanes(chain.k)
        W, W_star = chain.weights()
        self.W, self.W_star = np.zeros((wide, chain.d)), np.zeros((tall, chain.d))
        self.W[: chain.rows], self.W_star[: chain.k] = W, W_star
        self.inputs, self.noises = np.empty(B * chain.d + 2 * CHUNK), np.zeros(B + 2 * CHUNK)
        self.L, self.T, self.C = np.empty((B, wide)), np.empty((B, tall)), np.empty((B, wide))
        self.take_steps = make_block_steps(chain)

    def advance(self, first: int, last: int) -> None:
        (chain,) = self.chains
        for begin in range(first, last, self.block_size):
            end = min(begin + self.block_size, last)
            n = end - begin
            scale = 1.0 / math.sqrt(chain.d)
            X = _draw_normals(chain, INPUT, begin * chain.d, end * chain.d, scale, self.inputs)
            X = X.reshape(n, chain.d)
            z = self.noises[:n]
            if chain.noise:
                z = _draw_normals(chain, NOISE, begin, end, 1.0, self.noises)
            L, T, C = self.L[:n], self.T[:n], self.C[:n]
            np.dot(X, self.W.T, out=L)
            np.dot(X, self.W_star.T, out=T)
            self.take_steps(L, T, dsyrk(1.0, X.T, trans=1, lower=0).T, z, C)
            # W += Cᵀ X in place, written with transposes because BLAS is column-major
            dgemm(1.0, X.T, C.T, beta=1.0, c=self.W.T, trans_b=1, overwrite_c=1)
            if not np.vdot(self.W, self.W) < chain.divergence_limit * chain.d:
                self.diverged[0] = end
                return

    def overlaps(self) -> tuple[Array, Array]:
        (chain,) = self.chains
        return compute_overlaps(self.W[None, : chain.rows], self.W_star[None, : chain.k], chain.d)

    def state(self) -> dict[str, AnyArray]:
        return {"W": self.W}


def choose_block_size(p: int, d: int) -> int:
    """Measured best number of steps per block, limited so that a block takes at most about 0.2 s."""
    best = 128 if min(p, d) >= 600 else 16 if p <= 15 and d >= 300 else 64
    return max(1, min(best, int(2e9 / (p * d))))


def _draw_normals(chain: Chain, purpose: int, begin: int, end: int, scale: float, buffer: Array) -> Array:
    """Normals begin..end-1 of a stream, as a slice of `buffer`."""
    chunk, stop = begin // CHUNK, (end - 1) // CHUNK + 1
    fill_normals(chain.key, purpose, chunk, scale, buffer[: CHUNK * (stop - chunk)])
    return buffer[begin - CHUNK * chunk : end - CHUNK * chunk]
