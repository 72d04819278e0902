"""Building blocks of the compiled simulators: sums of rows, with four neurons per vector."""

from __future__ import annotations

from sweep_service.model.activate import activate
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import fma, high_half, join, lane, load4, load8, low_half, store
from sweep_service.simulators.kernels.coefficients import (
    divide_by_next_scale,
    learn4,
    move_second_layer,
    scale_of,
    shrink_scale,
)
from sweep_service.simulators.kernels.optional import (
    ends_batch,
    keep,
    mask4,
    step_of,
    take,
    times,
    weights4,
    weights4_twice,
)


@kernel(force_inline=True, one_version=True)
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
    if j + 12 <= wide:
        f0, f1, f2 = load4(out, to + j), load4(out, to + j + 4), load4(out, to + j + 8)
        for e in range(count):
            x, share = start + e * wide + j, sign * c[at + e * step]
            f0, f1 = fma(load4(X, x), share, f0), fma(load4(X, x + 4), share, f1)
            f2 = fma(load4(X, x + 8), share, f2)
        store(out, to + j, f0)
        store(out, to + j + 4, f1)
        store(out, to + j + 8, f2)
        j += 12
    if j + 8 <= wide:
        f0, f1 = load4(out, to + j), load4(out, to + j + 4)
        for e in range(count):
            x, share = start + e * wide + j, sign * c[at + e * step]
            f0, f1 = fma(load4(X, x), share, f0), fma(load4(X, x + 4), share, f1)
        store(out, to + j, f0)
        store(out, to + j + 4, f1)
        j += 8
    for rest in range(j, wide, 4):
        total = load4(out, to + rest)
        for e in range(count):
            total = fma(load4(X, start + e * wide + rest), sign * c[at + e * step], total)
        store(out, to + rest, total)


@kernel()
def add_product(X, start, wide, count, c, at, step, rows, out, to):
    """`add_rows` for several rows: out[to + i wide + j] += Σ_e c[at + i step + e] X[start + e wide + j].

    Four rows share the loads of X. Each keeps the order of its additions, and so its bits.
    """
    shared = rows - rows % 4 if count > 0 else 0
    for i in range(0, shared, 4):
        j, first, row = 0, at + i * step, to + i * wide
        while j + 16 <= wide:
            _add_sixteen_columns(X, start + j, wide, count, c, first, step, out, row + j)
            j += 16
        for rest in range(j, wide, 4):
            _add_four_columns(X, start + rest, wide, count, c, first, step, out, row + rest)
    for i in range(shared, rows):
        add_rows(X, start, wide, count, c, at + i * step, 1, 1.0, 0, out, to + i * wide)


@kernel(force_inline=True)
def _add_sixteen_columns(X, start, wide, count, c, at, step, out, to):
    """`add_product` for four rows; eight independent sums, as fewer would wait for each addition."""
    to1, to2, to3 = to + wide, to + 2 * wide, to + 3 * wide
    f0, f1, f2, f3 = load8(out, to), load8(out, to1), load8(out, to2), load8(out, to3)
    g0, g1, g2, g3 = load8(out, to + 8), load8(out, to1 + 8), load8(out, to2 + 8), load8(out, to3 + 8)
    for e in range(count):
        x, y, own = load8(X, start + e * wide), load8(X, start + e * wide + 8), at + e
        c0, c1, c2, c3 = c[own], c[own + step], c[own + 2 * step], c[own + 3 * step]
        f0, f1, f2, f3 = fma(x, c0, f0), fma(x, c1, f1), fma(x, c2, f2), fma(x, c3, f3)
        g0, g1, g2, g3 = fma(y, c0, g0), fma(y, c1, g1), fma(y, c2, g2), fma(y, c3, g3)
    store_column(out, to, wide, f0, f1, f2, f3)
    store_column(out, to + 8, wide, g0, g1, g2, g3)


@kernel(force_inline=True)
def _add_four_columns(X, start, wide, count, c, at, step, out, to):
    """`add_product` for four rows."""
    f0, f1 = load4(out, to), load4(out, to + wide)
    f2, f3 = load4(out, to + 2 * wide), load4(out, to + 3 * wide)
    for e in range(count):
        x, own = load4(X, start + e * wide), at + e
        f0, f1 = fma(x, c[own], f0), fma(x, c[own + step], f1)
        f2, f3 = fma(x, c[own + 2 * step], f2), fma(x, c[own + 3 * step], f3)
    store_column(out, to, wide, f0, f1, f2, f3)


@kernel(force_inline=True)
def store_column(out, to, wide, f0, f1, f2, f3):
    """Write vectors into four consecutive rows."""
    store(out, to, f0)
    store(out, to + wide, f1)
    store(out, to + 2 * wide, f2)
    store(out, to + 3 * wide, f3)


@kernel()
def copy_row(source, at, wide, out, to):
    """out[to + j] = source[at + j] for j < wide; slices would take seconds to compile."""
    for j in range(wide):
        out[to + j] = source[at + j]


@kernel(force_inline=True, one_version=True)
def sum_activations(code, fields, at, wide, slopes, to, weights, scale, values):
    """Return Σ_i a_i σ(λ_i) over a row of fields, and store the slopes a_i σ'(λ_i).

    Optional are the weights a_i (else one), a scale of the fields, and an array for the values σ(λ_i).
    """
    total = 0.0 * load4(fields, at)
    for i in range(0, wide, 4):
        value, slope = activate(code, times(load4(fields, at + i), scale))
        weight = weights4(weights, i)
        store(slopes, to + i, times(slope, weight))
        keep(values, i, value)
        total = total + times(value, weight)
    return (lane(total, 0) + lane(total, 1)) + (lane(total, 2) + lane(total, 3))


@kernel(force_inline=True)
def _sum_pair(code, fields, at, wide, slopes, to, weights, scale, values):
    """`sum_activations` for two consecutive rows, which share vectors; the sums have the same bits."""
    total = 0.0 * join(load4(fields, at), load4(fields, at + wide))
    for i in range(0, wide, 4):
        pair = join(load4(fields, at + i), load4(fields, at + wide + i))
        value, slope = activate(code, times(pair, scale))
        weight = weights4_twice(weights, i)
        slope = times(slope, weight)
        store(slopes, to + i, low_half(slope))
        store(slopes, to + wide + i, high_half(slope))
        keep(values, i, low_half(value))
        keep(values, wide + i, high_half(value))
        total = total + times(value, weight)
    first = (lane(total, 0) + lane(total, 1)) + (lane(total, 2) + lane(total, 3))
    return first, (lane(total, 4) + lane(total, 5)) + (lane(total, 6) + lane(total, 7))


@kernel(force_inline=True)
def _learn_sample(C, z, b, number, target, output, mask, factor, kept, coefficients, moving):
    """Multiply the slopes in row b of C by (γu/(pb)) 𝓔, and add the sample to the change of the second layer.

    The sample is number `number` of those whose values are kept.
    """
    wide, shares = mask.size, coefficients.shares
    error = target * shares[1] + coefficients.root_noise * z[b] - output * shares[0]
    push = times(coefficients.rate, factor) * error
    stored_push = divide_by_next_scale(push, moving.scale, kept)
    row = b * wide
    for i in range(0, wide, 4):
        store(C, row + i, mask4(stored_push * load4(C, row + i), moving.second_layer, mask, i))
    learn4(coefficients, moving, push, number)


@kernel(force_inline=True)
def push_sample(L, T, z, C, b, tall, mask, factor, kept, coefficients, moving, work):
    """Fill row b of C with (γu/(pb)) a_i σ'(λ_i) 𝓔, and add the sample to the change of the second layer.

    L, C (B, wide) and T (B, tall) are flat; `work` has at least the size of two rows of T. `factor` is u, and
    the step keeps the share `kept` of the weights.
    """
    wide = mask.size
    row = b * wide
    codes, scale = coefficients.codes, scale_of(moving.scale)
    target = sum_activations(
        codes[1], T, b * tall, tall, work, 0, coefficients.teacher_second_layer, None, None
    )
    output = sum_activations(codes[0], L, row, wide, C, row, moving.second_layer, scale, moving.values)
    _learn_sample(C, z, b, 0, target, output, mask, factor, kept, coefficients, moving)


@kernel(force_inline=True)
def push_batch(L, T, z, C, begin, end, tall, mask, factor, kept, coefficients, moving, work):
    """`push_sample` for samples begin..end-1 of a batch, which do not see each other: two per vector."""
    wide, codes, scale = mask.size, coefficients.codes, scale_of(moving.scale)
    pairs = (end - begin) // 2
    for b in range(begin, begin + 2 * pairs, 2):
        row = b * wide
        target, next_target = _sum_pair(
            codes[1], T, b * tall, tall, work, 0, coefficients.teacher_second_layer, None, None
        )
        output, next_output = _sum_pair(
            codes[0], L, row, wide, C, row, moving.second_layer, scale, moving.values
        )
        _learn_sample(C, z, b, 0, target, output, mask, factor, kept, coefficients, moving)
        _learn_sample(C, z, b + 1, 1, next_target, next_output, mask, factor, kept, coefficients, moving)
    for b in range(begin + 2 * pairs, end):
        push_sample(L, T, z, C, b, tall, mask, factor, kept, coefficients, moving, work)


@kernel(force_inline=True)
def _push(batch, L, T, z, C, b, tall, mask, factor, kept, coefficients, moving, work):
    """Push sample b; the first sample of a batch pushes all of it."""
    if batch is None:
        push_sample(L, T, z, C, b, tall, mask, factor, kept, coefficients, moving, work)
    elif b % batch == 0:
        push_batch(L, T, z, C, b, b + batch, tall, mask, factor, kept, coefficients, moving, work)


@kernel(force_inline=True)
def _add_earlier(batch, C, G, L, first, b, B, wide):
    """Add the effect of the samples from `first` on to row b of L; at once to all rows of a batch."""
    if batch is None:
        add_rows(C, first * wide, wide, b - first, G, b * B + first, 1, 1.0, 0, L, b * wide)
    elif b % batch == 0:
        add_product(C, first * wide, wide, b - first, G, b * B + first, B, batch, L, b * wide)


@kernel(force_inline=True)
def take_steps(L, T, G, z, C, mask, first, last, step, coefficients, moving, work):
    """Take the steps of samples first..last-1 of a block, whose first step has the factor number `step`.

    L, C (B, wide), T (B, tall), G (B, B) are flat, see `BlockSteps`. L already includes the effect of the
    samples before `first`, the first of a batch.
    """
    B, wide, batch = z.size, mask.size, coefficients.batch
    tall = T.size // B
    for b in range(first, last):
        factor = take(moving.factors.rate, step + step_of(b, batch))
        kept = take(moving.factors.kept, step + step_of(b, batch))
        _add_earlier(batch, C, G, L, first, b, B, wide)
        _push(batch, L, T, z, C, b, tall, mask, factor, kept, coefficients, moving, work)
        if ends_batch(b, batch):
            move_second_layer(coefficients, moving)
            shrink_scale(moving.scale, kept)


@kernel()
def add_inside_batches(L, G, C, batch, B, wide, samples):
    """Add Σ_b' G_bb' c_b' over the earlier samples b' of the same batch to row b of L."""
    for begin in range(0, samples, batch):
        for b in range(begin, begin + batch, 4):
            rows, row = min(4, begin + batch - b), b * B
            add_product(C, begin * wide, wide, b - begin, G, row + begin, B, rows, L, b * wide)
            for i in range(1, rows):
                add_rows(C, b * wide, wide, i, G, row + i * B + b, 1, 1.0, 0, L, (b + i) * wide)


@kernel()
def push_samples(L, T, z, C, mask, step, coefficients, moving, work):
    """Fill C for samples of one batch, which do not see each other."""
    factor, tall = take(moving.factors.rate, step), T.size // z.size
    push_batch(L, T, z, C, 0, z.size, tall, mask, factor, None, coefficients, moving, work)
