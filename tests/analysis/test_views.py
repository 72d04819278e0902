"""The view suggested for any sweep can be drawn."""

import pytest

from sweep_service.analysis.views import MAX_SUGGESTED_CURVES, VIEWS, suggest_view
from tests.stored import compute_dataset

BASE = {
    "fixed": {"k": 2}, "init": {"kind": "informed"}, "seeds": 2, "time": {"max": 1.0, "samples": 5},
    "observables": ["risk"],
}  # fmt: skip
CASES = {
    "one point": ({"axes": {"d": 10, "p": 4, "gamma": 0.1}}, "curves"),
    "one axis": ({"axes": {"d": [10, 20], "p": 4, "gamma": 0.1, "regime": ["classical"]}}, "curves"),
    "many curves": ({"axes": {"d": 10, "p": 2, "gamma": {"log": [0.1, 1.0, 205]}}}, "curves"),
    "two axes": ({"axes": {"d": [10, 20], "p": 4, "gamma": [0.1, 0.2, 0.4]}}, "phase-diagram"),
    "theories": (
        {"axes": {"d": [10, 20], "p": [2, 4], "gamma": 0.1, "regime": ["classical", "auto"]},
         "simulate": False},
        "phase-diagram",
    ),
    "four axes": (
        {"axes": {"d": [10, 20], "p": [2, 4], "gamma": [0.1, 0.3], "activation": ["erf", "relu"]}},
        "phase-diagram",
    ),
    "text axis": (
        {"axes": {"d": 10, "p": 4, "gamma": [0.1, 0.2], "activation": ["erf", "relu"]}}, "phase-diagram",
    ),
    "a triangle": (
        {"triangle": {"delta_t": 0.01, "resolution": 2}, "axes": {"regime": "classical"}}, "triangle",
    ),
    "a triangle of SGD": ({"triangle": {"delta_t": 0.01, "resolution": 2}}, "triangle"),
    "a scaling": (
        {"scaling": {"p0": 2, "gamma0": 1}, "axes": {"d": [10, 20, 40], "kappa": 0.0, "delta": [0.0, 0.5]}},
        "plane",
    ),
    "points": ({"points": [{"d": 10, "p": 2, "gamma": 0.1}, {"d": 20, "p": 4, "gamma": 0.2}]}, "curves"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_suggested_view_can_be_drawn(tmp_path, name):
    spec, view = CASES[name]
    dataset = compute_dataset(tmp_path, {**BASE, **spec})
    result, options = suggest_view(dataset)
    assert result == view
    figure = VIEWS[result].plot(dataset, options)
    assert figure.axes
    if name == "many curves":
        assert len(options["gamma"]) == MAX_SUGGESTED_CURVES
