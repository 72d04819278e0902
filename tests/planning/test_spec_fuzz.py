"""Random specs and texts: each is valid or rejected with InvalidInput."""

import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput
from sweep_service.model.initial import INITS
from sweep_service.model.observables import OBSERVABLES
from sweep_service.model.parameters import parameter_names
from sweep_service.planning.axes import EXPONENTS
from sweep_service.planning.grids import Grid
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import Scaling, SweepSpec, Time, Triangle
from tests.planning.base_spec import BASE, with_axes
from tests.planning.test_bad_specs import KAPPA, POINTS, SCALING, TRIANGLE
from tests.planning.test_spec import EXAMPLE
from tests.planning.test_spec_sizes import YAML

HUGE = st.sampled_from([10**400, -(10**400), 1e308, -1e308, 5e-324, -0.0, 10**18])


NUMBERS = st.integers(-3, 12) | st.floats(-9, 9) | st.floats() | HUGE


GARBAGE = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


COUNTS = st.integers(-1, 6) | st.sampled_from([1.0, 1.5, True, "3", None, 10**400, 10**6])


AXIS_NAMES = st.sampled_from([*parameter_names(), *EXPONENTS, "regime", "init.scale", "init.epsilon"])


NAMES = AXIS_NAMES | st.text(max_size=4)


WORDS = st.sampled_from(["erf", "relu", *REGIMES, "auto"])


SPACES = st.dictionaries(
    st.sampled_from(["lin", "log"]), st.tuples(NUMBERS, NUMBERS, COUNTS).map(list), max_size=2
)


STARTS = st.builds(
    lambda kind, rest: {"kind": kind, **rest},
    st.sampled_from([*INITS, "overlaps", "weights"]) | GARBAGE,
    st.dictionaries(st.sampled_from(["scale", "epsilon", "q0", "shared", "teacher", "M"]), GARBAGE),
)


def fields_of(model):
    names = st.sampled_from(list(model.model_fields)) | st.text(max_size=3)
    return st.dictionaries(names, NUMBERS | GARBAGE, max_size=5)


FIELD = {
    "fixed": st.dictionaries(NAMES, NUMBERS | WORDS | GARBAGE, max_size=2),
    "init": STARTS,
    "seeds": NUMBERS | st.lists(NUMBERS, max_size=3) | st.dictionaries(st.sampled_from(["init"]), NUMBERS),
    "time": fields_of(Time),
    "observables": st.lists(st.sampled_from([*OBSERVABLES, "overlaps"]) | GARBAGE, max_size=3),
    "regime_options": st.dictionaries(st.sampled_from(list(RegimeOptions().content())), GARBAGE, max_size=2),
    "zip": st.lists(st.lists(AXIS_NAMES, max_size=3), max_size=3),
    "scaling": fields_of(Scaling),
    "triangle": fields_of(Triangle),
    "points": st.lists(st.dictionaries(AXIS_NAMES, NUMBERS | WORDS, max_size=4), max_size=3),
}


DESIGNS = {
    "product": with_axes(regime=["classical", "auto"]),
    "zip": {"zip": [["d", "gamma"]], **with_axes(gamma=[0.1, 0.2])},
    "scaling": {**SCALING, **KAPPA},
    "triangle": TRIANGLE,
    "points": {"points": POINTS, "axes": {}},
}


LIKELY = {"product": "axes", "zip": "axes", "scaling": "axes", "triangle": "triangle", "points": "points"}


def axes_of(spec):
    """Return other values for axes of this design, or a new axis."""
    names = st.sampled_from([*spec["axes"], "k", "noise"]) | NAMES
    return st.dictionaries(names, NUMBERS | SPACES | st.lists(NUMBERS | WORDS, max_size=3), max_size=2)


@st.composite
def specs(draw):
    """A valid spec of one of the designs, with one or two fields damaged or changed."""
    design = draw(st.sampled_from(list(DESIGNS)))
    spec = {**BASE, **DESIGNS[design]}
    names = st.sampled_from([LIKELY[design]]) | st.sampled_from(list(SweepSpec.model_fields))
    for name in draw(st.lists(names, min_size=1, max_size=2)):
        likely = FIELD.get(name, GARBAGE) if name != "axes" else axes_of({**BASE, **DESIGNS[design]})
        value = draw(likely if draw(st.integers(0, 4)) else GARBAGE)
        if isinstance(value, dict) and isinstance(spec.get(name), dict) and name != "init":
            value = {**spec[name], **value}
        spec[name] = value
    return spec


def check_valid_or_rejected(value):
    """Check that a value gives a grid that can be stored and read again, or `InvalidInput`."""
    try:
        spec = SweepSpec.parse(value)
        grid = Grid.of(spec)
    except InvalidInput:
        return
    assert 1 <= len(grid) <= 10**6
    assert all(point.gamma > 0 and point.d >= 1 and point.p >= 1 and point.k >= 1 for point in grid.points)
    assert np.all(np.isfinite(grid.times))
    assert np.all(np.diff(grid.times) > 0)
    assert SweepPlan(grid).schema.bytes > 0
    assert Grid.of(SweepSpec.read(spec.model_dump_json())).key == grid.key


@settings(max_examples=300, derandomize=True, deadline=None)
@given(specs())
def test_any_spec_is_valid_or_rejected(value):
    check_valid_or_rejected(value)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(GARBAGE | st.dictionaries(st.sampled_from(list(SweepSpec.model_fields)) | st.text(), GARBAGE))
def test_any_value_is_valid_or_rejected(value):
    check_valid_or_rejected(value)


TAGS = [f"!!{name} " for name in ("int", "float", "bool", "null", "timestamp", "set", "str")]


PIECES = st.sampled_from([*TAGS, *"&*?-{}[]:,|>%@`\"'#\n \t=~._", '""', "*a", "<<: ", "1:2"])


@settings(max_examples=500, derandomize=True, deadline=None)
@given(st.data())
def test_any_text_is_valid_or_rejected(data):
    text = data.draw(st.sampled_from([YAML, json.dumps(BASE), EXAMPLE]))
    for piece in data.draw(st.lists(PIECES, min_size=1, max_size=3)):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + piece + text[at + data.draw(st.integers(0, 2)) :]
    with suppress(InvalidInput):
        Grid.of(SweepSpec.read(text))


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_bytes_are_valid_or_rejected(body):
    with suppress(InvalidInput):
        Grid.of(SweepSpec.read(body))


@pytest.mark.parametrize("section", ["time", "fixed", "seeds", "axes"])
@pytest.mark.parametrize("key", ["null", "1", "true"])
def test_keys_that_are_no_text_are_refused(section, key):
    with pytest.raises(InvalidInput) as caught:
        SweepSpec.read(f"{section}: {{{key}: 3}}")
    assert f"{section} (key)" in str(caught.value)
