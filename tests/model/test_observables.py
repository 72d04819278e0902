"""The observables: each against its plain definition, wherever the states come from."""

from functools import cache

import numpy as np
import pytest

from sweep_service import integrate, simulate
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.observables import HISTOGRAM_BINS, OBSERVABLES, States, chosen, observe
from sweep_service.model.overlaps import Overlaps, orthogonal_part
from sweep_service.model.risk import risk
from sweep_service.model.two_point import pairs

ALL = tuple(OBSERVABLES)
regimes = pytest.mark.parametrize("regime", REGIMES)
FULL = [name for name, regime in REGIMES.items() if not regime.mean_field]
WIDE = [name for name, observable in OBSERVABLES.items() if observable.needs_all_overlaps]


def cosines(M, norms, P):
    """M_jr/√(Q_jj P_rr), one by one."""
    p, k = M.shape
    found = np.zeros((p, k))
    for j in range(p):
        for r in range(k):
            if norms[j] > 0.0:
                found[j, r] = M[j, r] / (norms[j] * P[r, r]) ** 0.5
    return found


def specialisation(M, norms, P, q, Q_perp):
    total = 0.0
    for row in np.abs(cosines(M, norms, P)):
        down = sorted(row, reverse=True)
        total += down[0] - (down[1] if len(down) > 1 else 0.0)
    return total / len(M)


def cosine(M, norms, P, q, Q_perp):
    return sum(max(abs(row)) for row in cosines(M, norms, P)) / len(M)


def off_diagonal_rms(M, norms, P, q, Q_perp):
    p = len(M)
    others = [Q_perp[i, j] ** 2 for i in range(p) for j in range(p) if i != j]
    return (sum(others) / len(others)) ** 0.5 if others else 0.0


def cosine_histogram(M, norms, P, q, Q_perp):
    columns = np.clip(cosines(M, norms, P), -1.0, 1.0).T
    return np.array([np.histogram(c, HISTOGRAM_BINS, (-1.0, 1.0))[0] / len(M) for c in columns])


# name -> slow definition from M, diag Q, P, diag Q⊥, Q⊥ of one sample; the risk has its own tests
PLAIN = {
    "specialisation": specialisation,
    "largest_norm": lambda M, norms, P, q, Q_perp: max(norms),
    "mean_orthogonal_norm": lambda M, norms, P, q, Q_perp: sum(q) / len(q),
    "cosine": cosine,
    "orthogonal_operator_norm": lambda M, norms, P, q, Q_perp: np.linalg.eigvalsh(Q_perp)[-1],
    "off_diagonal_rms": off_diagonal_rms,
    "mean_norm": lambda M, norms, P, q, Q_perp: sum(norms) / len(norms),
    "cosines": lambda M, norms, P, q, Q_perp: cosines(M, norms, P),
    "cosine_histogram": cosine_histogram,
}
plain = pytest.mark.parametrize("name", PLAIN)


def samples(times, p, k, d, seed=0):
    """M, Q, P of random weights at a few times."""
    rng = np.random.default_rng(seed)
    W_star = rng.standard_normal((k, d))
    found = [Overlaps.of(W / np.sqrt(d), W_star / np.sqrt(d)) for W in rng.standard_normal((times, p, d))]
    return np.array([o.M for o in found]), np.array([o.Q for o in found]), found[0].P


def observed(name, M, Q, P):
    return observe(States.of(np.arange(float(len(M))), M, Q, P), [name])[name]


def expected(name, M, Q, P):
    outside = orthogonal_part(M, Q, P)
    return [PLAIN[name](m, np.diag(q), P, np.diag(o), o) for m, q, o in zip(M, Q, outside, strict=True)]


def test_every_observable_has_a_plain_definition_here():
    assert {"risk", *PLAIN} == set(OBSERVABLES)


@plain
@pytest.mark.parametrize(
    ("p", "k", "d"), [(4, 2, 9), (7, 3, 5), (3, 1, 4), (1, 1, 3), (1, 4, 6), (30, 2, 50)]
)
def test_it_is_its_definition(name, p, k, d):
    M, Q, P = samples(5, p, k, d)
    # rounding of sums of at most 900 products; off-diagonal squares are a difference, √ of it half the digits
    np.testing.assert_allclose(
        observed(name, M, Q, P), expected(name, M, Q, P), rtol=1e-12, atol=1e-7 if p == 1 else 1e-13
    )


@plain
def test_a_sample_does_not_know_the_others(name):
    M, Q, P = samples(6, 5, 2, 9)
    together = observed(name, M, Q, P)
    for t in range(6):
        np.testing.assert_array_equal(observed(name, M[t : t + 1], Q[t : t + 1], P)[0], together[t])


@plain
def test_a_sample_that_has_diverged_is_nan_and_hurts_no_other(name):
    M, Q, P = samples(3, 4, 2, 9)
    clean = observed(name, M, Q, P)
    M[1], Q[1] = np.nan, np.nan
    found = observed(name, M, Q, P)
    assert np.all(np.isnan(found[1]))
    np.testing.assert_array_equal(found[[0, 2]], clean[[0, 2]])


@plain
@pytest.mark.parametrize("k", [1, 2])
def test_a_neuron_of_length_zero_points_nowhere(name, k):
    M, Q, P = samples(2, 4, k, 9)
    M[0, 2], Q[0, 2], Q[0, :, 2] = 0.0, 0.0, 0.0
    found = observed(name, M, Q, P)
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found, expected(name, M, Q, P), rtol=1e-12, atol=1e-13)  # rounding


def test_off_diagonal_of_a_diagonal_is_small():
    """A difference of squares: √ of their rounding, p eps, is what is left."""
    p = 20
    q = np.random.default_rng(0).uniform(0.5, 2.0, p)
    M = np.zeros((1, p, 2))
    assert observed("off_diagonal_rms", M, np.diag(q)[None], np.eye(2))[0] < 1e-7


def test_what_points_along_a_teacher_is_specialised():
    P = np.array([[1.0, 0.3], [0.3, 2.0]])
    W = np.linalg.cholesky(P)
    M, Q = (3.0 * W @ W.T)[None], (9.0 * W @ W.T)[None]
    found = {name: observed(name, M, Q, P)[0] for name in PLAIN}
    assert found["cosine"] == pytest.approx(1.0, rel=1e-14)
    assert found["specialisation"] == pytest.approx(1.0 - 0.3 / 2.0**0.5, rel=1e-14)
    for name in ("mean_orthogonal_norm", "orthogonal_operator_norm", "off_diagonal_rms"):
        assert found[name] < 1e-7  # rounding of 18, under a root


def test_histogram_places_each_cosine_in_its_bin():
    """Signed, and both ends are inside; zero belongs to the bin on its right, as in np.histogram."""
    cosines = np.array([-1.0, -0.5, 0.0, 0.01, 0.999, 1.0])
    found = observed("cosine_histogram", cosines[None, :, None], np.eye(6)[None], np.eye(1))[0, 0]
    np.testing.assert_array_equal(np.flatnonzero(found), [0, 16, 32, 63])
    np.testing.assert_allclose(found[[0, 16, 32, 63]] * 6, [1, 1, 2, 2], rtol=1e-15)


def test_histogram_keeps_rounding_beyond_one_inside():
    found = observed(
        "cosine_histogram", np.array([[[1.0 + 1e-12], [-1.0 - 1e-12]]]), np.eye(2)[None], np.eye(1)
    )
    assert found[0, 0, 0] == found[0, 0, -1] == 0.5


def test_default_observables_and_their_order():
    default = chosen(None)
    assert default == tuple(name for name in ALL if OBSERVABLES[name].default)
    assert set(default) == {"risk", "specialisation", "largest_norm", "mean_orthogonal_norm", "cosine"}
    assert chosen([]) == ("risk",)
    assert chosen(["cosine", "largest_norm", "cosine"]) == ("risk", "largest_norm", "cosine")
    assert chosen(ALL[::-1]) == ALL


@pytest.mark.parametrize(
    ("names", "hint"),
    [(["risc"], "risk"), ([3], "must be one of"), ("risk", "list"), (7, "list"), ({"risk": 1}, "list")],
    ids=str,
)
def test_an_unknown_observable_is_refused(names, hint):
    with pytest.raises(InvalidInput) as info:
        chosen(names)
    assert info.value.field == "observables"
    assert hint in info.value.allowed


def test_every_observable_says_what_it_is():
    for name, observable in OBSERVABLES.items():
        assert observable.name == name
        assert observable.about


@cache
def solved(regime):
    init = "informed" if regime == "mean_field_projected" else "gaussian"
    point = {
        "d": 9,
        "p": 5,
        "k": 2,
        "gamma": 0.5,
        "noise": 1e-2,
        "init": {"kind": init, "teacher": {"rho": 0.3}},
    }
    options = {"particles": 64, "qmc_points": 256}
    return integrate(point, regime=regime, times=[0.0, 1.0, 3.0], observables=ALL, regime_options=options)


@regimes
def test_a_theory_shows_every_observable_with_its_labels(regime):
    found = solved(regime)
    for name, observable in OBSERVABLES.items():
        unit = {"student": "particle"} if regime == "mean_field_pde" else {}
        assert found[name].dims == ("time", *(unit.get(dim, dim) for dim in observable.dims))
        assert found[name].attrs == {"long_name": observable.about, "units": "1"}
        missing = REGIMES[regime].mean_field and observable.needs_all_overlaps
        assert np.all(np.isnan(found[name]) if missing else np.isfinite(found[name])), name
    middle = found.cosine_bin.values
    np.testing.assert_allclose(middle, np.linspace(-1, 1, 2 * HISTOGRAM_BINS + 1)[1::2], atol=1e-15)
    np.testing.assert_allclose(found.cosine_histogram.sum("cosine_bin"), 1.0, rtol=1e-14)


@pytest.mark.parametrize(
    ("regime", "name"),
    [(regime, name) for regime in REGIMES for name in PLAIN if regime in FULL or name not in WIDE],
)
def test_a_theory_observes_what_it_stores(regime, name):
    found = solved(regime)
    M, P = found.overlap_student_teacher.values, found.overlap_teacher.values
    if regime in FULL:
        values = expected(name, M, found.overlap_student.values, P)
    else:
        q = found.orthogonal_norm.values
        norms = q + np.einsum("tjr,tjr->tj", M, np.linalg.solve(P, M.swapaxes(1, 2)).swapaxes(1, 2))
        values = [PLAIN[name](m, n, P, one, None) for m, n, one in zip(M, norms, q, strict=True)]
    np.testing.assert_allclose(found[name], values, rtol=1e-11, atol=1e-13)  # rounding


@regimes
@pytest.mark.parametrize("names", [None, [], ["off_diagonal_rms", "cosine"]], ids=str)
def test_a_theory_shows_what_was_asked_for(regime, names):
    init = {"kind": "informed"}
    found = integrate(
        {"d": 6, "p": 3, "k": 2, "gamma": 0.1, "init": init},
        regime=regime,
        times=[0.0, 0.1],
        observables=names,
        overlaps=False,
        regime_options={"particles": 16, "qmc_points": 64},
    )
    assert set(found.data_vars) == {*chosen(names), "overlap_teacher"}


ENGINES = {"S1": "erf", "S2": "erf", "S3": "erf", "S3-factored": "erf", "S4": "square"}


@pytest.mark.parametrize("engine", ENGINES)
def test_sgd_observes_what_it_stores(engine):
    point = {"d": 9, "p": 6, "k": 2, "gamma": 0.3, "noise": 1e-3, "activation": ENGINES[engine]}
    found = simulate(point, times=[0.0, 0.1, 1.0], engine=engine, observables=ALL)
    M, Q, P = (found[f"overlap_{name}"].values for name in ("student_teacher", "student", "teacher"))
    two_point = pairs(*2 * [ACTIVATIONS[ENGINES[engine]]])
    risks = [risk(Overlaps(m, q, P), two_point) for m, q in zip(M, Q, strict=True)]
    np.testing.assert_allclose(found.risk, risks, rtol=1e-11, atol=1e-14)  # a difference of numbers near one
    for name in PLAIN:
        assert found[name].dims == ("time", *OBSERVABLES[name].dims)
        np.testing.assert_allclose(found[name], expected(name, M, Q, P), rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(("p", "d"), [(40, 5), (5, 9)])
@pytest.mark.parametrize("teacher", ["square", "erf"])
def test_a_collapsed_student_shows_what_all_its_neurons_do(p, d, teacher):
    """S4 moves d rows in place of p and walks the path of S1."""
    point = {"d": d, "p": p, "k": 2, "gamma": 0.2, "noise": 1e-3}
    point |= {"activation": "square", "teacher_activation": teacher}
    one, other = (
        simulate(point, times=[0.0, 0.01, 0.1, 0.5], engine=engine, observables=ALL, seed=[1, 2], repeat=3)
        for engine in ("S1", "S4")
    )
    assert one.attrs["status"] == other.attrs["status"] == ["done", "done"]
    assert set(one.data_vars) == set(other.data_vars)
    for name in one.data_vars:
        # rounding along a path of some hundred steps
        np.testing.assert_allclose(other[name], one[name], rtol=1e-9, atol=1e-11, err_msg=name)
