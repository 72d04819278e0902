"""Functions of NumPy, SciPy and math on short vectors, against the originals."""

import math
import operator

import numba
import numpy as np
import pytest
from scipy import special

from sweep_service.numerics.simd import CHAIN_LANES, NEURON_LANES, load4, load8, store
from sweep_service.numerics.vector_math import sine_and_cosine
from sweep_service.numerics.vector_numpy import ALSO, OF_ONE, OF_TWO, Mask, like

LOADS = {CHAIN_LANES: load8, NEURON_LANES: load4}
RNG = np.random.default_rng(3)
X = np.concatenate(
    [
        [0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, -1e-300, 5e-324, 30.0, -30.0, 700.0, -700.0, 1e5, -1e5, np.nan],
        [2.0, np.inf, -np.inf, 1e200, -1e200, 709.0, -745.0, 1e-8, -1e-8],
        3.0 * RNG.standard_normal(1000),
        RNG.standard_normal(1000) * 10.0 ** RNG.integers(-6, 6, 1000),
    ]
)
# A few units of the last place: of one, or of the value where it is larger.
FEW_ULP = 4e-15


def apply(function, x, width=CHAIN_LANES):
    """The function of x, vector by vector."""
    load = LOADS[width]
    inner = numba.njit(error_model="numpy")(function)

    @numba.njit(error_model="numpy")
    def run(x, out):
        for at in range(0, x.size, width):
            vector = load(x, at)
            store(out, at, like(inner(vector), vector))

    out = np.empty_like(x)
    run(x, out)
    return out


def assert_agree(actual, expected):
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(actual[~finite], expected[~finite])
    actual, expected = actual[finite], expected[finite]
    assert np.max(np.abs(actual - expected) / np.maximum(1.0, np.abs(expected))) < FEW_ULP


def is_steep(function, x):
    """Where rounding of the argument or of the value hides the error."""
    if function in (np.sin, np.cos):
        return np.abs(x) > 1e15
    if function is np.tan:
        return (np.abs(np.cos(x)) < 0.1) | (np.abs(x) > 1e15)
    if function in (np.exp, np.expm1, np.sinh, np.cosh):
        return np.abs(x) > 709.0
    if function is np.log:
        return (x > 0.0) & (x < 1e-307)
    return np.isinf(x) & (function is np.arctan)


@pytest.mark.parametrize("function", OF_ONE, ids=lambda function: function.__name__)
def test_functions_of_one_number(function):
    with np.errstate(all="ignore"):
        x = X[~is_steep(function, X)]
        x = np.concatenate([x, np.ones(-len(x) % CHAIN_LANES)])
        expected = function(x)
    assert_agree(apply(lambda x: function(x), x), expected)


@pytest.mark.parametrize("function", ALSO, ids=lambda function: function.__name__)
def test_other_names(function):
    x = np.linspace(0.1, 3.0, 16)
    assert_agree(apply(lambda x: function(x), x), ALSO[function](x))


@pytest.mark.parametrize("function", OF_TWO, ids=lambda function: function.__name__)
def test_functions_of_two_numbers(function):
    x = X[np.abs(X) < 500.0]
    x = np.concatenate([x, np.full(8 + -len(x) % CHAIN_LANES, np.nan)])
    calls = [
        lambda x: function(x, 0.0), lambda x: function(0.5, x), lambda x: function(-2.0, x),
        lambda x: function(x, -0.5 * x),
    ]  # fmt: skip
    for call in calls:
        with np.errstate(invalid="ignore"):
            expected = call(x)
        assert_agree(apply(call, x), expected)


COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


@pytest.mark.parametrize("width", LOADS)
@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda compare: compare.__name__)
def test_comparisons(compare, width):
    x = np.array([0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 0.5, 2.0])
    for y in (0.0, 1.0, np.inf):
        for call in (
            lambda x, y=y: np.where(compare(x, y), x, 3.0),
            lambda x, y=y: 2.0 * compare(x, y),
            lambda x, y=y: compare(x, y).astype(float),
        ):
            assert_agree(apply(call, x, width), call(x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.where((x > 0.0) & (x < 1.0), x, -x),
        lambda x: np.where((x > 0.0) | ~(x > -1.0), 2 * x, x / 2),
        lambda x: np.where((x > 0.0) ^ (x > 1.0), 1.0, 0.0),
        lambda x: x**2 + x**3 - x**0,
        lambda x: (1.0 + x * x) ** -2,
        lambda x: 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),
        lambda x: x * special.ndtr(x),
        lambda x: x * special.expit(x),
        lambda x: np.where(x > 0.0, x, np.expm1(x)),
        lambda x: x / (1.0 + np.abs(x)),
        lambda x: np.maximum(0.0, np.minimum(x, 1.0)),
        lambda x: +x - np.zeros_like(x) + np.ones_like(x),
        lambda x: 1.0,
    ],
)  # fmt: skip
def test_functions_as_users_write_them(function):
    x = np.concatenate([[np.nan, 0.0], 2.0 * RNG.standard_normal(62)])
    expected = np.broadcast_to(function(x), x.shape)
    assert_agree(apply(function, x), expected)
    np.testing.assert_array_equal(apply(function, x, NEURON_LANES), apply(function, x))  # the same bits


def test_sine_of_large_numbers():
    x = RNG.standard_normal(8000) * 10.0 ** RNG.integers(0, 15, 8000)
    for number, function in enumerate((np.sin, np.cos)):
        np.testing.assert_allclose(
            apply(lambda x, n=number: sine_and_cosine(x)[n], x), function(x), rtol=0.0, atol=1e-15
        )


def test_masks_of_different_widths_are_different_types():
    assert Mask(4) != Mask(8)
