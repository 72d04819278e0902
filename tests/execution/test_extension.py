"""Extensions of specs: sorted axes, observables, names, and what stays as it is."""

import json

import numpy as np
import pytest

from sweep_service.errors import InvalidInput
from sweep_service.execution.extension import extend_spec
from sweep_service.planning.grids import Grid
from sweep_service.planning.spec import SweepSpec
from sweep_service.planning.spec_text import MAX_SPEC_BYTES
from tests.planning.base_spec import BASE, with_axes


def extend(spec, **change):
    return extend_spec(SweepSpec.parse(spec), json.dumps(change))


def test_extension_adds_values_and_seeds_and_keeps_the_rest():
    old = SweepSpec.parse({**BASE, "seeds": 2, "fixed": {"k": 2, "noise": 0.0}, "name": "old"})
    new = extend_spec(old, '{"axes": {"d": [40, 20.0], "noise": [0.1]}, "seeds": 4}')
    assert new.axes == {"d": [5, 20, 40], "p": 4, "gamma": 0.1, "noise": [0.0, 0.1]}
    assert new.fixed == {"k": 2}
    assert new.seeds.init == [0, 1, 2, 3]
    assert (new.time, new.init, new.name) == (old.time, old.init, "old")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("[]", "change"),
        ('{"init": {"kind": "informed"}}', "change (key)"),
        ('{"axes": 3}', "axes"),
        ("{", "spec"),
    ],
)
def test_extension_of_other_fields_is_rejected(change, field):
    with pytest.raises(InvalidInput) as info:
        extend_spec(SweepSpec.parse(BASE), change)
    assert info.value.field == field


def test_extension_of_a_rounded_axis_keeps_its_values():
    old = SweepSpec.parse({**BASE, **with_axes(d={"log": [5, 1000, 4]})})
    new = Grid.of(extend_spec(old, '{"axes": {"d": [2000]}}'))
    assert new.axes["d"] == [*Grid.of(old).axes["d"], 2000]


def test_extension_of_repeats_adds_no_seed():
    new = extend_spec(SweepSpec.parse({**BASE, "seeds": [5, 6]}), '{"seeds": {"repeat": 3}}')
    assert new.seeds.init == [5, 6]
    assert new.seeds.repeat == [0, 1, 2]


def test_extension_has_the_size_limit_of_a_spec():
    with pytest.raises(InvalidInput, match="at most"):
        extend_spec(SweepSpec.parse(BASE), " " * MAX_SPEC_BYTES + '{"seeds": 2}')


@pytest.mark.parametrize(
    ("old", "new", "merged"),
    [
        ([0.05, 0.5, 5.0], [0.15, 2.5], [0.05, 0.15, 0.5, 2.5, 5.0]),
        ([5.0, 0.5, 0.05], [0.15, 9.0], [9.0, 5.0, 0.5, 0.15, 0.05]),  # the direction is kept
        ([0.5, 5.0, 0.05], [1.0], [0.05, 0.5, 1.0, 5.0]),  # as earlier versions extended it
        (0.5, [0.1], [0.1, 0.5]),
        ({"log": [0.01, 1.0, 3]}, {"lin": [0.02, 0.03, 2]}, [0.01, 0.02, 0.03, 0.1, 1.0]),
    ],
)
def test_numbers_stay_sorted(old, new, merged):
    extended = extend({**BASE, **with_axes(gamma=old)}, axes={"gamma": new})
    np.testing.assert_allclose(extended.axes["gamma"], merged, rtol=1e-15)


def test_names_keep_the_order_of_appearance():
    spec = {**BASE, **with_axes(regime=["high_dimensional", "classical"], activation=["relu", "erf"])}
    extended = extend(spec, axes={"regime": ["auto"], "activation": ["erf", "tanh", "square"]})
    assert extended.axes["regime"] == ["high_dimensional", "classical", "auto"]
    assert extended.axes["activation"] == ["relu", "erf", "tanh", "square"]


def test_values_that_exist_change_nothing():
    spec = SweepSpec.parse({**BASE, **with_axes(gamma=[0.5, 0.1, 0.3]), "seeds": [4, 1, 2]})
    assert extend(spec, axes={"gamma": 0.3, "k": 2, "noise": [0.0]}, seeds=[1], observables=["risk"]) == spec


@pytest.mark.parametrize(
    ("name", "value", "merged"),
    [
        ("noise", 0.1, [0.0, 0.1]),
        ("activation", "relu", ["erf", "relu"]),
        ("teacher_activation", "relu", ["erf", "relu"]),
        ("init.scale", 0.5, [0.5, 1.0]),
    ],
)
def test_default_is_a_value_of_the_new_axis(name, value, merged):
    """The parent's runs would otherwise not be part of the extension."""
    assert extend(BASE, axes={name: value}).axes[name] == merged


def test_number_of_the_start_becomes_an_axis():
    spec = {**BASE, "init": {"kind": "gaussian", "scale": 2.0}}
    extended = extend(spec, axes={"init.scale": [0.5]})
    assert (extended.axes["init.scale"], extended.init) == ([0.5, 2.0], {"kind": "gaussian"})
    assert len(Grid.of(extended)) == 2 * len(Grid.of(SweepSpec.parse(spec)))


def test_zipped_axes_are_extended_row_by_row():
    spec = {**BASE, **with_axes(d=[10, 10, 20], gamma=[1.0, 2.0, 1.0]), "zip": [["d", "gamma"]]}
    extended = extend(spec, axes={"d": [10, 20], "gamma": [1.0, 3.0]})
    assert (extended.axes["d"], extended.axes["gamma"]) == ([10, 10, 20, 20], [1.0, 2.0, 1.0, 3.0])
    for axes, field in (({"d": [5]}, "axes.gamma"), ({"d": [5], "gamma": [1.0, 2.0]}, "axes")):
        with pytest.raises(InvalidInput) as info:
            extend(spec, axes=axes)
        assert info.value.field == field


def test_points_are_appended():
    points = [{"d": 20, "p": 4, "gamma": 0.5}, {"d": 10, "p": 4, "gamma": 0.1}]
    more = [{"d": 5, "p": 4, "gamma": 0.5}, points[1]]
    extended = extend({**BASE, "axes": {}, "points": points}, points=more)
    assert extended.points == [*points, more[0]]


def test_observables_are_united_with_the_stored_ones():
    stored = Grid.of(SweepSpec.parse(BASE))
    extended = Grid.of(extend(BASE, observables=["cosines"]))
    assert set(extended.observables) == {*stored.observables, "cosines"}
    assert extended.overlaps == stored.overlaps is True
    narrow = {**BASE, "observables": ["risk"]}
    assert Grid.of(extend(narrow, observables=["overlaps"])).overlaps
    for wrong in ("cosines", ["risk", 3], {"risk": True}):
        with pytest.raises(InvalidInput, match="must be a list of names"):
            extend(BASE, observables=wrong)


def test_name_of_the_caller_overrides_that_of_the_change():
    spec = SweepSpec.parse({**BASE, "name": "old"})
    assert extend_spec(spec, '{"seeds": 2}').name == "old"
    assert extend_spec(spec, '{"seeds": 2, "name": "new"}').name == "new"
    assert extend_spec(spec, '{"seeds": 2, "name": "new"}', "newer").name == "newer"
    with pytest.raises(InvalidInput, match="name"):
        extend_spec(spec, "{}", "a/b")


def test_later_times_are_appended():
    old = SweepSpec.parse({**BASE, "time": {"max": 10.0, "min": 0.1, "samples": 21, "tail": 5}})
    new = extend(old, time={"max": 1000.0, "samples": 4})
    times = new.time.times()
    np.testing.assert_array_equal(times[:-4], old.time.times())
    np.testing.assert_allclose(times[-4:], np.geomspace(10.0, 1000.0, 5)[1:])
    assert times[-1] == new.time.last == 1000.0
    again = extend(new, time={"max": 1e4})
    assert again.time.then[0] == new.time.then[0]
    assert Grid.of(again).segments == (len(times) - 4, len(times))
    assert extend(new, time={"max": 1000.0}) == new
    # by default as many per decade as now: 20 in two decades
    assert len(extend(old, time={"max": 1000.0}).time.times()) == len(old.time.times()) + 20


@pytest.mark.parametrize(
    ("time", "field"),
    [
        (3, "time"), ({"samples": 3}, "time.max"), ({"max": 9.0}, "time.max"), ({"max": "far"}, "time.max"),
        ({"max": 1e16}, "time.max"), ({"max": 20, "samples": 0}, "time.samples"),
        ({"max": 20, "samples": 2.5}, "time.samples"), ({"max": 20, "min": 1}, "time (key)"),
        ({"max": 10.0, "samples": 3}, "time.max"),
        ({"max": 10.000000000000002, "samples": 9}, "time.then[0].samples"),
    ],
)  # fmt: skip
def test_wrong_later_times_are_rejected(time, field):
    with pytest.raises(InvalidInput) as info:
        Grid.of(extend({**BASE, "time": {"max": 10.0}}, time=time))
    assert info.value.field == field


@pytest.mark.parametrize(
    ("then", "field"),
    [
        (3, "time.then"), ([3], "time.then[0]"), ([{"max": 20}], "time.then[0].samples"),
        ([{"max": 20, "samples": 2}, {"max": 15, "samples": 2}], "time.then[1].max"),
        ([{"max": 20, "sample": 2}], "time.then[0] (key)"), ([{"max": 5, "samples": 2}], "time.then[0].max"),
    ],
)  # fmt: skip
def test_wrong_continuations_of_a_spec_are_rejected(then, field):
    with pytest.raises(InvalidInput) as info:
        Grid.of(SweepSpec.parse({**BASE, "time": {"max": 10.0, "then": then}}))
    assert info.value.field == field
