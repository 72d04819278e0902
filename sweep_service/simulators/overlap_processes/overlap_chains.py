"""S3 for eight chains in the lanes of vectors, with the bits of the compiled form for one chain.

Every sum has the order of `move_overlaps`, so that a chain has the same numbers in both forms. A chain whose
overlaps are rank-deficient needs pivots of its own: it is followed by the form for one chain.

Arrays end with the eight chains. `wide` is p + 3: sums run over four neurons at once, beyond the last one
into columns of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sweep_service.model.activate import activate
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import CHAIN_LANES, fma, lane, load8, square_root, store, where_less
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.chain import Chain
from sweep_service.simulators.kernels.coefficients import (
    StepFactors,
    divide_by_next_scale,
    learn8,
    move_second_layer,
    reset_scale,
    scale_of,
    shrink_scale,
)
from sweep_service.simulators.kernels.optional import ends_batch, keep, step_of, take, times, weights8
from sweep_service.simulators.kernels.streams import fill_radii_of_chains, fill_steps_of_chains
from sweep_service.simulators.lanes import ChainsInLanes, fill_lanes
from sweep_service.simulators.overlap_processes.overlap_process import (
    PIVOT_TOLERANCE,
    OverlapProcess,
    scale_overlaps,
)

COLUMNS = 4  # of a sum that share the loads of the other factor


@kernel(force_inline=True)
def add_columns(X, at, apart, step, count, c, first, c_step, out, to, out_apart):
    """out[to + m out_apart] += Σ_e X[at + m apart + e step] c[first + e c_step] for m < 4.

    All indices count vectors.
    """
    f0, f1 = load8(out, 8 * to), load8(out, 8 * (to + out_apart))
    f2, f3 = load8(out, 8 * (to + 2 * out_apart)), load8(out, 8 * (to + 3 * out_apart))
    for e in range(count):
        share, x = load8(c, 8 * (first + e * c_step)), at + e * step
        f0, f1 = fma(load8(X, 8 * x), share, f0), fma(load8(X, 8 * (x + apart)), share, f1)
        f2 = fma(load8(X, 8 * (x + 2 * apart)), share, f2)
        f3 = fma(load8(X, 8 * (x + 3 * apart)), share, f3)
    store(out, 8 * to, f0)
    store(out, 8 * (to + out_apart), f1)
    store(out, 8 * (to + 2 * out_apart), f2)
    store(out, 8 * (to + 3 * out_apart), f3)


@kernel(force_inline=True)
def add_tile(X, at, apart, step, count, c, first, c_apart, c_step, out, to, out_apart, out_row):
    """`add_columns` for two rows of `out`, which use c from `first` and from `first` + c_apart on."""
    f0, f1 = load8(out, 8 * to), load8(out, 8 * (to + out_apart))
    f2, f3 = load8(out, 8 * (to + 2 * out_apart)), load8(out, 8 * (to + 3 * out_apart))
    low = to + out_row
    g0, g1 = load8(out, 8 * low), load8(out, 8 * (low + out_apart))
    g2, g3 = load8(out, 8 * (low + 2 * out_apart)), load8(out, 8 * (low + 3 * out_apart))
    for e in range(count):
        own, x = first + e * c_step, at + e * step
        share, other = load8(c, 8 * own), load8(c, 8 * (own + c_apart))
        x0, x1 = load8(X, 8 * x), load8(X, 8 * (x + apart))
        f0, f1, g0, g1 = fma(x0, share, f0), fma(x1, share, f1), fma(x0, other, g0), fma(x1, other, g1)
        x2, x3 = load8(X, 8 * (x + 2 * apart)), load8(X, 8 * (x + 3 * apart))
        f2, f3, g2, g3 = fma(x2, share, f2), fma(x3, share, f3), fma(x2, other, g2), fma(x3, other, g3)
    store(out, 8 * to, f0)
    store(out, 8 * (to + out_apart), f1)
    store(out, 8 * (to + 2 * out_apart), f2)
    store(out, 8 * (to + 3 * out_apart), f3)
    store(out, 8 * low, g0)
    store(out, 8 * (low + out_apart), g1)
    store(out, 8 * (low + 2 * out_apart), g2)
    store(out, 8 * (low + 3 * out_apart), g3)


@kernel(force_inline=True)
def fill_with_zeros(out, at, count):
    for q in range(8 * at, 8 * (at + count)):
        out[q] = 0.0


@kernel()
def factorise_chains(Q, M, L_star, p, k, F, minus_column):
    """`factorise` without pivoting; returns 1 for chains without vanishing pivots and 0 for others.

    The upper half of Q (wide, wide, 8) is used and that of F (k + p, wide, 8) is filled; `minus_column` has
    p + k vectors.
    """
    wide = p + 3
    for c in range(k):
        pivot = load8(L_star, 8 * (c * k + c))
        for j in range(p):
            total = load8(M, 8 * (c * wide + j))
            for e in range(c):
                total = fma(load8(F, 8 * (e * wide + j)), -1.0 * load8(L_star, 8 * (c * k + e)), total)
            store(F, 8 * (c * wide + j), total / pivot)
    largest = 0.0 * load8(Q, 0)
    for i in range(p):
        norm = load8(Q, 8 * (i * wide + i))
        largest = where_less(largest, norm, norm, largest)
    threshold = (PIVOT_TOLERANCE * p) * largest
    is_regular = 0.0 * threshold + 1.0
    for c in range(p):
        row = (k + c) * wide
        for e in range(k + c):
            store(minus_column, 8 * e, -1.0 * load8(F, 8 * (e * wide + c)))
        for j in range(c, p, COLUMNS):
            for m in range(j, j + COLUMNS):
                store(F, 8 * (row + m), load8(Q, 8 * (c * wide + m)))
            add_columns(F, j, 1, wide, k + c, minus_column, 0, 1, F, row + j, 1)
        pivot = load8(F, 8 * (row + c))
        is_regular = where_less(threshold, pivot, is_regular, 0.0)
        inverse = 1.0 / square_root(pivot)
        for j in range(c, p):
            store(F, 8 * (row + j), load8(F, 8 * (row + j)) * inverse)
    return is_regular


@kernel()
def fill_triangle_of_chains(packed, radii, rows, B, R):
    """`fill_triangle`, for R (rows, B, 8); the entries below the diagonal stay as they are."""
    for a in range(rows):
        source, shift = (a, 0) if 2 * a < B else (B - 1 - a, a + 1)
        store(R, 8 * (a * B + a), load8(radii, 8 * a))
        for b in range(a + 1, B):
            store(R, 8 * (a * B + b), load8(packed, 8 * (source * B + b - shift)))


@kernel()
def fill_gram_of_chains(Z, rank, R, rows, B, steps, scale, G):
    """`fill_gram`, for Z (rank, B, 8), R (rows, B, 8) with zeros below the diagonal, and G (B, B, 8)."""
    for b in range(0, steps, 2):
        for q in range(0, b + 2, COLUMNS):
            to = b * B + q
            for row in (to, to + B):
                fill_with_zeros(G, row, COLUMNS)
            add_tile(Z, q, 1, B, rank, Z, b, 1, B, G, to, 1, B)
            add_tile(R, q, 1, B, min(b + 2, q + COLUMNS, rows), R, b, 1, B, G, to, 1, B)
            for row in (to, to + B):
                for m in range(8 * row, 8 * (row + COLUMNS), 8):
                    store(G, m, load8(G, m) * scale)


@kernel()
def draw_fields_of_chains(L_star_rows, F, Z, p, k, B, fields, teachers):
    """`draw_fields` of all B samples, for fields (wide, B, 8) and teachers (k, B, 8)."""
    wide = p + 3
    fill_with_zeros(teachers, 0, k * B)
    fill_with_zeros(fields, 0, (p + 1) * B)
    for b in range(0, B, COLUMNS):
        for r in range(k):
            add_columns(Z, b, 1, B, k, L_star_rows, r, k, teachers, r * B + b, 1)
        for i in range(0, p, 2):  # F has zeros below the diagonal
            count = k + min(i + 2, p)
            add_tile(Z, b, 1, B, count, F, i, 1, wide, fields, i * B + b, 1, B)


@kernel(force_inline=True)
def _add_activations(code, fields, at, B, count, weights, scale, slopes, values):
    """`sum_activations` for the neurons at `at`, `at` + B, …, in the same order of additions."""
    zero = 0.0 * load8(fields, 8 * at)
    t0, t1, t2, t3 = zero, zero, zero, zero
    for i in range(count):
        value, slope = activate(code, times(load8(fields, 8 * (at + i * B)), scale))
        weight = weights8(weights, 8 * i)
        if slopes is not None:
            store(slopes, 8 * (at + i * B), times(slope, weight))
        keep(values, 8 * i, value)
        # the last vector is the sum of every fourth neuron
        t0, t1, t2, t3 = t1, t2, t3, t0 + times(value, weight)
    for _ in range((COLUMNS - count % COLUMNS) % COLUMNS):
        t0, t1, t2, t3 = t1, t2, t3, t0
    return (t0 + t1) + (t2 + t3)


@kernel(force_inline=True)
def _add_earlier(G, C, begin, count, b, p, B, fields):
    """Add Σ_b' G_bb' c_b' over `count` samples b' from `begin` on to the fields of sample b."""
    for i in range(0, p, COLUMNS):
        add_columns(C, i * B + begin, B, 1, count, G, b * B + begin, 1, fields, i * B + b, B)


@kernel(force_inline=True)
def _first_unseen(b, batch):
    """The number of samples that sample b sees: all before it, or those of earlier batches."""
    if batch is None:
        return b
    return b - b % batch


@kernel()
def take_steps_of_chains(fields, teachers, G, noises, C, step, steps, coefficients, moving, p, k, B):
    """`take_steps` for the first `steps` samples of a block, for fields and C (wide, B, 8)."""
    codes, shares, batch = coefficients.codes, coefficients.shares, coefficients.batch
    rates, roots = load8(coefficients.rate, 0), load8(coefficients.root_noise, 0)
    for b in range(steps):
        factor = take(moving.factors.rate, step + step_of(b, batch))
        kept = take(moving.factors.kept, step + step_of(b, batch))
        _add_earlier(G, C, 0, _first_unseen(b, batch), b, p, B, fields)
        target = _add_activations(
            codes[1], teachers, b, B, k, coefficients.teacher_second_layer, None, None, None
        )
        output = _add_activations(
            codes[0], fields, b, B, p, moving.second_layer, scale_of(moving.scale), C, moving.values
        )
        error = target * shares[1] + roots * load8(noises, 8 * b) - output * shares[0]
        push = times(rates, factor) * error
        stored_push = divide_by_next_scale(push, moving.scale, kept)
        for q in range(8 * b, 8 * (p * B + b), 8 * B):
            store(C, q, stored_push * load8(C, q))
        learn8(coefficients, moving, push)
        if ends_batch(b, batch):
            move_second_layer(coefficients, moving)
            shrink_scale(moving.scale, kept)


@kernel(force_inline=True)
def _add_inside(fields, G, C, batch, p, B, steps):
    """`add_inside_batches`."""
    if batch is not None:
        for b in range(steps):
            _add_earlier(G, C, b - b % batch, b % batch, b, p, B, fields)


@kernel()
def update_overlaps_of_chains(Q, M, fields, teachers, C, scale, p, k, B, steps, scaled_C, scaled_fields):
    """M += CᵀΛ*/d and Q += (CᵀΛ' + Λ'ᵀC)/d, of which the upper half counts."""
    wide = p + 3
    for j in range(p):
        for q in range(8 * j * B, 8 * (j * B + steps), 8):
            store(scaled_C, q, load8(C, q) * scale)
            store(scaled_fields, q, load8(fields, q) * scale)
    for i in range(0, p, COLUMNS):  # the outer loop, so that its columns stay in the cache
        for r in range(k):
            add_columns(scaled_C, i * B, B, 1, steps, teachers, r * B, 1, M, r * wide + i, 1)
        for j in range(0, min(i + COLUMNS, p), 2):
            to = j * wide + i
            add_tile(fields, i * B, B, 1, steps, scaled_C, j * B, B, 1, Q, to, 1, wide)
            add_tile(C, i * B, B, 1, steps, scaled_fields, j * B, B, 1, Q, to, 1, wide)


@kernel()
def move_overlaps_of_chains(
    Q, M, L_star, L_star_rows, keys, first, last, coefficients, moving, p, k, d, B, block_size, limits,
    diverged, ignored,
):  # fmt: skip
    """`move_overlaps` for eight chains, with Q (wide, wide, 8), M (k, wide, 8) and L_star (k, k, 8) flat.

    Returns `last`, or the first step of a block in which chains have vanishing pivots; they are then marked
    in `ignored`, and the block is not taken. What happens to chains that are marked does not matter.
    `diverged` is set as in `step_chains`.
    """
    n, wide = p + k, p + 3
    extra = 1 + B // 2
    pairs = (extra + n + 1) // 2
    F, minus_column = np.zeros(8 * n * wide), np.empty(8 * n)
    normals, R = np.zeros(8 * 2 * pairs * B), np.zeros(8 * B * B)
    G, radii = np.zeros(8 * B * B), np.empty(8 * B)
    noises, packed, Z = normals[: 8 * B], normals[8 * B : 8 * extra * B], normals[8 * extra * B :]
    fields, teachers, C = np.zeros(8 * wide * B), np.empty(8 * k * B), np.zeros(8 * wide * B)
    scaled_C, scaled_fields = np.zeros(8 * wide * B), np.zeros(8 * wide * B)
    scale, batch = 1.0 / d, coefficients.batch
    now = first
    while now < last:
        taken = min(block_size, last - now)
        sample, steps = times(now, batch), times(taken, batch)
        is_regular = factorise_chains(Q, M, L_star, p, k, F, minus_column)
        is_complete = True
        for s in range(8):
            if ignored[s] == 0 and diverged[s] < 0 and lane(is_regular, s) == 0.0:
                ignored[s] = 1
                is_complete = False
        if not is_complete:
            return now
        rows = min(steps, d - n)
        fill_steps_of_chains(keys, sample, pairs, (extra + n + 1) // 2, B, B, normals)
        fill_radii_of_chains(keys, sample, d - n, rows, radii)
        fill_triangle_of_chains(packed, radii, rows, B, R)
        fill_gram_of_chains(Z, n, R, rows, B, steps, scale, G)
        draw_fields_of_chains(L_star_rows, F, Z, p, k, B, fields, teachers)
        reset_scale(moving.scale)
        step = now - first
        take_steps_of_chains(fields, teachers, G, noises, C, step, steps, coefficients, moving, p, k, B)
        _add_inside(fields, G, C, batch, p, B, steps)
        for i in range(p):
            for b in range(steps):
                q = 8 * (i * B + b)
                store(fields, q, fma(load8(C, q), 0.5 * load8(G, 8 * (b * B + b)), load8(fields, q)))
        update_overlaps_of_chains(Q, M, fields, teachers, C, scale, p, k, B, steps, scaled_C, scaled_fields)
        scale_overlaps(Q, M, scale_of(moving.scale))
        now += taken
        trace = load8(Q, 0)
        for i in range(1, p):
            trace = trace + load8(Q, 8 * (i * wide + i))
        for s in range(8):
            if ignored[s] == 0 and diverged[s] < 0 and not lane(trace, s) < limits[s]:
                diverged[s] = now
    return last


class OverlapProcessOfChains(ChainsInLanes):
    """Up to eight chains in the lanes of vectors, represented by their overlaps."""

    is_scaled = True

    def __init__(self, chains: Sequence[Chain]) -> None:
        super().__init__(chains)
        self.members = [OverlapProcess([chain]) for chain in chains]
        first = self.members[0]
        self.samples, self.block_size = first.samples, first.block_size
        p, k = chains[0].rows, chains[0].k
        self.Q = np.zeros((p + 3, p + 3, CHAIN_LANES))
        self.M = np.zeros((k, p + 3, CHAIN_LANES))
        members = fill_lanes(self.members)
        for slot, member in enumerate(members):
            self._set_lane(slot, member)
        self.L_star = np.stack([member.L_star for member in members], axis=-1)
        self.L_star_rows = np.stack([member.L_star_rows[:, :k] for member in members], axis=-1)

    def _advance(self, first: int, last: int, factors: StepFactors) -> None:
        chain, now = self.chains[0], first
        diverged, ignored = self.diverged_lanes(), np.zeros(CHAIN_LANES, dtype=np.int64)
        ignored[len(self.chains) :] = 1
        alone: list[int] = []
        while now < last and np.any((ignored == 0) & (diverged < 0)):
            before = ignored.copy()
            now = move_overlaps_of_chains(
                self.Q.reshape(-1), self.M.reshape(-1), self.L_star.reshape(-1), self.L_star_rows.reshape(-1),
                self.keys, now, last, self.coefficients,
                self.moving._replace(factors=factors.skip(now - first)), chain.rows, chain.k, chain.d,
                self.samples, self.block_size, self.limits, diverged, ignored,
            )  # fmt: skip
            for slot in np.flatnonzero(ignored > before).tolist():
                member = self._get_lane(slot)
                member._advance(now, last, factors.skip(now - first))
                diverged[slot] = member.diverged[0]
                alone.append(slot)
        for slot in alone:
            self._set_lane(slot, self.members[slot])
        self.diverged[:] = diverged[: len(self.diverged)]

    def _set_lane(self, slot: int, member: OverlapProcess) -> None:
        """Copy the state of the form for one chain into a lane."""
        p = self.chains[0].rows
        for array, values in ((self.Q, member.Q), (self.M, member.M)):
            array[:, :, slot] = 0.0
            array[: len(values), :p, slot] = values[:, :p]
        if self.moving.second_layer is not None and member.moving.second_layer is not None:
            self.moving.second_layer[slot::CHAIN_LANES] = member.moving.second_layer[:p]

    def _get_lane(self, slot: int) -> OverlapProcess:
        """The form for one chain, in the state of a lane."""
        member, p = self.members[slot], self.chains[0].rows
        member.Q[:, :p], member.M[:, :p] = mirror(self.Q[:p, :p, slot]), self.M[:, :p, slot]
        if self.moving.second_layer is not None and member.moving.second_layer is not None:
            member.moving.second_layer[:p] = self.moving.second_layer[slot::CHAIN_LANES]
        return member

    def overlaps(self) -> tuple[Array, Array]:
        p, count = self.chains[0].rows, len(self.chains)
        M, Q = (np.moveaxis(array[..., :p, :count], 2, 0) for array in (self.M, self.Q[:p]))
        return M.swapaxes(1, 2), mirror(Q)

    def weight_state(self) -> dict[str, AnyArray]:
        return {"Q": self.Q, "M": self.M}


def mirror(Q: Array) -> Array:
    """Symmetric matrices (…, p, p) of which the upper half is given."""
    return np.triu(Q) + np.triu(Q, 1).swapaxes(-1, -2)
