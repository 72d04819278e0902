"""S1 for batches: the fields of all samples of a batch on the old weights, then one update.

The forms are those of step_loop.py, eight chains or four neurons per vector, with the same bits. The change
of the weights, Σ (a σ')(γu/(pb) 𝓔 x), is summed in registers over the samples that were drawn at once.
"""

from __future__ import annotations

import math

import numpy as np

from sweep_service.model.activate import activate
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import fma, lane, load4, load8, store
from sweep_service.simulators.kernels.coefficients import learn4, learn8, move_second_layer
from sweep_service.simulators.kernels.optional import keep, take, times, weights8
from sweep_service.simulators.kernels.streams import CHUNK, INPUT, NOISE, fill_chains, fill_normals
from sweep_service.simulators.kernels.vector_rows import add_rows, sum_activations


@kernel()
def samples_per_draw(d):
    """Samples whose inputs are drawn at once, and after which divergence is checked; depends on d alone."""
    return 64 if d <= 8 else (16 if d <= 4096 else 1)


@kernel(force_inline=True)
def add_products(C, X, start, samples, p, d, change):
    """change[i, j] += Σ_s C[s, i] X[s, j] for eight chains; two neurons at once share the loads of X."""
    for i in range(0, p - 1, 2):
        for j in range(d):
            at, other = 8 * (i * d + j), 8 * ((i + 1) * d + j)
            first, second = load8(change, at), load8(change, other)
            for s in range(samples):
                x, c = load8(X, start + 8 * (s * d + j)), 8 * (s * p + i)
                first, second = fma(load8(C, c), x, first), fma(load8(C, c + 8), x, second)
            store(change, at, first)
            store(change, other, second)
    if p % 2 == 1:
        for j in range(d):
            total = load8(change, 8 * ((p - 1) * d + j))
            for s in range(samples):
                total = fma(load8(C, 8 * (s * p + p - 1)), load8(X, start + 8 * (s * d + j)), total)
            store(change, 8 * ((p - 1) * d + j), total)


@kernel()
def batch_chains(W, W_star, keys, first, last, coefficients, moving, p, k, d, limit, diverged):
    """Take steps first..last-1 of eight chains, see `step_chains`."""
    rate, root_noise, batch = coefficients.rate, coefficients.root_noise, coefficients.batch
    shares, codes = coefficients.shares, coefficients.codes
    ahead = samples_per_draw(d)
    capacity = ahead * d + 2 * CHUNK
    xs = np.empty(8 * (capacity - capacity % CHUNK))
    zs = np.zeros(8 * (ahead - ahead % CHUNK + CHUNK))
    slopes, sums, change = np.empty(8 * p * ahead), np.empty(64), np.zeros(8 * p * d)
    scale = 1.0 / math.sqrt(d)
    rates, roots = load8(rate, 0), load8(root_noise, 0)
    zero = 0.0 * rates
    noisy = False
    for s in range(8):
        noisy = noisy or root_noise[s] > 0.0
    now, end = first * batch, last * batch
    while now < end:
        until = min(end, now - now % ahead + ahead)
        chunk = now * d // CHUNK
        fill_chains(keys, INPUT, chunk, scale, xs[: 8 * CHUNK * (((until * d - 1) // CHUNK) - chunk + 1)])
        noise_chunk = now // CHUNK
        if noisy:
            fill_chains(
                keys, NOISE, noise_chunk, 1.0, zs[: 8 * CHUNK * ((until - 1) // CHUNK - noise_chunk + 1)]
            )
        while now < until:  # the samples of one batch among those that were drawn
            step = now // batch
            stop = min(until, (step + 1) * batch)
            factor = take(moving.factors.rate, step - first)
            begin = 8 * (now * d - chunk * CHUNK)
            for sample in range(now, stop):
                x, row = 8 * (sample * d - chunk * CHUNK), 8 * p * (sample - now)
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
                    store(slopes, row + 8 * i, times(slope, weight))
                    keep(moving.values, 8 * i, value)
                    at = 8 * (i % 4)
                    store(sums, at, load8(sums, at) + times(value, weight))
                output = (load8(sums, 0) + load8(sums, 8)) + (load8(sums, 16) + load8(sums, 24))
                target = (load8(sums, 32) + load8(sums, 40)) + (load8(sums, 48) + load8(sums, 56))
                error = fma(roots, load8(zs, 8 * (sample - noise_chunk * CHUNK)), target * shares[1])
                push = times(rates, factor) * fma(output, -shares[0], error)
                for j in range(x, x + 8 * d, 8):
                    store(xs, j, push * load8(xs, j))
                learn8(coefficients, moving, push)
            add_products(slopes, xs, begin, stop - now, p, d, change)
            if stop % batch == 0:
                kept = take(moving.factors.kept, step - first)
                for q in range(0, 8 * p * d, 8):
                    store(W, q, times(load8(W, q), kept) + load8(change, q))
                    store(change, q, zero)
                move_second_layer(coefficients, moving)
            now = stop
        if now % ahead == 0:
            square = zero
            for q in range(p * d):
                w = load8(W, 8 * q)
                square = fma(w, w, square)
            for s in range(8):
                if diverged[s] < 0 and not lane(square, s) < limit[s] * d:
                    diverged[s] = now // batch


@kernel()
def batch_neurons(W, W_star, mask, key, first, last, coefficients, moving, p, k, d, limit):
    """Take steps first..last-1 of one chain, see `step_neurons`."""
    root_noise, shares, codes = coefficients.root_noise, coefficients.shares, coefficients.codes
    batch = coefficients.batch
    ahead = samples_per_draw(d)
    capacity = ahead * d + 2 * CHUNK
    xs = np.empty(capacity - capacity % CHUNK)
    zs = np.zeros(ahead - ahead % CHUNK + CHUNK)
    slopes, star_fields, work, change = np.empty(p * ahead), np.empty(k * ahead), np.empty(k), np.zeros(p * d)
    scale = 1.0 / math.sqrt(d)
    now, end = first * batch, last * batch
    while now < end:
        until = min(end, now - now % ahead + ahead)
        chunk = now * d // CHUNK
        fill_normals(key, INPUT, chunk, scale, xs[: CHUNK * (((until * d - 1) // CHUNK) - chunk + 1)])
        noise_chunk = now // CHUNK
        if root_noise > 0.0:
            fill_normals(key, NOISE, noise_chunk, 1.0, zs[: CHUNK * ((until - 1) // CHUNK - noise_chunk + 1)])
        while now < until:  # the samples of one batch among those that were drawn
            step = now // batch
            stop = min(until, (step + 1) * batch)
            factor = take(moving.factors.rate, step - first)
            begin = now * d - chunk * CHUNK
            for q in range(p * (stop - now)):
                slopes[q] = 0.0
            for q in range(k * (stop - now)):
                star_fields[q] = 0.0
            for sample in range(now, stop):
                x, row = sample * d - chunk * CHUNK, p * (sample - now)
                star = k * (sample - now)
                add_rows(W, 0, p, d, xs, x, 1, 1.0, 0, slopes, row)
                add_rows(W_star, 0, k, d, xs, x, 1, 1.0, 0, star_fields, star)
                target = sum_activations(
                    codes[1], star_fields, star, k, work, 0, coefficients.teacher_second_layer, None, None
                )
                output = sum_activations(
                    codes[0], slopes, row, p, slopes, row, moving.second_layer, None, moving.values
                )
                error = fma(root_noise, zs[sample - noise_chunk * CHUNK], target * shares[1])
                push = times(coefficients.rate, factor) * fma(output, -shares[0], error)
                for j in range(x, x + d):
                    xs[j] *= push
                learn4(coefficients, moving, push)
            for j in range(d):
                add_rows(slopes, 0, p, stop - now, xs, begin + j, d, 1.0, 0, change, j * p)
            if stop % batch == 0:
                kept = take(moving.factors.kept, step - first)
                for j in range(0, p * d, p):
                    for i in range(0, p, 4):
                        old, new = times(load4(W, j + i), kept), load4(change, j + i)
                        store(W, j + i, old + new * load4(mask, i))
                        store(change, j + i, 0.0 * load4(mask, 0))
                move_second_layer(coefficients, moving)
            now = stop
        if now % ahead == 0:
            square = 0.0 * load4(W, 0)
            for q in range(0, p * d, 4):
                w = load4(W, q)
                square = fma(w, w, square)
            if not (lane(square, 0) + lane(square, 1)) + (lane(square, 2) + lane(square, 3)) < limit * d:
                return now // batch
    return -1
