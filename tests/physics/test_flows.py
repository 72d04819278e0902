"""The flow of (M, Q) against the exact step of SGD, closed forms, weight space and the gradient itself."""

from itertools import chain, combinations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import sweep_service as ss
from sweep_service.dynamics.compiled_overlap_flow import SmallFlow
from sweep_service.dynamics.overlap_flow import (
    Moments,
    OverlapFlow,
    WeightFlow,
    drift,
    label_noise,
    pack,
    sampling,
    unpack,
)
from sweep_service.dynamics.sampling.variance import choose_variance
from sweep_service.dynamics.solve import solve
from sweep_service.model.activations import ACTIVATIONS, SQUARE
from sweep_service.model.averages.two_point import make_pairs
from sweep_service.model.overlaps import orthogonal_part
from sweep_service.model.risk import risk
from tests.physics.reference import (
    ALL_PAIRS,
    inputs,
    name,
    overlaps_of,
    random_overlaps,
    random_weights,
    system_at,
    system_of,
    z_scores,
)

EXTRA = (label_noise, sampling)
TERMS = [
    (drift, *more) for more in chain.from_iterable(combinations(EXTRA, n) for n in range(len(EXTRA) + 1))
]

every_activation = pytest.mark.parametrize("act", ACTIVATIONS.values(), ids=name)
every_pair = pytest.mark.parametrize(("student", "teacher"), ALL_PAIRS, ids=name)


def drift_at(student, teacher, o):
    system = system_of(student, teacher, o.P)
    return drift(system, Moments(system, o.M, o.Q))


@every_activation
@pytest.mark.parametrize("terms", TERMS, ids=lambda terms: "+".join(term.__name__ for term in terms))
def test_small_flow_agrees_with_overlap_flow(act, terms):
    for seed, (p, k, d) in enumerate([(1, 1, 2), (3, 2, 7), (5, 3, 4)]):
        o = random_overlaps(seed, p, k, d)
        system = system_of(act, act, o.P, variance=choose_variance(act, act, p, k)[0])
        assert SmallFlow.is_applicable(system, p)
        small, general = SmallFlow(system, terms, o), OverlapFlow(system, terms, o)
        # the same sums in another order
        np.testing.assert_allclose(small(small.y0), general(general.y0), rtol=1e-12, atol=1e-13)
        assert small.risk(small.y0) == general.risk(general.y0)


@every_pair
def test_flow_agrees_with_mean_of_exact_steps(student, teacher):
    """E[δM], E[δQ] of one SGD step over δt, with label noise and ‖x‖², at actual weights."""
    p, k, d, rate, noise = 3, 2, 4, 0.3, 0.2
    W, W_star = random_weights(2, p, k, d, scale=0.8)
    o, system = system_at(student, teacher, W, W_star, rate, noise)
    claimed = OverlapFlow(system, (drift, label_noise, sampling), o)(pack(o.M, o.Q))

    x = inputs(3, 200_000, d)
    z = np.random.default_rng(4).standard_normal(len(x))
    lam, lam_star, slope = x @ W.T, x @ W_star.T, student.slope(x @ W.T)
    error = teacher.value(lam_star).mean(1) + np.sqrt(noise) * z - student.value(lam).mean(1)
    push = slope * error[:, None]  # δw_i = (γ/p) push_i x
    dM = push[:, :, None] * lam_star[:, None, :]
    cross = push[:, :, None] * lam[:, None, :]
    kick = rate * np.sum(x * x, axis=1)[:, None, None] * push[:, :, None] * push[:, None, :]
    dQ = cross + np.swapaxes(cross, 1, 2) + kick
    lower = np.tril_indices(p)
    samples = np.concatenate([dM.reshape(len(x), -1), dQ[:, *lower]], axis=1)
    # 16 pairs of 12 entries: a true formula exceeds 4.5 in one suite of a thousand, and the seed is fixed
    assert np.max(z_scores(samples, claimed)) < 4.5


def test_square_closed_forms():
    """Ψ_M, Ψ_GF, Ψ⊥ and R as matrix products."""
    p, k = 5, 3
    o = random_overlaps(0, p, k, 9)
    M, Q, P = o.M, o.Q, o.P
    tau = np.trace(P) / k - np.trace(Q) / p
    dM, dQ = drift_at(SQUARE, SQUARE, o)
    close = {"rtol": 1e-12, "atol": 1e-13}  # rounding of sums of a dozen terms of order ten
    np.testing.assert_allclose(dM, 2 * tau * M + 4 * (M @ P / k - Q @ M / p), **close)
    np.testing.assert_allclose(dQ, 4 * tau * Q + 8 * (M @ M.T / k - Q @ Q / p), **close)
    N, perp = M @ np.linalg.inv(P), orthogonal_part(M, Q, P)
    d_perp = dQ - dM @ N.T - N @ dM.T
    np.testing.assert_allclose(d_perp, 4 * tau * perp - 4 / p * (Q @ perp + perp @ Q), rtol=1e-11, atol=1e-12)
    trace = np.trace
    R = 0.5 * (
        (trace(P) ** 2 + 2 * trace(P @ P)) / k**2
        - 2 * (trace(P) * trace(Q) + 2 * np.sum(M * M)) / (p * k)
        + (trace(Q) ** 2 + 2 * trace(Q @ Q)) / p**2
    )
    assert risk(o, make_pairs(SQUARE, SQUARE)) == pytest.approx(R, rel=1e-13)


@pytest.mark.parametrize("p", [6, 40], ids=["overlaps", "weights"])
def test_square_closes_on_a_d_by_d_matrix(p):
    """A = WᵀW/(pd) obeys dA/dt = AK + KA, whatever p; the narrow and the wide path of `classical`."""
    k, d = 2, 3
    W, W_star = random_weights(1, p, k, d, scale=0.7)
    T = W_star.T @ W_star / (k * d)
    times = np.array([0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])

    def field(_, y):
        A = y.reshape(d, d)
        K = 2 * np.trace(T - A) * np.eye(d) + 4 * (T - A)
        return (A @ K + K @ A).ravel()

    start = (W.T @ W / (p * d)).ravel()
    path = solve_ivp(field, (0.0, times[-1]), start, "DOP853", times, rtol=1e-12, atol=1e-14)
    X = T - path.y.T.reshape(-1, d, d)
    R = 0.5 * (np.trace(X, axis1=1, axis2=2) ** 2 + 2 * np.sum(X * X, axis=(1, 2)))
    point = {"d": d, "p": p, "k": k, "gamma": 0.01, "activation": "square"}
    point["init"] = {"kind": "weights", "W": W, "W_star": W_star}
    run = ss.integrate(point, times=times, regime="classical")
    assert run.attrs["flow"] == ("SmallFlow" if p == 6 else "WeightFlow")
    # the integrators' relative tolerance of 1e-10, summed over the way
    np.testing.assert_allclose(run.risk, R, rtol=0.0, atol=1e-8 * R[0])


@every_pair
def test_weight_flow_agrees_with_overlap_flow(student, teacher):
    o = random_overlaps(5, 4, 2, 3)
    system = system_of(student, teacher, o.P)
    flow = WeightFlow(system, o)
    X, dX, T = flow.y0.reshape(flow.shape), flow(flow.y0).reshape(flow.shape), flow.teachers
    assert flow.shape == (4, 3)  # the rank, not p + k
    dM, dQ = drift_at(student, teacher, o)
    np.testing.assert_allclose(dX @ T.T, dM, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(dX @ X.T + X @ dX.T, dQ, rtol=0.0, atol=1e-12)
    assert flow.risk(flow.y0) == pytest.approx(risk(o, system.pairs), rel=1e-12)


@every_activation
def test_weight_and_overlap_trajectories_agree(act):
    o = random_overlaps(5, 4, 2, 3)
    system = system_of(act, act, o.P)
    weights, overlaps = WeightFlow(system, o), OverlapFlow(system, (drift,), o)
    times = np.array([0.0, 0.1, 1.0, 10.0, 100.0])
    by_weights, by_overlaps = solve(weights, times), solve(overlaps, times)
    for y, z in zip(by_weights.states, by_overlaps.states, strict=True):
        a, b = weights.overlaps(y), overlaps.overlaps(z)
        # both at relative 1e-10; measured 4e-10
        np.testing.assert_allclose(a.M, b.M, rtol=0.0, atol=1e-8)
        np.testing.assert_allclose(a.Q, b.Q, rtol=0.0, atol=1e-8)


@every_pair
def test_drift_is_minus_p_d_times_gradient(student, teacher):
    """dW/dt = -p d ∇R (erratum 4), the gradient by central differences of the risk in the weights."""
    p, k, d, h = 3, 2, 4, 1e-5
    W, W_star = random_weights(6, p, k, d)
    both = make_pairs(student, teacher)
    gradient = np.empty_like(W)
    for at in np.ndindex(W.shape):
        ends = []
        for sign in (1, -1):
            moved = W.copy()
            moved[at] += sign * h
            ends.append(risk(overlaps_of(moved, W_star), both))
        gradient[at] = (ends[0] - ends[1]) / (2 * h)
    dW = -p * d * gradient
    dM, dQ = drift_at(student, teacher, overlaps_of(W, W_star))
    # rounding 1e-16/h times p d, and h² times third derivatives
    np.testing.assert_allclose(dW @ W_star.T / d, dM, rtol=0.0, atol=1e-8)
    np.testing.assert_allclose((dW @ W.T + W @ dW.T) / d, dQ, rtol=0.0, atol=1e-8)


@every_activation
@pytest.mark.parametrize(
    "init",
    [{"kind": "gaussian"}, {"kind": "informed"}, {"kind": "planted", "epsilon": 0.5}, {"kind": "symmetric"}],
    ids=lambda init: init["kind"],
)
def test_risk_never_rises_along_gradient_flow(act, init):
    point = {"d": 6, "p": 4, "k": 2, "gamma": 0.1, "activation": act.name, "init": init}
    times = np.concatenate([[0.0], np.logspace(-3, 2, 60)])
    R = ss.integrate(point, times=times, regime="classical", seed=1).risk.values
    assert np.all(np.diff(R) <= 1e-12 * R[0])  # rounding of R
    assert R[-1] < R[0]


@every_activation
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_compiled_jacobian_agrees_with_central_differences(act, noise):
    o, h = random_overlaps(7, 3, 2, 6), 1e-5
    flow = SmallFlow(system_of(act, act, o.P, noise=noise), (drift, label_noise), o)
    y = flow.y0
    central = np.array([(flow(y + h * e) - flow(y - h * e)) / (2 * h) for e in np.eye(y.size)]).T
    # forward differences err by 1.5e-8 times half a second derivative, up to 10 here
    np.testing.assert_allclose(flow.jacobian(y), central, rtol=0.0, atol=1e-6)
    assert np.max(np.abs(central)) > 0.1


def test_packing_keeps_every_entry():
    o = random_overlaps(0, 4, 3, 8)
    M, Q = unpack(pack(o.M, o.Q), 4, 3)
    assert np.array_equal(M, o.M)
    np.testing.assert_allclose(Q, o.Q, rtol=1e-15)  # the lower triangle stands for both
