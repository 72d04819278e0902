"""Invalid arguments of `simulate`: errors that name the field."""

import numpy as np
import pytest

from sweep_service import InvalidInput, simulate

POINT = {"d": 9, "p": 4, "k": 2, "gamma": 0.1, "noise": 1e-3}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"engine": "S5"}, "engine"),
        ({"engine": None}, "engine"),
        ({"engine": ["S1"]}, "engine"),
        ({"engine": "S4"}, "engine"),
        ({"observables": ["risc"]}, "observables"),
        ({"observables": "risk"}, "observables"),
        ({"observables": [None]}, "observables"),
        ({"overlaps": 1}, "overlaps"),
        ({"overlaps": "yes"}, "overlaps"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"seed": True}, "seed"),
        ({"seed": None}, "seed"),
        ({"seed": []}, "seed"),
        ({"seed": [1, 1]}, "seed"),
        ({"seed": "12"}, "seed"),
        ({"seed": np.zeros((2, 2))}, "seed"),
        ({"seed": 10**30}, "seed"),
        ({"repeat": -1}, "repeat"),
        ({"repeat": [0, -1]}, "repeat"),
        ({"repeat": [2, 2]}, "repeat"),
        ({"repeat": []}, "repeat"),
        ({"repeat": {1}}, "repeat"),
        ({"times": []}, "times"),
        ({"times": [-0.1, 1.0]}, "times"),
        ({"times": [1.0, 0.5]}, "times"),
        ({"times": [1.0, 1.0]}, "times"),
        ({"times": [np.nan]}, "times"),
        ({"times": [np.inf]}, "times"),
        ({"times": "abc"}, "times"),
        ({"times": None}, "times"),
        ({"times": [1e16]}, "times"),
        ({"checkpoint": 3}, "checkpoint"),
        ({"point": None}, "point"),
        ({"point": {**POINT, "p": 0}}, "p"),
        ({"point": {**POINT, "gamma": -1.0}}, "gamma"),
        ({"point": {**POINT, "activation": "sigmoid"}}, "activation"),
        ({"point": {**POINT, "d": 5, "init": {"kind": "symmetric"}}}, "d"),
    ],
    ids=str,
)
def test_invalid_input_names_field(change, field):
    arguments = {"point": POINT, "times": [0.0, 1.0], **change}
    with pytest.raises(InvalidInput) as info:
        simulate(arguments.pop("point"), **arguments)
    assert info.value.field == field
    assert len(str(info.value)) < 400


def test_unknown_simulator_error_has_hint():
    with pytest.raises(InvalidInput, match="S3-factored"):
        simulate(POINT, times=[0.0], engine="S3-factord")
