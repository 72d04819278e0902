"""Initial conditions: each kind has the stated law, and a start depends on nothing but its parameters."""

import numpy as np
import pytest
from scipy.stats import qmc

from sweep_service import integrate, simulate
from sweep_service.errors import InvalidInput
from sweep_service.model.initial import INITS, Shape
from sweep_service.model.overlaps import orthogonal_part
from sweep_service.model.point import Point

P_, K_, D_ = 3, 2, 7
SEEDS = range(1000)
kinds = pytest.mark.parametrize("kind", INITS.values(), ids=lambda kind: kind.name)


def point(init, d=D_, p=P_, k=K_, **rest):
    return Point.parse({"d": d, "p": p, "k": k, "gamma": 0.1, "init": init, **rest})


def start(init, seed=0, **shape):
    return point(init, **shape).start(seed)


def omega(init, seed=0, **shape):
    return start(init, seed, **shape).overlaps.omega


def sharing(kind):
    """The value of `shared` for which the overlaps of a kind are shared over d."""
    return True if kind.fixed_overlaps else {"d0": 12}


def assert_mean(samples, expected, bound=4.0):
    """The mean of each column within `bound` standard errors: 4 is exceeded once in 16,000 times."""
    samples = np.asarray(samples).reshape(len(samples), -1)
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    z = (samples.mean(axis=0) - np.ravel(expected)) / np.maximum(error, 1e-12)
    assert np.max(np.abs(z)) < bound, z


@pytest.mark.parametrize("name", ["gaussian", "spherical"])
@pytest.mark.parametrize("teacher", ["random", "orthonormal"])
@pytest.mark.parametrize("d", [3, 7])  # below and above p + k
def test_moments_of_drawn_starts(name, teacher, d):
    """With g = W/√d: E g·g' = 0, E (g·g')² = s²s'²/d, E (g·h)(h·f)(f·g) = s²s'²s''²/d², for any d."""
    s = 0.3 if name == "gaussian" else 1.0
    init = {"kind": name, "teacher": teacher} | ({"scale": s} if name == "gaussian" else {})
    both = [omega(init, seed, d=d) for seed in SEEDS]
    q = np.array(both)[:, :P_, :P_]
    m = np.array(both)[:, :P_, P_:]
    P = np.array(both)[:, P_:, P_:]
    s_star = s if teacher == "random" else 1.0
    off = np.triu_indices(P_, 1)
    assert_mean(m, np.zeros((P_, K_)))
    assert_mean(m**2, np.full((P_, K_), s**2 * s_star**2 / d))
    assert_mean(q[:, *off], np.zeros(3))
    assert_mean(q[:, *off] ** 2, np.full(3, s**4 / d))
    assert_mean(q[:, 0, 1] * q[:, 1, 2] * q[:, 0, 2], s**6 / d**2)
    assert_mean(m[:, 0, 0] * m[:, 1, 0] * q[:, 0, 1], s**4 * s_star**2 / d**2)
    diagonals = {"q": q, "P": P} if teacher == "random" else {"q": q}
    for X in diagonals.values():
        norms = np.diagonal(X, axis1=1, axis2=2)
        if name == "spherical":
            np.testing.assert_allclose(norms, 1.0, atol=1e-14)  # rounding of a sum of squares
        else:
            size = s if X is q else s_star
            assert_mean(norms, np.full(norms.shape[1], size**2))
            assert_mean((norms - size**2) ** 2, np.full(norms.shape[1], 2 * size**4 / d))
    if teacher == "random":
        assert_mean(P[:, 0, 1], 0.0)
        assert_mean(P[:, 0, 1] ** 2, s_star**4 / d)
        assert_mean(m[:, 0, 0] * m[:, 0, 1] * P[:, 0, 1], s**2 * s_star**4 / d**2)
    else:
        np.testing.assert_array_equal(P, np.broadcast_to(np.eye(K_), P.shape))


@pytest.mark.parametrize("teacher", ["orthonormal", {"rho": 0.4}, {"norms": [0.5, 2.0]}])
def test_informed(teacher):
    init = {"kind": "informed", "teacher": teacher}
    angles = []
    for seed in range(1000):
        o = start(init, seed).overlaps
        np.testing.assert_allclose(np.diag(o.Q), 1.0, atol=1e-14)
        np.testing.assert_allclose(o.M @ np.linalg.solve(o.P, o.M.T), o.Q, atol=1e-14)
        angles.append(o.Q[0, 1])
    assert_mean(angles, 0.0)
    assert_mean(np.square(angles), 1 / K_)  # uniform in k dimensions


def test_planted():
    o = start({"kind": "planted", "epsilon": 0.2}, p=5).overlaps
    M = 0.8 * np.eye(K_)[np.arange(5) % K_]
    np.testing.assert_allclose(o.M, M, rtol=1e-15)
    np.testing.assert_allclose(o.Q, M @ M.T, rtol=1e-15)
    o = start({"kind": "planted", "epsilon": 0.2, "teacher": {"rho": 0.3, "norms": [1, 2]}}, p=5).overlaps
    np.testing.assert_allclose(o.M, M @ o.P, rtol=1e-14)  # w_i = (1-ε) w*_r, whatever the teacher
    np.testing.assert_allclose(o.Q, M @ o.P @ M.T, rtol=1e-14)


def test_symmetric():
    epsilon, q0, jitter = 0.3, 0.6, 0.02
    init = {"kind": "symmetric", "epsilon": epsilon, "q0": q0}
    exact = start({**init, "jitter": 0.0})
    np.testing.assert_allclose(exact.overlaps.M, np.full((P_, K_), epsilon / K_), rtol=1e-15)
    Q = epsilon**2 / K_ * np.ones((P_, P_)) + q0 * (1 - epsilon) ** 2 * np.eye(P_)
    np.testing.assert_allclose(exact.overlaps.Q, Q, rtol=1e-14)
    np.testing.assert_array_equal(exact.overlaps.P, np.eye(K_))
    (warning,) = point({**init, "jitter": 0.0}).init.warnings
    assert "round-off" in warning
    assert point({**init, "jitter": jitter}).init.warnings == ()
    moved = [start({**init, "jitter": jitter}, seed) for seed in range(1000)]
    shift = np.array([moved_start.overlaps.M for moved_start in moved]) - epsilon / K_
    assert_mean(shift, np.zeros((P_, K_)))
    assert_mean(shift**2, np.full((P_, K_), jitter**2))
    o = moved[0].overlaps
    np.testing.assert_allclose(o.Q - o.M @ o.M.T, q0 * (1 - epsilon) ** 2 * np.eye(P_), atol=1e-15)


def test_default_jitter_is_one_thousandth():
    shift = omega({"kind": "symmetric"}, p=200, d=300)[:200, 200:] - 0.1 / K_
    assert np.std(shift) == pytest.approx(1e-3, rel=0.15)  # 400 numbers: 4 standard errors of 3.5 %


def test_explicit_overlaps_are_kept():
    rng = np.random.default_rng(0)
    M, P = 0.3 * rng.standard_normal((P_, K_)), np.array([[1.0, 0.2], [0.2, 1.5]])
    Q = M @ np.linalg.solve(P, M.T) + np.diag([0.5, 0.1, 2.0])
    Q = (Q + Q.T) / 2
    result = start({"kind": "overlaps", "M": M.tolist(), "Q": Q, "P": P})
    for name, given in (("M", M), ("Q", Q), ("P", P)):
        np.testing.assert_array_equal(getattr(result.overlaps, name), given)
    assert result.invariant is None


def test_explicit_weights_are_kept():
    rng = np.random.default_rng(0)
    W, W_star = rng.standard_normal((P_, D_)), rng.standard_normal((K_, D_))
    o = start({"kind": "weights", "W": W, "W_star": W_star}).overlaps
    for result, expected in ((o.M, W @ W_star.T / D_), (o.Q, W @ W.T / D_), (o.P, W_star @ W_star.T / D_)):
        np.testing.assert_allclose(result, expected, atol=1e-15)  # √d divided twice in place of d once


GRAMS = [
    ({"rho": 0.3}, [[1, 0.3], [0.3, 1]]),
    ({"rho": -0.9, "norms": [1, 2]}, [[1, -1.8], [-1.8, 4]]),
    ({"norms": [0.5, 3]}, [[0.25, 0], [0, 9]]),
    ({"gram": [[2, 0.5], [0.5, 1]]}, [[2, 0.5], [0.5, 1]]),
    ("orthonormal", [[1, 0], [0, 1]]),
]


@kinds
@pytest.mark.parametrize(("teacher", "gram"), GRAMS)
def test_teacher_gram(kind, teacher, gram):
    if not kind.any_teacher and teacher != kind.teacher:
        with pytest.raises(InvalidInput, match=r"^init\.teacher = "):
            point({"kind": kind.name, "teacher": teacher})
    else:
        o = start({"kind": kind.name, "teacher": teacher}).overlaps
        np.testing.assert_allclose(o.P, gram, rtol=1e-14, atol=1e-15)  # through a Cholesky factor


@pytest.mark.parametrize("kind", [k for k in INITS.values() if k.law], ids=lambda kind: kind.name)
@pytest.mark.parametrize(("d", "shared"), [(K_, False), (5, False), (500, True)])
def test_law_agrees_with_drawn_neurons(kind, d, shared):
    init = {"kind": kind.name, "teacher": {"rho": 0.3, "norms": [1, 2]}, "shared": shared and sharing(kind)}
    init |= {"scale": 0.7} if "scale" in kind.parameters else {}
    u = qmc.Sobol(K_ + 1, rng=1).random(1 << 14)
    m, q = point(init, d=d).init.particles(u, Shape(d, P_, K_), 0)
    starts = [start(init, seed, d=d, p=300).overlaps for seed in range(10)]  # neurons of a start are iid
    M, norms = np.concatenate([o.M for o in starts]), np.concatenate([o.orthogonal_norms for o in starts])

    def moments(m, q):
        a, b = m.T
        return np.stack([a, b, a * a, a * b, b * b, a**4, q, q * q, q * a * a, q * a * b], axis=1)

    # as independent draws the Sobol points would err by less than half of what 3000 neurons do; they err less
    assert_mean(moments(M, norms), moments(m, q).mean(axis=0))


def test_kinds_without_law_have_no_particles():
    for kind in INITS.values():
        if kind.law is None:
            assert (
                point({"kind": kind.name}).init.particles(np.full((4, K_ + 1), 0.5), Shape(D_, P_, K_), 0)
                is None
            )


@kinds
def test_declared_invariance_is_correct(kind):
    """Under rotations orthogonal to the teacher E (Q⊥_ij)² = E q_i q_j/(d-k), which independent ones obey."""
    init = {"kind": kind.name, "teacher": "orthonormal"}
    starts = [start(init, seed) for seed in SEEDS]
    assert {drawn.invariant for drawn in starts} == {kind.invariant}
    outside = np.array([orthogonal_part(drawn.overlaps.M, drawn.overlaps.Q, np.eye(K_)) for drawn in starts])
    excess = outside[:, 0, 1] ** 2 - outside[:, 0, 0] * outside[:, 1, 1] / (D_ - K_)
    if kind.invariant:
        assert_mean(excess, 0.0)
    else:
        with pytest.raises(AssertionError):
            assert_mean(excess, 0.0)


@kinds
def test_starts_are_covariances_of_rank_at_most_d(kind):
    least = kind.least_d(P_, K_)
    for d in (least, least + 1, 50):
        for seed in range(20):
            o = start({"kind": kind.name}, seed, d=d).overlaps
            w = np.linalg.eigvalsh(o.omega)
            assert w[0] > -1e-14 * w[-1]  # rounding
            assert o.rank <= d
    with pytest.raises(InvalidInput, match=r"^d = "):
        point({"kind": kind.name}, d=least - 1)


@pytest.mark.parametrize("teacher", [{"rho": 0.0}, {"norms": [1.0] * K_}, {"gram": np.eye(K_).tolist()}])
def test_spellings_of_teacher_have_same_key(teacher):
    plain = point({"kind": "gaussian", "teacher": "orthonormal"}).start(0).overlaps
    other = point({"kind": "gaussian", "teacher": teacher}).start(0).overlaps
    np.testing.assert_array_equal(plain.omega, other.omega)


@pytest.mark.parametrize("name", [kind.name for kind in INITS.values() if not kind.fixed_overlaps])
@pytest.mark.parametrize("d0", [K_, P_ + K_ - 1, P_ + K_, 12])
def test_shared_start_needs_dimension_of_its_rank(name, d0):
    init, rank = {"kind": name, "shared": {"d0": d0}}, min(P_ + K_, d0)
    with pytest.raises(InvalidInput, match=f"must be >= {rank}, the rank") as info:
        point(init, d=rank - 1)
    assert (info.value.field, info.value.value) == ("d", rank - 1)
    tight, wide = point(init, d=rank), point(init, d=40)
    omega = [parsed.start(7).overlaps.omega for parsed in (tight, wide)]
    np.testing.assert_array_equal(*omega)
    theory = integrate(tight, times=[0.0, 0.5], regime="classical", seed=7)
    sgd = simulate(tight, times=[0.0, 0.5], seed=7, overlaps=True)
    for result in (theory, sgd):
        assert result.attrs["status"] == "done"
        # rounding of other coordinates; d0 > d cuts directions off below the tolerance of the rank
        np.testing.assert_allclose(result.overlap_student[0], omega[0][:P_, :P_], atol=1e-12)
        np.testing.assert_allclose(result.overlap_student_teacher[0], omega[0][:P_, P_:], atol=1e-12)
        assert np.all(np.isfinite(result.risk))
