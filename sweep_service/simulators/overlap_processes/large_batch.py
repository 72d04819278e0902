"""S3 for batches that fill a block or more, without a Gram matrix of the samples.

All samples of a batch see the same weights, so with Ω = F Fᵀ, fields F z and C (b, p) of the batch, the part
of the weights in the span moves by A = CᵀZ/d. The part outside it is CᵀY with Y (b, d - r) normal. Given C,
its products have the law Wishart_p(d - r, CᵀC), drawn by Bartlett's decomposition as K T Tᵀ Kᵀ: K Kᵀ = CᵀC,
and T is lower triangular with χ of d - r, d - r - 1, … degrees on the diagonal and normals below it. Then
    F' = (1 - ε) F + A,  Q' = F' F'ᵀ + K T Tᵀ Kᵀ/d².
A batch may be much larger than d: it is summed in pieces.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf

from sweep_service.numerics.jit import kernel
from sweep_service.numerics.types import Array
from sweep_service.simulators.chain import Chain
from sweep_service.simulators.kernels.coefficients import StepFactors, move_second_layer
from sweep_service.simulators.kernels.optional import take, times
from sweep_service.simulators.kernels.streams import CHUNK, TRIANGLE, fill_normals, fill_radii, fill_steps
from sweep_service.simulators.kernels.vector_rows import add_rows, push_batch
from sweep_service.simulators.overlap_processes.overlap_process import (
    OverlapProcess,
    draw_fields,
    factorise,
    trace_of,
)
from sweep_service.simulators.overlap_processes.wide_overlap_process import Draws, WideOverlapProcess

PIECE = 16  # samples that the compiled form draws at once


@kernel()
def count_triangle_chunks(p):
    """Chunks of normals that a step has for the triangle T."""
    return p * (p - 1) // 2 // CHUNK + 1


@kernel()
def add_products(rows, count, wide, p, Q):
    """Add rowsᵀ rows to the upper half of Q (p, wide), for rows (count, wide)."""
    for j in range(p):
        add_rows(rows, 0, wide, count, rows, j, wide, 1.0, j - j % 4, Q, j * wide)


@kernel()
def mirror(Q, p, wide):
    """Copy the upper half of Q (p, wide) to the lower one."""
    for j in range(p):
        for i in range(j):
            Q[j * wide + i] = Q[i * wide + j]


@kernel()
def fill_outside(key, step, degrees, p, rank, wide, K, scale, packed, radii, work, V):
    """Fill V (columns, wide) with scale TᵀK, for K (rank, wide), and return `columns`."""
    columns = min(rank, degrees)
    fill_normals(key, TRIANGLE, step * count_triangle_chunks(p), 1.0, packed)
    fill_radii(key, step * p, degrees, columns, radii, work)
    at = 0
    for a in range(columns):
        for i in range(a * wide, (a + 1) * wide):
            V[i] = 0.0
        add_rows(K, a * wide, wide, 1, radii, a, 1, scale, 0, V, a * wide)
        add_rows(K, (a + 1) * wide, wide, rank - a - 1, packed, at, 1, scale, 0, V, a * wide)
        at += rank - a - 1
    return columns


@kernel()
def move_by_batches(Q, M, L_star, L_star_rows, mask, key, first, last, coefficients, moving, d, limit):
    """Take steps first..last-1 on Q and M, see `move_overlaps`."""
    k, wide, batch = int(math.sqrt(L_star.size)), mask.size, coefficients.batch
    p, tall = Q.size // wide, L_star_rows.size // k
    n, scale = p + k, 1.0 / d
    pairs = (n + 2) // 2
    F, K, V, work_Q = np.zeros(n * wide), np.zeros(p * wide), np.zeros(p * wide), np.zeros(p * wide)
    change, square = np.empty(n * wide), np.empty(p * wide)
    normals = np.empty(2 * pairs * PIECE)
    noises, Z = normals[:PIECE], normals[PIECE:]
    fields, teachers, C = np.empty(PIECE * wide), np.empty(PIECE * tall), np.empty(PIECE * wide)
    packed, radii = np.empty(CHUNK * count_triangle_chunks(p)), np.empty(p)
    nothing, work = np.empty(0), np.empty(max(40, 2 * tall))
    for step in range(first, last):
        rank = k + min(factorise(Q, M, L_star, p, k, wide, F, work_Q), d - k)
        factor = take(moving.factors.rate, step - first)
        for q in range(rank * wide):
            change[q] = 0.0
        for q in range(p * wide):
            square[q] = 0.0
        for begin in range(0, batch, PIECE):
            samples = min(PIECE, batch - begin)
            fill_steps(key, step * batch + begin, pairs, (rank + 2) // 2, PIECE, normals)
            draw_fields(L_star_rows, F, Z, k, wide, tall, rank, PIECE, samples, fields, teachers)
            push_batch(
                fields, teachers, noises, C, 0, samples, tall, mask, factor, None, coefficients, moving, work
            )
            for c in range(rank):
                add_rows(C, 0, wide, samples, Z, c * PIECE, 1, scale, 0, change, c * wide)
            add_products(C, samples, wide, p, square)
        move_second_layer(coefficients, moving)
        kept = take(moving.factors.kept, step - first)
        for q in range(rank * wide):
            F[q] = times(F[q], kept) + change[q]
        for r in range(k):
            for i in range(r * wide, (r + 1) * wide):
                M[i] = 0.0
            add_rows(F, 0, wide, k, L_star_rows, r, tall, 1.0, 0, M, r * wide)
        for q in range(p * wide):
            Q[q] = 0.0
        add_products(F, rank, wide, p, Q)
        mirror(square, p, wide)
        columns = fill_outside(
            key, step, d - rank, p, factorise(square, nothing, nothing, p, 0, wide, K, work_Q), wide, K,
            scale, packed, radii, work, V,
        )  # fmt: skip
        add_products(V, columns, wide, p, Q)
        mirror(Q, p, wide)
        if not trace_of(Q, p, wide) < limit:
            return step + 1
    return -1


class LargeBatchProcess(OverlapProcess):
    """The compiled form: the same state, a batch at a time."""

    def set_block(self, samples: int) -> None:
        self.samples, self.block_size = PIECE, 1

    def _advance(self, first: int, last: int, factors: StepFactors) -> None:
        (chain,) = self.chains
        moving = self.moving._replace(factors=factors, scale=None)
        self.diverged[0] = move_by_batches(
            self.Q.reshape(-1), self.M.reshape(-1), self.L_star.reshape(-1), self.L_star_rows.reshape(-1),
            self.mask, chain.key, first, last, chain.coefficients, moving, chain.d, chain.divergence_limit,
        )  # fmt: skip


class WideLargeBatchProcess(WideOverlapProcess):
    """The form for many neurons, by matrix products in pieces of a block."""

    def set_block(self, samples: int) -> None:
        self.samples, self.block_size = samples, 1

    def _make_draws(self, n: int) -> Draws:
        self.triangle = TriangleDraws(self.chains[0])
        return Draws(self.chains[0], n, self.samples, gram=False)

    def _block(self, chain: Chain, step: int, steps: int) -> None:
        p, k, d = chain.rows, chain.k, chain.d
        rank = k + min(self._factor(p, k), d - k)
        F = self.F[:rank]
        change, square = np.zeros_like(F), np.zeros((p, p), order="F")
        for begin in range(step * chain.batch, (step + 1) * chain.batch, self.samples):
            samples = min(self.samples, (step + 1) * chain.batch - begin)
            z, Z = self.draws.draw_fields(begin, samples, rank)
            C = self.C[:samples]
            self.steps.push(step, Z.T @ F, Z[:k].T @ self.L_star_rows, z, C)
            change += Z @ C
            square = dsyrk(1.0, C[:, :p].T, beta=1.0, c=square, lower=0, overwrite_c=1)
        F *= self.steps.finish(step)
        F += change / d
        self.M[:] = self.L_star_rows[:, :k].T @ F[:k]
        outside = self.triangle.draw(step, d - rank).T @ _root(square) / d
        self.Q[:, :p] = F[:, :p].T @ F[:, :p] + outside.T @ outside


class TriangleDraws:
    """The triangle T of a step."""

    def __init__(self, chain: Chain) -> None:
        self.key, self.p = chain.key, chain.rows
        self.packed = np.empty(CHUNK * count_triangle_chunks(chain.rows))
        self.radii, self.work = np.empty(chain.rows), np.empty(40)

    def draw(self, step: int, degrees: int) -> Array:
        """T (p, columns), with at most `degrees` columns."""
        p, columns = self.p, min(self.p, degrees)
        fill_normals(self.key, TRIANGLE, step * count_triangle_chunks(p), 1.0, self.packed)
        fill_radii(self.key, step * p, degrees, columns, self.radii, self.work)
        T = np.zeros((p, p))
        T[np.tril_indices(p, -1)] = self.packed[: p * (p - 1) // 2]
        T = T[:, :columns]
        np.fill_diagonal(T, self.radii[:columns])
        return T


def _root(square: Array) -> Array:
    """K with KᵀK = `square`, of which the upper half is given; `square` may be singular."""
    upper, failed = dpotrf(square, lower=0, clean=1)
    if not failed:
        return np.asarray(upper)
    values, vectors = np.linalg.eigh(square, UPLO="U")
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)
