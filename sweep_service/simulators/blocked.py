"""S2: SGD on the weights, a block of inputs at a time, nearly all of it in matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.linalg.blas import dgemm, dsyrk

from sweep_service.numerics.simd import padded
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.block_steps import sequence
from sweep_service.simulators.chain import Chain, Simulator, gram_of
from sweep_service.simulators.streams import CHUNK, INPUT, NOISE, fill


class Blocked(Simulator):
    """Pathwise equal to the step loop: the same inputs, other roundings."""

    def __init__(self, chains: Sequence[Chain]) -> None:
        super().__init__(chains)
        (chain,) = chains
        self.grain = B = block(chain.rows, chain.d)
        wide, tall = padded(chain.rows), padded(chain.k)
        W, W_star = chain.weights()
        self.W, self.W_star = np.zeros((wide, chain.d)), np.zeros((tall, chain.d))
        self.W[: chain.rows], self.W_star[: chain.k] = W, W_star
        self.inputs, self.noises = np.empty(B * chain.d + 2 * CHUNK), np.zeros(B + 2 * CHUNK)
        self.L, self.T, self.C = np.empty((B, wide)), np.empty((B, tall)), np.empty((B, wide))
        self.sequence = sequence(chain)

    def advance(self, first: int, last: int) -> None:
        (chain,) = self.chains
        for begin in range(first, last, self.grain):
            end = min(begin + self.grain, last)
            n = end - begin
            X = _drawn(chain, INPUT, begin * chain.d, end * chain.d, 1.0 / math.sqrt(chain.d), self.inputs)
            X = X.reshape(n, chain.d)
            z = self.noises[:n]
            if chain.noise:
                z = _drawn(chain, NOISE, begin, end, 1.0, self.noises)
            L, T, C = self.L[:n], self.T[:n], self.C[:n]
            np.dot(X, self.W.T, out=L)
            np.dot(X, self.W_star.T, out=T)
            self.sequence(L, T, dsyrk(1.0, X.T, trans=1, lower=0).T, z, C)
            # W += Cᵀ X, in place: BLAS sees the transposes
            dgemm(1.0, X.T, C.T, beta=1.0, c=self.W.T, trans_b=1, overwrite_c=1)
            if not np.vdot(self.W, self.W) < chain.limit * chain.d:
                self.diverged[0] = end
                return

    def overlaps(self) -> tuple[Array, Array]:
        (chain,) = self.chains
        return gram_of(self.W[None, : chain.rows], self.W_star[None, : chain.k], chain.d)

    def state(self) -> dict[str, AnyArray]:
        return {"W": self.W}


def block(p: int, d: int) -> int:
    """Steps per block, by measurement; shorter where a block would take longer than a fifth of a second."""
    best = 128 if min(p, d) >= 600 else 16 if p <= 15 and d >= 300 else 64
    return max(1, min(best, int(2e9 / (p * d))))


def _drawn(chain: Chain, purpose: int, begin: int, end: int, scale: float, room: Array) -> Array:
    """Normals begin..end-1 of a stream, in `room`."""
    chunk, stop = begin // CHUNK, (end - 1) // CHUNK + 1
    fill(chain.key, purpose, chunk, scale, room[: CHUNK * (stop - chunk)])
    return room[begin - CHUNK * chunk : end - CHUNK * chunk]
