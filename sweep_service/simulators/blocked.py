"""S2: SGD on the weights for a block of inputs at a time, almost entirely in matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.linalg.blas import dgemm, dsyrk

from sweep_service.numerics.simd import round_up_to_lanes
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.block_steps import make_block_steps
from sweep_service.simulators.chain import FULL_MODEL, Chain, Simulator, compute_overlaps
from sweep_service.simulators.kernels.coefficients import StepFactors
from sweep_service.simulators.kernels.streams import CHUNK, INPUT, NOISE, fill_normals


class Blocked(Simulator):
    """Pathwise equal to the step loop: the same inputs, up to rounding.

    A block holds whole batches; a batch larger than a block is processed in pieces on the same weights.
    """

    supports = FULL_MODEL

    def __init__(self, chains: Sequence[Chain]) -> None:
        super().__init__(chains)
        (chain,) = chains
        self.samples = B = choose_block_size(chain.rows, chain.d)
        self.block_size = chain.limit_steps(max(1, B // chain.batch))
        wide, tall = round_up_to_lanes(chain.rows), round_up_to_lanes(chain.k)
        W, W_star = chain.weights()
        self.W, self.W_star = np.zeros((wide, chain.d)), np.zeros((tall, chain.d))
        self.W[: chain.rows], self.W_star[: chain.k] = W, W_star
        self.change = np.empty_like(self.W) if chain.batch > B else None  # of the weights, by a large batch
        self.inputs, self.noises = np.empty(B * chain.d + 2 * CHUNK), np.zeros(B + 2 * CHUNK)
        self.L, self.T, self.C = np.empty((B, wide)), np.empty((B, tall)), np.empty((B, wide))
        self.moving = chain.moving()
        self.steps = make_block_steps(chain, self.moving)

    def _advance(self, first: int, last: int, factors: StepFactors) -> None:
        (chain,) = self.chains
        self.steps.set_factors(first, factors)
        for begin in range(first, last, self.block_size):
            end = min(begin + self.block_size, last)
            if self.change is None:
                self._take_block(begin, end)
            else:
                self._take_large_step(begin, self.change)
            if not np.vdot(self.W, self.W) < chain.divergence_limit * chain.d:
                self.diverged[0] = end
                return

    def _take_block(self, begin: int, end: int) -> None:
        batch = self.chains[0].batch
        X, L, T, C, z = self._draw_samples(begin * batch, end * batch)
        scale = self.steps.take(begin, L, T, dsyrk(1.0, X.T, trans=1, lower=0).T, z, C)
        # W = scale (W + Cᵀ X) in place, written with transposes because BLAS is column-major
        dgemm(scale, X.T, C.T, beta=scale, c=self.W.T, trans_b=1, overwrite_c=1)

    def _take_large_step(self, step: int, change: Array) -> None:
        batch = self.chains[0].batch
        change[:] = 0.0
        for begin in range(step * batch, (step + 1) * batch, self.samples):
            X, L, T, C, z = self._draw_samples(begin, min(begin + self.samples, (step + 1) * batch))
            self.steps.push(step, L, T, z, C)
            dgemm(1.0, X.T, C.T, beta=1.0, c=change.T, trans_b=1, overwrite_c=1)
        self.W *= self.steps.finish(step)
        self.W += change

    def _draw_samples(self, begin: int, end: int) -> tuple[Array, Array, Array, Array, Array]:
        """Draw inputs X and noises z of samples begin..end-1; returns X, the fields L and T, C to fill, z."""
        (chain,), n = self.chains, end - begin
        scale = 1.0 / math.sqrt(chain.d)
        X = _draw_normals(chain, INPUT, begin * chain.d, end * chain.d, scale, self.inputs)
        X = X.reshape(n, chain.d)
        z = self.noises[:n]
        if chain.noise:
            z = _draw_normals(chain, NOISE, begin, end, 1.0, self.noises)
        L, T = self.L[:n], self.T[:n]
        np.dot(X, self.W.T, out=L)
        np.dot(X, self.W_star.T, out=T)
        return X, L, T, self.C[:n], z

    def overlaps(self) -> tuple[Array, Array]:
        (chain,) = self.chains
        return compute_overlaps(self.W[None, : chain.rows], self.W_star[None, : chain.k], chain.d)

    def weight_state(self) -> dict[str, AnyArray]:
        return {"W": self.W}


def choose_block_size(p: int, d: int) -> int:
    """Measured best number of samples per block, limited so that a block takes at most about 0.2 s."""
    best = 128 if min(p, d) >= 600 else 16 if p <= 15 and d >= 300 else 64
    return max(1, min(best, int(2e9 / (p * d))))


def _draw_normals(chain: Chain, purpose: int, begin: int, end: int, scale: float, buffer: Array) -> Array:
    """Normals begin..end-1 of a stream, as a slice of `buffer`."""
    chunk, stop = begin // CHUNK, (end - 1) // CHUNK + 1
    fill_normals(chain.key, purpose, chunk, scale, buffer[: CHUNK * (stop - chunk)])
    return buffer[begin - CHUNK * chunk : end - CHUNK * chunk]
