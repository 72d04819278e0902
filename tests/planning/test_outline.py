"""The outline of a spec: counts from lengths equal those of the grid, and all errors are found at once."""

import time as clock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep_service.errors import MAX_REPORTED_ERRORS, InvalidInput, InvalidSpec, LimitExceeded
from sweep_service.execution.submission import Submission
from sweep_service.planning.estimate import Limits
from sweep_service.planning.grids import Grid
from sweep_service.planning.outline import Outline
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import RunNumbers
from sweep_service.planning.schema import Schema
from sweep_service.planning.spec import SweepSpec
from tests.planning.base_spec import BASE, with_axes

INTEGERS = st.integers(6, 40)
NUMBERS = st.floats(0.01, 2.0)


def values(numbers, size=3):
    """Return values of an axis in one of its forms; ranges of integers have duplicates."""
    lists = st.lists(numbers, min_size=1, max_size=size, unique=True)
    ranges = st.builds(
        lambda scale, first, last, count: {scale: [first, last, count]},
        st.sampled_from(["lin", "log"]), numbers, numbers, st.integers(1, 9),
    )  # fmt: skip
    return numbers | lists | ranges


PRODUCT = st.fixed_dictionaries(
    {"d": values(INTEGERS), "p": values(st.integers(1, 9)), "gamma": values(NUMBERS)},
    optional={
        "noise": values(st.floats(0.01, 1.0)),
        "k": values(st.integers(1, 3)),
        "activation": st.sampled_from(["erf", ["erf", "relu"]]),
        "regime": st.sampled_from(["classical", ["auto", "mean_field"]]),
    },
)


@st.composite
def zips(draw):
    length, axes = draw(st.integers(1, 4)), draw(PRODUCT)
    for name, numbers in (("d", INTEGERS), ("gamma", NUMBERS)):
        axes[name] = draw(st.lists(numbers, min_size=length, max_size=length))
    return {"axes": axes, "zip": [["d", "gamma"]]}


SCALINGS = st.builds(
    lambda axes, multiple, k: {
        "axes": axes, "scaling": {"p0": 3.0, "gamma0": 2.0, "p_multiple_of": multiple}, "fixed": {"k": k},
    },
    st.fixed_dictionaries(
        {"d": values(INTEGERS), "kappa": values(st.floats(0.01, 0.9)), "delta": values(st.floats(0.01, 0.9))},
        optional={"noise": values(st.floats(0.01, 1.0))},
    ),
    st.sampled_from(["k", 1, 4]), st.integers(1, 4),
)  # fmt: skip
TRIANGLES = st.builds(
    lambda delta_t, resolution, multiple, ks, noise: {
        "triangle": {"delta_t": delta_t, "resolution": resolution, "p_multiple_of": multiple},
        "axes": {"k": ks, **noise}, "fixed": {},
    },
    st.floats(3e-5, 1e-3),  # so that p = gamma_max/(delta_t d_min) is at most 20,000
    st.integers(1, 12), st.sampled_from(["k", 1, 3]),
    st.integers(1, 3) | st.lists(st.integers(1, 3), min_size=1, max_size=3, unique=True),
    st.fixed_dictionaries({}, optional={"noise": values(st.floats(0.01, 1.0))}),
)  # fmt: skip
POINTS = st.builds(
    lambda points: {"points": points, "axes": {}},
    st.lists(
        st.fixed_dictionaries({"d": INTEGERS, "p": st.integers(1, 9), "gamma": NUMBERS, "noise": NUMBERS}),
        min_size=1, max_size=5,
    ),
)  # fmt: skip
COMMON = st.fixed_dictionaries(
    {"time": st.builds(lambda samples, tail: {"max": 1.0, "samples": samples, "tail": tail},
                       st.integers(1, 9), st.integers(0, 5))},
    optional={
        "seeds": st.integers(1, 3) | st.just({"init": [3, 5], "repeat": 4}),
        "observables": st.sampled_from([["risk"], ["overlaps"], ["cosine", "cosine_histogram"]]),
    },
)  # fmt: skip


def fixed_without_axes(change):
    """Fix k where no axis gives it."""
    fixed = {} if "k" in change["axes"] else {"k": 2}
    return {**BASE, "fixed": fixed, **change}


SPECS = st.builds(
    lambda design, common: fixed_without_axes({**design, **common}),
    PRODUCT.map(lambda axes: {"axes": axes}) | zips() | SCALINGS | TRIANGLES | POINTS, COMMON,
)  # fmt: skip


@settings(max_examples=200, derandomize=True, deadline=None)
@given(SPECS)
def test_counts_from_lengths_equal_those_of_the_grid(content):
    outline = Outline.read(content)
    grid = Grid.expand(outline, validate=False)
    plan = SweepPlan(grid)
    assert len(outline) == len(grid)
    assert outline.dims == grid.dims
    assert outline.shape == grid.shape
    assert RunNumbers(outline).total == plan.runs.total
    assert Schema(outline).bytes == plan.schema.bytes


LONG = {"lin": [5, 1004, 1000]}
LARGE = {
    "product": {"axes": {"d": LONG, "p": 4, "gamma": {"log": [0.01, 1.0, 400]}}},
    "zip": {"axes": {"d": LONG, "gamma": {"log": [0.01, 1.0, 1000]}, "p": list(range(1, 401))},
            "zip": [["d", "gamma"]]},
    "scaling": {"axes": {"d": LONG, "kappa": {"lin": [0.1, 0.2, 20]}, "delta": {"lin": [0.1, 0.2, 20]}},
                "scaling": {"p0": 2, "gamma0": 1}},
    "triangle": {"axes": {"noise": {"lin": [0.1, 1.0, 5]}},
                 "triangle": {"delta_t": 1e-9, "resolution": 400}},
}  # fmt: skip


@pytest.mark.parametrize("factor", [1, 1000])
@pytest.mark.parametrize("design", LARGE)
def test_hundreds_of_thousands_of_points_are_refused_at_once(design, factor):
    change = LARGE[design]
    axes = {**change["axes"], "activation": "erf"} | ({"k": {"lin": [1, 1000, 1000]}} if factor > 1 else {})
    spec = SweepSpec.parse({**BASE, **change, "axes": axes, "fixed": {} if factor > 1 else {"k": 2}})
    seconds = []
    for _ in range(5):
        begin = clock.process_time()
        with pytest.raises(LimitExceeded, match="points"):
            Submission(spec, Limits(points=200_000))
        seconds.append(clock.process_time() - begin)
    assert min(seconds) < 0.05  # expanding them takes half a minute; the best of five on a busy machine


# ---- errors


def errors_of(source):
    with pytest.raises(InvalidInput) as info:
        Outline.read(source)
    return {error.field: error for error in info.value.errors}


YAML = """\
name: many errors
axes:
  d: [5, null]
  gamma: [0.1, [0.2, 0.3]]
  eta: 0.1
fixed: {k: [2, 4]}
time: 5
seedz: 3
observables: [risk, cosin]
"""


def test_all_errors_are_found_at_once_with_lines_and_columns():
    errors = errors_of(YAML)
    places = {field: tuple(error.position) for field, error in errors.items()}
    assert places == {
        "spec (key)": (8, 1),
        "axes.d[1]": (3, 10),
        "axes.gamma[1]": (4, 16),
        "axes (key)": (5, 3),
        "fixed.k": (6, 12),
        "time": (7, 7),
        "axes.p": (2, 1),  # it is missing, so the section is named
        "observables[1]": (9, 21),
    }
    assert "whole number >= 1" in errors["axes.d[1]"].allowed
    assert "use axes" in errors["fixed.k"].allowed
    assert "{max: 100}" in errors["time"].allowed
    assert str(errors["fixed.k"]).startswith("line 6, column 12: fixed.k = ")


def test_errors_of_a_mapping_have_no_position():
    errors = errors_of({**BASE, **with_axes(d=None, gamma=-1)})
    assert [error.position for error in errors.values()] == [None, None]


def test_error_that_follows_from_another_is_not_reported():
    assert set(errors_of({**BASE, **with_axes(d=[5, None]), "zip": [["d", "gamma"]]})) == {"axes.d[1]"}
    assert set(errors_of({**BASE, "axes": 5, "time": 5})) == {"axes", "time"}


@pytest.mark.parametrize(
    ("text", "position"),
    [("axes: {d: 5\n", (2, 1)), ("a: 1\nb: 2\na: 3\n", (3, 1)), ("a: &x 1\nb: *x\n", (2, 4))],
)
def test_syntax_error_has_a_position(text, position):
    assert tuple(errors_of(text)["spec"].position) == position


def test_number_of_errors_is_bounded():
    with pytest.raises(InvalidSpec) as info:
        Outline.read({**BASE, **with_axes(gamma=[-1.0] * 100_000)})
    assert len(info.value.errors) == MAX_REPORTED_ERRORS
    assert info.value.is_truncated
    assert str(info.value).splitlines()[-1] == "only the first 20 errors are listed"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        *((name, "'gamma'") for name in ("learning_rate", "eta", "lr", "LR", "step_size")),
        *((name, "'p'") for name in ("width", "hidden", "n_hidden", "P")),
        *((name, "'d'") for name in ("dim", "dimension", "n", "N", "D")),
        *((name, "'k'") for name in ("teacher_width", "K")),
        *((name, "'noise', the variance of the label noise: the square") for name in ("sigma", "std")),
        *((name, "'time: {max: t}'") for name in ("steps", "epochs")),
        ("seed", "'seeds'"),
        ("gama", "'gamma'"),
    ],
)
def test_names_that_people_use_get_a_hint(name, hint):
    for field, source in {
        "axes (key)": {**BASE, **with_axes(**{name: 1})},
        "fixed (key)": {**BASE, "fixed": {"k": 2, name: 1}},
        "spec (key)": {**BASE, name: 1},
    }.items():
        if field == "spec (key)" and name == "gama":
            continue  # close to no key of a spec
        assert f"did you mean {hint}" in errors_of(source)[field].allowed, field
