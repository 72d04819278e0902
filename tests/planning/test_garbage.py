"""Random inputs: each gives a valid object or `InvalidInput` with a short message."""

import math
import pickle
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep_service.dynamics.options import RegimeOptions
from sweep_service.errors import InvalidInput, RegimeUndefined
from sweep_service.model.initial import EXPLICIT_KINDS, INITS
from sweep_service.model.parameters import parameter_names
from sweep_service.model.point import Point
from sweep_service.validation import read_times

POINT = {"d": 6, "p": 4, "k": 2, "gamma": 0.1}


@pytest.mark.parametrize("error", [InvalidInput, RegimeUndefined])
def test_errors_pickle(error):
    first = error("p", [0], "must be a whole number >= 1")
    again = pickle.loads(pickle.dumps(first))
    assert type(again) is error
    assert (again.field, again.value, again.allowed, str(again)) == ("p", [0], first.allowed, str(first))


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, list(range(10**5)), np.ones((999, 2)), 10**400, 10**5000],
    ids=["text", "list", "array", "400 digits", "more digits than Python prints"],
)
def test_huge_values_are_shortened_in_messages(value):
    with pytest.raises(InvalidInput) as info:
        Point.parse({**POINT, "gamma": value})
    assert str(info.value).startswith("gamma = ")
    assert str(info.value).endswith("must be a finite number > 0 and <= 1e+12")
    assert len(str(info.value)) < 140


def nested(depth):
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


READERS = [Point.parse, RegimeOptions.parse, read_times, lambda x: Point.parse({**POINT, "init": x})]


@pytest.mark.parametrize("depth", [70, 3000])  # beyond NumPy's 64 dimensions; beyond Python's recursion limit
@pytest.mark.parametrize("read", READERS)
def test_deep_nesting_is_invalid_input(read, depth):
    with pytest.raises(InvalidInput):
        read(nested(depth))


HUGE = st.sampled_from([10**400, -(10**400), 1e308, -1e308, 5e-324])
NUMBERS = st.integers() | st.floats() | HUGE | st.integers(0, 9)
GARBAGE = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
INIT_KEYS = ["teacher", "shared", "orthonormal_teacher", "M", "Q", "P", "W", "W_star"]
INIT_KEYS += [name for kind in INITS.values() for name in kind.parameters]
TEACHERS = st.dictionaries(st.sampled_from(["rho", "norms", "gram"]), GARBAGE) | GARBAGE
STARTS = st.builds(
    lambda kind, teacher, rest: {"kind": kind, **rest, **teacher},
    st.sampled_from([*INITS, *EXPLICIT_KINDS]) | GARBAGE,
    st.just({}) | st.builds(lambda value: {"teacher": value}, TEACHERS),
    st.dictionaries(st.sampled_from(INIT_KEYS), GARBAGE, max_size=2),
)
POINTS = st.builds(
    lambda change, start: {**POINT, **change, **start},
    st.dictionaries(st.sampled_from([*parameter_names(), "init"]) | st.text(max_size=4), GARBAGE, max_size=2),
    st.just({}) | st.builds(lambda value: {"init": value}, STARTS | GARBAGE),
)
OPTIONS = st.dictionaries(st.sampled_from(list(RegimeOptions().content())) | st.text(max_size=4), GARBAGE)
fuzz = settings(max_examples=200, derandomize=True, deadline=None)


@fuzz
@given(POINTS | GARBAGE)
def test_any_point_is_valid_or_rejected(value):
    try:
        point = Point.parse(value)
    except InvalidInput:
        return
    assert point.d >= 1
    assert 0.0 < point.gamma < math.inf
    assert 0.0 <= point.noise < math.inf


@fuzz
@given(OPTIONS | GARBAGE)
def test_any_options_are_valid_or_rejected(value):
    with suppress(InvalidInput):
        assert isinstance(RegimeOptions.parse(value), RegimeOptions)


@fuzz
@given(st.lists(NUMBERS, max_size=4) | GARBAGE)
def test_any_times_are_valid_or_rejected(value):
    try:
        times = read_times(value)
    except InvalidInput:
        return
    assert times.ndim == 1
    assert len(times) > 0
    assert times[0] >= 0
    assert np.all(np.diff(times) > 0)
    assert np.all(np.isfinite(times))
