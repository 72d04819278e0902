"""S3: the overlaps as a Markov process, equal to SGD in law, at a cost independent of d.

Inputs are isotropic, so a block of B steps needs only the fields of its inputs on the weights and
the inner products of the inputs with each other. With Ω = F Fᵀ (teachers first) the fields are F z
for z ~ N(0, I_r), and the part of the inputs orthogonal to all weights enters through its Gram matrix,
drawn as RᵀR with R triangular: χ on the diagonal, normals above it. The B steps are then taken as in
the blocked simulator, and the overlaps are updated exactly.

A block holds whole batches. This is the compiled form for few neurons, four per vector; a batch that fills a
block has a form of its own, see large_batch.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sweep_service.errors import InvalidInput
from sweep_service.model.overlaps import Overlaps, factor_gram
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import fma, load4, load8, round_up_to_lanes, store
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.chain import FULL_MODEL, Chain, Simulator
from sweep_service.simulators.kernels.coefficients import StepFactors, reset_scale, scale_of
from sweep_service.simulators.kernels.optional import times
from sweep_service.simulators.kernels.streams import fill_radii, fill_steps
from sweep_service.simulators.kernels.vector_rows import add_inside_batches, add_rows, copy_row, take_steps

# A pivot below this fraction of p max Q_ii counts as zero up to rounding.
PIVOT_TOLERANCE = 1e-14


@kernel()
def factorise(Q, M, L_star, p, k, wide, F, A):
    """Fill rows of F (k + rank, wide) with Q = Fᵀ F, the teachers' directions first; returns the rank.

    Q (p, wide) and M (k, wide) are flat, `wide` a multiple of 4. If a pivot vanishes, the factorisation
    restarts with the largest pivots first and uses A as work space for Q⊥.
    """
    for c in range(k):
        copy_row(M, c * wide, wide, F, c * wide)
        add_rows(F, 0, wide, c, L_star, c * k, 1, -1.0, 0, F, c * wide)
        for j in range(c * wide, (c + 1) * wide):
            F[j] /= L_star[c * k + c]
    largest = 0.0
    for i in range(p):
        largest = max(largest, Q[i * wide + i])
    threshold = PIVOT_TOLERANCE * p * largest
    for c in range(p):
        row = (k + c) * wide
        copy_row(Q, c * wide, wide, F, row)
        add_rows(F, 0, wide, k + c, F, c, wide, -1.0, c - c % 4, F, row)
        pivot = F[row + c]
        if not pivot > threshold:
            for i in range(p):
                copy_row(Q, i * wide, wide, A, i * wide)
                add_rows(F, 0, wide, k, F, i, wide, -1.0, 0, A, i * wide)
            return _factor_pivoted(p, k, wide, threshold, F, A)
        for j in range(c):
            F[row + j] = 0.0
        inverse = 1.0 / math.sqrt(pivot)
        for j in range(c - c % 4, wide, 4):
            store(F, row + j, load4(F, row + j) * inverse)
    return p


@kernel()
def _factor_pivoted(p, k, wide, threshold, F, A):
    """Fill the rest of F, the largest remaining pivot first, for overlaps that are rank-deficient."""
    for rank in range(p):
        pivot, at = threshold, -1
        for i in range(p):
            if A[i * wide + i] > pivot:
                pivot, at = A[i * wide + i], i
        if at < 0:
            return rank
        row, inverse = (k + rank) * wide, 1.0 / math.sqrt(pivot)
        for j in range(0, wide, 4):
            store(F, row + j, load4(A, at * wide + j) * inverse)
        for i in range(p):
            add_rows(F, row, wide, 1, F, row + i, 1, -1.0, 0, A, i * wide)
        A[at * wide + at] = 0.0  # up to rounding; set exactly so that it is not chosen again
    return p


@kernel()
def fill_triangle(packed, radii, rows, B, R):
    """Fill R (rows, B), flat and upper triangular, with radii on the diagonal and normals above it.

    The normals are in `packed` (B/2, B): row a of it provides the entries of row a of R right of the
    diagonal, and with the remaining entries those of row B-1-a.
    """
    for a in range(rows):
        source, shift = (a, 0) if 2 * a < B else (B - 1 - a, a + 1)
        for b in range(a):
            R[a * B + b] = 0.0
        R[a * B + a] = radii[a]
        for b in range(a + 1, B):
            R[a * B + b] = packed[source * B + b - shift]


@kernel()
def fill_gram(Z, rank, R, rows, B, steps, scale, G):
    """Fill G[b, :b+1] = scale (ZᵀZ + RᵀR), for Z (rank, B) and R (rows, B)."""
    for b in range(steps):
        for q in range(0, b + 1, 8):
            total = load8(Z, q) * Z[b]
            for c in range(1, rank):
                total = fma(load8(Z, c * B + q), Z[c * B + b], total)
            for a in range(min(b + 1, rows)):
                total = fma(load8(R, a * B + q), R[a * B + b], total)
            store(G, b * B + q, total * scale)


@kernel()
def draw_fields(L_star_rows, F, Z, k, wide, tall, rank, B, samples, fields, teachers):
    """Fill fields (B, wide) and teachers (B, tall), those of students and teachers at normals Z (rank, B)."""
    for b in range(samples):
        for i in range(wide):
            fields[b * wide + i] = 0.0
        for r in range(tall):
            teachers[b * tall + r] = 0.0
        add_rows(L_star_rows, 0, tall, k, Z, b, B, 1.0, 0, teachers, b * tall)
        add_rows(F, 0, wide, rank, Z, b, B, 1.0, 0, fields, b * wide)


@kernel()
def trace_of(Q, p, wide):
    trace = 0.0
    for i in range(p):
        trace += Q[i * wide + i]
    return trace


@kernel(force_inline=True)
def _add_inside(L, G, C, batch, B, wide, samples):
    if batch is not None:
        add_inside_batches(L, G, C, batch, B, wide, samples)


@kernel(force_inline=True)
def scale_overlaps(Q, M, scale):
    """Scale the overlaps of weights that are `scale` times those inside the block."""
    if scale is not None:
        for q in range(M.size):
            M[q] *= scale
        for q in range(Q.size):
            Q[q] *= scale * scale


@kernel()
def move_overlaps(
    Q, M, L_star, L_star_rows, mask, key, first, last, coefficients, moving, d, B, block_size, limit
):
    """Take steps first..last-1 on Q (p, wide) and M (k, wide), flat, with columns of zeros where `mask` is 0.

    P = L_star L_starᵀ; L_star_rows (k, tall) is the transpose of L_star, flat, `tall` a multiple of 4. A
    block has `block_size` steps, of at most B samples. Returns -1, or the step at which tr Q was found
    beyond `limit`.
    """
    k, wide = int(math.sqrt(L_star.size)), mask.size
    p, tall = Q.size // wide, L_star_rows.size // k
    n = p + k
    extra = 1 + B // 2  # rows of normals before those of the fields: one for noise, B/2 for R
    pairs = (extra + n + 1) // 2
    F, A = np.zeros(n * wide), np.zeros(p * wide)
    normals, R, G, radii = np.empty(2 * pairs * B), np.zeros(B * B), np.zeros(B * B), np.empty(B)
    noises, packed, Z = normals[:B], normals[B : extra * B], normals[extra * B :]
    fields, teachers, C = np.empty(B * wide), np.empty(B * tall), np.empty(B * wide)
    scaled_C, scaled_fields = np.empty(B * wide), np.empty(B * wide)
    work, scale = np.empty(max(40, 2 * tall)), 1.0 / d
    now, batch = first, coefficients.batch
    while now < last:
        taken = min(block_size, last - now)
        sample, steps = times(now, batch), times(taken, batch)
        rank = k + min(factorise(Q, M, L_star, p, k, wide, F, A), d - k)
        rows = min(steps, d - rank)
        fill_steps(key, sample, pairs, (extra + rank + 1) // 2, B, normals)
        fill_radii(key, sample, d - rank, rows, radii, work)
        fill_triangle(packed, radii, rows, B, R)
        fill_gram(Z, rank, R, rows, B, steps, scale, G)
        draw_fields(L_star_rows, F, Z, k, wide, tall, rank, B, steps, fields, teachers)
        reset_scale(moving.scale)
        take_steps(fields, teachers, G, noises, C, mask, 0, steps, now - first, coefficients, moving, work)
        # λ + ½‖x‖² c, and the effect of earlier samples of the batch, make the change of Q exact
        _add_inside(fields, G, C, batch, B, wide, steps)
        for b in range(steps):
            add_rows(C, b * wide, wide, 1, G, b * B + b, 1, 0.5, 0, fields, b * wide)
        for q in range(steps * wide):
            scaled_C[q], scaled_fields[q] = C[q] * scale, fields[q] * scale
        for r in range(k):
            add_rows(scaled_C, 0, wide, steps, teachers, r, tall, 1.0, 0, M, r * wide)
        for j in range(p):
            begin = j - j % 4
            add_rows(fields, 0, wide, steps, scaled_C, j, wide, 1.0, begin, Q, j * wide)
            add_rows(C, 0, wide, steps, scaled_fields, j, wide, 1.0, begin, Q, j * wide)
            for i in range(j):
                Q[j * wide + i] = Q[i * wide + j]
        scale_overlaps(Q, M, scale_of(moving.scale))
        now += taken
        if not trace_of(Q, p, wide) < limit:
            return now
    return -1


class OverlapProcess(Simulator):
    """One chain, represented by its overlaps alone."""

    supports = FULL_MODEL

    def __init__(self, chains: Sequence[Chain]) -> None:
        super().__init__(chains)
        (chain,) = chains
        n = chain.rows + chain.k
        self.set_block(choose_block_size(n))
        self.mask = chain.mask
        wide = self.mask.size
        start = Overlaps.of(chain.students, chain.teachers)
        self.Q, self.M = np.zeros((chain.rows, wide)), np.zeros((chain.k, wide))
        self.Q[:, : chain.rows], self.M[:, : chain.rows] = start.Q, start.M.T
        L_star = factor_gram(start.P)
        unused = np.diag(L_star) == 0.0
        if np.any(unused) and chain.d < n:
            raise InvalidInput("d", chain.d, f"must be >= p + k = {n} in S3 if the rank of P is below k")
        self.L_star_rows = np.zeros((chain.k, round_up_to_lanes(chain.k)))
        self.L_star_rows[:, : chain.k] = L_star.T
        # the unit pivot of an unused direction makes its fields zero when `factorise` divides by it
        self.L_star = L_star + np.diag(unused)
        self.moving = chain.moving()

    def set_block(self, samples: int) -> None:
        """Set the number of steps in a block of about `samples` samples, and the size of its arrays."""
        (chain,) = self.chains
        self.block_size = chain.limit_steps(max(1, round(samples / chain.batch)))
        self.samples = samples if chain.batch == 1 else round_up_to_lanes(self.block_size * chain.batch, 8)

    def _advance(self, first: int, last: int, factors: StepFactors) -> None:
        (chain,) = self.chains
        self.diverged[0] = move_overlaps(
            self.Q.reshape(-1), self.M.reshape(-1), self.L_star.reshape(-1), self.L_star_rows.reshape(-1),
            self.mask, chain.key, first, last, chain.coefficients, self.moving._replace(factors=factors),
            chain.d, self.samples, self.block_size, chain.divergence_limit,
        )  # fmt: skip

    def overlaps(self) -> tuple[Array, Array]:
        rows = self.chains[0].rows
        return self.M[None, :, :rows].swapaxes(1, 2), self.Q[None, :, :rows]

    def weight_state(self) -> dict[str, AnyArray]:
        return {"Q": self.Q, "M": self.M}


def choose_block_size(n: int) -> int:
    """Measured best number of samples per block, a multiple of 8."""
    return 8 if n <= 5 else 16 if n <= 40 else 24


def min_large_batch(n: int) -> int:
    """Measured batch from which the Wishart law is cheaper than the Gram matrix of the samples."""
    return max(choose_block_size(n), n if n <= 40 else 3 * n // 2)
