"""S1 for two or four chains: the lanes of a vector hold the same neurons of each of them.

With c chains a vector of eight holds 8/c neurons of each, lane l the neuron l // c of its group and the chain
l % c. Sums have the order of step_loop.py, so the bits of a chain are the same. The steps of a chain wait for
each other; two or four chains fill that time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sweep_service.model.activate import activate
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import (
    CHAIN_LANES,
    fma,
    lane,
    load8,
    round_up_to_lanes,
    store,
    swap_halves,
    swap_pairs,
    where_less,
)
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.batch_loop import samples_per_draw
from sweep_service.simulators.chain import FULL_MODEL, Chain, Simulator, compute_overlaps
from sweep_service.simulators.kernels.coefficients import StepFactors, learn8, make_moving
from sweep_service.simulators.kernels.optional import keep, mask8, take, times, weights8
from sweep_service.simulators.kernels.streams import CHUNK, INPUT, NOISE, fill_normals
from sweep_service.simulators.lanes import fill_lanes


@kernel(force_inline=True)
def sum_neurons(sums, at, chains):
    """(s0 + s1) + (s2 + s3), in all lanes of a chain, of the sums of every fourth neuron."""
    first = load8(sums, at)
    if chains == 4:
        second = load8(sums, at + 8)
        return (first + swap_halves(first)) + (second + swap_halves(second))
    pairs = first + swap_pairs(first)
    return pairs + swap_halves(pairs)


@kernel()
def fill_mixed_lanes(keys, chains, purpose, chunk, scale, chain_numbers, single, out):
    """Fill out (normals, 8) with those of the chains; `single` (chains, normals) is work space."""
    size = out.size // 8
    for c in range(chains):
        fill_normals(keys[3 * c : 3 * c + 3], purpose, chunk, scale, single[c * size : (c + 1) * size])
    numbers = load8(chain_numbers, 0)
    for q in range(size):
        first = where_less(numbers, 0.5, single[q], single[size + q])
        if chains == 4:
            second = where_less(numbers, 2.5, single[2 * size + q], single[3 * size + q])
            first = where_less(numbers, 1.5, first, second)
        store(out, 8 * q, first)


@kernel(force_inline=True)
def add_group(code, W, at, xs, x, d, weights, row, slopes, values, sums, to):
    """Add a σ(λ) of one group of neurons to `sums`, and store a σ'(λ) and σ(λ)."""
    field = 0.0 * load8(sums, to)
    for j in range(d):
        field = fma(load8(W, at + 8 * j), load8(xs, x + 8 * j), field)
    value, slope = activate(code, field)
    weight = weights8(weights, row)
    if slopes is not None:
        store(slopes, row, times(slope, weight))
    keep(values, row, value)
    store(sums, to, load8(sums, to) + times(value, weight))


@kernel()
def step_mixed_lanes(W, W_star, mask, keys, chains, first, last, coefficients, moving, d, limit, diverged):
    """Take steps first..last-1 of `chains` chains; W (groups, d, 8) and W_star (groups, d, 8) are flat.

    `mask` (groups, 8) is one for neurons and zero for padding. `diverged` is set as in `step_chains`.
    """
    shares, codes = coefficients.shares, coefficients.codes
    ahead = samples_per_draw(d)
    capacity = ahead * d + 2 * CHUNK
    capacity -= capacity % CHUNK
    xs, zs = np.empty(8 * capacity), np.zeros(8 * (ahead - ahead % CHUNK + CHUNK))
    single, chain_numbers = np.empty(chains * capacity), np.empty(8)
    for l in range(8):
        chain_numbers[l] = l % chains
    slopes, sums = np.empty(mask.size), np.zeros(32)
    scale, size, star_size = 1.0 / math.sqrt(d), 8 * d * (mask.size // 8), W_star.size
    rates, roots = load8(coefficients.rate, 0), load8(coefficients.root_noise, 0)
    zero, sums_per_output = 0.0 * rates, chains // 2
    now = first
    while now < last:
        until = min(last, now - now % ahead + ahead)
        chunk = now * d // CHUNK
        drawn = xs[: 8 * CHUNK * (((until * d - 1) // CHUNK) - chunk + 1)]
        fill_mixed_lanes(keys, chains, INPUT, chunk, scale, chain_numbers, single, drawn)
        noise_chunk = now // CHUNK
        if coefficients.root_noise[0] > 0.0:
            drawn = zs[: 8 * CHUNK * ((until - 1) // CHUNK - noise_chunk + 1)]
            fill_mixed_lanes(keys, chains, NOISE, noise_chunk, 1.0, chain_numbers, single, drawn)
        for step in range(now, until):
            x = 8 * (step * d - chunk * CHUNK)
            for q in range(0, 32, 8):
                store(sums, q, zero)
            for at in range(0, star_size, 8 * d):
                to = 16 + 8 * ((at // (8 * d)) % sums_per_output)
                add_group(
                    codes[1], W_star, at, xs, x, d, coefficients.teacher_second_layer, at // d, None, None,
                    sums, to,
                )  # fmt: skip
            for at in range(0, size, 8 * d):
                to = 8 * ((at // (8 * d)) % sums_per_output)
                add_group(
                    codes[0], W, at, xs, x, d, moving.second_layer, at // d, slopes, moving.values, sums, to
                )
            output, target = sum_neurons(sums, 0, chains), sum_neurons(sums, 16, chains)
            error = fma(roots, load8(zs, 8 * (step - noise_chunk * CHUNK)), target * shares[1])
            factor = take(moving.factors.rate, step - first)
            kept = take(moving.factors.kept, step - first)
            push = times(rates, factor) * fma(output, -shares[0], error)
            for at in range(0, size, 8 * d):
                row = at // d
                c = mask8(push * load8(slopes, row), moving.second_layer, mask, row)
                for j in range(0, 8 * d, 8):
                    old = times(load8(W, at + j), kept)
                    store(W, at + j, fma(c, load8(xs, x + j), old))
            learn8(coefficients, moving, push)
        now = until
        if now % ahead == 0:
            square = zero
            for q in range(0, size, 8):
                w = load8(W, q)
                square = fma(w, w, square)
            store(sums, 0, square)
            store(sums, 8, zero)
            square = sum_neurons(sums, 0, chains)
            for c in range(chains):
                if diverged[c] < 0 and not lane(square, c) < limit[c] * d:
                    diverged[c] = now


class StepLoopOfFour(Simulator):
    """Up to four chains, two neurons of each in a vector; unused lanes hold copies of the first chain.

    For batches of one sample.
    """

    max_chains = 4
    supports = FULL_MODEL

    def __init__(self, chains: Sequence[Chain]) -> None:
        super().__init__(chains)
        members = fill_lanes(chains, self.max_chains)
        weights = [chain.weights() for chain in members]
        self.W = self._group(np.stack([W for W, _ in weights]))
        self.W_star = self._group(np.stack([W_star for _, W_star in weights]))
        self.mask = self._group(np.ones((self.max_chains, chains[0].rows, 1))).reshape(-1)
        self.keys = np.concatenate([chain.key for chain in members])
        self.limits = np.array([chain.divergence_limit for chain in members])
        repeats = CHAIN_LANES // self.max_chains
        self.moving = make_moving(
            self._group_second_layers([chain.output_weights for chain in members]), chains[0].is_learned,
            is_scaled=False,
        )  # fmt: skip
        self.coefficients = chains[0].coefficients._replace(
            rate=np.tile([chain.rate for chain in members], repeats),
            root_noise=np.tile([chain.root_noise for chain in members], repeats),
            teacher_second_layer=self._group_second_layers(
                [chain.teacher_output_weights for chain in members]
            ),
        )

    def _group(self, rows: Array) -> Array:
        """Rows (chains, neurons, n) of the chains as (groups, n, 8), padded with zeros."""
        chains, neurons, n = rows.shape
        size = CHAIN_LANES // chains
        padded = np.zeros((chains, round_up_to_lanes(neurons, size), n))
        padded[:, :neurons] = rows
        groups = padded.reshape(chains, -1, size, n).transpose(1, 3, 2, 0)
        return np.ascontiguousarray(groups.reshape(-1, n, CHAIN_LANES))

    def _ungroup(self, groups: Array, neurons: int) -> Array:
        """The inverse of `_group`, for the chains that are used."""
        size, n = CHAIN_LANES // self.max_chains, groups.shape[1]
        rows = groups.reshape(-1, n, size, self.max_chains).transpose(3, 0, 2, 1)
        return rows.reshape(self.max_chains, -1, n)[: len(self.chains), :neurons]

    def _group_second_layers(self, second_layers: Sequence[Array | None]) -> Array | None:
        present = [weights for weights in second_layers if weights is not None]
        return self._group(np.stack(present)[:, :, None]).reshape(-1) if present else None

    def _advance(self, first: int, last: int, factors: StepFactors) -> None:
        diverged = np.full(self.max_chains, -1)
        diverged[: len(self.diverged)] = self.diverged
        step_mixed_lanes(
            self.W.reshape(-1), self.W_star.reshape(-1), self.mask, self.keys, self.max_chains, first, last,
            self.coefficients, self.moving._replace(factors=factors), self.chains[0].d, self.limits, diverged,
        )  # fmt: skip
        self.diverged[:] = diverged[: len(self.diverged)]

    def overlaps(self) -> tuple[Array, Array]:
        chain = self.chains[0]
        W, W_star = self._ungroup(self.W, chain.rows), self._ungroup(self.W_star, chain.k)
        return compute_overlaps(W, W_star, chain.d)

    def second_layers(self) -> Array | None:
        second_layer = self.moving.second_layer
        if second_layer is None:
            return None
        return self._ungroup(second_layer.reshape(-1, 1, CHAIN_LANES), self.chains[0].rows)[:, :, 0]

    def weight_state(self) -> dict[str, AnyArray]:
        return {"W": self.W}


class StepLoopOfTwo(StepLoopOfFour):
    """Two chains, four neurons of each in a vector."""

    max_chains = 2
