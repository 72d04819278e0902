"""Two-point averages over the whole range of norms and correlations, against quadrature on the scale of σ.

The averages are promised to 1e-6, relative to the largest average at the same norms, for variances from
1e-6 to 1e4 and all correlations, of built-in activations and of a user's own.
"""

import dataclasses
import math
from itertools import product

import numpy as np
import pytest
from scipy import special

from sweep_service.errors import InvalidInput, OutOfRange
from sweep_service.model.activations import ACTIVATIONS, ERF, RELU, TANH, Activation, Kink
from sweep_service.model.averages.closed_forms import TANH_SQUARES, TANH_WEIGHTS
from sweep_service.model.averages.two_point import NumericalPair, make_two_point
from tests.physics.reference import ALL_PAIRS, name, panels


def normal_density(x):
    return np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


GELU = Activation(
    name="gelu",
    formula="x Φ(x)",
    value=lambda x: x * special.ndtr(x),
    slope=lambda x: special.ndtr(x) + x * normal_density(x),
    curvature=lambda x: (2.0 - x * x) * normal_density(x),
)
LEAKY_RELU = Activation(
    name="leaky_relu",
    formula="max(x, x/10)",
    value=lambda x: np.maximum(x, 0.1 * x),
    slope=lambda x: np.where(x > 0.0, 1.0, 0.1),
    curvature=np.zeros_like,
    kinks=(Kink(0.0, 0.9),),
)
# Copies without a code take the numerical way, so that it is tested on functions with a closed form too.
PLAIN_TANH, PLAIN_RELU = (
    dataclasses.replace(TANH, name="plain tanh", code=None),
    dataclasses.replace(RELU, name="plain relu", code=None),
)
OTHER_PAIRS = [
    (GELU, GELU), (LEAKY_RELU, LEAKY_RELU), (PLAIN_TANH, PLAIN_TANH), (PLAIN_RELU, PLAIN_RELU),
    (GELU, ERF), (TANH, GELU), (GELU, LEAKY_RELU),
]  # fmt: skip

NORMS = [(1e-6, 1e-6), (4.0, 10.0), (30.0, 30.0), (1e4, 1e4), (1.0, 1e4)]
ALL_NORMS = [
    *NORMS, (0.01, 1.0), (1.0, 1.0), (100.0, 0.1), (1e-6, 1e4), (1e4, 1e-6), (10.0, 10.0), (1e3, 5.0),
    (0.3, 300.0),
]  # fmt: skip
CORRELATIONS = [0.5, -0.9, 1.0 - 1e-4]
ALL_CORRELATIONS = [*CORRELATIONS, 0.0, 1.0, -0.5, 0.99, -(1.0 - 1e-7), 1.0 - 1e-10, -1.0]

GEOMETRIC = 2.0 ** np.arange(-24, 18)
SCALES = np.concatenate([-GEOMETRIC[::-1], [0.0], GEOMETRIC])


def smoothed(g, m, s):
    """E[g(m + s x)] on panels that resolve the scale of g and of the Gaussian."""
    if s == 0.0:
        return g(m)
    steps = m[:, None] + s * np.linspace(-9.0, 9.0, 19)
    scales = SCALES[(np.abs(SCALES) >= 0.2) | (SCALES == 0.0)]
    edges = np.concatenate([steps, np.broadcast_to(scales, (len(m), len(scales)))], axis=1)
    v, w = panels(np.sort(np.clip(edges, steps[:, :1], steps[:, -1:]), axis=1), order=10)
    return np.sum(w * normal_density((v - m[:, None]) / s) * g(v), axis=1) / s


def reference(f, g, a, b, rho):
    """E[f g], E[f' g'] and E[f'' g]."""
    root, along, s = math.sqrt(a), rho * math.sqrt(b), math.sqrt(b * (1.0 - rho) * (1.0 + rho))
    rate = max(abs(along), 1e-9)
    edges = np.concatenate([np.linspace(-9.0, 9.0, 19), SCALES / root, SCALES / rate, SCALES * (s / rate)])
    z, w = panels(np.unique(np.clip(edges, -9.0, 9.0)), order=10)
    w = w * normal_density(z)
    value, slope = smoothed(g.value, along * z, s), smoothed(g.slope, along * z, s)
    curved = 0.0 if f.curvature is None else np.sum(w * f.curvature(root * z) * value)
    for kink in f.kinks:
        at = np.array([along * kink.position / root])
        density = normal_density(kink.position / root) / root
        curved += kink.slope_jump * density * smoothed(g.value, at, s)[0]
    return np.array([np.sum(w * f.value(root * z) * value), np.sum(w * f.slope(root * z) * slope), curved])


def largest_error(f, g, norms, correlations):
    """Of the three averages, relative to the largest average at the same norms."""
    pair, worst = make_two_point(f, g), 0.0
    for a, b in norms:
        expected = np.array([reference(f, g, a, b, rho) for rho in correlations])
        C = np.array(correlations)[:, None] * math.sqrt(a * b)
        left, right = np.full(len(C), a), np.array([b])
        actual = np.stack([pair.values(left, right, C), *pair.slopes(left, right, C)], axis=-1)[:, 0]
        # largest averages at these norms, by the inequality of Cauchy and Schwarz for odd with even pairs
        bound = [math.sqrt(reference(f, f, a, a, 1.0)[n] * reference(g, g, b, b, 1.0)[n]) for n in range(2)]
        scale = np.maximum(np.abs(expected).max(0), [*bound, bound[1] * math.sqrt(b / a)])
        worst = np.maximum(worst, np.max(np.abs(actual - expected) / scale))  # NaN stays
    return worst


def check(f, g, norms, correlations):
    assert largest_error(f, g, norms, correlations) < 1e-6


@pytest.mark.parametrize(("f", "g"), [*ALL_PAIRS, *OTHER_PAIRS], ids=name)
def test_averages_hold_over_the_range(f, g):
    check(f, g, NORMS, CORRELATIONS)


@pytest.mark.slow
@pytest.mark.parametrize(("f", "g"), [*ALL_PAIRS, *OTHER_PAIRS], ids=name)
def test_averages_hold_at_all_extremes(f, g):
    check(f, g, ALL_NORMS, ALL_CORRELATIONS)


@pytest.mark.parametrize("act", [*ACTIVATIONS.values(), GELU, LEAKY_RELU], ids=name)
def test_power_of_slopes_holds_over_the_range(act):
    """E[σ'(u)²], which the label noise of mean field uses, also below and above the promised range."""
    a = np.array([1e-12, 1e-6, 0.1, 1.0, 30.0, 1e4, 1e6])
    expected = [reference(act, act, variance, variance, 1.0)[1] for variance in a]
    # relative to the largest; the floor of variances changes a smooth σ' at zero by 1e-5
    atol = 2e-5 * np.max(np.abs(expected)) if act.code is None else 1e-8 * np.max(np.abs(expected))
    np.testing.assert_allclose(make_two_point(act, act).slope_power(a), expected, rtol=0.0, atol=atol)


def test_power_of_slopes_with_a_kink_outside_zero():
    shifted = Activation(
        name="shifted",
        formula="max(x - 0.7, 0)",
        value=lambda x: np.maximum(x - 0.7, 0.0),
        slope=lambda x: np.where(x > 0.7, 1.0, 0.0),
        curvature=np.zeros_like,
        kinks=(Kink(0.7, 1.0),),
    )
    a = np.array([0.0, 0.1, 1.0, 30.0, 1e4])
    expected = [0.0, *special.ndtr(-0.7 / np.sqrt(a[1:]))]
    np.testing.assert_allclose(
        make_two_point(shifted, shifted).slope_power(a), expected, rtol=0.0, atol=1e-12
    )


def test_tanh_is_a_mixture_of_error_functions():
    x = np.linspace(0.0, 30.0, 3001)
    mixture = special.erf(x[:, None] / np.sqrt(2.0 * TANH_SQUARES)) @ TANH_WEIGHTS
    # the rule is exact for averages, not pointwise: measured 1.8e-7
    np.testing.assert_allclose(mixture, np.tanh(x), rtol=0.0, atol=2e-7)


def test_tanh_rule_is_the_gauss_rule_of_kolmogorovs_law():
    """Moments of ln K up to order 15, by the trapezoidal rule, which converges exponentially here."""
    x = np.linspace(math.log(0.12), math.log(6.0), 4001)
    K = np.exp(x)
    j = np.arange(1, 40)[:, None]
    small = np.sqrt(2.0 * np.pi) * np.sum(
        np.exp(-((2 * j - 1) ** 2) * np.pi**2 / (8 * K**2))
        * ((2 * j - 1) ** 2 * np.pi**2 / (4 * K**4) - K**-2),
        0,
    )
    large = 8.0 * K * np.sum((-1.0) ** (j - 1) * j**2 * np.exp(-2.0 * j**2 * K**2), 0)
    density = np.where(K < 0.8, small, large) * K * (x[1] - x[0])
    for n in range(16):
        # relative to the size of the moments, which grow to 10; the cut at K = 0.12 leaves 1e-37
        assert TANH_WEIGHTS @ (np.log(TANH_SQUARES) / 2.0) ** n == pytest.approx(density @ x**n, abs=1e-11)


FAST = Activation(
    "fast",
    "sin(40x)",
    lambda x: np.sin(40 * x),
    lambda x: 40 * np.cos(40 * x),
    lambda x: -1600 * np.sin(40 * x),
)
ELU = Activation(  # its σ'' jumps
    name="elu",
    formula="x or exp(x) - 1",
    value=lambda x: np.where(x > 0.0, x, np.expm1(np.minimum(x, 0.0))),
    slope=lambda x: np.where(x > 0.0, 1.0, np.exp(np.minimum(x, 0.0))),
    curvature=lambda x: np.where(x > 0.0, 0.0, np.exp(np.minimum(x, 0.0))),
)


@pytest.mark.parametrize("act", [FAST, ELU], ids=name)
def test_activation_that_the_tables_do_not_resolve_is_refused(act):
    a = np.full(1, 25.0)
    with pytest.raises(InvalidInput, match="must vary on a scale of about 1"):
        NumericalPair(act, act).slopes(a, a, np.full((1, 1), 25.0))


def test_norm_beyond_the_tables_is_refused():
    a = np.array([1e9])
    with pytest.raises(OutOfRange, match=r"Q_ii = 1e\+09: averages of the activation gelu"):
        make_two_point(GELU, GELU).slopes(a, a, np.full((1, 1), 5e8))
    assert np.isnan(make_two_point(GELU, GELU).values(a, a, np.full((1, 1), 5e8))).all()
    built_in = ACTIVATIONS.values()
    for f, g in product(built_in, built_in):  # closed forms have no limit
        assert np.isfinite(make_two_point(f, g).slopes(a, a, np.full((1, 1), 5e8))).all()
