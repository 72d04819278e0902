"""Sweep specs: the written contract, and every way to get it wrong, each with its own error."""

import json
import math
import time
import tracemalloc
from contextlib import contextmanager, suppress
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput
from sweep_service.model.initial import INITS
from sweep_service.model.observables import OBSERVABLES
from sweep_service.model.parameters import names
from sweep_service.planning import designs
from sweep_service.planning.grids import EXPONENTS, Grid
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import LARGEST_SPEC, MOST_VALUES, Scaling, Spaced, SweepSpec, Time, Triangle

BASE = {
    "axes": {"d": [5, 20], "p": 4, "gamma": 0.1},
    "fixed": {"k": 2},
    "time": {"max": 10.0, "samples": 5},
}
CORE = {"d": 6, "p": 4, "gamma": 0.1}
EXAMPLE = """
name: dimension independence
axes:                                # the grid
  d: [5, 20, 100]
  p: 10
  gamma: {log: [0.01, 1.0, 5]}
  regime: [classical, high_dimensional]
fixed: {k: 5, noise: 1.0e-3, activation: erf}
init: {kind: informed, shared: true}
simulate: true
seeds: 8
time: {max: 1.0e3, min: 1.0e-2, samples: 120, tail: 0}
observables: [risk, cosine]
regime_options: {finite_d_factor: false, self_terms: true}
"""
EXAMPLE_DATA = {
    "name": "dimension independence",
    "axes": {
        "d": [5, 20, 100],
        "p": 10,
        "gamma": {"log": [0.01, 1.0, 5]},
        "regime": ["classical", "high_dimensional"],
    },
    "fixed": {"k": 5, "noise": 1e-3, "activation": "erf"},
    "init": {"kind": "informed", "shared": True},
    "simulate": True,
    "seeds": 8,
    "time": {"max": 1000.0, "min": 0.01, "samples": 120, "tail": 0},
    "observables": ["risk", "cosine"],
    "regime_options": {"finite_d_factor": False, "self_terms": True},
}


def grid(**change):
    """The grid of the base spec with these fields instead."""
    return Grid.of(SweepSpec.parse({**BASE, **change}))


def axes(**some):
    return {"axes": {**BASE["axes"], **some}}


# What a spec says


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize("form", ["yaml", "json"])
def test_the_example_of_the_contract_is_read(form, as_bytes):
    text = EXAMPLE if form == "yaml" else json.dumps(EXAMPLE_DATA)
    spec = SweepSpec.read(text.encode() if as_bytes else text)
    found = Grid.of(spec)
    assert spec.name == "dimension independence"
    assert found.is_product
    assert dict(found.axes) == {"d": [5, 20, 100], "p": [10], "gamma": np.geomspace(0.01, 1.0, 5).tolist()}
    assert found.fixed == {"k": 5, "noise": 1e-3, "activation": "erf", "teacher_activation": "erf"}
    assert found.init == {"kind": "informed", "shared": True}
    assert found.regimes == ("classical", "high_dimensional")
    assert found.simulate
    assert found.seeds == tuple(range(8))
    assert found.repeats == (0,)
    assert found.observables == ("risk", "cosine")
    assert not found.overlaps
    assert found.options == RegimeOptions()
    np.testing.assert_array_equal(found.times, [0.0, *np.geomspace(1e-2, 1e3, 120)])
    assert len(found) == 15


def test_a_spec_with_nothing_but_what_is_required_has_the_written_defaults():
    spec = SweepSpec.parse({"axes": CORE, "fixed": {"k": 2}, "time": {"max": 10.0}})
    found = Grid.of(spec)
    assert spec.name == ""
    assert found.simulate
    assert found.regimes == ()
    assert (found.seeds, found.repeats) == ((0,), (0,))
    assert found.init == {"kind": "gaussian"}
    assert found.fixed == {"k": 2, "noise": 0.0, "activation": "erf", "teacher_activation": "erf"}
    assert found.observables == tuple(name for name, one in OBSERVABLES.items() if one.default)
    assert found.options == RegimeOptions()
    assert len(found.times) == 121
    assert found.times[1] == pytest.approx(10.0 * 1e-5, rel=1e-12)  # one product's rounding


@pytest.mark.parametrize(("p", "kept"), [(10, True), (30, False)])  # 75 and 525 numbers with k = 2, of 256
def test_overlaps_are_kept_unasked_where_they_are_few(p, kept):
    assert grid(axes={"d": 40, "p": p, "gamma": 0.1}).overlaps is kept
    assert grid(axes={"d": 40, "p": p, "gamma": 0.1}, observables=["overlaps"]).overlaps
    assert not grid(axes={"d": 40, "p": p, "gamma": 0.1}, observables=["risk"]).overlaps


@pytest.mark.parametrize("name", OBSERVABLES)
def test_each_observable_can_be_asked_for_and_the_risk_is_always_there(name):
    assert set(grid(observables=[name]).observables) == {"risk", name}


def test_no_observables_leave_the_risk():
    assert grid(observables=[]).observables == ("risk",)


@pytest.mark.parametrize("name", ["auto", *REGIMES])
@pytest.mark.parametrize("written", ["scalar", "list", "fixed"])
def test_each_regime_can_be_asked_for(name, written):
    change = {"scalar": axes(regime=name), "list": axes(regime=[name]), "fixed": {"fixed": {"k": 2}}}[written]
    if written == "fixed":
        change["fixed"]["regime"] = name
    assert grid(**change).regimes == (name,)


@pytest.mark.parametrize(
    ("written", "seeds", "repeats"),
    [
        (3, (0, 1, 2), (0,)),
        (3.0, (0, 1, 2), (0,)),
        ([4, 2], (4, 2), (0,)),
        ({"init": 2, "repeat": 3}, (0, 1), (0, 1, 2)),
        ({"init": [7], "repeat": [5, 1]}, (7,), (5, 1)),
        ({"repeat": 2}, (0,), (0, 1)),
        ({}, (0,), (0,)),
    ],
)
def test_seeds_are_a_number_a_list_or_both_kinds(written, seeds, repeats):
    found = grid(seeds=written)
    assert (found.seeds, found.repeats) == (seeds, repeats)


@pytest.mark.parametrize("samples", [1, 2, 7, 120])
@pytest.mark.parametrize("least", [None, 0.01, 10.0])
def test_times_are_zero_and_log_spaced_samples(samples, least):
    times = grid(time={"max": 10.0, "min": least, "samples": samples}).times
    first = 1e-4 if least is None else least
    spaced = np.geomspace(first, 10.0, samples) if samples > 1 else [10.0]
    np.testing.assert_array_equal(times, np.unique([0.0, *spaced]))
    assert times[-1] == 10.0


def test_the_tail_lies_evenly_in_the_last_half():
    plain, tailed = (grid(time={"max": 8.0, "samples": 5, "tail": n}).times for n in (0, 5))
    assert set(np.setdiff1d(tailed, plain)) == {4.0, 5.0, 6.0, 7.0}  # the last sample is there already
    assert set(plain) <= set(tailed)


@given(st.floats(1e-12, 1e15), st.floats(1e-12, 1), st.integers(1, 200), st.integers(0, 50))
@settings(deadline=None, derandomize=True)
def test_times_begin_with_zero_increase_and_end_with_the_last(most, share, samples, tail):
    times = Time(max=most, min=most * share, samples=samples, tail=tail).times()
    assert times[0] == 0.0
    assert times[-1] == most
    assert np.all(np.diff(times) > 0)
    assert len(times) <= 1 + samples + tail


@pytest.mark.parametrize("text", ["1e-3", "1E-3", "1.e-3", "1.0e-3", "0.001", "+1e-3"])
def test_yaml_numbers_may_be_written_as_anywhere_else(text):
    spec = SweepSpec.read(f"{{axes: {{d: 6, p: 4, gamma: {text}}}, fixed: {{k: 2}}, time: {{max: 1e3}}}}")
    assert spec.axes["gamma"] == 1e-3
    assert spec.time.max == 1e3


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_byte_order_mark_is_no_matter(mark):
    assert SweepSpec.read((mark + json.dumps(BASE)).encode()) == SweepSpec.parse(BASE)


def test_a_spec_is_loaded_from_a_file(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(EXAMPLE)
    assert SweepSpec.load(path) == SweepSpec.load(str(path)) == SweepSpec.read(EXAMPLE)


@pytest.mark.parametrize("name", ["missing.yaml", ".", "a\0b"])
def test_a_file_that_cannot_be_read_is_bad_input(tmp_path, name):
    with pytest.raises(InvalidInput, match="cannot be read"):
        SweepSpec.load(f"{tmp_path}/{name}")


def test_arrays_and_numpy_scalars_are_values_like_others():
    found = grid(axes={"d": np.array([5, 20]), "p": np.int64(4), "gamma": np.float64(0.1)})
    assert found.key == grid().key


def test_a_spec_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        SweepSpec.parse(BASE).simulate = False


def test_the_schema_names_every_field():
    schema = SweepSpec.model_json_schema()
    assert set(schema["properties"]) == set(SweepSpec.model_fields)
    assert schema["required"] == ["time"]


def test_the_schema_admits_a_log_axis_as_it_is_written():
    text = json.dumps(SweepSpec.model_json_schema())
    assert '"log"' in text
    assert '"start"' not in text  # of `Spaced`, which nobody may write


def test_a_log_axis_is_dumped_as_it_was_written():
    spec = SweepSpec.parse({**BASE, **axes(gamma={"log": [0.1, 1, 5]}, noise={"lin": [0, 1, 3]})})
    dumped = json.loads(spec.model_dump_json())["axes"]
    assert dumped["gamma"] == {"log": [0.1, 1.0, 5]}
    assert dumped["noise"] == {"lin": [0.0, 1.0, 3]}
    assert isinstance(spec.axes["gamma"], Spaced)


def test_arrays_in_a_start_survive_json():
    one = np.array([[0.5]])
    start = {"kind": "overlaps", "M": one, "Q": np.array([[1.0]]), "P": np.array([[1.0]])}
    spec = SweepSpec.parse({**BASE, "axes": {"d": 6, "p": 1, "gamma": 0.1}, "fixed": {"k": 1}, "init": start})
    again = SweepSpec.read(spec.model_dump_json())
    assert Grid.of(again).key == Grid.of(spec).key


# Bad input


def bad(field, allowed, **change):
    return pytest.param(change, field, allowed, id=f"{field}: {allowed} {change!r}"[:90])


SCALING = {"scaling": {"p0": 8, "gamma0": 8}}
TRIANGLE = {"axes": {}, "triangle": {"delta_t": 1e-3, "resolution": 3}}
KAPPA = {"axes": {"d": [5, 20], "kappa": 0.5, "delta": 0.0}}
NOT_NUMBERS = (True, False, "1", None, {}, math.nan, math.inf, -math.inf, 10**400)
POINTS = [{"d": 5, "p": 4, "gamma": 0.1}, {"d": 6, "p": 4, "gamma": 0.2}]


def part(name, **change):
    """A design with one of its fields changed."""
    design = {"scaling": {**SCALING, **KAPPA}, "triangle": TRIANGLE}[name]
    return {**design, name: {**design[name], **change}}


BAD = [
    # a typing error at every level, with the nearest name
    *(
        bad("spec (key)", f"did you mean '{name}'", **{name + "x": BASE.get(name, {})})
        for name in SweepSpec.model_fields
    ),
    *(bad("time (key)", f"'{n}'", time={"max": 1.0, n + "s": 1}) for n in ("max", "min", "tail")),
    *(
        bad(f"{name} (key)", f"did you mean '{key}'", **part(name, **{key + "x": 1}))
        for name, model in {"scaling": Scaling, "triangle": Triangle}.items()
        for key in model.model_fields
    ),
    *(bad("axes (key)", f"'{name}'", **axes(**{name + "x": 1})) for name in ("gamma", "noise", "regime")),
    *(bad("fixed (key)", f"'{name}'", fixed={"k": 2, name + "x": 1}) for name in ("gamma", "noise")),
    bad("axes (key)", "'init.scale'", **axes(**{"init.scales": 1})),
    bad("axes (key)", "must be one of", **axes(**{"init.epsilon": 0.1})),  # of another kind of start
    bad("axes.gamma (key)", "'log'", **axes(gamma={"logg": [1, 2, 3]})),
    bad("seeds (key)", "'repeat'", seeds={"repeats": 3}),
    bad("init (key)", "'scale'", init={"kind": "gaussian", "scales": 1}),
    bad("init.shared (key)", "d0", init={"kind": "gaussian", "shared": {"d": 3}}),
    bad("regime_options (key)", "'self_terms'", regime_options={"self_term": True}),
    bad("points (key)", "'gamma'", axes={}, points=[{"d": 5, "p": 4, "gama": 0.1}]),
    # names of things that do not exist
    bad("axes.regime", "'classical'", **axes(regime="clasical")),
    bad("axes.regime", "'mean_field'", **axes(regime=["classical", "mean_fields"])),
    bad("axes.regime", "must be", fixed={"k": 2, "regime": 3}),
    bad("axes.regime", "must be a name", **axes(regime=[1])),
    bad("observables", "'cosine'", observables=["risk", "cosin"]),
    bad("regime_options.qmc_points", "power of two", regime_options={"qmc_points": 100}),
    bad("regime_options.self_terms", "true or false", regime_options={"self_terms": 1}),
    bad("init.kind", "'gaussian'", init={"kind": "gausian"}),
    bad("init.kind", "must be one of", init={}),
    bad("activation", "'relu'", fixed={"k": 2, "activation": "rellu"}),
    bad("fixed.activation", "must be a name", fixed={"k": 2, "activation": 1}),
    bad("axes.activation", "list of names", **axes(activation={"log": [1, 2, 3]})),
    # values out of their range, at the point where they are
    bad("gamma", "> 0", **axes(gamma=[0.1, -0.1])),
    bad("gamma", "(at d = 5, p = 4, gamma = -0.1)", **axes(gamma=[0.1, -0.1])),
    bad("gamma", "> 0", **axes(gamma=0)),
    bad("gamma", "> 0", **axes(gamma={"lin": [-1, 1, 3]})),
    bad("noise", ">= 0", fixed={"k": 2, "noise": -1e-9}),
    *(bad(f"axes.{name}", ">= 1", **axes(**{name: value})) for name in "dp" for value in (0, -3, [4, 0])),
    bad("fixed.k", ">= 1", fixed={"k": 0}),
    *(bad("axes.d", "whole number", **axes(d=value)) for value in (5.5, [5.5], "5")),
    bad("axes.d", ">= 1", **axes(d={"lin": [0, 4, 5]})),
    bad("d", "k = 6", fixed={"k": 6}, init={"kind": "informed"}),
    bad("d", "(at d = 5, p = 4, gamma = 0.1)", fixed={"k": 6}, init={"kind": "informed"}),
    bad("p", "<= 20000", **axes(p=20_001)),
    bad("init.scale", "(at d = 5", **axes(**{"init.scale": [1.0, -1.0]})),
    bad("init.shared", "{d0: N}", init={"kind": "gaussian", "shared": True}),
    bad("init.M", "shape (4, 2)", init={"kind": "overlaps", "M": [[1.0]], "Q": [[1.0]], "P": [[1.0]]}),
    # not numbers at all
    *(bad("axes.gamma", "finite number", **axes(gamma=x)) for x in NOT_NUMBERS if x != {}),
    *(bad("axes.gamma", "finite number", **axes(gamma=[0.1, x])) for x in NOT_NUMBERS),
    *(bad("axes.gamma.log", "finite number", **axes(gamma={"log": [0.1, x, 3]})) for x in NOT_NUMBERS),
    *(bad("fixed.noise", "finite number", fixed={"k": 2, "noise": x}) for x in NOT_NUMBERS),
    *(bad("time.max", "must be", time={"max": x}) for x in NOT_NUMBERS),
    *(bad("time.samples", "must be", time={"max": 1.0, "samples": x}) for x in (*NOT_NUMBERS, 1.5)),
    *(bad("init.scale", "finite number", init={"kind": "gaussian", "scale": x}) for x in NOT_NUMBERS),
    *(bad("triangle.delta_t", "must be", **part("triangle", delta_t=x)) for x in NOT_NUMBERS),
    *(bad("scaling.p0", "must be", **part("scaling", p0=x)) for x in NOT_NUMBERS),
    *(bad("points[1].d", "number", axes={}, points=[POINTS[0], {**POINTS[1], "d": x}]) for x in NOT_NUMBERS),
    # axes
    *(bad("axes.gamma", f"1 to {MOST_VALUES}", **axes(gamma=values)) for values in ([], [1] * 10**6)),
    bad("axes.gamma", "{lin: [a, b, n]} or {log: [a, b, n]}", **axes(gamma={})),
    bad("axes.gamma", "must be", **axes(gamma={"lin": [0, 1, 2], "log": [1, 2, 3]})),
    *(bad("axes.gamma.log", "[first, last, how many]", **axes(gamma={"log": x})) for x in (1, [1, 2], "abc")),
    *(bad("axes.gamma.log", "> 0", **axes(gamma={"log": [x, 1, 3]})) for x in (0, -1)),
    *(bad("axes.gamma.lin", "whole number", **axes(gamma={"lin": [1, 2, n]})) for n in (0, -1, 1.5, 10**9)),
    *(bad(f"axes.{n}", "must not repeat", **axes(**{n: x})) for n, x in {"d": [5, 5.0], "p": [4, 4]}.items()),
    bad("axes.gamma", "must not repeat", **axes(gamma=[1, 0.5, 1.0])),
    bad("axes.regime", "must not repeat", **axes(regime=["classical", "classical"])),
    bad("fixed.gamma", "is an axis already", fixed={"k": 2, "gamma": 1.0}),
    bad("fixed.regime", "is an axis already", **axes(regime="auto"), fixed={"k": 2, "regime": "auto"}),
    *(bad(f"axes.{name}", "is required", axes={n: 5 for n in CORE if n != name}) for name in CORE),
    bad("axes.k", "is required", fixed={}),
    bad("axes", "must be a mapping", axes=[1, 2]),
    bad("fixed", "must be a mapping", fixed=None),
    bad("fixed.k", "finite number", fixed={"k": [1, 2]}),
    # what is computed, and when
    bad("simulate", "leaves nothing to compute", simulate=False),
    *(bad("simulate", "boolean", simulate=value) for value in (0, "yes", None)),
    *(bad("seeds.init", "whole number >= 1", seeds=value) for value in (0, -1, 1.5, True, "3", None)),
    *(bad("seeds.init", "must", seeds=value) for value in ([], [0, 0], [-1], [0.5], ["0"])),
    *(bad("seeds.repeat", "must", seeds={"repeat": value}) for value in (0, [], [1, 1], MOST_VALUES + 1)),
    bad("time", "is required", time=...),
    bad("time.max", "is required", time={}),
    *(bad("time.max", "greater than 0", time={"max": value}) for value in (0.0, -1.0)),
    bad("time.max", "less than or equal", time={"max": 1e16}),
    bad("time.min", "<= time.max = 1", time={"max": 1.0, "min": 2.0}),
    bad("time.min", "greater than 0", time={"max": 1.0, "min": 0.0}),
    bad("time.samples", "greater than or equal to 1", time={"max": 1.0, "samples": 0}),
    bad("time.tail", "greater than or equal to 0", time={"max": 1.0, "tail": -1}),
    *(bad("time", "must be", time=value) for value in (None, 10.0, [0, 1])),
    bad("name", "at most 200 characters", name="x" * 10**6),
    bad("name", "string", name=3),
    bad("observables", "must be a valid list", observables="risk"),
    bad("observables.0", "must be a valid string", observables=[1]),
    bad("init", "must be", init="gaussian"),
    # designs
    *(
        bad(second, f"or {first}, not both", **{**KAPPA, first: one, second: other})
        for (first, one), (second, other) in [
            (("zip", [["d"]]), ("scaling", SCALING["scaling"])),
            (("scaling", SCALING["scaling"]), ("triangle", TRIANGLE["triangle"])),
            (("triangle", TRIANGLE["triangle"]), ("points", POINTS)),
            (("zip", [["d"]]), ("points", POINTS)),
        ]
    ),
    *(bad(f"axes.{name}", "needs scaling", **axes(**{name: [0.5]})) for name in EXPONENTS),
    bad("axes.kappa", "needs scaling", fixed={"k": 2, "kappa": 0.5}),
    bad("zip", "'gamma'", zip=[["d", "gama"]], **axes(gamma=[0.1, 0.2])),
    bad("zip", "equal lengths", zip=[["d", "gamma"]], **axes(gamma=[0.1, 0.2, 0.3])),
    bad("zip", "must", zip=[["d", "d"]]),
    bad("zip", "must", zip=[["d"], ["d"]]),
    bad("zip", "must", zip=[[]]),
    bad("zip.0", "must be a valid list", zip=["d"]),
    *(bad(f"axes.{n}", "follows from scaling", **SCALING, axes={**KAPPA["axes"], n: [4]}) for n in "p"),
    bad("fixed.gamma", "follows from scaling", **SCALING, **KAPPA, fixed={"k": 2, "gamma": 1.0}),
    *(
        bad(f"axes.{name}", "is required", **SCALING, axes={n: 1 for n in KAPPA["axes"] if n != name})
        for name in KAPPA["axes"]
    ),
    bad("axes.k", "is required", **SCALING, **KAPPA, fixed={}),
    bad("axes.kappa", "out of all bounds", **SCALING, axes={**KAPPA["axes"], "kappa": 30}),
    bad("axes.delta", "out of all bounds", **SCALING, axes={**KAPPA["axes"], "delta": -30}),
    bad("scaling.p0", "greater than 0", **part("scaling", p0=0)),
    bad("scaling.p0", "is required", **KAPPA, scaling={"gamma0": 1}),
    *(bad(f"axes.{n}", "follows from the triangle", **{**TRIANGLE, "axes": {n: [5]}}) for n in CORE),
    *(bad(f"fixed.{n}", "follows from the triangle", **TRIANGLE, fixed={"k": 2, n: 5}) for n in CORE),
    bad("axes.k", "is required", **TRIANGLE, fixed={}),
    bad("triangle.delta_t", "must be <", **part("triangle", delta_t=0.9)),
    bad("triangle.delta_t", "less than 1", **part("triangle", delta_t=1.0)),
    bad("triangle.resolution", "greater than or equal to 1", **part("triangle", resolution=0)),
    bad("triangle.gamma_max", "greater than 0", **part("triangle", gamma_max=0.0)),
    bad("points[1]", "same values as the first", axes={}, points=[POINTS[0], {"d": 5, "p": 4, "noise": 1}]),
    bad("points[1]", "same values as the first", axes={}, points=[POINTS[0], {**POINTS[1], "noise": 1}]),
    bad("points[0]", "must be a mapping", axes={}, points=[3]),
    bad("points", "must be a list of 1", axes={}, points=[]),
    bad("axes.d", "or points, not both", points=POINTS),
    bad("points[1].p", ">= 1", axes={}, points=[POINTS[0], {**POINTS[1], "p": 0}]),
    bad("gamma", "> 0", axes={}, points=[POINTS[0], {**POINTS[1], "gamma": -1}]),
]


@pytest.mark.parametrize(("change", "field", "allowed"), BAD)
def test_bad_input_names_the_field_and_what_is_allowed(change, field, allowed):
    written = {name: value for name, value in {**BASE, **change}.items() if value is not ...}
    with pytest.raises(InvalidInput) as info:
        Grid.of(SweepSpec.parse(written))
    assert (info.value.field, allowed in info.value.allowed) == (field, True), str(info.value)
    assert len(str(info.value)) < 400


@pytest.mark.parametrize(
    "change",
    [
        {**part("triangle"), "axes": {"k": {"lin": [0, 2, 3]}}, "fixed": {}},
        {**part("triangle"), "axes": {"k": {"lin": [-1, 2, 4]}}, "fixed": {}},
        {**part("scaling"), "axes": {**KAPPA["axes"], "k": {"lin": [0, 1, 2]}}, "fixed": {}},
        {**part("scaling"), "axes": {**KAPPA["axes"], "d": {"lin": [-1, 2, 4]}}},
        {**part("scaling"), "axes": {"d": {"lin": [0, 2, 3]}, "kappa": -0.5, "delta": 0}},
        {**part("scaling"), "axes": {**KAPPA["axes"], "kappa": 4000}},
        {**part("scaling"), "axes": {**KAPPA["axes"], "delta": -4000}},
        *(part("triangle", **{name: 10**400}) for name in ("d_min", "p_min", "p_multiple_of")),
        part("scaling", p_multiple_of=10**400),
        axes(gamma={"lin": [-1e308, 1e308, 5]}),
        axes(d={"lin": [-1e308, 1e308, 5]}),
        {"time": {"max": 1e-320}},
        {"init": {"kind": 10**5000}},
        axes(d=np.array(5.5)),
    ],
    ids=lambda change: repr(change)[:80] if "init" not in change else "kind with 5000 digits",
)
def test_numbers_at_the_edge_are_bad_input_and_no_other_error(change):
    with pytest.raises(InvalidInput):
        grid(**change)


@pytest.mark.parametrize(
    "change",
    [
        {"points": [{"d": 5, "p": 4, "gamma": 0.1}], "axes": {}, "fixed": {"k": 2, "d": 7}},
        {"points": [{"d": 5, "p": 4, "gamma": 0.1}], "axes": {"d": 7}},
        {"init": {"kind": "gaussian", "scale": 3.0}, "fixed": {"k": 2, "init.scale": 2.0}},
        {"init": {"kind": "gaussian", "scale": 3.0}, **axes(**{"init.scale": [1.0, 2.0]})},
    ],
    ids=["points and fixed", "points and a scalar axis", "init and fixed", "init and an axis"],
)
def test_a_value_given_twice_is_refused(change):
    with pytest.raises(InvalidInput):
        grid(**change)


@pytest.mark.parametrize("change", [{"zip": []}, {"points": [{}]}, {"points": [{}, {}]}])
def test_a_design_without_columns_is_refused_or_has_a_layout(change):
    with suppress(InvalidInput):
        SweepPlan(grid(axes={}, fixed={**CORE, "k": 2}, **change))


@pytest.mark.parametrize("name", ["<script>", "%2e%2e", "..", "☃"])
def test_a_name_is_only_a_label(name):
    assert grid(name=name).key == grid().key


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "C:\\x", "a\nb", "a\x00b"])
def test_a_name_is_a_title_and_no_path(name):
    with pytest.raises(InvalidInput) as info:
        grid(name=name)
    assert info.value.field == "name"


LONG = "x" * 10**6


@pytest.mark.parametrize(
    "change",
    [
        {LONG: 1},
        {"axes": {LONG: 1.0}},
        {"axes": {LONG: True}},
        {"fixed": {LONG: True}},
        {"time": {"max": 1.0, LONG: 1}},
        {"points": [{LONG: True}], "axes": {}},
        {"zip": [[LONG]]},
        {"observables": [LONG]},
        {"init": {"kind": LONG}},
        {"init": {"kind": "gaussian", LONG: 1}},
        {"regime_options": {LONG: 1}},
    ],
    ids=lambda change: repr({k[:20]: type(v).__name__ for k, v in change.items()}),
)
def test_a_name_of_a_million_letters_gives_a_short_error(change):
    with pytest.raises(InvalidInput) as info:
        grid(**change)
    assert len(str(info.value)) < 400


# Sizes


@contextmanager
def little_memory(megabytes=60):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes << 20
    finally:
        tracemalloc.stop()


THOUSAND = {"d": list(range(5, 1005)), "p": list(range(1, 1001)), "gamma": {"log": [0.1, 1, 1000]}}
SPACED = {"lin": [0.0, 0.5, 1000]}


@pytest.mark.parametrize(
    "change",
    [
        {"axes": THOUSAND},
        {"axes": THOUSAND, "zip": [["d", "p"]], "fixed": {}, "name": "k"},
        {"axes": THOUSAND, "zip": [["d"]]},
        {**SCALING, "axes": {"d": THOUSAND["d"], "kappa": SPACED, "delta": SPACED}},
    ],
    ids=["product", "zip of two", "zip", "scaling"],
)
def test_too_many_points_are_refused_before_they_are_made(change):
    if change.get("name") == "k":  # a million pairs, times a thousand values of k
        change = {**change, "axes": {**THOUSAND, "k": {"lin": [1, 1000, 1000]}}}
    with little_memory(), pytest.raises(InvalidInput) as info:
        grid(**change)
    assert "at most" in info.value.allowed


def test_too_many_points_of_triangles_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr(designs, "MOST_ROWS", 10_000)  # a million takes a minute to make
    with little_memory(4), pytest.raises(InvalidInput) as info:
        grid(triangle={"delta_t": 1e-6, "resolution": 30}, axes={"noise": {"lin": [0, 1, 100]}})
    assert "at most" in info.value.allowed


@pytest.mark.parametrize("body", [b"x" * 10**8, "x" * 10**8, b"\xff" * 10**8], ids=["bytes", "text", "bad"])
def test_a_hundred_megabytes_are_refused_unread(body):
    begin = time.monotonic()
    with pytest.raises(InvalidInput, match=f"at most {LARGEST_SPEC} bytes"):
        SweepSpec.read(body)
    assert time.monotonic() - begin < 0.5  # reading them would take minutes


def test_a_file_of_a_hundred_megabytes_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "spec.json"
    with open(path, "wb") as file:
        file.truncate(10**8)
    with little_memory(10), pytest.raises(InvalidInput, match="at most"):
        SweepSpec.load(path)


YAML = "axes: {d: [5], p: 4, gamma: 0.1}\nfixed: {k: 2}\ntime: {max: 1.0}\n"


@pytest.mark.parametrize(
    "text",
    [f"{YAML}name: 1{':1' * 500_000}\n", f"{YAML}observables: {{{'a,' * 500_000}}}\n"],
    ids=["digits in base sixty", "half a million keys"],
)
@pytest.mark.timeout(6)
def test_a_megabyte_of_yaml_is_answered_in_seconds(text):
    with suppress(InvalidInput):
        SweepSpec.read(text[: LARGEST_SPEC - 1])


@pytest.mark.parametrize("depth", [500, 900, 10**5])
@pytest.mark.parametrize(("opens", "closes"), ["[]", ('{"a":', "}"), ("{a: ", "}"), ("- ", "")])
def test_deep_nesting_is_bad_input(opens, closes, depth):
    with pytest.raises(InvalidInput):
        SweepSpec.read(opens * depth + "1" + closes * depth)


def nested(depth):
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("field", [*SweepSpec.model_fields, "axes.d", "axes.d.lin", "init.kind", "fixed.k"])
def test_deep_values_are_bad_input_in_every_field(field):
    value = nested(3000)
    for name in reversed(field.split(".")):
        value = {name: value}
    with pytest.raises(InvalidInput):
        grid(**value)


def test_a_yaml_bomb_is_refused():
    bomb = "a: &a [x, x]\n" + "".join(f"{n}: &{n} [*{m}, *{m}]\n" for m, n in pairwise("abcdefghi"))
    with pytest.raises(InvalidInput, match="aliases are not allowed"):
        SweepSpec.read(bomb)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        bytes(range(256)) * 10,
        json.dumps(BASE).encode("utf-16"),
        "null",
        "[]",
        "3",
        "a: b: c",
        "{",
        "--- {}\n--- {}",
        "\t- x",
        "NaN",
    ],
)
def test_what_is_no_mapping_is_refused(body):
    with pytest.raises(InvalidInput) as info:
        SweepSpec.read(body)
    assert info.value.field == "spec"


@pytest.mark.parametrize(
    "tagged",
    [
        '!!int ""',
        '!!int "-"',
        '!!float ""',
        "!!bool maybe",
        "!!timestamp soon",
        "!!binary '@'",
        "!!set {a}",
        "!!python/name:os.system x",
        "!!python/object/apply:os.getcwd []",
        "!unknown x",
        "2020-13-45",
        "2020-01-01",
        ".nan",
        ".inf",
        "-.inf",
        "1e999",
        "0x" + "f" * 5000,
        "yes",
        "~",
    ],
)
@pytest.mark.parametrize("place", ["gamma: 0.1", "max: 1.0", "fixed: {k: 2}"])
def test_yaml_values_that_are_no_numbers_are_refused(place, tagged):
    text = YAML.replace(place, f"{place.split(':')[0]}: {tagged}")
    with pytest.raises(InvalidInput):
        Grid.of(SweepSpec.read(text))


def test_a_kind_of_start_with_thousands_of_digits_is_refused_in_yaml():
    with pytest.raises(InvalidInput):
        Grid.of(SweepSpec.read(f"{YAML}init: {{kind: 0x{'f' * 5000}}}\n"))


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["gamma", "noise", "max"])
def test_json_constants_that_are_no_numbers_are_refused(constant, field):
    spec = {**BASE, "axes": {"d": 6, "p": 4, "gamma": 1.25}, "fixed": {"k": 2, "noise": 2.25}}
    text = json.dumps({**spec, "time": {"max": 3.25}})
    spoilt = text.replace({"gamma": "1.25", "noise": "2.25", "max": "3.25"}[field], constant)
    with pytest.raises(InvalidInput) as info:
        Grid.of(SweepSpec.read(spoilt))
    assert info.value.field.endswith(field)


@pytest.mark.parametrize("text", [f"{YAML}time: {{max: 2.0}}\n", '{"axes": {}, "axes": {"d": 6}}'])
def test_a_key_written_twice_is_refused(text):
    with pytest.raises(InvalidInput):
        SweepSpec.read(text)


# Extending


def test_an_extension_adds_values_and_seeds_and_keeps_the_rest():
    old = SweepSpec.parse({**BASE, "seeds": 2, "fixed": {"k": 2, "noise": 0.0}, "name": "old"})
    new = old.extended('{"axes": {"d": [40, 20.0], "noise": [0.1]}, "seeds": 4}')
    assert new.axes == {"d": [5, 20, 40], "p": 4, "gamma": 0.1, "noise": [0.0, 0.1]}
    assert new.fixed == {"k": 2}
    assert new.seeds.init == [0, 1, 2, 3]
    assert (new.time, new.init, new.name) == (old.time, old.init, "old")


@pytest.mark.parametrize(
    ("change", "field"),
    [("[]", "change"), ('{"time": {"max": 1}}', "change (key)"), ('{"axes": 3}', "axes"), ("{", "spec")],
)
def test_an_extension_of_anything_else_is_refused(change, field):
    with pytest.raises(InvalidInput) as info:
        SweepSpec.parse(BASE).extended(change)
    assert info.value.field == field


def test_an_extension_of_a_rounded_axis_keeps_its_rounded_values():
    old = SweepSpec.parse({**BASE, **axes(d={"log": [5, 1000, 4]})})
    new = Grid.of(old.extended('{"axes": {"d": [2000]}}'))
    assert new.axes["d"] == [*Grid.of(old).axes["d"], 2000]


def test_an_extension_of_repeats_adds_no_start():
    new = SweepSpec.parse({**BASE, "seeds": [5, 6]}).extended('{"seeds": {"repeat": 3}}')
    assert new.seeds.init == [5, 6]
    assert new.seeds.repeat == [0, 1, 2]


def test_an_extension_has_the_limit_of_a_spec():
    with pytest.raises(InvalidInput, match="at most"):
        SweepSpec.parse(BASE).extended(" " * LARGEST_SPEC + '{"seeds": 2}')


# Whatever arrives

HUGE = st.sampled_from([10**400, -(10**400), 1e308, -1e308, 5e-324, -0.0, 10**18])
NUMBERS = st.integers(-3, 12) | st.floats(-9, 9) | st.floats() | HUGE
GARBAGE = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
COUNTS = st.integers(-1, 6) | st.sampled_from([1.0, 1.5, True, "3", None, 10**400, 10**6])
AXIS_NAMES = st.sampled_from([*names(), *EXPONENTS, "regime", "init.scale", "init.epsilon"])
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
    "product": axes(regime=["classical", "auto"]),
    "zip": {"zip": [["d", "gamma"]], **axes(gamma=[0.1, 0.2])},
    "scaling": {**SCALING, **KAPPA},
    "triangle": TRIANGLE,
    "points": {"points": POINTS, "axes": {}},
}
LIKELY = {"product": "axes", "zip": "axes", "scaling": "axes", "triangle": "triangle", "points": "points"}


def axes_of(spec):
    """Other values for axes that this design has, or a new axis."""
    names = st.sampled_from([*spec["axes"], "k", "noise"]) | NAMES
    return st.dictionaries(names, NUMBERS | SPACES | st.lists(NUMBERS | WORDS, max_size=3), max_size=2)


@st.composite
def specs(draw):
    """A valid spec of one of the designs in which one or two fields are spoilt, or changed in part."""
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


def valid_or_refused(value):
    """A grid that can be stored and read again, or `InvalidInput`."""
    try:
        spec = SweepSpec.parse(value)
        found = Grid.of(spec)
    except InvalidInput:
        return
    assert 1 <= len(found) <= 10**6
    assert all(point.gamma > 0 and point.d >= 1 and point.p >= 1 and point.k >= 1 for point in found.points)
    assert np.all(np.isfinite(found.times))
    assert np.all(np.diff(found.times) > 0)
    assert SweepPlan(found).schema.bytes > 0
    assert Grid.of(SweepSpec.read(spec.model_dump_json())).key == found.key


@settings(max_examples=300, derandomize=True, deadline=None)
@given(specs())
def test_any_spec_is_valid_or_refused(value):
    valid_or_refused(value)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(GARBAGE | st.dictionaries(st.sampled_from(list(SweepSpec.model_fields)) | st.text(), GARBAGE))
def test_any_value_is_valid_or_refused(value):
    valid_or_refused(value)


TAGS = [f"!!{name} " for name in ("int", "float", "bool", "null", "timestamp", "set", "str")]
PIECES = st.sampled_from([*TAGS, *"&*?-{}[]:,|>%@`\"'#\n \t=~._", '""', "*a", "<<: ", "1:2"])


@settings(max_examples=500, derandomize=True, deadline=None)
@given(st.data())
def test_any_text_is_valid_or_refused(data):
    text = data.draw(st.sampled_from([YAML, json.dumps(BASE), EXAMPLE]))
    for piece in data.draw(st.lists(PIECES, min_size=1, max_size=3)):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + piece + text[at + data.draw(st.integers(0, 2)) :]
    with suppress(InvalidInput):
        Grid.of(SweepSpec.read(text))


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_bytes_are_valid_or_refused(body):
    with suppress(InvalidInput):
        Grid.of(SweepSpec.read(body))
