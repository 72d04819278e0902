"""Random numbers of a chain, each a pure function of the chain's key, a purpose and an index.

Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011) maps a counter to 128 random bits, so a stream has
no state. A number does not depend on which were drawn before, in what batches or by which simulator:
S1, S2 and S4 use the same inputs, and a checkpoint does not contain a generator.

The normals of a purpose are numbered. Normals 16c to 16c + 15 come from the counters 8c to 8c + 7:
first the eight sines of the Box-Muller pairs, then the eight cosines.
"""

from __future__ import annotations

import math

import numpy as np

from sweep_service.identity import Key
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import load8, store, where_less
from sweep_service.numerics.types import AnyArray
from sweep_service.numerics.vector_math import log_positive, normal_pair, unit_interval

# Purposes of random numbers.
INPUT, NOISE, FIELD, RADIUS, TRIANGLE = range(5)
# One chunk: eight counters, sixteen normals.
CHUNK = 16

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLY_0, _MULTIPLY_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_ATTEMPT = np.uint64(8)
_STEPS = np.arange(8, dtype=np.uint64)


def chain_key(key: Key) -> AnyArray:
    """Three words of 32 bits that identify a chain: two for the key of Philox, one for its counter."""
    return key.seed_sequence("sgd").generate_state(3, np.uint32).astype(np.uint64)


@kernel(inline=True)
def philox(counter, purpose, own, key_0, key_1):
    """Two words of 64 bits; only the lower 32 bits of `purpose`, `own` and the keys are used."""
    zero = counter ^ counter  # numbers become vectors where the counter is one
    c0, c1, c2, c3 = counter, counter >> _HALF, zero | purpose, zero | own
    key_0, key_1 = zero | key_0, zero | key_1
    for _ in range(10):
        p0 = (c0 & _LOW) * _MULTIPLY_0
        p1 = (c2 & _LOW) * _MULTIPLY_1
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ key_0, p1, (p0 >> _HALF) ^ c3 ^ key_1, p0
        key_0 = key_0 + _WEYL_0
        key_1 = key_1 + _WEYL_1
    return (c0 << _HALF) | (c1 & _LOW), (c2 << _HALF) | (c3 & _LOW)


@kernel(one_version=True)
def fill_normals(key, purpose, chunk, scale, out):
    """Fill a flat array, whose size is a multiple of 16, with `scale` times the normals from 16·chunk on."""
    eight = load8(_STEPS, 0)
    for c in range(out.size // CHUNK):
        words = philox(eight + np.uint64(8 * (chunk + c)), np.uint64(purpose), key[2], key[0], key[1])
        first, second = normal_pair(words[0], words[1])
        store(out, CHUNK * c, scale * first)
        store(out, CHUNK * c + 8, scale * second)


@kernel()
def fill_chains(keys, purpose, chunk, scale, out):
    """`fill_normals` for eight chains at once; keys (3, 8) and out (normals, 8) are flat."""
    key_0, key_1, own = load8(keys, 0), load8(keys, 8), load8(keys, 16)
    zero = own ^ own
    for c in range(out.size // (8 * CHUNK)):
        for row in range(8):
            counter = zero | np.uint64(8 * (chunk + c) + row)
            words = philox(counter, np.uint64(purpose), own, key_0, key_1)
            first, second = normal_pair(words[0], words[1])
            store(out, 8 * (CHUNK * c + row), scale * first)
            store(out, 8 * (CHUNK * c + 8 + row), scale * second)


@kernel()
def fill_steps(key, step, pairs, used_pairs, steps, out):
    """Fill out (2·used_pairs, steps), flat, with normals by step; `steps` is a multiple of 8.

    Each step has 2·pairs normals of its own, of which the first 2·used_pairs are computed. Column b belongs
    to step + b wherever a block begins, so no number is used twice.
    """
    eight = load8(_STEPS, 0)
    for c in range(used_pairs):
        for b in range(0, steps, 8):
            counter = (eight + np.uint64(step + b)) * np.uint64(pairs) + np.uint64(c)
            words = philox(counter, np.uint64(FIELD), key[2], key[0], key[1])
            first, second = normal_pair(words[0], words[1])
            store(out, 2 * c * steps + b, first)
            store(out, (2 * c + 1) * steps + b, second)


@kernel()
def fill_steps_of_chains(keys, step, pairs, used_pairs, B, steps, out):
    """`fill_steps` for eight chains at once, for the first `steps` of B steps.

    keys (3, 8) and out (2·used_pairs, B, 8) are flat.
    """
    key_0, key_1, own = load8(keys, 0), load8(keys, 8), load8(keys, 16)
    zero = own ^ own
    for c in range(used_pairs):
        for b in range(steps):
            counter = zero | (np.uint64(step + b) * np.uint64(pairs) + np.uint64(c))
            words = philox(counter, np.uint64(FIELD), own, key_0, key_1)
            first, second = normal_pair(words[0], words[1])
            store(out, 8 * (2 * c * B + b), first)
            store(out, 8 * ((2 * c + 1) * B + b), second)


@kernel(inline=True)
def _gamma_trial(counter, attempt, own, key_0, key_1, shift, slope):
    """Marsaglia and Tsang's trial: x, v = (1 + slope x)³ and a margin that is > 0 if v is accepted."""
    purpose = np.uint64(RADIUS) + (np.uint64(2 * attempt) << _ATTEMPT)
    words = philox(counter, purpose, own, key_0, key_1)
    x, _ = normal_pair(words[0], words[1])
    words = philox(counter, purpose + (np.uint64(1) << _ATTEMPT), own, key_0, key_1)
    w = 1.0 + slope * x
    v = w * w * w
    margin = 0.5 * x * x + shift * (1.0 - v + log_positive(v)) - log_positive(unit_interval(words[0]))
    return x, v, where_less(0.0, v, margin, -1.0)


@kernel()
def fill_radii(key, step, degrees, size, out, work):
    """Fill out[a] = √χ² with degrees - a degrees of freedom, of step + a, for a < size; work has size 40."""
    eight = load8(_STEPS, 0)
    shift, slope, lanes = work[:8], work[8:16], work[16:]
    for a0 in range(0, size, 8):
        for l in range(8):
            # dof/2 - 1/3, or any valid number for lanes past the end
            shift[l] = 0.5 * max(degrees - a0 - l, 2) - 1.0 / 3.0
            slope[l] = 1.0 / math.sqrt(9.0 * shift[l])
        x, v, margin = _gamma_trial(
            eight + np.uint64(step + a0), 0, key[2], key[0], key[1], load8(shift, 0), load8(slope, 0)
        )
        store(lanes, 0, x)
        store(lanes, 8, v)
        store(lanes, 16, margin)
        for l in range(min(8, size - a0)):
            if degrees - a0 - l == 1:
                out[a0 + l] = abs(lanes[l])
                continue
            accepted, attempt = lanes[8 + l], 0
            good = lanes[16 + l]
            while not good > 0.0:
                attempt += 1
                _, accepted, good = _gamma_trial(
                    np.uint64(step + a0 + l), attempt, key[2], key[0], key[1], shift[l], slope[l]
                )
            out[a0 + l] = math.sqrt(2.0 * shift[l] * accepted)


@kernel()
def fill_radii_of_chains(keys, step, degrees, size, out):
    """`fill_radii` for eight chains at once; keys (3, 8) and out (size, 8) are flat."""
    key_0, key_1, own = load8(keys, 0), load8(keys, 8), load8(keys, 16)
    zero = own ^ own
    lanes = np.empty(24)
    for a in range(size):
        shift = 0.5 * max(degrees - a, 2) - 1.0 / 3.0
        slope = 1.0 / math.sqrt(9.0 * shift)
        x, v, margin = _gamma_trial(zero | np.uint64(step + a), 0, own, key_0, key_1, shift, slope)
        store(lanes, 0, x)
        store(lanes, 8, v)
        store(lanes, 16, margin)
        for l in range(8):
            if degrees - a == 1:
                out[8 * a + l] = abs(lanes[l])
                continue
            accepted, attempt = lanes[8 + l], 0
            good = lanes[16 + l]
            while not good > 0.0:
                attempt += 1
                _, accepted, good = _gamma_trial(
                    np.uint64(step + a), attempt, keys[16 + l], keys[l], keys[8 + l], shift, slope
                )
            out[8 * a + l] = math.sqrt(2.0 * shift * accepted)
