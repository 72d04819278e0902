"""Specs: the documented form, and defaults."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput
from sweep_service.model.observables import OBSERVABLES
from sweep_service.planning.axes import Spaced
from sweep_service.planning.grids import Grid
from sweep_service.planning.spec import SweepSpec, Time
from tests.planning.base_spec import BASE, make_grid, with_axes

CORE_AXES = {"d": 6, "p": 4, "gamma": 0.1}


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


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize("form", ["yaml", "json"])
def test_documented_example_is_parsed(form, as_bytes):
    text = EXAMPLE if form == "yaml" else json.dumps(EXAMPLE_DATA)
    spec = SweepSpec.read(text.encode() if as_bytes else text)
    grid = Grid.of(spec)
    assert spec.name == "dimension independence"
    assert grid.is_product
    assert dict(grid.axes) == {"d": [5, 20, 100], "p": [10], "gamma": np.geomspace(0.01, 1.0, 5).tolist()}
    assert grid.fixed == {"k": 5, "noise": 1e-3, "activation": "erf", "teacher_activation": "erf"}
    assert grid.structures["init"] == {"kind": "informed", "shared": True}
    assert grid.regimes == ("classical", "high_dimensional")
    assert grid.simulate
    assert grid.seeds == tuple(range(8))
    assert grid.repeats == (0,)
    assert grid.observables == ("risk", "cosine")
    assert not grid.overlaps
    assert grid.options == RegimeOptions()
    np.testing.assert_array_equal(grid.times, [0.0, *np.geomspace(1e-2, 1e3, 120)])
    assert len(grid) == 15


def test_minimal_spec_has_the_documented_defaults():
    spec = SweepSpec.parse({"axes": CORE_AXES, "fixed": {"k": 2}, "time": {"max": 10.0}})
    grid = Grid.of(spec)
    assert spec.name == ""
    assert grid.simulate
    assert grid.regimes == ()
    assert (grid.seeds, grid.repeats) == ((0,), (0,))
    assert grid.structures["init"] == {"kind": "gaussian"}
    assert grid.fixed == {"k": 2, "noise": 0.0, "activation": "erf", "teacher_activation": "erf"}
    assert grid.observables == tuple(name for name, observable in OBSERVABLES.items() if observable.default)
    assert grid.options == RegimeOptions()
    assert len(grid.times) == 121
    assert grid.times[1] == pytest.approx(10.0 * 1e-5, rel=1e-12)  # rounding of one product


@pytest.mark.parametrize(("p", "kept"), [(10, True), (30, False)])  # 75 and 525 numbers with k = 2, of 256
def test_overlaps_are_stored_by_default_if_they_are_few(p, kept):
    assert make_grid(axes={"d": 40, "p": p, "gamma": 0.1}).overlaps is kept
    assert make_grid(axes={"d": 40, "p": p, "gamma": 0.1}, observables=["overlaps"]).overlaps
    assert not make_grid(axes={"d": 40, "p": p, "gamma": 0.1}, observables=["risk"]).overlaps


@pytest.mark.parametrize("name", OBSERVABLES)
def test_each_observable_can_be_requested_and_risk_is_always_stored(name):
    assert set(make_grid(observables=[name]).observables) == {"risk", name}


def test_empty_list_of_observables_stores_the_risk():
    assert make_grid(observables=[]).observables == ("risk",)


@pytest.mark.parametrize("name", ["auto", *REGIMES])
@pytest.mark.parametrize("written", ["scalar", "list", "fixed"])
def test_each_regime_can_be_requested(name, written):
    change = {
        "scalar": with_axes(regime=name),
        "list": with_axes(regime=[name]),
        "fixed": {"fixed": {"k": 2}},
    }[written]
    if written == "fixed":
        change["fixed"]["regime"] = name
    assert make_grid(**change).regimes == (name,)


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
def test_seeds_can_be_a_number_a_list_or_a_mapping(written, seeds, repeats):
    grid = make_grid(seeds=written)
    assert (grid.seeds, grid.repeats) == (seeds, repeats)


@pytest.mark.parametrize("samples", [1, 2, 7, 120])
@pytest.mark.parametrize("least", [None, 0.01, 10.0])
def test_times_are_zero_and_log_spaced_samples(samples, least):
    times = make_grid(time={"max": 10.0, "min": least, "samples": samples}).times
    first = 1e-4 if least is None else least
    spaced = np.geomspace(first, 10.0, samples) if samples > 1 else [10.0]
    np.testing.assert_array_equal(times, np.unique([0.0, *spaced]))
    assert times[-1] == 10.0


def test_tail_is_evenly_spaced_in_the_last_half():
    plain, tailed = (make_grid(time={"max": 8.0, "samples": 5, "tail": n}).times for n in (0, 5))
    assert set(np.setdiff1d(tailed, plain)) == {4.0, 5.0, 6.0, 7.0}  # the last sample exists already
    assert set(plain) <= set(tailed)


@given(st.floats(1e-12, 1e15), st.floats(1e-12, 1), st.integers(1, 200), st.integers(0, 50))
@settings(deadline=None, derandomize=True)
def test_times_start_at_zero_increase_and_end_at_max(most, share, samples, tail):
    times = Time(max=most, min=most * share, samples=samples, tail=tail).times()
    assert times[0] == 0.0
    assert times[-1] == most
    assert np.all(np.diff(times) > 0)
    assert len(times) <= 1 + samples + tail


@pytest.mark.parametrize("text", ["1e-3", "1E-3", "1.e-3", "1.0e-3", "0.001", "+1e-3"])
def test_yaml_numbers_are_read_as_in_json(text):
    spec = SweepSpec.read(f"{{axes: {{d: 6, p: 4, gamma: {text}}}, fixed: {{k: 2}}, time: {{max: 1e3}}}}")
    assert spec.axes["gamma"] == 1e-3
    assert spec.time.max == 1e3


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_byte_order_mark_is_ignored(mark):
    assert SweepSpec.read((mark + json.dumps(BASE)).encode()) == SweepSpec.parse(BASE)


def test_spec_is_loaded_from_a_file(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(EXAMPLE)
    assert SweepSpec.load(path) == SweepSpec.load(str(path)) == SweepSpec.read(EXAMPLE)


@pytest.mark.parametrize("name", ["missing.yaml", ".", "a\0b"])
def test_unreadable_file_is_invalid_input(tmp_path, name):
    with pytest.raises(InvalidInput, match="cannot be read"):
        SweepSpec.load(f"{tmp_path}/{name}")


def test_numpy_arrays_and_scalars_are_accepted():
    grid = make_grid(axes={"d": np.array([5, 20]), "p": np.int64(4), "gamma": np.float64(0.1)})
    assert grid.key == make_grid().key


def test_spec_is_immutable():
    with pytest.raises(ValueError, match="frozen"):
        SweepSpec.parse(BASE).simulate = False


def test_schema_names_every_field():
    schema = SweepSpec.model_json_schema()
    assert set(schema["properties"]) == set(SweepSpec.model_fields)
    assert schema["required"] == ["time"]


def test_schema_accepts_a_log_axis():
    text = json.dumps(SweepSpec.model_json_schema())
    assert '"log"' in text
    assert '"start"' not in text  # internal field of `Spaced`


def test_log_axis_is_dumped_in_its_written_form():
    spec = SweepSpec.parse({**BASE, **with_axes(gamma={"log": [0.1, 1, 5]}, noise={"lin": [0, 1, 3]})})
    dumped = json.loads(spec.model_dump_json())["axes"]
    assert dumped["gamma"] == {"log": [0.1, 1.0, 5]}
    assert dumped["noise"] == {"lin": [0.0, 1.0, 3]}
    assert isinstance(spec.axes["gamma"], Spaced)


def test_arrays_in_a_start_survive_json():
    matrix = np.array([[0.5]])
    start = {"kind": "overlaps", "M": matrix, "Q": np.array([[1.0]]), "P": np.array([[1.0]])}
    spec = SweepSpec.parse({**BASE, "axes": {"d": 6, "p": 1, "gamma": 0.1}, "fixed": {"k": 1}, "init": start})
    again = SweepSpec.read(spec.model_dump_json())
    assert Grid.of(again).key == Grid.of(spec).key
