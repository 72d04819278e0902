"""Teachers of rank below k, and high-dimensional mean field from starts that are not rotation-invariant."""

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.model.overlaps import Overlaps, coordinates, factor_gram

TIMES = [0.0, 0.3, 1.0, 3.0]
M = np.array([[0.5], [0.2], [-0.3], [0.1]])
q = np.array([0.3, 0.6, 0.2, 0.4])


def given(M, Q, P):
    return {"kind": "overlaps", "M": M.tolist(), "Q": Q.tolist(), "P": P.tolist()}


@pytest.mark.parametrize("regime", [name for name in REGIMES if name != "mean_field_projected"])
@pytest.mark.parametrize("activation", ["erf", "square", "relu"])
def test_two_equal_teachers_are_one(regime, activation):
    """y = (σ(v) + σ(v))/2 = σ(v): every regime has the trajectory of the model with k = 1."""
    Q = M @ M.T + np.diag(q)
    point = {"d": 6, "p": 4, "gamma": 0.4, "noise": 0.01, "activation": activation}
    options = {"qmc_points": 1 << 14}
    single, double = (
        ss.integrate(
            point | {"k": k, "init": given(np.repeat(M, k, axis=1), Q, np.ones((k, k)))},
            times=TIMES, regime=regime, regime_options=options,
        )
        for k in (1, 2)
    )  # fmt: skip
    # relu's sampling term uses other points in another dimension; the rest is integration and quadrature
    tolerance = 2e-3 if activation == "relu" and REGIMES[regime].sampled else 1e-6
    np.testing.assert_allclose(double.risk, single.risk, rtol=tolerance)
    expected = np.repeat(single.overlap_student_teacher.values, 2, axis=2)
    np.testing.assert_allclose(double.overlap_student_teacher, expected, atol=5 * tolerance)


def test_teacher_of_rank_one_at_infinite_width():
    """The law of (m, q) is that of k = 1, whichever directions the factor of P leaves unused."""
    single = {"d": 6, "p": 4, "k": 1, "gamma": 0.4, "init": {"kind": "gaussian", "orthonormal_teacher": True}}
    double = single | {"k": 2, "init": {"kind": "gaussian", "teacher": {"rho": 1.0}}}
    risks = [
        ss.integrate(point, times=TIMES, regime="mean_field_pde", regime_options={"particles": 4096}).risk
        for point in (single, double)
    ]
    np.testing.assert_allclose(risks[1], risks[0], rtol=2e-3)  # 4096 points of two different laws


@pytest.mark.parametrize("kind", ["gaussian", "spherical", "informed", "planted"])
def test_starts_of_a_dependent_teacher(kind):
    """w*_3 = (w*_1 + w*_2)/√2: P is reproduced, and informed and planted starts have no orthogonal part."""
    root = np.sqrt(0.5)
    gram = np.array([[1.0, 0.0, root], [0.0, 1.0, root], [root, root, 1.0]])
    point = {"d": 8, "p": 5, "k": 3, "gamma": 0.5, "init": {"kind": kind, "teacher": {"gram": gram.tolist()}}}
    result = ss.simulate(point, times=[0.0, 1.0], observables=["risk", "mean_orthogonal_norm"])
    np.testing.assert_allclose(result.overlap_teacher, gram, atol=1e-12)
    if kind in ("informed", "planted"):
        assert float(result.mean_orthogonal_norm[0]) < 1e-12
    M = result.overlap_student_teacher.values[0]
    np.testing.assert_allclose(M[:, 2], root * (M[:, 0] + M[:, 1]), atol=1e-12)


def test_factor_and_coordinates_of_singular_overlaps():
    teachers = np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.5, 1.0, 0.0]])
    P = teachers @ teachers.T
    L = factor_gram(P)
    np.testing.assert_allclose(L @ L.T, P, atol=1e-14)
    np.testing.assert_array_equal(L, np.tril(L))
    assert np.sum(np.diag(L) > 0) == 2
    students = np.array([[0.3, 0.2, 0.5], [0.1, -0.4, 0.2]])
    o = Overlaps.of(students, teachers)
    again = Overlaps.of(*coordinates(o))
    for name in ("M", "Q", "P"):
        np.testing.assert_allclose(getattr(again, name), getattr(o, name), atol=1e-12)


@pytest.mark.parametrize("engine", ["S1", "S2", "S3", "S3-factored"])
def test_sgd_with_a_dependent_teacher_follows_the_equations(engine):
    """The mean over 96 repeats against high_dimensional, whose error at this step is δt = 1.7e-3."""
    root = np.sqrt(0.5)
    gram = [[1.0, 0.0, root], [0.0, 1.0, root], [root, root, 1.0]]
    init = {"kind": "gaussian", "teacher": {"gram": gram}}
    point = {"d": 200, "p": 3, "k": 3, "gamma": 1.0, "noise": 0.01, "init": init}
    sgd = ss.simulate(point, times=TIMES, repeat=range(96), engine=engine).risk
    ode = ss.integrate(point, times=TIMES, regime="high_dimensional").risk
    error = sgd.std("repeat", ddof=1) / np.sqrt(96)
    # 4.5 standard errors of three values, and the bias of order δt R
    assert np.all(np.abs(sgd.mean("repeat") - ode)[1:] < 4.5 * error[1:] + 5e-3 * ode[1:])


def test_high_dimensional_mean_field_without_invariance():
    """From a symmetric start against SGD at d = 2000; the error falls with p, as for invariant starts."""
    errors = []
    for p in (8, 32):
        init = {"kind": "symmetric", "epsilon": 0.4, "jitter": 0.1}
        point = {"d": 2000, "p": p, "k": 2, "gamma": 0.02 * p, "init": init}
        theory = ss.integrate(point, times=TIMES, regime="mean_field_high_dimensional")
        assert "symmetric start is not invariant" in theory.attrs["warnings"]
        sgd = ss.simulate(point, times=TIMES).risk
        errors.append(float(np.max(np.abs(theory.risk - sgd)) / sgd[0]))
    assert errors[1] < 0.05
    assert errors[1] < 0.6 * errors[0]
    with pytest.raises(ss.errors.RegimeUndefined):
        ss.integrate(point, times=TIMES, regime="mean_field")
