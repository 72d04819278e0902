"""The observables, each against its plain definition, for all sources of states."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from sweep_service import integrate, simulate
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.averages.two_point import make_pairs
from sweep_service.model.observables import HISTOGRAM_BINS, OBSERVABLES, States, observe, select_observables
from sweep_service.model.overlaps import Overlaps, orthogonal_part
from sweep_service.model.risk import risk

ALL = tuple(OBSERVABLES)
regimes = pytest.mark.parametrize("regime", REGIMES)
FULL = [name for name, regime in REGIMES.items() if not regime.mean_field]
WIDE = [name for name, observable in OBSERVABLES.items() if observable.needs_all_overlaps]


def cosines(M, norms, P):
    """M_jr/√(Q_jj P_rr), one by one."""
    p, k = M.shape
    result = np.zeros((p, k))
    for j in range(p):
        for r in range(k):
            if norms[j] > 0.0:
                result[j, r] = M[j, r] / (norms[j] * P[r, r]) ** 0.5
    return result


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


def second_layer_overlap(M, norms, P, a, a_star):
    """Cosine of a with the a* of the nearest teachers, with the sign of the cosine."""
    targets = []
    for row in cosines(M, norms, P):
        r = max(range(len(row)), key=lambda r: abs(row[r]))
        targets.append(np.sign(row[r]) * a_star[r])
    length = np.linalg.norm(a) * np.linalg.norm(targets)
    return a @ np.array(targets) / length if length else 0.0


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
    # second layers of ones
    "second_layer": lambda M, norms, P, q, Q_perp: np.ones(len(M)),
    "second_layer_mean": lambda M, norms, P, q, Q_perp: 1.0,
    "second_layer_spread": lambda M, norms, P, q, Q_perp: 0.0,
    "second_layer_overlap": lambda M, norms, P, q, Q_perp: second_layer_overlap(
        M, norms, P, np.ones(len(M)), np.ones(len(P))
    ),
}
plain = pytest.mark.parametrize("name", PLAIN)


def samples(times, p, k, d, seed=0):
    """M, Q, P of random weights at a few times."""
    rng = np.random.default_rng(seed)
    W_star = rng.standard_normal((k, d))
    result = [Overlaps.of(W / np.sqrt(d), W_star / np.sqrt(d)) for W in rng.standard_normal((times, p, d))]
    return np.array([o.M for o in result]), np.array([o.Q for o in result]), result[0].P


def observed(name, M, Q, P):
    return observe(States.of(np.arange(float(len(M))), M, Q, P), [name])[name]


def expected(name, M, Q, P):
    outside = orthogonal_part(M, Q, P)
    return [PLAIN[name](m, np.diag(q), P, np.diag(o), o) for m, q, o in zip(M, Q, outside, strict=True)]


def test_every_observable_has_plain_definition():
    assert {"risk", *PLAIN} == set(OBSERVABLES)


@plain
@pytest.mark.parametrize(
    ("p", "k", "d"), [(4, 2, 9), (7, 3, 5), (3, 1, 4), (1, 1, 3), (1, 4, 6), (30, 2, 50)]
)
def test_observable_agrees_with_definition(name, p, k, d):
    M, Q, P = samples(5, p, k, d)
    # rounding of sums of at most 900 products; off-diagonal squares are a difference, √ of it half the digits
    np.testing.assert_allclose(
        observed(name, M, Q, P), expected(name, M, Q, P), rtol=1e-12, atol=1e-7 if p == 1 else 1e-13
    )


def test_second_layers_are_observed():
    M, Q, P = samples(3, 5, 2, 9)
    a, a_star = np.random.default_rng(1).standard_normal((3, 5)), np.array([0.5, -2.0])
    states = replace(States.of(np.zeros(3), M, Q, P), second_layers=a, teacher_second_layer=a_star)
    names = ["second_layer", "second_layer_mean", "second_layer_spread", "second_layer_overlap"]
    values = observe(states, names)
    np.testing.assert_array_equal(values["second_layer"], a)
    np.testing.assert_allclose(values["second_layer_mean"], [sum(row) / 5 for row in a], rtol=1e-12)
    spread = [(sum((x - sum(row) / 5) ** 2 for x in row) / 5) ** 0.5 for row in a]
    np.testing.assert_allclose(values["second_layer_spread"], spread, rtol=1e-12)
    overlap = [second_layer_overlap(m, np.diag(q), P, row, a_star) for m, q, row in zip(M, Q, a, strict=True)]
    np.testing.assert_allclose(values["second_layer_overlap"], overlap, rtol=1e-12)


@plain
def test_samples_are_independent(name):
    M, Q, P = samples(6, 5, 2, 9)
    together = observed(name, M, Q, P)
    for t in range(6):
        np.testing.assert_array_equal(observed(name, M[t : t + 1], Q[t : t + 1], P)[0], together[t])


@plain
def test_diverged_sample_is_nan_and_others_unchanged(name):
    M, Q, P = samples(3, 4, 2, 9)
    clean = observed(name, M, Q, P)
    M[1], Q[1] = np.nan, np.nan
    result = observed(name, M, Q, P)
    assert np.all(np.isnan(result[1]))
    np.testing.assert_array_equal(result[[0, 2]], clean[[0, 2]])


@plain
@pytest.mark.parametrize("k", [1, 2])
def test_cosines_of_zero_neuron_are_zero(name, k):
    M, Q, P = samples(2, 4, k, 9)
    M[0, 2], Q[0, 2], Q[0, :, 2] = 0.0, 0.0, 0.0
    result = observed(name, M, Q, P)
    assert np.all(np.isfinite(result))
    np.testing.assert_allclose(result, expected(name, M, Q, P), rtol=1e-12, atol=1e-13)  # rounding


def test_off_diagonal_rms_of_diagonal_matrix_is_small():
    """The result of a difference of squares is the root of their rounding, p eps."""
    p = 20
    q = np.random.default_rng(0).uniform(0.5, 2.0, p)
    M = np.zeros((1, p, 2))
    assert observed("off_diagonal_rms", M, np.diag(q)[None], np.eye(2))[0] < 1e-7


def test_neurons_along_teachers_are_specialised():
    P = np.array([[1.0, 0.3], [0.3, 2.0]])
    W = np.linalg.cholesky(P)
    M, Q = (3.0 * W @ W.T)[None], (9.0 * W @ W.T)[None]
    result = {name: observed(name, M, Q, P)[0] for name in PLAIN}
    assert result["cosine"] == pytest.approx(1.0, rel=1e-14)
    assert result["specialisation"] == pytest.approx(1.0 - 0.3 / 2.0**0.5, rel=1e-14)
    for name in ("mean_orthogonal_norm", "orthogonal_operator_norm", "off_diagonal_rms"):
        assert result[name] < 1e-7  # rounding of 18, under a root


def test_histogram_counts_each_cosine_in_its_bin():
    """Signed, and both ends are inside; zero belongs to the bin on its right, as in np.histogram."""
    cosines = np.array([-1.0, -0.5, 0.0, 0.01, 0.999, 1.0])
    result = observed("cosine_histogram", cosines[None, :, None], np.eye(6)[None], np.eye(1))[0, 0]
    np.testing.assert_array_equal(np.flatnonzero(result), [0, 16, 32, 63])
    np.testing.assert_allclose(result[[0, 16, 32, 63]] * 6, [1, 1, 2, 2], rtol=1e-15)


def test_histogram_includes_cosines_rounded_beyond_one():
    result = observed(
        "cosine_histogram", np.array([[[1.0 + 1e-12], [-1.0 - 1e-12]]]), np.eye(2)[None], np.eye(1)
    )
    assert result[0, 0, 0] == result[0, 0, -1] == 0.5


def test_default_observables_and_their_order():
    default = select_observables(None)
    assert default == tuple(name for name in ALL if OBSERVABLES[name].default)
    assert set(default) == {"risk", "specialisation", "largest_norm", "mean_orthogonal_norm", "cosine"}
    assert select_observables([]) == ("risk",)
    assert select_observables(["cosine", "largest_norm", "cosine"]) == ("risk", "largest_norm", "cosine")
    assert select_observables(ALL[::-1]) == ALL


@pytest.mark.parametrize(
    ("names", "hint"),
    [(["risc"], "risk"), ([3], "must be one of"), ("risk", "list"), (7, "list"), ({"risk": 1}, "list")],
    ids=str,
)
def test_unknown_observable_is_refused(names, hint):
    with pytest.raises(InvalidInput) as info:
        select_observables(names)
    assert info.value.field == "observables"
    assert hint in info.value.allowed


def test_every_observable_has_description():
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
def test_integrate_labels_every_observable(regime):
    result = solved(regime)
    for name, observable in OBSERVABLES.items():
        unit = {"student": "particle"} if regime == "mean_field_pde" else {}
        assert result[name].dims == ("time", *(unit.get(dim, dim) for dim in observable.dims))
        assert result[name].attrs == {"long_name": observable.about}
        missing = REGIMES[regime].mean_field and observable.needs_all_overlaps
        assert np.all(np.isnan(result[name]) if missing else np.isfinite(result[name])), name
    middle = result.cosine_bin.values
    np.testing.assert_allclose(middle, np.linspace(-1, 1, 2 * HISTOGRAM_BINS + 1)[1::2], atol=1e-15)
    np.testing.assert_allclose(result.cosine_histogram.sum("cosine_bin"), 1.0, rtol=1e-14)


@pytest.mark.parametrize(
    ("regime", "name"),
    [(regime, name) for regime in REGIMES for name in PLAIN if regime in FULL or name not in WIDE],
)
def test_observables_of_integrate_agree_with_stored_overlaps(regime, name):
    result = solved(regime)
    M, P = result.overlap_student_teacher.values, result.overlap_teacher.values
    if regime in FULL:
        values = expected(name, M, result.overlap_student.values, P)
    else:
        q = result.orthogonal_norm.values
        norms = q + np.einsum("tjr,tjr->tj", M, np.linalg.solve(P, M.swapaxes(1, 2)).swapaxes(1, 2))
        values = [PLAIN[name](m, n, P, q_row, None) for m, n, q_row in zip(M, norms, q, strict=True)]
    np.testing.assert_allclose(result[name], values, rtol=1e-11, atol=1e-13)  # rounding


@regimes
@pytest.mark.parametrize("names", [None, [], ["off_diagonal_rms", "cosine"]], ids=str)
def test_integrate_returns_requested_observables(regime, names):
    init = {"kind": "informed"}
    result = integrate(
        {"d": 6, "p": 3, "k": 2, "gamma": 0.1, "init": init},
        regime=regime,
        times=[0.0, 0.1],
        observables=names,
        overlaps=False,
        regime_options={"particles": 16, "qmc_points": 64},
    )
    assert set(result.data_vars) == {*select_observables(names), "overlap_teacher"}


ENGINES = {"S1": "erf", "S2": "erf", "S3": "erf", "S3-factored": "erf", "S4": "square"}


@pytest.mark.parametrize("engine", ENGINES)
def test_observables_of_simulate_agree_with_stored_overlaps(engine):
    point = {"d": 9, "p": 6, "k": 2, "gamma": 0.3, "noise": 1e-3, "activation": ENGINES[engine]}
    result = simulate(point, times=[0.0, 0.1, 1.0], engine=engine, observables=ALL)
    M, Q, P = (result[f"overlap_{name}"].values for name in ("student_teacher", "student", "teacher"))
    two_point = make_pairs(*2 * [ACTIVATIONS[ENGINES[engine]]])
    risks = [risk(Overlaps(m, q, P), two_point) for m, q in zip(M, Q, strict=True)]
    np.testing.assert_allclose(result.risk, risks, rtol=1e-11, atol=1e-14)  # a difference of numbers near one
    for name in PLAIN:
        assert result[name].dims == ("time", *OBSERVABLES[name].dims)
        np.testing.assert_allclose(result[name], expected(name, M, Q, P), rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(("p", "d"), [(40, 5), (5, 9)])
@pytest.mark.parametrize("teacher", ["square", "erf"])
def test_collapsed_student_has_observables_of_all_neurons(p, d, teacher):
    """S4 simulates d rows instead of p and follows the path of S1."""
    point = {"d": d, "p": p, "k": 2, "gamma": 0.2, "noise": 1e-3}
    point |= {"activation": "square", "teacher_activation": teacher}
    step_loop, collapsed = (
        simulate(point, times=[0.0, 0.01, 0.1, 0.5], engine=engine, observables=ALL, seed=[1, 2], repeat=3)
        for engine in ("S1", "S4")
    )
    assert step_loop.attrs["status"] == collapsed.attrs["status"] == ["done", "done"]
    assert set(step_loop.data_vars) == set(collapsed.data_vars)
    for name in step_loop.data_vars:
        # rounding along a path of some hundred steps
        np.testing.assert_allclose(collapsed[name], step_loop[name], rtol=1e-9, atol=1e-11, err_msg=name)
