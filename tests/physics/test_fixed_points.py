"""The unspecialised plateau of the gradient flow: its place, its risk and its spectrum, as golden numbers."""

import numpy as np
import pytest

import sweep_service as ss
from tests.physics.flows import make_flow
from tests.physics.independent import erf_flow, erf_risk, lower_triangle, plateau, spectrum


def plateau_point(p, k):
    m = 1.0 / np.sqrt(k * (2 * k - 1))
    M, Q = np.full((p, k), m), np.full((p, p), k * m * m)
    return {
        "d": 100,
        "p": p,
        "k": k,
        "gamma": 0.1,
        "init": {"kind": "overlaps", "M": M, "Q": Q, "P": np.eye(k)},
    }


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("p", [1, 4, 10])
def test_plateau_is_a_fixed_point(p, k):
    """M_ir = 1/√(k(2k - 1)), Q_ij = 1/(2k - 1), for any p; roots of an own flow."""
    assert plateau(k) == pytest.approx(1.0 / np.sqrt(k * (2 * k - 1)), abs=1e-14)
    point = plateau_point(p, k)
    flow = make_flow("classical", point)
    assert np.max(np.abs(flow(flow.y0))) < 1e-14  # rounding; 4e-14 is what another implementation left
    risk = erf_risk(*(np.asarray(point["init"][name]) for name in "MQP"))
    assert ss.integrate(point, regime="classical", times=[0.0]).risk.item() == pytest.approx(risk, abs=1e-15)


def test_golden_numbers_of_two_teachers():
    """k = 2: M = 0.408248, Q = 1/3, R = 0.0029027."""
    run = ss.integrate(plateau_point(10, 2), regime="classical", times=[0.0, 5.0])
    np.testing.assert_allclose(run.overlap_student_teacher, 0.408248, atol=5e-7)
    np.testing.assert_allclose(run.overlap_student, 1.0 / 3.0, atol=1e-10)
    np.testing.assert_allclose(run.risk, 0.0029027, atol=5e-8)


def plateau_spectrum(p, k):
    """Eigenvalues at the plateau, of the flow of `classical` and of an own one."""
    flow = make_flow("classical", plateau_point(p, k))

    def ours(M, Q):
        change = flow(lower_triangle(M, Q))
        full = np.zeros((p, p))
        full[np.tril_indices(p)] = change[p * k :]
        return change[: p * k].reshape(p, k), full + np.tril(full, -1).T

    m = plateau(k)
    M, Q = np.full((p, k), m), np.full((p, p), k * m * m)
    return spectrum(ours, M, Q), spectrum(lambda M, Q: erf_flow(M, Q, np.eye(k)), M, Q)


def test_leading_eigenvalue():
    """p = 10, k = 2: 0.03287, once for each way in which neurons can differ, p - 1."""
    values, expected = plateau_spectrum(10, 2)
    np.testing.assert_allclose(values[:9], 0.03287, atol=5e-6)
    assert values[9] < 1e-6
    # central differences of step 1e-5, and pairs of equal eigenvalues that split by the root of rounding
    np.testing.assert_allclose(values, expected, atol=1e-6)


def test_perturbed_plateau_is_left_at_the_eigenvalue():
    """Neurons that differ by 1e-6 grow apart as e^{μt}, as `ss.integrate` says."""
    p, k, size = 10, 2, 1e-6
    M = np.full((p, k), 6.0**-0.5) + size * np.outer(np.arange(p) - 4.5, [1.0, -1.0])
    point = plateau_point(p, k)
    point["init"] = {"kind": "overlaps", "M": M, "Q": M @ M.T, "P": np.eye(k)}
    run = ss.integrate(point, regime="classical", times=[0.0, 50.0, 100.0])
    M = run.overlap_student_teacher.values
    apart = np.linalg.norm(M[..., 0] - M[..., 1], axis=1)
    assert np.log(apart[2] / apart[1]) / 50.0 == pytest.approx(0.03287, abs=1e-4)
