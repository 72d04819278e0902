"""S1: SGD as it is defined, step by step, for students small enough to stay in the cache.

There are two forms of the same arithmetic: `step_chains` puts eight chains into the lanes of a vector,
`step_neurons` four neurons of one chain. Each operation is rounded alike in both (see simd.py), so
both give the same bits. batch_loop.py has the same two forms for batches of several samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sweep_service.model.activate import activate
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import fma, lane, load4, load8, round_up_to_lanes, store
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.batch_loop import batch_chains, batch_neurons, samples_per_draw
from sweep_service.simulators.chain import FULL_MODEL, Chain, Simulator, compute_overlaps
from sweep_service.simulators.kernels.coefficients import StepFactors, learn4, learn8
from sweep_service.simulators.kernels.optional import keep, mask4, take, times, weights8
from sweep_service.simulators.kernels.streams import CHUNK, INPUT, NOISE, fill_chains, fill_normals
from sweep_service.simulators.kernels.vector_rows import add_rows, sum_activations
from sweep_service.simulators.lanes import ChainsInLanes, fill_lanes


@kernel()
def step_chains(W, W_star, keys, first, last, coefficients, moving, p, k, d, limit, diverged):
    """Take steps first..last-1 of eight chains; W (p, d, 8), W_star (k, d, 8) and keys (3, 8) are flat.

    `diverged` is set to the step at which tr Q was first found beyond `limit`, for chains where it is -1.
    """
    rate, root_noise = coefficients.rate, coefficients.root_noise
    shares, codes = coefficients.shares, coefficients.codes
    ahead = samples_per_draw(d)
    capacity = ahead * d + 2 * CHUNK
    xs = np.empty(8 * (capacity - capacity % CHUNK))
    zs = np.zeros(8 * (ahead - ahead % CHUNK + CHUNK))
    slopes, sums = np.empty(8 * p), np.empty(64)
    scale = 1.0 / math.sqrt(d)
    rates, roots = load8(rate, 0), load8(root_noise, 0)
    zero = 0.0 * rates
    noisy = False
    for s in range(8):
        noisy = noisy or root_noise[s] > 0.0
    now = first
    while now < last:
        until = min(last, now - now % ahead + ahead)
        chunk = now * d // CHUNK
        fill_chains(keys, INPUT, chunk, scale, xs[: 8 * CHUNK * (((until * d - 1) // CHUNK) - chunk + 1)])
        noise_chunk = now // CHUNK
        if noisy:
            fill_chains(
                keys, NOISE, noise_chunk, 1.0, zs[: 8 * CHUNK * ((until - 1) // CHUNK - noise_chunk + 1)]
            )
        for step in range(now, until):
            x = 8 * (step * d - chunk * CHUNK)
            for q in range(0, 64, 8):
                store(sums, q, zero)
            for r in range(k):
                w = 8 * r * d
                field = zero
                for j in range(d):
                    field = fma(load8(W_star, w + 8 * j), load8(xs, x + 8 * j), field)
                value, _ = activate(codes[1], field)
                at = 32 + 8 * (r % 4)
                store(
                    sums,
                    at,
                    load8(sums, at) + times(value, weights8(coefficients.teacher_second_layer, 8 * r)),
                )
            for i in range(p):
                w = 8 * i * d
                field = zero
                for j in range(d):
                    field = fma(load8(W, w + 8 * j), load8(xs, x + 8 * j), field)
                value, slope = activate(codes[0], field)
                weight = weights8(moving.second_layer, 8 * i)
                store(slopes, 8 * i, times(slope, weight))
                keep(moving.values, 8 * i, value)
                at = 8 * (i % 4)
                store(sums, at, load8(sums, at) + times(value, weight))
            # summed in the same order as four neurons in a vector
            output = (load8(sums, 0) + load8(sums, 8)) + (load8(sums, 16) + load8(sums, 24))
            target = (load8(sums, 32) + load8(sums, 40)) + (load8(sums, 48) + load8(sums, 56))
            error = fma(roots, load8(zs, 8 * (step - noise_chunk * CHUNK)), target * shares[1])
            factor = take(moving.factors.rate, step - first)
            kept = take(moving.factors.kept, step - first)
            push = times(rates, factor) * fma(output, -shares[0], error)
            for i in range(p):
                w = 8 * i * d
                c = push * load8(slopes, 8 * i)
                for j in range(d):
                    old = times(load8(W, w + 8 * j), kept)
                    store(W, w + 8 * j, fma(c, load8(xs, x + 8 * j), old))
            learn8(coefficients, moving, push)
        now = until
        if now % ahead == 0:
            square = zero
            for q in range(p * d):
                w = load8(W, 8 * q)
                square = fma(w, w, square)
            for s in range(8):
                if diverged[s] < 0 and not lane(square, s) < limit[s] * d:
                    diverged[s] = now


@kernel()
def step_neurons(W, W_star, mask, key, first, last, coefficients, moving, p, k, d, limit):
    """Take steps first..last-1 of one chain; W (d, p) and W_star (d, k) are flat.

    p and k are multiples of 4, padded with zeros; `mask` (p) is one for neurons and zero for padding.
    Returns -1, or the step at which divergence was detected.
    """
    root_noise, shares, codes = coefficients.root_noise, coefficients.shares, coefficients.codes
    ahead = samples_per_draw(d)
    capacity = ahead * d + 2 * CHUNK
    xs = np.empty(capacity - capacity % CHUNK)
    zs = np.zeros(ahead - ahead % CHUNK + CHUNK)
    fields, star_fields = np.empty(p), np.empty(k)
    scale = 1.0 / math.sqrt(d)
    now = first
    while now < last:
        until = min(last, now - now % ahead + ahead)
        chunk = now * d // CHUNK
        fill_normals(key, INPUT, chunk, scale, xs[: CHUNK * (((until * d - 1) // CHUNK) - chunk + 1)])
        noise_chunk = now // CHUNK
        if root_noise > 0.0:
            fill_normals(key, NOISE, noise_chunk, 1.0, zs[: CHUNK * ((until - 1) // CHUNK - noise_chunk + 1)])
        for step in range(now, until):
            x = step * d - chunk * CHUNK
            for i in range(p):
                fields[i] = 0.0
            for r in range(k):
                star_fields[r] = 0.0
            add_rows(W, 0, p, d, xs, x, 1, 1.0, 0, fields, 0)
            add_rows(W_star, 0, k, d, xs, x, 1, 1.0, 0, star_fields, 0)
            target = sum_activations(
                codes[1], star_fields, 0, k, star_fields, 0, coefficients.teacher_second_layer, None, None
            )
            output = sum_activations(
                codes[0], fields, 0, p, fields, 0, moving.second_layer, None, moving.values
            )
            error = fma(root_noise, zs[step - noise_chunk * CHUNK], target * shares[1])
            factor = take(moving.factors.rate, step - first)
            kept = take(moving.factors.kept, step - first)
            push = times(coefficients.rate, factor) * fma(output, -shares[0], error)
            for i in range(0, p, 4):
                store(fields, i, mask4(push * load4(fields, i), moving.second_layer, mask, i))
            for j in range(d):
                for i in range(0, p, 4):
                    old = times(load4(W, j * p + i), kept)
                    store(W, j * p + i, fma(load4(fields, i), xs[x + j], old))
            learn4(coefficients, moving, push)
        now = until
        if now % ahead == 0:
            square = 0.0 * load4(W, 0)
            for q in range(0, p * d, 4):
                w = load4(W, q)
                square = fma(w, w, square)
            if not (lane(square, 0) + lane(square, 1)) + (lane(square, 2) + lane(square, 3)) < limit * d:
                return now
    return -1


class StepLoop(Simulator):
    """One chain, with four of its neurons per vector."""

    supports = FULL_MODEL

    def __init__(self, chains: Sequence[Chain]) -> None:
        super().__init__(chains)
        (chain,) = chains
        W, W_star = chain.weights()
        self.W = np.zeros((chain.d, round_up_to_lanes(chain.rows)))
        self.W_star = np.zeros((chain.d, round_up_to_lanes(chain.k)))
        self.W[:, : chain.rows], self.W_star[:, : chain.k] = W.T, W_star.T
        self.moving = chain.moving()._replace(scale=None)

    def _advance(self, first: int, last: int, factors: StepFactors) -> None:
        (chain,) = self.chains
        take_steps = step_neurons if chain.batch == 1 else batch_neurons
        self.diverged[0] = take_steps(
            self.W.reshape(-1), self.W_star.reshape(-1), chain.mask, chain.key, first, last,
            chain.coefficients, self.moving._replace(factors=factors), self.W.shape[1], self.W_star.shape[1],
            chain.d, chain.divergence_limit,
        )  # fmt: skip

    def overlaps(self) -> tuple[Array, Array]:
        (chain,) = self.chains
        return compute_overlaps(self.W.T[None, : chain.rows], self.W_star.T[None, : chain.k], chain.d)

    def weight_state(self) -> dict[str, AnyArray]:
        return {"W": self.W}


class StepLoopOfChains(ChainsInLanes):
    """Up to eight chains in the lanes of vectors."""

    def __init__(self, chains: Sequence[Chain]) -> None:
        super().__init__(chains)
        weights = [chain.weights() for chain in fill_lanes(chains)]
        self.W = np.ascontiguousarray(np.stack([W for W, _ in weights], axis=-1))
        self.W_star = np.ascontiguousarray(np.stack([W_star for _, W_star in weights], axis=-1))

    def _advance(self, first: int, last: int, factors: StepFactors) -> None:
        chain, diverged = self.chains[0], self.diverged_lanes()
        take_steps = step_chains if chain.batch == 1 else batch_chains
        take_steps(
            self.W.reshape(-1), self.W_star.reshape(-1), self.keys, first, last, self.coefficients,
            self.moving._replace(factors=factors), chain.rows, chain.k, chain.d, self.limits, diverged,
        )  # fmt: skip
        self.diverged[:] = diverged[: len(self.diverged)]

    def overlaps(self) -> tuple[Array, Array]:
        W, W_star = (np.moveaxis(a, 2, 0)[: len(self.chains)] for a in (self.W, self.W_star))
        return compute_overlaps(W, W_star, self.chains[0].d)

    def weight_state(self) -> dict[str, AnyArray]:
        return {"W": self.W}
