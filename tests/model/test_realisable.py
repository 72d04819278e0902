"""Which students can represent their teacher, and the risk at which gradient flow ends."""

import pytest

from sweep_service import integrate
from sweep_service.model.point import Point
from sweep_service.model.realisable import explain_floor

GAUSSIAN = {"kind": "gaussian", "orthonormal_teacher": True}


def point(p, k=2, activation="erf", student=None, teacher=None, **change):
    mapping = {"d": 40, "p": p, "k": k, "gamma": 0.1, "activation": activation, "init": GAUSSIAN, **change}
    if student is not None:
        mapping["second_layer"] = student if isinstance(student, dict) else {"init": student}
    if teacher is not None:
        mapping["teacher"] = {"second_layer": teacher if isinstance(teacher, dict) else {"init": teacher}}
    return mapping


REALISABLE = [
    point(4),
    point(4, activation="tanh", student="rademacher"),
    point(3, student={"init": "ones", "scale": 3.0}, teacher={"init": "ones", "scale": 2.0}),  # a = p, a* = k
    point(3, student=[1.5, -1.5, 0.7]),
    point(5, student=[1.0, 1.5, 1.0, 0.5, 1.0]),  # 1.5 + 1 and 1 + 1 + ½
    point(3, second_layer_rate=1.0),
    point(3, student="gaussian", second_layer_rate=1.0),
    point(3, activation="relu"),
    point(3, activation="square"),
    point(3, activation="relu", student=[0.3, -1.0, 2.0], teacher=[1.0, -4.0]),
    point(4, activation="square", student="gaussian"),
    point(40, student=[0.1 * i for i in range(40)], teacher=[1.0, 0.5]),  # too many sums to compare
]
NOT_REALISABLE = [
    (point(5), "p = 5 is not a multiple of k = 2, so the teacher is not evenly realisable"),
    (point(3, student="rademacher"), "no groups of students"),
    (point(4, student="gaussian"), "a gaussian second layer of the student"),
    (point(4, teacher="gaussian"), "a gaussian second layer of the teacher"),
    (point(3, student=[1.2, 0.8, 0.9]), "no groups of students"),
    (point(1, second_layer_rate=1.0), "p = 1 < k = 2"),
    (
        point(3, activation="relu", student=[1.0, -1.0, -1.0]),
        "1 students and 2 teachers have a positive weight",
    ),
    (point(4, activation="square", teacher=[1.0, -1.0]), "0 students and 1 teachers have a negative weight"),
    (point(3, activation="relu", student="rademacher"), "about 1.5 students and 2 teachers"),
]


@pytest.mark.parametrize("mapping", REALISABLE)
def test_no_floor(mapping):
    assert explain_floor(Point.parse(mapping)) == ""


@pytest.mark.parametrize(("mapping", "text"), NOT_REALISABLE)
def test_floor(mapping, text):
    reason = explain_floor(Point.parse(mapping))
    assert reason.startswith(text)
    assert reason.endswith("R has a floor independent of gamma")


def test_students_with_different_activations_are_judged_by_their_numbers_alone():
    plain = point(3, activation="relu", teacher_activation="erf")
    assert "not a multiple" in explain_floor(Point.parse(plain))
    mixed = point(3, teacher_activation="tanh", student="gaussian")
    assert explain_floor(Point.parse(mixed)) == ""


@pytest.mark.parametrize(
    ("mapping", "has_floor"),
    [
        (point(3), True),
        (point(3, second_layer_rate=1.0), False),
        (point(3, activation="relu"), False),
        (point(3, activation="square"), False),
        (point(3, activation="square", student=[1.0, -1.0, -1.0]), True),
        (point(4, student="rademacher"), False),
        (point(3, student=[1.5, -1.5, 0.0]), False),
        (point(3, student=[1.5, -1.0, 0.0]), True),
    ],
)
def test_gradient_flow_ends_at_the_floor(mapping, has_floor):
    """At 2e-5 to 0.3 with a floor, and below 2e-6, still falling, without one."""
    risk = integrate(mapping, times=[0.0, 1e4], regime="classical", observables=["risk"]).risk.values[-1]
    assert (risk > 1e-5) == has_floor
    assert bool(explain_floor(Point.parse(mapping))) == has_floor
