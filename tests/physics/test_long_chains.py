"""Chains of 10⁴ steps against SGD in plain NumPy, on the same inputs and on its own, and S2 in law."""

import numpy as np
import pytest

from sweep_service.model.point import Point
from tests.physics.independent import SIGMAS, sgd_ensemble
from tests.physics.sgd_reference import INPUT, NOISE, key_of, normals, run, smallest_p

STEPS = [10, 100, 1000, 10_000]
# As in test_simulators_law: some hundred p-values are taken.
LINE = 1e-6
SMALL = {"d": 8, "p": 4, "k": 2, "noise": 0.05, "init": {"kind": "gaussian", "orthonormal_teacher": True}}


def point_of(act, teacher=None):
    # as large as keeps x² from diverging within 10⁴ steps
    rate = {"gamma": 0.05 if "square" in (act, teacher) else 0.5}
    return {**SMALL, **rate, "activation": act, "teacher_activation": teacher or act}


def wide_point_of(act):
    """A width and a dimension where S2 is chosen."""
    return point_of(act) | {"p": 40, "d": 60, "gamma": 4.0 if act == "square" else 20.0}


def start_weights(point):
    point = Point.parse(point)
    coordinates = point.start(0).coordinates(point.d)
    return [np.sqrt(point.d) * np.pad(x, ((0, 0), (0, point.d - x.shape[1]))) for x in coordinates]


def follow_inputs(point, steps):
    """M and Q after each of `steps`, by the definition on the inputs that the simulators draw."""
    (W, W_star), d = start_weights(point), point["d"]
    student, teacher = SIGMAS[point["activation"]], SIGMAS[point["teacher_activation"]]
    inputs = normals(key_of(point), INPUT, steps[-1] * d).reshape(-1, d) / np.sqrt(d)
    noises = np.sqrt(point["noise"]) * normals(key_of(point), NOISE, steps[-1])
    result = []
    for step, (x, z) in enumerate(zip(inputs, noises, strict=True), start=1):
        fields = W @ x
        error = teacher.value(W_star @ x).mean() + z - student.value(fields).mean()
        W = W + point["gamma"] / point["p"] * error * np.outer(student.slope(fields), x)
        if step in steps:
            result.append((W @ W_star.T / d, W @ W.T / d))
    return [np.array(part) for part in zip(*result, strict=True)]


@pytest.mark.parametrize("act", SIGMAS)
def test_ten_thousand_steps_follow_the_definition(act):
    """Roundings do not grow: differences of nearby chains decay on the way to the solution."""
    point = point_of(act)
    M, Q = follow_inputs(point, STEPS)
    for engine in ("S1", "S2", *(["S4"] if act == "square" else [])):
        ds = run(point, STEPS, engine=engine)
        # measured 2e-13, S4 with x²
        np.testing.assert_allclose(ds.overlap_student_teacher, M, rtol=0.0, atol=1e-10)
        np.testing.assert_allclose(ds.overlap_student, Q, rtol=0.0, atol=1e-10)
    assert np.max(np.abs(M[-1] - M[0])) > 0.1


def overlap_features(M, Q):
    """Entries of M and Q and the trace of Q: (chain, feature)."""
    features = [M[..., 0, 0], M[..., -1, -1], Q[..., 0, 0], Q[..., 0, -1], np.trace(Q, axis1=-2, axis2=-1)]
    return np.stack(features, axis=-1).reshape(len(M), -1)


def ensemble_features(point, steps, chains):
    """Of chains by the definition, on their own random numbers."""
    W, W_star = start_weights(point)
    ensemble = sgd_ensemble(
        SIGMAS[point["activation"]], SIGMAS[point["teacher_activation"]],
        np.repeat(W[None], chains, axis=0), W_star,
        gamma=point["gamma"], noise=point["noise"], steps=steps, seed=1,
    )  # fmt: skip
    return overlap_features(*ensemble)


def simulator_features(point, steps, engine, chains):
    ds = run(point, steps, engine=engine, repeat=range(chains))
    return overlap_features(ds.overlap_student_teacher.values, ds.overlap_student.values)


def compare_laws(point, steps, engines, chains):
    """Chains of each simulator against as many of the own ensemble, which is returned."""
    expected = ensemble_features(point, steps, chains)
    for engine in engines:
        assert smallest_p(simulator_features(point, steps, engine, chains), expected) > LINE, engine
    return expected


@pytest.mark.slow
@pytest.mark.parametrize("act", SIGMAS)
def test_long_chains_have_the_law_of_plain_sgd(act):
    compare_laws(point_of(act), STEPS, ["S1", "S2", "S3"], 300)


@pytest.mark.slow
@pytest.mark.parametrize("teacher", SIGMAS)
def test_long_chains_of_other_teachers_have_the_law_of_plain_sgd(teacher):
    compare_laws(point_of("erf" if teacher != "erf" else "tanh", teacher), STEPS[:-1], ["S1", "S3"], 300)


@pytest.mark.parametrize(
    "act", [pytest.param(act, marks=() if act == "tanh" else pytest.mark.slow) for act in SIGMAS]
)
def test_blocked_simulator_has_the_law_of_plain_sgd(act):
    """Blocks end between the records."""
    point = wide_point_of(act)
    steps = [7, 101]
    expected = compare_laws(point, steps, ["S2"], 150)
    wrong = point | {"gamma": 2.0 * point["gamma"]}
    # so many chains can tell the rate
    assert smallest_p(simulator_features(wrong, steps, "S2", 150), expected) < LINE
