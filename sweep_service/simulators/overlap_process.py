"""S3: the overlaps themselves as a Markov process, equal to SGD in law, whatever d costs.

Inputs are isotropic, so a block of B steps needs only the fields of its inputs on the weights and
the inner products of the inputs with each other. With Ω = F Fᵀ (teachers first) the fields are F z
for z ~ N(0, I_r), and the part of the inputs orthogonal to all weights enters by its Gram matrix,
drawn as RᵀR with R triangular: χ on the diagonal, normals above it. Then the B steps are done as in
the blocked simulator, and the overlaps are brought up to date exactly.

This is the compiled form for few neurons, four of them in a vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sweep_service.arrays import AnyArray, Array
from sweep_service.kernels import kernel
from sweep_service.model.overlaps import Overlaps
from sweep_service.simd import fma, lane, load4, load8, padded, store
from sweep_service.simulators.activate import activate
from sweep_service.simulators.chain import Chain, Simulator
from sweep_service.simulators.streams import fill_radii, fill_steps

# A pivot below this share of p max Q_ii is what rounding left of zero.
PIVOT = 1e-14


@kernel()
def factor(Q, M, L_star, p, k, wide, F, A):
    """Rows of F (k + rank, wide) with Q = Fᵀ F, the teachers' directions first; returns the rank.

    Q (p, wide) and M (k, wide) are flat, `wide` a multiple of 4. Row k + c is zero before column c as
    long as the rank is full; where a pivot vanishes, it begins again with pivots, A being room for Q⊥.
    """
    for c in range(k):
        inverse = 1.0 / L_star[c, c]
        for i in range(0, wide, 4):
            row = load4(M, c * wide + i)
            for e in range(c):
                row = fma(load4(F, e * wide + i), -L_star[c, e], row)
            store(F, c * wide + i, row * inverse)
    largest = 0.0
    for i in range(p):
        largest = max(largest, Q[i * wide + i])
    threshold = PIVOT * p * largest
    for c in range(p):
        row, begin = (k + c) * wide, c - c % 4
        _remainder(Q, F, c, k + c, wide, begin, F, row)
        pivot = F[row + c]
        if not pivot > threshold:
            for i in range(p):
                _remainder(Q, F, i, k, wide, 0, A, i * wide)
            return _factor_pivoted(p, k, wide, threshold, F, A)
        inverse = 1.0 / math.sqrt(pivot)
        for j in range(begin, wide, 4):
            store(F, row + j, load4(F, row + j) * inverse)
        for j in range(c):
            F[row + j] = 0.0
    return p


@kernel()
def _remainder(Q, F, i, rows, wide, begin, out, at):
    """out[at + j] = Q_ij - Σ_{e<rows} F_ei F_ej, for j from `begin` on."""
    j = begin
    while j + 16 <= wide:  # four sums at once: one alone waits for each of its additions
        q = i * wide + j
        f0, f1, f2, f3 = load4(Q, q), load4(Q, q + 4), load4(Q, q + 8), load4(Q, q + 12)
        for e in range(rows):
            f, share = e * wide + j, -F[e * wide + i]
            f0, f1 = fma(load4(F, f), share, f0), fma(load4(F, f + 4), share, f1)
            f2, f3 = fma(load4(F, f + 8), share, f2), fma(load4(F, f + 12), share, f3)
        store(out, at + j, f0)
        store(out, at + j + 4, f1)
        store(out, at + j + 8, f2)
        store(out, at + j + 12, f3)
        j += 16
    for rest in range(j, wide, 4):
        field = load4(Q, i * wide + rest)
        for e in range(rows):
            field = fma(load4(F, e * wide + rest), -F[e * wide + i], field)
        store(out, at + rest, field)


@kernel()
def _factor_pivoted(p, k, wide, threshold, F, A):
    """The rest of F with the largest remaining pivot first: for overlaps whose rank is not full."""
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
            share = -F[row + i]
            for j in range(0, wide, 4):
                store(A, i * wide + j, fma(load4(F, row + j), share, load4(A, i * wide + j)))
        A[at * wide + at] = 0.0  # used, whatever rounding left
    return p


@kernel()
def triangle(packed, radii, rows, B, R):
    """R (rows, B) upper triangular, flat: radii on the diagonal, normals above; packed (B/2, B) holds them.

    Row a of `packed` serves row a of R, which needs what lies right of the diagonal, and with the
    a entries left over row B-1-a.
    """
    for a in range(rows):
        source, shift = (a, 0) if 2 * a < B else (B - 1 - a, a + 1)
        for b in range(a):
            R[a * B + b] = 0.0
        R[a * B + a] = radii[a]
        for b in range(a + 1, B):
            R[a * B + b] = packed[source * B + b - shift]


@kernel()
def gram(Z, rank, R, rows, B, steps, scale, G):
    """G[b, :b+1] = scale (ZᵀZ + RᵀR), for Z (rank, B) and R (rows, B)."""
    for b in range(steps):
        for q in range(0, b + 1, 8):
            total = load8(Z, q) * Z[b]
            for c in range(1, rank):
                total = fma(load8(Z, c * B + q), Z[c * B + b], total)
            for a in range(min(b + 1, rows)):
                total = fma(load8(R, a * B + q), R[a * B + b], total)
            store(G, b * B + q, total * scale)


@kernel()
def move_overlaps(
    Q, M, L_star, L_star_rows, mask, key, first, last, rate, root_noise, shares, d, B, codes, limit
):
    """Steps first..last-1: Q (p, wide) and M (k, wide) flat; where `mask` is 0, columns of zeros.

    P = L_star L_starᵀ; L_star_rows (k, tall) holds its transpose, flat, `tall` a multiple of 4.
    Returns -1, or the step at which tr Q was found beyond `limit`.
    """
    k, wide = len(L_star), mask.size
    p, tall = Q.size // wide, L_star_rows.size // k
    n = p + k
    extra = 1 + B // 2  # rows of normals before those of the fields: one of noise, B/2 for R
    pairs = (extra + n + 1) // 2
    F, A = np.zeros(n * wide), np.zeros(p * wide)
    normals, R, G, radii = np.empty(2 * pairs * B), np.zeros(B * B), np.zeros(B * B), np.empty(B)
    noises, packed, Z = normals[:B], normals[B : extra * B], normals[extra * B :]
    fields, teachers, C = np.empty(B * wide), np.empty(B * tall), np.empty(B * wide)
    scaled_C, scaled_fields = np.empty(B * wide), np.empty(B * wide)
    work, scale = np.empty(40), 1.0 / d
    now = first
    while now < last:
        steps = min(B, last - now)
        students = factor(Q, M, L_star, p, k, wide, F, A)
        rank = k + min(students, d - k)
        rows = min(steps, d - rank)
        fill_steps(key, now, pairs, (extra + rank + 1) // 2, B, normals)
        fill_radii(key, now, d - rank, rows, radii, work)
        triangle(packed, radii, rows, B, R)
        gram(Z, rank, R, rows, B, steps, scale, G)
        for b in range(steps):
            for r in range(0, tall, 4):
                field = load4(L_star_rows, r) * Z[b]
                for c in range(1, k):
                    field = fma(load4(L_star_rows, c * tall + r), Z[c * B + b], field)
                store(teachers, b * tall + r, field)
            for i in range(0, wide, 4):
                field = load4(F, i) * Z[b]
                for c in range(1, rank if students < p else min(rank, k + i + 4)):
                    field = fma(load4(F, c * wide + i), Z[c * B + b], field)
                store(fields, b * wide + i, field)
        for b in range(steps):
            total = 0.0 * load4(teachers, 0)
            for r in range(0, tall, 4):
                value, _ = activate(codes[1], load4(teachers, b * tall + r))
                total = total + value
            target = (lane(total, 0) + lane(total, 1)) + (lane(total, 2) + lane(total, 3))
            total = 0.0 * total
            for i in range(0, wide, 4):
                field = load4(fields, b * wide + i)
                for q in range(b):
                    field = fma(load4(C, q * wide + i), G[b * B + q], field)
                store(fields, b * wide + i, field)
                value, slope = activate(codes[0], field)
                store(C, b * wide + i, slope * load4(mask, i))
                total = total + value
            answer = (lane(total, 0) + lane(total, 1)) + (lane(total, 2) + lane(total, 3))
            push = rate * (target * shares[1] + root_noise * noises[b] - answer * shares[0])
            half = 0.5 * G[b * B + b]
            for i in range(0, wide, 4):
                c = push * load4(C, b * wide + i)
                store(C, b * wide + i, c)
                # λ + ½‖x‖² c, which makes the change of Q exact
                store(fields, b * wide + i, fma(c, half, load4(fields, b * wide + i)))
        for q in range(0, steps * wide, 4):
            store(scaled_C, q, load4(C, q) * scale)
            store(scaled_fields, q, load4(fields, q) * scale)
        for i in range(0, wide, 4):
            for r in range(k):
                row = load4(M, r * wide + i)
                for b in range(steps):
                    row = fma(load4(scaled_C, b * wide + i), teachers[b * tall + r], row)
                store(M, r * wide + i, row)
        for j in range(p):
            for i in range(j - j % 4, wide, 4):
                row = load4(Q, j * wide + i)
                for b in range(steps):
                    at = b * wide
                    row = fma(load4(fields, at + i), scaled_C[at + j], row)
                    row = fma(load4(C, at + i), scaled_fields[at + j], row)
                store(Q, j * wide + i, row)
            for i in range(j):
                Q[j * wide + i] = Q[i * wide + j]
        now += steps
        trace = 0.0
        for i in range(p):
            trace += Q[i * wide + i]
        if not trace < limit:
            return now
    return -1


class OverlapProcess(Simulator):
    """One chain, by its overlaps alone."""

    def __init__(self, chains: Sequence[Chain]) -> None:
        super().__init__(chains)
        (chain,) = chains
        n = chain.rows + chain.k
        self.grain = 8 if n <= 10 else 16 if n <= 40 else 24  # by measurement; a multiple of 8
        self.mask = chain.mask
        wide = self.mask.size
        start = Overlaps.of(chain.students, chain.teachers)
        self.Q, self.M = np.zeros((chain.rows, wide)), np.zeros((chain.k, wide))
        self.Q[:, : chain.rows], self.M[:, : chain.rows] = start.Q, start.M.T
        self.L_star = np.linalg.cholesky(start.P)
        self.L_star_rows = np.zeros((chain.k, padded(chain.k)))
        self.L_star_rows[:, : chain.k] = self.L_star.T

    def advance(self, first: int, last: int) -> None:
        (chain,) = self.chains
        self.diverged[0] = move_overlaps(
            self.Q.reshape(-1), self.M.reshape(-1), self.L_star, self.L_star_rows.reshape(-1), self.mask,
            chain.key, first, last, chain.rate, chain.root_noise, chain.shares, chain.d, self.grain,
            chain.codes, chain.limit,
        )  # fmt: skip

    def overlaps(self) -> tuple[Array, Array]:
        rows = self.chains[0].rows
        return self.M[None, :, :rows].swapaxes(1, 2), self.Q[None, :, :rows]

    def state(self) -> dict[str, AnyArray]:
        return {"Q": self.Q, "M": self.M}
