"""Compiled and shortened forms of averages against the plain ones that they replace."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from sweep_service.dynamics.compiled_overlap_flow import SmallFlow
from sweep_service.dynamics.mean_field.flow import MeanFieldSystem
from sweep_service.dynamics.mean_field.half_rule import HalfRule
from sweep_service.dynamics.mean_field.pair_series import Series
from sweep_service.dynamics.mean_field.pairwise import PairwiseFlow
from sweep_service.dynamics.mean_field.xi import Xi
from sweep_service.dynamics.overlap_flow import OverlapFlow, drift, label_noise
from sweep_service.dynamics.sampling.compiled_sampling import factor_covariance
from sweep_service.dynamics.sampling.variance import QuasiMonteCarlo, TiltedVariance, choose_variance
from sweep_service.model.activations import ACTIVATIONS, ERF, RELU, SQUARE, TANH, Activation
from sweep_service.model.averages.two_point import NumericalPair, make_pairs
from tests.physics.reference import name, random_overlaps, system_of

SOFTPLUS = Activation(
    name="softplus", formula="ln(1 + eˣ)", value=lambda x: np.logaddexp(0.0, x), slope=special.expit,
    curvature=lambda x: special.expit(x) * special.expit(-x),
)  # fmt: skip
OWN_TANH = replace(TANH, name="own tanh", code=None)
WIDTH = 35  # not a multiple of a vector


def pair_flow(act, D, k, self_terms=True, scale=1.0):
    rng = np.random.default_rng(5)
    M, q = scale * 0.4 * rng.standard_normal((WIDTH, k)), scale**2 * rng.uniform(0.2, 1.0, WIDTH)
    M[1], q[1] = M[0], q[0]  # neurons with equal projections, whose correlation reaches one at ξ = 1
    system = MeanFieldSystem(
        P=np.eye(k), pairs=make_pairs(act, act), student=act, teacher=act, D=D, noise=0.0,
        self_terms=self_terms,
    )  # fmt: skip
    return PairwiseFlow(system, M, q, nodes=9)


def power_by_matrices(flow, M, q, norms):
    total = 0.0
    for cut, o, scale in flow.blocks(M, q):
        for xi, weight in zip(flow.xi.nodes, flow.xi.weights, strict=True):
            C, _ = flow.overlap(cut, o, scale, xi, q)
            total += weight * np.sum(flow.system.pairs.students.values(norms[cut], norms, C))
    return total


@pytest.mark.parametrize("self_terms", [True, False], ids=["self", "no self"])
@pytest.mark.parametrize("act", [*ACTIVATIONS.values(), SOFTPLUS], ids=name)
def test_sums_over_many_pairs_agree_with_matrices(act, self_terms):
    for D, k in ((1, 1), (3, 2), (None, 2)):
        flow = pair_flow(act, D, k, self_terms)
        state = *flow.start, flow.norms(*flow.start)
        compiled, plain = flow.sum_students(*state, None), flow.sum_matrices(*state, None)
        for actual, expected in zip(compiled[:3], plain[:3], strict=True):
            # a series leaves out terms of 1e-12 of the largest one, of which some ten count
            np.testing.assert_allclose(actual, expected, rtol=0.0, atol=1e-10)
        power = flow.student_power(*state, np.ones(WIDTH))
        assert power == pytest.approx(power_by_matrices(flow, *state), rel=1e-10)


@pytest.mark.parametrize("scale", [1.0, 4.0, 10.0])
def test_series_of_tanh_serves_the_pairs_for_which_it_converges(scale):
    """At squared norms of 1, 16 and 100; a closed form serves the others, also at some nodes of a pair."""
    flow = pair_flow(TANH, 3, 1, scale=scale)
    state = *flow.start, flow.norms(*flow.start)
    assert flow.series(state[2]).is_complete == (scale == 1.0)
    compiled, plain = flow.sum_students(*state, None), flow.sum_matrices(*state, None)
    for actual, expected in zip(compiled[:3], plain[:3], strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("order", [5, 6, 12, 48])
@pytest.mark.parametrize("D", [2, 3, 10, 60, 1000])
def test_averages_from_derivatives_are_as_accurate_as_those_of_derivatives(D, order):
    """The angle asin(r_0 + r_1 ξ) of a pair of error functions, from its derivatives."""
    rule, xi, fine = HalfRule.make(D, order), Xi.rule(D, order), Xi.rule(D, 120)
    for r_0, r_1 in ((0.1, 0.4), (0.3, 0.5), (0.1, 0.85)):

        def value(x, r_0=r_0, r_1=r_1):
            return np.arcsin(r_0 + r_1 * x)

        def slope(x, r_0=r_0, r_1=r_1):
            return r_1 / np.sqrt(1.0 - (r_0 + r_1 * x) ** 2)

        def bend(x, r_0=r_0, r_1=r_1):
            return r_1**2 * (r_0 + r_1 * x) / (1.0 - (r_0 + r_1 * x) ** 2) ** 1.5

        x = rule.nodes
        total = value(rule.anchor) + value(-rule.anchor)
        total += rule.first @ (slope(x) - slope(-x)) + rule.second @ (bend(x) + bend(-x))
        error = abs(0.5 * total - fine.weights @ value(fine.nodes))
        # an odd rule has a node at zero, where it gains nothing
        bound = (10.0 if order % 2 else 2.0) * abs(
            (xi.weights @ slope(xi.nodes)) - fine.weights @ slope(fine.nodes)
        )
        assert error <= bound + 1e-14  # rounding of sums of order one


@pytest.mark.parametrize("D", [None, 0, 1])
def test_derivatives_are_not_used_where_xi_has_few_values(D):
    rule = HalfRule.make(D, 8)
    assert not rule.first.any()
    assert not rule.second.any()
    assert 0.5 * (np.exp(rule.anchor) + np.exp(-rule.anchor)) == Xi.rule(D, 8).weights @ np.exp(
        Xi.rule(D, 8).nodes
    )


def test_series_of_tanh_agrees_with_quadrature():
    """Its coefficients from the error functions it consists of, and by Gauss-Hermite."""
    norms = np.linspace(0.1, 1.0, 8)
    exact, own = Series.make(TANH, norms), Series.make(OWN_TANH, norms)
    assert exact is not None
    assert own is not None
    # the mixture has a relative error of 6e-9
    np.testing.assert_allclose(exact.own_slope, own.own_slope, rtol=2e-8)
    # for averages of the first orders; it is larger for later ones, which hardly count
    np.testing.assert_allclose(exact.slope[:4], own.slope[:4], rtol=0.0, atol=2e-8)
    np.testing.assert_allclose(exact.curvature[:4], own.curvature[:4], rtol=0.0, atol=2e-7)


@pytest.mark.parametrize("teacher", [RELU, SQUARE, TANH], ids=name)
def test_exact_sampling_term_of_mixed_pairs(teacher):
    """The compiled sum against the risk at tilted overlaps, with second layers too."""
    o = random_overlaps(2, 5, 3, 9)
    exact, method = choose_variance(ERF, teacher, 5, 3)
    assert method == "exact"
    plain = TiltedVariance(make_pairs(ERF, teacher))
    for c in (None, np.random.default_rng(0).standard_normal(8)):
        # rounding of sums of terms of order ten
        np.testing.assert_allclose(exact(o.M, o.Q, o.P, c), plain(o.M, o.Q, o.P, c), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("teacher", ACTIVATIONS.values(), ids=name)
@pytest.mark.parametrize("student", [RELU, TANH], ids=name)
def test_compiled_samples_agree_with_products_of_matrices(student, teacher):
    o = random_overlaps(4, 5, 2, 4)  # of rank 4
    average, c = QuasiMonteCarlo(student, teacher, 7, 256), np.random.default_rng(1).standard_normal(7)
    expected = average._average(o.M, o.Q, o.P, c)
    # rounding, relative to the largest entry
    np.testing.assert_allclose(average(o.M, o.Q, o.P, c), expected, rtol=0.0, atol=1e-12 * np.max(expected))
    assert np.all(np.isnan(average(np.inf * o.M, o.Q, o.P, c)))


def test_factor_of_a_singular_covariance():
    o = random_overlaps(4, 6, 2, 4)
    L = factor_covariance(o.M, o.Q, o.P)
    order = [6, 7, *range(6)]  # teachers first
    # pivots of rounding, up to 1e-13, are taken as zero
    np.testing.assert_allclose(L @ L.T, o.omega[np.ix_(order, order)], rtol=0.0, atol=1e-12)
    assert np.all(np.triu(L, 1) == 0.0)


@pytest.mark.parametrize("act", [SOFTPLUS, OWN_TANH], ids=name)
def test_compiled_flow_of_a_users_activation(act):
    o = random_overlaps(6, 4, 2, 9, scale=0.7)
    system = system_of(act, act, o.P, gamma_over_p=0.2, noise=0.1)
    assert SmallFlow.is_applicable(system, 4)
    terms = (drift, label_noise)
    compiled, plain = SmallFlow(system, terms, o), OverlapFlow(system, terms, o)
    # the same averages, summed in another order
    np.testing.assert_allclose(compiled(compiled.y0), plain(plain.y0), rtol=0.0, atol=1e-13)


def test_shortened_sums_agree_with_quadrature():
    pair, a = NumericalPair(SOFTPLUS, SOFTPLUS), np.array([1e-6, 0.01, 0.5, 1.5])
    # the terms left out are below 1e-13, and a hundred of them count
    np.testing.assert_allclose(pair.slope_power(a), pair._integrate_slope_power(a), rtol=1e-10)
    C = 0.9 * np.sqrt(np.outer(a, a))
    np.fill_diagonal(C, a)
    for actual, expected in zip(pair.slopes(a, a, C), pair.mehler.slopes(a, a, C), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0.0, atol=1e-10)
