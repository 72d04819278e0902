"""The mean-field state (M, q) against averages over Ξ of the full state, its O(p) forms against pairs."""

import math
from itertools import product

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.dynamics.mean_field.flow import MeanFieldSystem
from sweep_service.dynamics.mean_field.mixture import MIXTURES, MixtureNodeFlow
from sweep_service.dynamics.mean_field.nodes import AnyNodeFlow
from sweep_service.dynamics.mean_field.pairwise import PairwiseFlow
from sweep_service.dynamics.mean_field.square import SquareFlow
from sweep_service.dynamics.mean_field.xi import Xi
from sweep_service.dynamics.overlap_flow import Moments, drift
from sweep_service.dynamics.regimes import cheapest_flow
from sweep_service.model.activations import ACTIVATIONS, ERF, RELU, SQUARE, TANH
from sweep_service.model.averages.two_point import make_pairs
from sweep_service.model.overlaps import Overlaps
from sweep_service.model.risk import risk
from tests.physics.reference import ALL_PAIRS, name, normal_rule, system_of, z_scores

every_activation = pytest.mark.parametrize("act", ACTIVATIONS.values(), ids=name)
every_D = pytest.mark.parametrize("D", [None, 1, 2, 3, 6, 20], ids=lambda D: f"D={D}")
self_or_not = pytest.mark.parametrize("self_terms", [True, False], ids=["self", "no self"])
# Gauss-Hermite nodes of λ* for smooth students, if the part of f* that they see is smooth; else Sobol points.
ON_SMOOTH_NODES = [
    (f, g) for f, g in ALL_PAIRS if f.curvature is not None and (f.odd or g.curvature is not None)
]
ON_SOBOL_NODES = [pair for pair in ALL_PAIRS if pair not in ON_SMOOTH_NODES]


def start(seed, p, k):
    """M, q and a P that is not I: norms 1, 0.8, 0.9 and a correlation of 0.3."""
    rng = np.random.default_rng(seed)
    norms = np.array([1.0, 0.8, 0.9])[:k]
    P = np.outer(norms, norms) * (0.3 + 0.7 * np.eye(k))
    return 0.5 * rng.standard_normal((p, k)), rng.uniform(0.1, 0.8, p), P


def system_for(student, teacher, P, D, **settings):
    settings = {"noise": 0.0} | settings
    return MeanFieldSystem(
        P=P, pairs=make_pairs(student, teacher), student=student, teacher=teacher, D=D, **settings
    )


def claim(flow):
    """(dM, dq, R) at the flow's start, in one vector."""
    return np.append(flow(flow.y0), flow.risk(flow.y0))


def realised(system, M, q, directions):
    """(dM, dq, R) of the full state whose orthogonal parts point along these unit vectors (p, D)."""
    N, parts = M @ np.linalg.inv(system.P), np.sqrt(q)[:, None] * directions
    Q = N @ M.T + parts @ parts.T
    dM, dQ = drift(system, Moments(system, M, Q))
    perp = np.diag(dQ - dM @ N.T - N @ dM.T)
    return np.concatenate([dM.ravel(), perp, [risk(Overlaps(M, Q, system.P), system.pairs)]])


def signs(p):
    """All choices of signs of neurons, up to a common sign."""
    return np.array([(1.0, *rest) for rest in product([1.0, -1.0], repeat=p - 1)])


@every_activation
@pytest.mark.parametrize("D", [1, 2, 3, 6])
def test_mean_field_agrees_with_average_over_xi(act, D):
    """Random directions for all neurons at once; with every choice of signs, which takes out odd orders."""
    M, q, P = start(0, 3, 2)
    system = system_of(act, act, P)
    claimed = claim(PairwiseFlow(system_for(act, act, P, D), M, q, nodes=64))
    draws = np.random.default_rng(D).standard_normal((1 if D == 1 else 300, 3, D))
    draws /= np.linalg.norm(draws, axis=2, keepdims=True)
    samples = np.array(
        [np.mean([realised(system, M, q, s[:, None] * v) for s in signs(3)], axis=0) for v in draws]
    )
    if D == 1:  # nothing is random beyond the signs
        np.testing.assert_allclose(samples[0], claimed, rtol=0.0, atol=1e-12)
        return
    # 120 entries in all: a true formula exceeds 4.5 in one suite of a thousand, and the seeds are fixed
    assert np.max(z_scores(samples, claimed)) < 4.5
    without = claim(PairwiseFlow(system_for(act, act, P, None), M, q, nodes=1))
    assert np.max(z_scores(samples, without)) > 9.0  # so many draws can tell Ξ = I from the truth


@every_activation
def test_without_xi_neurons_are_orthogonal(act):
    """HDMF is the full state with Q⊥ = diag q."""
    M, q, P = start(1, 4, 2)
    flow = PairwiseFlow(system_for(act, act, P, None), M, q, nodes=1)
    expected = realised(system_of(act, act, P), M, q, np.eye(4))
    np.testing.assert_allclose(claim(flow), expected, rtol=0.0, atol=1e-12)  # rounding


def flows(act, system, M, q):
    """All forms of the flow for this activation."""
    yield PairwiseFlow(system, M, q, nodes=16)
    yield AnyNodeFlow(system, M, q)
    if act.code in MIXTURES:
        yield MixtureNodeFlow(system, M, q)
    if act is SQUARE:
        yield SquareFlow(system, M, q)


@every_activation
@pytest.mark.parametrize("finite_d", [None, 5])
def test_noise_changes_q_by_slope_power(act, finite_d):
    """dq_i += (γΔ/p) E[σ'(λ_i)² ‖x‖²]; given λ = √Q_ii z, ‖x‖² is 1 + (z² - 1)/d on average."""
    M, q, P = start(8, 4, 2)
    norms = np.diag(M @ np.linalg.solve(P, M.T)) + q
    assert 1.5 < np.max(norms) < 2.0  # no larger than what flows reach
    z, w = normal_rule(np.zeros(1))
    weight = w if finite_d is None else w * (1.0 + (z * z - 1.0) / finite_d)
    expected = act.slope(np.sqrt(norms)[:, None] * z) ** 2 @ weight
    quiet, noisy = (system_for(act, act, P, 3, noise=noise, finite_d=finite_d) for noise in (0.0, 1.0))
    for without, flow in zip(flows(act, quiet, M, q), flows(act, noisy, M, q), strict=True):
        actual = flow(flow.y0) - without(flow.y0)
        np.testing.assert_allclose(actual[: M.size], 0.0, atol=1e-15)
        # a hundred times what `precision` promises; with ‖x‖² central differences of step 1e-4
        close = 1e-8 if finite_d is None else 1e-7
        np.testing.assert_allclose(
            actual[M.size :], expected, rtol=0.0, atol=close, err_msg=type(flow).__name__
        )


@every_D
@self_or_not
@pytest.mark.parametrize("k", [1, 2, 3])
def test_square_closed_form_agrees_with_sum_over_pairs(k, D, self_terms):
    M, q, P = start(3, 7, k)
    system = system_for(SQUARE, SQUARE, P, D, self_terms=self_terms)
    pairwise, closed = PairwiseFlow(system, M, q, nodes=8), SquareFlow(system, M, q)
    np.testing.assert_allclose(claim(closed), claim(pairwise), rtol=0.0, atol=1e-12)  # rounding


@every_D
@self_or_not
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("teacher", ACTIVATIONS.values(), ids=name)
@pytest.mark.parametrize("student", [ERF, TANH], ids=name)
def test_mixture_nodes_agree_with_sum_over_pairs(student, teacher, k, D, self_terms):
    M, q, P = start(4, 5, k)
    system = system_for(student, teacher, P, D, self_terms=self_terms)
    nodes, pairwise = MixtureNodeFlow(system, M, q, order=40, series=14), PairwiseFlow(system, M, q, nodes=24)
    np.testing.assert_allclose(nodes(nodes.y0), pairwise(pairwise.y0), rtol=0.0, atol=1e-6)  # measured 8e-8


@self_or_not
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize(("student", "teacher"), ON_SMOOTH_NODES, ids=name)
def test_any_nodes_agree_with_sum_over_pairs(student, teacher, k, self_terms):
    M, q, P = start(5, 3, k)
    for D in (None, 1, 2, 3, 6, 20) if k < 3 else (2,):
        system = system_for(student, teacher, P, D, self_terms=self_terms)
        nodes = AnyNodeFlow(system, M, q, order=28 if k == 3 else 48, series=14)
        pairwise = PairwiseFlow(system, M, q, nodes=24)
        # measured 3e-7, tanh at k = 3
        np.testing.assert_allclose(
            nodes(nodes.y0), pairwise(pairwise.y0), rtol=0.0, atol=1e-6, err_msg=f"D = {D}"
        )


@self_or_not
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize(("student", "teacher"), ON_SMOOTH_NODES, ids=name)
def test_risk_of_nodes_agrees_with_sum_over_pairs(student, teacher, k, self_terms):
    M, q, P = start(5, 3, k)
    forms = (AnyNodeFlow, MixtureNodeFlow) if student.code in MIXTURES else (AnyNodeFlow,)
    for D, form in product((None, 1, 3) if k < 3 else (2,), forms):
        system = system_for(student, teacher, P, D, self_terms=self_terms)
        actual = claim(form(system, M, q, order=28 if k == 3 else 48, series=14))[-1]
        assert actual == pytest.approx(claim(PairwiseFlow(system, M, q, nodes=24))[-1], abs=1e-6), f"D = {D}"


@self_or_not
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize(("student", "teacher"), ON_SOBOL_NODES, ids=name)
def test_nodes_across_kink_have_stated_error(student, teacher, k, self_terms):
    M, q, P = start(6, 5, k)
    for D in (None, 1, 3):
        system = system_for(student, teacher, P, D, self_terms=self_terms)
        actual, expected = claim(AnyNodeFlow(system, M, q)), claim(PairwiseFlow(system, M, q, nodes=64))
        # 8192 Sobol points: measured 7e-4; with a square's heavy tails 0.9 % of the largest entry
        bound = 0.015 * np.max(np.abs(expected)) if SQUARE in (student, teacher) else 1e-3
        np.testing.assert_allclose(actual, expected, rtol=0.0, atol=bound, err_msg=f"D = {D}")


@pytest.mark.parametrize(("student", "teacher"), ON_SOBOL_NODES, ids=name)
@pytest.mark.parametrize(("p", "k"), [(70, 1), (1100, 2)])
def test_choice_of_flow_avoids_inaccurate_nodes(student, teacher, p, k):
    """Sobol nodes do not reach 1e-10, and refining them to reach it would not end."""
    M, q, P = start(9, p, k)
    flow = cheapest_flow(system_for(student, teacher, P, 3), M, q)
    if isinstance(flow, AnyNodeFlow):
        assert flow.precision >= 1e-6
        assert flow.refine() is None


@every_activation
@pytest.mark.parametrize("how", [{"D": 0}, {"D": None, "projected": True}], ids=["d = k", "projected"])
def test_q_stays_zero_inside_span_and_full_state_agrees(act, how):
    M, _, P = start(7, 4, 2)
    q = np.zeros(4)
    inside = realised(system_of(act, act, P), M, q, np.zeros((4, 1)))
    np.testing.assert_allclose(inside[M.size : -1], 0.0, atol=1e-12)  # a fixed point of q, to rounding
    for flow in flows(act, system_for(act, act, P, **how, noise=0.3), M, q):
        assert flow.y0.size == M.size
        expected = np.delete(inside, np.s_[M.size : -1])
        # what nodes of λ* leave: measured 9e-9, for relu's kink 6e-4
        close = 1e-12 if isinstance(flow, PairwiseFlow | SquareFlow) else 1e-3 if act is RELU else 1e-6
        np.testing.assert_allclose(claim(flow), expected, rtol=0.0, atol=close)
        assert np.all(flow.unpack(flow.y0)[1] == 0.0)


@every_activation
@pytest.mark.parametrize(("regime", "d"), [("mean_field_projected", 9), ("mean_field", 2)])
def test_mean_field_inside_span_is_gradient_flow(act, regime, d):
    point = {"d": d, "p": 4, "k": 2, "gamma": 0.1, "activation": act.name, "init": {"kind": "informed"}}
    times = np.array([0.0, 0.1, 1.0, 10.0])
    mean_field, full = (ss.integrate(point, times=times, regime=name) for name in (regime, "classical"))
    assert np.all(mean_field.orthogonal_norm == 0.0)
    np.testing.assert_allclose(mean_field.risk, full.risk, rtol=0.0, atol=1e-9)  # both at relative 1e-10
    M, expected = mean_field.overlap_student_teacher, full.overlap_student_teacher
    np.testing.assert_allclose(M, expected, rtol=0.0, atol=1e-8)  # measured 4e-10


@pytest.mark.parametrize("D", range(1, 9))
def test_moments_of_xi(D):
    """E ξ^m E χ_D^m = E z^m for normal z, as z = ξ χ; and the product (m-1)!!/(D(D+2)…)."""
    rule = Xi.rule(D, 12)
    kappa = rule.scaled_moments(8)
    assert np.all(np.abs(rule.nodes) <= 1.0)
    for m in range(1, 17):
        moment = rule.weights @ rule.nodes**m
        if m % 2:
            assert moment == pytest.approx(0.0, abs=1e-14)
            continue
        normal = math.prod(range(1, m, 2))
        assert moment == pytest.approx(normal / math.prod(range(D, D + m, 2)), rel=1e-12)
        chi = 2.0 ** (m / 2) * math.gamma((D + m) / 2) / math.gamma(D / 2)
        assert moment == pytest.approx(normal / chi, rel=1e-12)
        assert kappa[m // 2] == pytest.approx(moment / math.factorial(m), rel=1e-12)


@pytest.mark.parametrize("D", [0, None])
def test_without_orthogonal_directions_xi_vanishes(D):
    rule = Xi.rule(D, 12)
    assert (rule.nodes, rule.weights, rule.scaled_moments(8)) == ([0.0], [1.0], [1.0])
