"""Structured parameters: second layers, schedules, and the numbers inside them."""

import numpy as np
import pytest

from sweep_service.errors import InvalidInput
from sweep_service.model.point import Point
from sweep_service.model.schedule import Schedule
from sweep_service.model.structures import (
    describe_structures,
    find_number,
    insert_numbers,
    number_names,
    remove_number,
)

POINT = {"d": 20, "p": 4, "k": 2, "gamma": 0.5}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"second_layer": "ones"}, "second_layer"),
        ({"second_layer": {"init": "twos"}}, "second_layer.init"),
        ({"second_layer": {"init": [1, 2, 3]}}, "second_layer.init"),
        ({"second_layer": {"init": [1, 2, 3, np.inf]}}, "second_layer.init"),
        ({"second_layer": {"init": [1, 2, 3, 4], "scale": 2}}, "second_layer.scale"),
        ({"second_layer": {"scale": 1e9}}, "second_layer.scale"),
        ({"second_layer": {"kind": "ones"}}, "second_layer (key)"),
        ({"teacher": {"second_layer": {"init": [1, 2, 3]}}}, "teacher.second_layer.init"),
        ({"teacher": {"rho": 0.2}, "init": {"kind": "gaussian", "teacher": "random"}}, "teacher"),
        ({"teacher": {"rho": 2.0}}, "teacher.rho"),
        ({"teacher": {"gram": "orthonormall"}}, "teacher.gram"),
        ({"init": {"kind": "gaussian", "teacher": {"rho": 2.0}}}, "init.teacher.rho"),
        ({"schedule": "linear"}, "schedule"),
        ({"schedule": {}}, "schedule"),
        ({"schedule": {"power": {"t0": 1}}}, "schedule.power.alpha"),
        ({"schedule": {"power": {"t0": 0, "alpha": 1}}}, "schedule.power.t0"),
        ({"schedule": {"power": {"t0": 1, "alpha": 1, "beta": 2}}}, "schedule.power (key)"),
        ({"schedule": {"cosine": {}}}, "schedule (key)"),
        ({"schedule": {"steps": []}}, "schedule.steps"),
        ({"schedule": {"steps": [[2, 1], [1, 1]]}}, "schedule.steps"),
        ({"schedule": {"steps": [[1, -1]]}}, "schedule.steps"),
        ({"schedule": {"steps": [[1, 1, 1]]}}, "schedule.steps"),
        ({"batch": 0}, "batch"),
        ({"weight_decay": -1}, "weight_decay"),
        ({"second_layer_rate": -0.1}, "second_layer_rate"),
    ],
    ids=str,
)
def test_error_names_the_field(change, field):
    with pytest.raises(InvalidInput) as error:
        Point.parse({**POINT, **change})
    assert error.value.field == field


def test_factors_of_schedules():
    t = np.array([0.0, 1.0, 2.0, 4.0])
    factors = {
        "power": Schedule.parse({"power": {"t0": 2.0, "alpha": 0.5}}).factor(t),
        "exponential": Schedule.parse({"exponential": {"tau": 2.0}}).factor(t),
        "warmup": Schedule.parse({"warmup": {"until": 2.0}}).factor(t),
        "steps": Schedule.parse({"steps": [[1.0, 0.5], [3.0, 2.0]]}).factor(t),
        "constant": Schedule.parse("constant").factor(t),
    }
    np.testing.assert_allclose(factors["power"], [1.0, 1.5**-0.5, 2.0**-0.5, 3.0**-0.5])
    np.testing.assert_allclose(factors["exponential"], np.exp(-t / 2.0))
    np.testing.assert_allclose(factors["warmup"], [0.0, 0.5, 1.0, 1.0])
    np.testing.assert_array_equal(factors["steps"], [1.0, 0.5, 0.5, 2.0])
    np.testing.assert_array_equal(factors["constant"], np.ones(4))


def test_second_layers_are_drawn_apart_from_the_first():
    plain = Point.parse(POINT)
    layered = Point.parse(
        {**POINT, "second_layer": {"init": "gaussian"}, "teacher": {"second_layer": {"init": "rademacher"}}}
    )
    a, b = plain.start(3), layered.start(3)
    np.testing.assert_array_equal(a.overlaps.Q, b.overlaps.Q)
    assert a.readout is None
    assert set(np.abs(b.readout.teacher)) == {1.0}
    assert len(set(b.readout.student)) == 4
    assert not np.array_equal(b.readout.student, layered.start(4).readout.student)
    np.testing.assert_array_equal(b.readout.student, layered.start(3).readout.student)
    wider = Point.parse({**POINT, "p": 6, "teacher": {"second_layer": {"init": "rademacher"}}}).start(3)
    np.testing.assert_array_equal(
        wider.readout.teacher, b.readout.teacher
    )  # students of every width share it


def test_spellings_of_the_same_point_have_one_content():
    ones = Point.parse({**POINT, "second_layer": {"init": [1, 1, 1, 1]}, "schedule": "constant", "batch": 1})
    assert ones.content == Point.parse(POINT).content
    assert ones.non_default == {}
    alias = Point.parse({**POINT, "teacher": {"rho": 0.2}})
    assert (
        alias.init.content()
        == Point.parse({**POINT, "init": {"kind": "gaussian", "teacher": {"rho": 0.2}}}).init.content()
    )


def test_numbers_are_found_set_and_removed():
    written = {"init": {"kind": "gaussian", "scale": 2.0}, "schedule": {"power": {"t0": 3.0}}}
    assert find_number(written, "init.scale") == 2.0
    assert find_number(written, "schedule.t0") == 3.0
    assert find_number(written, "schedule.alpha") is None
    changed = insert_numbers(
        written, {"schedule.alpha": 0.5, "teacher.second_layer.scale": 4.0, "teacher.rho": 0.1}
    )
    assert changed["schedule"] == {"power": {"t0": 3.0, "alpha": 0.5}}
    assert changed["teacher"] == {"second_layer": {"scale": 4.0}, "rho": 0.1}
    assert remove_number(changed, "schedule.alpha")["schedule"] == written["schedule"]
    assert remove_number(changed, "teacher.second_layer.scale")["teacher"] == {"second_layer": {}, "rho": 0.1}
    assert set(number_names(written)) >= {"init.scale", "schedule.t0", "schedule.alpha", "second_layer.scale"}
    assert "schedule.tau" not in number_names(written)


def test_structures_are_described_by_single_values():
    values = describe_structures(
        {"init": {"kind": "informed"}, "teacher": {"rho": 0.1, "second_layer": {"scale": 2}},
         "second_layer": {"init": [1, 2]}, "schedule": {"steps": [[1, 0.5]]}}
    )  # fmt: skip
    assert values["init.kind"] == "informed"
    assert (values["second_layer.init"], values["teacher.second_layer.scale"]) == ("[1, 2]", 2.0)
    assert (values["schedule.kind"], values["schedule.steps"]) == ("steps", "[[1, 0.5]]")
    assert "0.1" in values["init.teacher"]
