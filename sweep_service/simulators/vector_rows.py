"""Building blocks of the compiled simulators: sums of rows, with four neurons per vector."""

from __future__ import annotations

from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import fma, lane, load4, store
from sweep_service.simulators.activate import activate


@kernel(force_inline=True)
def add_rows(X, start, wide, count, c, at, step, sign, begin, out, to):
    """out[to + j] += sign Σ_e c[at + e step] X[start + e wide + j] for begin <= j < wide, e < count."""
    j = begin
    while j + 16 <= wide:  # four independent sums, as a single one would wait for each addition
        f0, f1 = load4(out, to + j), load4(out, to + j + 4)
        f2, f3 = load4(out, to + j + 8), load4(out, to + j + 12)
        for e in range(count):
            x, share = start + e * wide + j, sign * c[at + e * step]
            f0, f1 = fma(load4(X, x), share, f0), fma(load4(X, x + 4), share, f1)
            f2, f3 = fma(load4(X, x + 8), share, f2), fma(load4(X, x + 12), share, f3)
        store(out, to + j, f0)
        store(out, to + j + 4, f1)
        store(out, to + j + 8, f2)
        store(out, to + j + 12, f3)
        j += 16
    for rest in range(j, wide, 4):
        total = load4(out, to + rest)
        for e in range(count):
            total = fma(load4(X, start + e * wide + rest), sign * c[at + e * step], total)
        store(out, to + rest, total)


@kernel()
def copy_row(source, at, wide, out, to):
    """out[to + j] = source[at + j] for j < wide; slices would take seconds to compile."""
    for j in range(wide):
        out[to + j] = source[at + j]


@kernel(force_inline=True)
def sum_activations(code, fields, at, wide, slopes, to):
    """Return Σ_i σ(λ_i) over a row of fields, and store the slopes σ'(λ_i)."""
    total = 0.0 * load4(fields, at)
    for i in range(0, wide, 4):
        value, slope = activate(code, load4(fields, at + i))
        store(slopes, to + i, slope)
        total = total + value
    return (lane(total, 0) + lane(total, 1)) + (lane(total, 2) + lane(total, 3))


@kernel()
def take_steps(L, T, G, z, C, mask, first, last, rate, root_noise, shares, codes, work):
    """Take steps first..last-1 of a block; L, C (B, wide), T (B, tall), G (B, B) are flat, see `BlockSteps`.

    L already includes the effect of the steps before `first`; `work` has the size of a row of T.
    """
    B, wide = z.size, mask.size
    tall = T.size // B
    for b in range(first, last):
        row = b * wide
        target = sum_activations(codes[1], T, b * tall, tall, work, 0)
        add_rows(C, first * wide, wide, b - first, G, b * B + first, 1, 1.0, 0, L, row)
        output = sum_activations(codes[0], L, row, wide, C, row)
        push = rate * (target * shares[1] + root_noise * z[b] - output * shares[0])
        for i in range(0, wide, 4):
            store(C, row + i, push * load4(C, row + i) * load4(mask, i))
