"""Short vectors and their functions: each element has the same bits as the function of a number."""

import operator
from fractions import Fraction
from functools import cache

import numba
import numpy as np
import pytest
from scipy import special

from sweep_service.numerics.simd import (
    CHAIN_LANES,
    NEURON_LANES,
    absolute,
    as_bits,
    as_float,
    copysign,
    fma,
    high_half,
    join,
    lane,
    load4,
    load8,
    low_half,
    round_up_to_lanes,
    square_root,
    store,
    where_less,
)
from sweep_service.numerics.vector_math import (
    erf_and_gauss,
    exp_negative,
    gauss,
    log_positive,
    normal_pair,
    tanh,
    unit_interval,
)

LOADS = {CHAIN_LANES: load8, NEURON_LANES: load4}
widths = pytest.mark.parametrize("width", LOADS)
AWKWARD = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    1e-300,
    -1e300,
    5e-324,
    np.inf,
    -np.inf,
    np.nan,
    3.0,
    -2.5,
    1e16,
    1e-17,
    7,
]


def compiled(function):
    return numba.njit(error_model="numpy")(function)


def operands(seed, count=64, integers=False):
    """Random numbers of many magnitudes, preceded by special values."""
    rng = np.random.default_rng(seed)
    if integers:
        return rng.integers(0, 2**64, count, dtype=np.uint64)
    drawn = rng.standard_normal(count) * 10.0 ** rng.integers(-8, 8, count)
    drawn[: len(AWKWARD)] = rng.permutation(AWKWARD)
    return drawn


@cache
def elementwise(function, width, inputs, outputs):
    """Compiled functions that apply it to arrays, vector by vector and number by number."""
    load = LOADS[width]
    if inputs == 1 and outputs == 1:

        def by_vector(a, out, other):
            for i in range(0, a.size, width):
                store(out, i, function(load(a, i)))

        def by_number(a, out, other):
            for i in range(a.size):
                out[i] = function(a[i])
    elif inputs == 1:

        def by_vector(a, out, other):
            for i in range(0, a.size, width):
                first, second = function(load(a, i))
                store(out, i, first)
                store(other, i, second)

        def by_number(a, out, other):
            for i in range(a.size):
                out[i], other[i] = function(a[i])
    else:

        def by_vector(a, out, other):
            for i in range(0, out.size, width):
                first, second = function(load(a, i), load(a, out.size + i))
                store(out, i, first)
                store(other, i, second)

        def by_number(a, out, other):
            for i in range(out.size):
                out[i], other[i] = function(a[i], a[out.size + i])

    return compiled(by_vector), compiled(by_number)


def both(function, width, *arrays, outputs=1):
    """Values computed by vectors and by numbers, each an array or a pair of arrays."""
    flat, result = np.concatenate(arrays), []
    for run in elementwise(function, width, len(arrays), outputs):
        out, other = np.empty(arrays[0].size), np.empty(arrays[0].size)
        run(flat, out, other)
        result.append((out, other) if outputs == 2 else (out,))
    return result


def assert_same_bits(first, second):
    """Check that arrays are equal as 64-bit words, except for the payload of NaN."""
    first, second = np.asarray(first), np.asarray(second)
    np.testing.assert_array_equal(first, second)
    if first.dtype == float:
        known = ~np.isnan(first)
        np.testing.assert_array_equal(np.signbit(first[known]), np.signbit(second[known]))


@widths
def test_arithmetic_is_elementwise(width):
    load = LOADS[width]

    @compiled
    def run(a, b, out):
        n = a.size
        for i in range(0, n, width):
            x, y = load(a, i), load(b, i)
            store(out, i, x + y)
            store(out, n + i, x - y)
            store(out, 2 * n + i, x * y)
            store(out, 3 * n + i, x / y)
            store(out, 4 * n + i, square_root(absolute(x)))
            store(out, 5 * n + i, copysign(x, y))
            store(out, 6 * n + i, where_less(x, y, 1.0, x - x))
            store(out, 7 * n + i, 2.5 * x)  # a number becomes a vector of copies, on either side
            store(out, 8 * n + i, x - 2.5)
            store(out, 9 * n + i, as_float(as_bits(x)))

    a, b = operands(0), operands(1)
    out = np.empty(10 * a.size)
    run(a, b, out)
    with np.errstate(all="ignore"):
        expected = (
            a + b,
            a - b,
            a * b,
            a / b,
            np.sqrt(np.abs(a)),
            np.copysign(a, b),
            np.where(a < b, 1.0, a - a),
            2.5 * a,
            a - 2.5,
            a,
        )
    for result, values in zip(out.reshape(10, -1), expected, strict=True):
        assert_same_bits(result, values)


@widths
def test_integer_operations_agree_with_numpy(width):
    load, three, forty = LOADS[width], np.uint64(3), np.uint64(40)

    @compiled
    def run(a, b, out):
        n = a.size
        for i in range(0, n, width):
            x, y = load(a, i), load(b, i)
            store(out, i, x + y)
            store(out, n + i, x - y)
            store(out, 2 * n + i, x * y)
            store(out, 3 * n + i, x & y)
            store(out, 4 * n + i, x | y)
            store(out, 5 * n + i, x ^ y)
            store(out, 6 * n + i, x << three)
            store(out, 7 * n + i, x >> forty)

    a, b = operands(0, integers=True), operands(1, integers=True)
    out = np.empty(8 * a.size, dtype=np.uint64)
    run(a, b, out)
    binary = (operator.add, operator.sub, operator.mul, operator.and_, operator.or_, operator.xor)
    expected = [*(apply(a, b) for apply in binary), a << three, a >> forty]
    np.testing.assert_array_equal(out.reshape(8, -1), expected)


@widths
def test_fma_rounds_once(width):
    load = LOADS[width]

    @compiled
    def run(a, b, c, vectors, numbers):
        for i in range(0, a.size, width):
            store(vectors, i, fma(load(a, i), load(b, i), load(c, i)))
        for i in range(a.size):
            numbers[i] = fma(a[i], b[i], c[i])

    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 64))
    c = -a * b * (1.0 + rng.choice([0.0, 1e-16, 1e-8, 1.0], 64))  # where two roundings would differ from one
    exact = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)]
    vectors, numbers = np.empty(64), np.empty(64)
    run(a, b, c, vectors, numbers)
    np.testing.assert_array_equal(vectors, exact)
    np.testing.assert_array_equal(numbers, exact)
    assert np.any(exact != a * b + c)


@widths
@pytest.mark.parametrize("offset", range(4))
def test_load_and_store_are_unaligned_and_stay_within_vector(width, offset):
    load = LOADS[width]

    @compiled
    def run(a, out, at, lanes):
        x = load(a, at)
        store(out, at + 1, x)
        for i in range(width):
            lanes[i] = lane(x, i)

    a = np.arange(1.0, 33.0)
    out, lanes = np.zeros(32), np.zeros(width)
    run(a, out, offset, lanes)
    np.testing.assert_array_equal(lanes, a[offset : offset + width])
    np.testing.assert_array_equal(out[offset + 1 : offset + 1 + width], lanes)
    assert np.count_nonzero(out) == width


def test_halves_of_a_vector_are_joined_and_taken_apart():
    @compiled
    def run(a, out):
        joined = join(load4(a, 1), load4(a, 9))
        store(out, 0, joined)
        store(out, 8, high_half(joined))
        store(out, 12, low_half(joined))

    out = np.empty(16)
    run(np.arange(16.0), out)
    assert out.tolist() == [1, 2, 3, 4, 9, 10, 11, 12, 9, 10, 11, 12, 1, 2, 3, 4]


@widths
def test_comparison_with_nan_is_false(width):
    load = LOADS[width]

    @compiled
    def run(a, b, out):
        for i in range(0, a.size, width):
            store(out, i, where_less(load(a, i), load(b, i), 1.0, 2.0))

    a = np.array([np.nan, 0.0, np.nan, 1.0] * 2)
    b = np.array([1.0, np.nan, np.nan, 2.0] * 2)
    out = np.empty(8)
    run(a, b, out)
    assert out.tolist() == [2.0, 2.0, 2.0, 1.0] * 2


@pytest.mark.parametrize(("count", "up"), [(0, 0), (1, 4), (3, 4), (4, 4), (5, 8), (256, 256), (257, 260)])
def test_round_up_to_lanes(count, up):
    assert round_up_to_lanes(count) == up
    assert round_up_to_lanes(count, 1) == count


def signed_decades(low, high, n):
    x = np.logspace(low, high, n)
    return np.concatenate([-x[::-1], x])


REALS = np.concatenate(
    [np.linspace(-45, 45, 20_001)[:20_000], signed_decades(-300, 2, 5000), [np.nan, np.inf, -np.inf, 0.0] * 2]
)
POSITIVE = np.concatenate(
    [
        np.logspace(-307, 308, 20_000),
        1.0 + np.linspace(-0.3, 0.5, 20_000),
        1.0 + signed_decades(-15, -1, 4000),
    ]
)
EXTREMES = np.array([0, 1, 4095, 4096, 2**64 - 1, 2**64 - 4096, 2**63, 2**63 - 1], dtype=np.uint64)
WORDS = np.concatenate([np.random.default_rng(0).integers(0, 2**64, 2**15 - 8, dtype=np.uint64), EXTREMES])
OTHERS = np.concatenate([np.random.default_rng(1).permutation(WORDS[:-8]), WORDS[-8:]])

# name -> (function, inputs, how many outputs)
FUNCTIONS = {
    "log_positive": (log_positive, (POSITIVE,), 1),
    "tanh": (tanh, (REALS,), 1),
    "gauss": (gauss, (REALS,), 1),
    "exp_negative": (exp_negative, (-np.abs(REALS[:20_000]),), 1),
    "erf_and_gauss": (erf_and_gauss, (REALS,), 2),
    "unit_interval": (unit_interval, (WORDS,), 1),
    "normal_pair": (normal_pair, (WORDS, OTHERS), 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_and_vectors_give_same_bits(name):
    function, inputs, outputs = FUNCTIONS[name]
    (eight, number), (four, _) = (both(function, width, *inputs, outputs=outputs) for width in LOADS)
    for by_eight, by_four, by_number in zip(eight, four, number, strict=True):
        assert_same_bits(by_eight, by_number)
        assert_same_bits(by_four, by_number)


def values(name, *inputs):
    function, known, outputs = FUNCTIONS[name]
    result = both(function, CHAIN_LANES, *(inputs or known), outputs=outputs)[0]
    return result if outputs == 2 else result[0]


def test_log_agrees_with_libm():
    result, exact = values("log_positive"), np.log(POSITIVE.astype(np.longdouble))
    # a unit in the last place where log is large; 1.5e-16 absolute near one, measured
    error = np.abs(result - exact) / np.maximum(np.abs(exact), 1.0)
    assert np.max(error) < 4e-16
    near = np.abs(POSITIVE - 1.0) < 0.3  # f = (m-1)/(m+1) is exact enough to keep relative digits
    np.testing.assert_allclose(result[near], exact[near].astype(float), rtol=1e-15, atol=0.0)
    assert values("log_positive", np.ones(8)).tolist() == [0.0] * 8


def test_tanh_agrees_with_libm():
    result = values("tanh")
    # absolute: 1 - exp(-2x) keeps no relative digits near zero; beyond 20 it is one in double precision
    np.testing.assert_allclose(result, np.tanh(REALS), rtol=0.0, atol=4e-16)
    special_values = values("tanh", np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 30.0, -30.0, 1e300]))
    np.testing.assert_array_equal(special_values, [0.0, -0.0, 1.0, -1.0, np.nan, 1.0, -1.0, 1.0])
    np.testing.assert_array_equal(result[REALS > 0], -values("tanh", -REALS)[REALS > 0])


def test_erf_of_zero_is_zero():
    """Vectors are padded with rows of zeros, so σ(0) = 0 must hold exactly."""
    erf, slope = values("erf_and_gauss", np.zeros(8))
    assert erf.tolist() == [0.0] * 8
    assert slope.tolist() == [1.0] * 8
    assert values("tanh", np.zeros(8)).tolist() == [0.0] * 8


def test_uniforms_are_strictly_between_zero_and_one():
    result = values("unit_interval")
    exact = (2.0**52 - (WORDS >> np.uint64(12)).astype(float) - 0.5) / 2.0**52
    np.testing.assert_array_equal(result, exact)  # 53 bits hold each of them
    assert result.min() == 2.0**-53
    assert result.max() == 1.0 - 2.0**-53


def test_normals_agree_with_box_muller():
    u = (2.0**52 - (WORDS >> np.uint64(12)).astype(np.longdouble) - 0.5) / 2.0**52
    turn = (OTHERS >> np.uint64(12)).astype(np.longdouble) / 2.0**52 - 0.5
    radius = np.sqrt(-2.0 * np.log(u))
    tau = 2.0 * np.arccos(np.longdouble(-1.0))
    for result, exact in zip(values("normal_pair"), (np.sin(tau * turn), np.cos(tau * turn)), strict=True):
        # relative to the radius: sine and cosine are absolutely accurate, measured 1.2e-15 at half a turn
        assert np.max(np.abs(result - radius * exact) / radius) < 2e-15
        assert np.all(np.isfinite(result))


def test_normals_are_normally_distributed():
    n = 1 << 18
    drawn = np.random.default_rng(2).integers(0, 2**64, 2 * n, dtype=np.uint64)
    sine, cosine = values("normal_pair", drawn[:n], drawn[n:])
    for z in (sine, cosine, (sine + cosine) / np.sqrt(2.0)):
        # Kolmogorov's distance times √n beyond 1.95 has probability 1e-3
        ordered = special.ndtr(np.sort(z))
        assert np.max(np.abs(ordered - (np.arange(n) + 0.5) / n)) * np.sqrt(n) < 1.95
    assert abs(np.mean(sine * cosine)) < 4.0 / np.sqrt(n)
    assert abs(np.mean(sine**2 * cosine**2) - 1.0) < 4.0 * np.sqrt(8.0 / n)
