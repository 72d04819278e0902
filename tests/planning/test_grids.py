"""Grids: the points of every design, and one key for equivalent specs."""

import itertools
import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep_service.errors import InvalidInput
from sweep_service.planning.grids import Grid
from sweep_service.planning.spec import SweepSpec

BASE = {
    "axes": {"d": [5, 20], "p": 4, "gamma": [0.1, 1.0], "regime": ["classical"]},
    "fixed": {"k": 2},
    "time": {"max": 10.0, "min": 0.1, "samples": 5},
}
checked = settings(max_examples=60, deadline=None, derandomize=True)


def grid(**change):
    return Grid.of(SweepSpec.parse({**BASE, **change}))


def axes(**change):
    return {"axes": {**BASE["axes"], **change}}


def rows(sweep_grid, *names):
    return [tuple(sweep_grid.row(index)[name] for name in names) for index in range(len(sweep_grid))]


# Products


def test_product_has_d_p_gamma_first_and_the_last_axis_varies_fastest():
    sweep_grid = grid(axes={"noise": [0.0, 1.0], "gamma": [0.1, 1.0], "p": 4, "d": [5, 20]})
    assert sweep_grid.dims == ("d", "p", "gamma", "noise")
    assert sweep_grid.shape == (2, 1, 2, 2)
    assert rows(sweep_grid, *sweep_grid.dims) == list(itertools.product([5, 20], [4], [0.1, 1.0], [0.0, 1.0]))


def test_fixed_core_parameters_are_dimensions():
    sweep_grid = grid(axes={"k": [1, 2]}, fixed={"d": 5, "p": 4, "gamma": 0.1})
    assert sweep_grid.dims == ("d", "p", "gamma", "k")
    assert sweep_grid.shape == (1, 1, 1, 2)


def test_other_parameters_are_dimensions_only_as_lists():
    assert "noise" not in grid(**axes(noise=0.5)).dims
    assert grid(**axes(noise=0.5)).fixed["noise"] == 0.5
    assert grid(**axes(noise=[0.5])).shape[-1] == 1


@pytest.mark.parametrize("name", ["noise", "k", "activation", "teacher_activation", "init.scale"])
def test_every_parameter_can_be_an_axis(name):
    values = {"k": [1, 2], "activation": ["erf", "relu"], "teacher_activation": ["erf", "relu"]}
    sweep_grid = grid(fixed={} if name == "k" else {"k": 2}, **axes(**{name: values.get(name, [0.5, 1.0])}))
    first, second = sweep_grid.point(0), sweep_grid.point(1)
    part = name.removeprefix("init.")
    first_value, second_value = (
        x.init.parameters[part] if "." in name else getattr(x, part) for x in (first, second)
    )
    assert first_value != second_value
    assert (first.d, first.p, first.gamma) == (second.d, second.p, second.gamma)


def test_teacher_activation_follows_the_activation_axis():
    sweep_grid = grid(**axes(activation=["erf", "relu"]))
    assert [point.teacher_activation.name for point in sweep_grid.points] == ["erf", "relu"] * 4


@pytest.mark.parametrize("name", ["d", "p", "k"])
@pytest.mark.parametrize("scale", ["lin", "log"])
def test_spaced_integers_are_rounded_without_duplicates(name, scale):
    sweep_grid = grid(
        fixed={} if name == "k" else {"k": 2}, axes={**BASE["axes"], "d": 20, name: {scale: [2, 6, 9]}}
    )
    space = np.linspace if scale == "lin" else np.geomspace
    assert list(sweep_grid.axes[name]) == sorted({round(x) for x in space(2, 6, 9)}) == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(("scale", "space"), [("lin", np.linspace), ("log", np.geomspace)])
@pytest.mark.parametrize("ends", [(0.01, 3.0), (3.0, 0.01)])
def test_spaced_numbers_include_both_ends(scale, space, ends):
    values = grid(**axes(gamma={scale: [*ends, 7]})).axes["gamma"]
    assert values == space(*ends, 7).tolist()
    assert (values[0], values[-1]) == ends


def test_columns_agree_with_points():
    for sweep_grid in (grid(**axes(noise=[0.0, 1.0])), triangle(2), scaled([5, 20], [0.0, 0.5], [0.1])):
        points = list(sweep_grid.points)
        for name in ("d", "p", "k", "gamma", "noise"):
            assert sweep_grid.column(name).shape == sweep_grid.shape
            assert sweep_grid.column(name).reshape(-1).tolist() == [getattr(point, name) for point in points]


def test_validation_of_points_can_be_skipped():
    spec = SweepSpec.parse({**BASE, "fixed": {"k": 30}, "init": {"kind": "informed"}})  # which needs d >= k
    assert len(Grid.of(spec, validate=False)) == 4
    with pytest.raises(InvalidInput):
        Grid.of(spec)


# Axes that vary together


def test_zipped_axes_vary_together_and_multiply_the_others():
    sweep_grid = grid(zip=[["d", "gamma"]], axes={"d": [5, 20], "gamma": [0.1, 1.0], "p": [2, 4]})
    assert not sweep_grid.is_product
    assert sweep_grid.dims == ("point",)
    assert rows(sweep_grid, "d", "gamma", "p") == [(5, 0.1, 2), (5, 0.1, 4), (20, 1.0, 2), (20, 1.0, 4)]


def test_groups_of_zipped_axes_multiply_each_other():
    sweep_grid = grid(
        zip=[["d", "gamma"], ["p", "noise"]],
        axes={"d": [5, 20, 30], "gamma": [1, 2, 3], "p": [2, 4], "noise": [0, 1]},
    )
    assert len(sweep_grid) == 6
    assert set(rows(sweep_grid, "d", "gamma", "p", "noise")) == {
        (d, g, p, n) for d, g in [(5, 1), (20, 2), (30, 3)] for p, n in [(2, 0), (4, 1)]
    }


def test_zipped_axis_may_repeat_a_value_if_no_point_is_repeated():
    sweep_grid = grid(zip=[["d", "gamma"]], axes={"d": [5, 5, 20], "gamma": [0.1, 0.2, 0.1], "p": 4})
    assert rows(sweep_grid, "d", "gamma") == [(5, 0.1), (5, 0.2), (20, 0.1)]


# Scalings


def scaled(d, kappa, delta, k=2, **rest):
    change = {"scaling": {"p0": 8, "gamma0": 3, **rest}, "axes": {"d": d, "kappa": kappa, "delta": delta}}
    return grid(**change, fixed={"k": k})


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_scaling_follows_powers_of_d_with_p_a_multiple_of_k(k):
    d, kappa, delta = [10, 30, 100], [0.0, 0.5], [-0.5, 0.0, 1.0]
    sweep_grid = scaled(d, kappa, delta, k)
    assert len(sweep_grid) == 18
    assert sweep_grid.dims == ("point",)
    for d, kappa, delta, p, gamma in rows(sweep_grid, "d", "kappa", "delta", "p", "gamma"):
        assert p % k == 0
        assert p >= k
        assert abs(p - 8 * d**kappa) <= k / 2  # the nearest multiple
        assert gamma == pytest.approx(3 * d**-delta, rel=1e-14)  # the rounding of a power


@pytest.mark.parametrize(("multiple", "expected"), [("k", 16), (1, 17), (5, 15), (100, 100)])
def test_p_multiple_of_can_be_set(multiple, expected):
    sweep_grid = scaled([17], 1.0, 0.0, k=4, p0=1.0, p_multiple_of=multiple)
    assert list(sweep_grid.axes["p"]) == [expected]


def test_exponents_can_be_fixed():
    fixed = grid(
        scaling={"p0": 8, "gamma0": 3}, axes={"d": [5, 20]}, fixed={"k": 2, "kappa": 0.5, "delta": 0}
    )
    assert fixed.key == scaled([5, 20], 0.5, 0.0).key
    assert rows(fixed, "kappa", "delta") == [(0.5, 0.0)] * 2


# The triangle


def triangle(k, **change):
    return grid(triangle={"delta_t": 1e-3, "resolution": 12, **change}, axes={}, fixed={"k": k})


TRIANGLES = st.builds(
    lambda k, delta_t, resolution, gamma_max: (
        k, {"delta_t": delta_t, "resolution": resolution, "gamma_max": gamma_max}
    ),
    st.integers(1, 5), st.floats(1e-4, 1e-2), st.integers(1, 14), st.floats(0.5, 2.0),
)  # fmt: skip


def written(k, change):
    """Return a triangle with at least one point, or None."""
    return None if k * (k + 1) * change["delta_t"] > change["gamma_max"] else triangle(k, **change)


@checked
@given(TRIANGLES)
def test_every_point_of_a_triangle_has_the_step_and_respects_the_bounds(drawn):
    k, change = drawn
    sweep_grid = written(k, change)
    if sweep_grid is None:
        return
    names = rows(sweep_grid, "d", "p", "gamma")
    L = math.log(change["gamma_max"] / (change["delta_t"] * k * (k + 1)))
    for d, p, gamma in names:
        assert p % k == 0
        assert d >= k + 1
        assert p >= k
        assert gamma == change["delta_t"] * p * d
        assert gamma <= change["gamma_max"] * (1 + 1e-15)  # the rounding of two products
        if L > 1e-6:
            u = np.array([math.log(d / (k + 1)), math.log(p / k), math.log(change["gamma_max"] / gamma)]) / L
            assert np.all(u >= -1e-12)
            assert u.sum() == pytest.approx(1.0, abs=1e-9)  # logarithms of numbers up to 1e6, over L
    assert len(set(names)) == len(names)


@checked
@given(TRIANGLES)
def test_triangle_contains_its_corners(drawn):
    k, change = drawn
    sweep_grid = written(k, change)
    if sweep_grid is None:
        return
    most = change["gamma_max"] / change["delta_t"]
    points = set(rows(sweep_grid, "d", "p"))
    assert (k + 1, k) in points  # classical: gamma is smallest
    widest = max(d for d, p in points if p == k)  # high-dimensional
    assert widest in (math.floor(most / k), math.floor(most / k * (1 + 1e-12)))
    largest = max(p for d, p in points if d == k + 1)  # mean field
    assert largest // k in (math.floor(most / (k + 1) / k), math.floor(most / (k + 1) / k * (1 + 1e-12)))


def test_triangle_of_resolution_12_keeps_most_of_its_91_points():
    assert len(triangle(1)) == 91
    assert len(triangle(2)) >= 80  # p is a multiple of 2, so that two rows of the lattice coincide
    assert len(triangle(2, p_multiple_of=1)) >= 85
    assert len(triangle(2, delta_t=1e-4)) == 91


@pytest.mark.parametrize("delta_t", [1e-4, 1e-5, 1e-6])  # 1/1e-5 is 99999.99999999999
def test_rounding_keeps_the_corners_of_a_triangle(delta_t):
    sweep_grid = triangle(1, delta_t=delta_t, d_min=100, p_min=50, resolution=2)
    assert max(sweep_grid.axes["d"]) == round(1 / delta_t / 50)


def test_triangle_uses_the_given_bounds():
    sweep_grid = triangle(4, d_min=10, p_min=8, gamma_max=2.0)
    assert min(sweep_grid.axes["d"]) == 10
    assert min(sweep_grid.axes["p"]) == 8
    assert max(sweep_grid.axes["gamma"]) <= 2.0


def test_triangle_has_no_p_below_p_min():
    assert min(triangle(4, p_min=5).axes["p"]) >= 5


def test_triangle_is_repeated_for_every_value_of_other_axes():
    single = triangle(2)
    both = grid(triangle={"delta_t": 1e-3, "resolution": 12}, axes={"noise": [0.0, 1.0]}, fixed={"k": 2})
    assert len(both) == 2 * len(single)
    assert rows(both, "d", "p", "gamma") == 2 * rows(single, "d", "p", "gamma")


def test_triangle_bounds_depend_on_k():
    both = grid(triangle={"delta_t": 1e-3, "resolution": 5}, axes={"k": [1, 3]}, fixed={})
    for k in (1, 3):
        assert min(d for d, value in rows(both, "d", "k") if value == k) == k + 1
        assert all(p % k == 0 for p, value in rows(both, "p", "k") if value == k)


# Lists of points


def test_listed_points_keep_their_order():
    points = [{"d": 20, "p": 4, "gamma": 1}, {"gamma": 0.1, "d": 5, "p": 2.0}]
    sweep_grid = grid(points=points, axes={"regime": "auto"})
    assert sweep_grid.dims == ("point",)
    assert rows(sweep_grid, "d", "p", "gamma") == [(20, 4, 1.0), (5, 2, 0.1)]
    assert sweep_grid.regimes == ("auto",)


def test_zip_and_equal_list_of_points_have_one_key():
    zipped = grid(zip=[["d", "gamma"]], axes={"d": [5, 20], "gamma": [0.1, 1.0]}, fixed={"p": 4, "k": 2})
    listed = grid(points=[{"d": 5, "gamma": 0.1}, {"d": 20, "gamma": 1.0}], axes={}, fixed={"p": 4, "k": 2})
    assert zipped.key == listed.key


# Keys

RICH = {
    "name": "rich",
    "axes": {
        "d": [8, 20],
        "p": 4,
        "gamma": {"log": [0.1, 1.0, 3]},
        "k": [1, 2],
        "noise": {"lin": [0.0, 1.0, 2]},
        "regime": ["classical", "auto"],
    },
    "fixed": {"activation": "erf", "teacher_activation": "erf"},
    "init": {"kind": "planted", "epsilon": 0.1, "shared": True, "teacher": "orthonormal"},
    "simulate": True,
    "seeds": {"init": [0, 1, 2], "repeat": [0]},
    "time": {"max": 10.0, "min": 1e-4, "samples": 120, "tail": 0},
    "observables": ["risk", "cosine"],
    "regime_options": {"finite_d_factor": False, "self_terms": True},
}


def rich(**change):
    written = {name: value for name, value in {**RICH, **change}.items() if value is not ...}
    return Grid.of(SweepSpec.parse(written)).key


@pytest.mark.parametrize(
    "change",
    [
        {"name": "another"},
        {"name": ...},
        {"axes": {**RICH["axes"], "gamma": np.geomspace(0.1, 1.0, 3).tolist()}},
        {"axes": {**RICH["axes"], "noise": [0, 1]}},
        {"axes": {**RICH["axes"], "noise": [-0.0, 1]}},
        {"axes": {**RICH["axes"], "d": [8.0, 20.0]}},
        {"axes": {**RICH["axes"], "d": {"lin": [8, 20, 2]}}},
        {"axes": {**RICH["axes"], "p": [4]}},
        {"axes": {n: v for n, v in RICH["axes"].items() if n != "p"}, "fixed": {**RICH["fixed"], "p": 4}},
        {"fixed": {}},
        {"fixed": {"activation": "erf"}},
        {"fixed": {}, "axes": {**RICH["axes"], "activation": "erf"}},
        {"init": {"kind": "planted", "shared": True}},
        {"init": {"kind": "planted", "shared": True, "orthonormal_teacher": True}},
        {"simulate": ...},
        {"seeds": 3},
        {"seeds": 3.0},
        {"seeds": [0, 1, 2]},
        {"seeds": {"init": 3}},
        {"time": {"max": 10}},
        {"time": {"max": 10, "min": None}},
        {"observables": ["cosine"]},
        {"observables": ["cosine", "risk", "cosine"]},
        {"regime_options": {}},
        {"regime_options": ...},
        {"regime_options": {"particles": 512.0}},
    ],
    ids=lambda change: repr(change)[:70],
)
def test_equivalent_specs_have_one_key(change):
    assert rich(**change) == rich()


def test_init_number_may_be_in_init_or_in_fixed():
    start = {"kind": "planted", "shared": True}
    in_init = rich(init={**start, "epsilon": 0.3})
    assert in_init == rich(init=start, fixed={"init.epsilon": 0.3})
    assert in_init != rich(init=start)


def shuffled(value, order):
    """Return the same mapping with its keys in another order at every level."""
    if not isinstance(value, dict):
        return value
    names = list(value)
    order.shuffle(names)
    return {name: shuffled(value[name], order) for name in names}


@checked
@given(st.randoms(use_true_random=False))
def test_order_of_keys_does_not_change_a_spec(order):
    assert Grid.of(SweepSpec.parse(shuffled(RICH, order))).key == rich()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("design", ["points", "zip", "scaling"])
def test_order_of_keys_does_not_change_a_design(design, seed):
    change = {
        "points": {"points": [{"d": 5, "p": 4, "gamma": 0.1, "noise": 1.0}], "axes": {}},
        "zip": {
            "zip": [["d", "gamma"]],
            "axes": {"d": [5, 20], "gamma": [1, 2], "p": [2, 4], "noise": [0, 1]},
        },
        "scaling": {"scaling": {"p0": 8, "gamma0": 3}, "axes": {"d": [5], "kappa": [0, 1], "delta": [0, 1]}},
    }[design]
    order = random.Random(seed)
    other = {
        name: [shuffled(point, order) for point in value] if name == "points" else shuffled(value, order)
        for name, value in change.items()
    }
    assert grid(**other).key == grid(**change).key


MIDDLE = float(np.geomspace(0.1, 1.0, 3)[1])
CHANGES = {
    "an axis value": {"axes": {**RICH["axes"], "d": [8, 21]}},
    "the order of an axis": {"axes": {**RICH["axes"], "d": [20, 8]}},
    "the last bit of an axis": {"axes": {**RICH["axes"], "gamma": [0.1, math.nextafter(MIDDLE, 1), 1]}},
    "one more value": {"axes": {**RICH["axes"], "d": [8, 20, 30]}},
    "p": {"axes": {**RICH["axes"], "p": 6}},
    "k": {"axes": {**RICH["axes"], "k": [1, 4]}},
    "noise": {"axes": {**RICH["axes"], "noise": [0.0, 1.1]}},
    "an axis or a value": {"axes": {**RICH["axes"], "noise": 0.0}},
    "another value": {"axes": {**RICH["axes"], "noise": 1.0}},
    "activation": {"fixed": {"activation": "relu", "teacher_activation": "erf"}},
    "teacher_activation": {"fixed": {"activation": "erf", "teacher_activation": "relu"}},
    "both activations": {"fixed": {"activation": "relu", "teacher_activation": "relu"}},
    "kind of start": {"init": {"kind": "informed", "shared": True}},
    "number of the start": {"init": {"kind": "planted", "epsilon": 0.2, "shared": True}},
    "sharing": {"init": {"kind": "planted", "epsilon": 0.1}},
    "teacher": {"init": {"kind": "planted", "epsilon": 0.1, "shared": True, "teacher": {"rho": 0.5}}},
    "seeds": {"seeds": 4},
    "other seeds": {"seeds": [0, 1, 3]},
    "order of seeds": {"seeds": [2, 1, 0]},
    "repeats": {"seeds": {"init": 3, "repeat": 2}},
    "last time": {"time": {**RICH["time"], "max": 11.0}},
    "first time": {"time": {**RICH["time"], "min": 2e-4}},
    "samples": {"time": {**RICH["time"], "samples": 121}},
    "tail": {"time": {**RICH["time"], "tail": 3}},
    "fewer observables": {"observables": ["risk"]},
    "overlaps": {"observables": ["risk", "cosine", "overlaps"]},
    "default observables": {"observables": ...},
    "regimes": {"axes": {**RICH["axes"], "regime": ["classical", "high_dimensional"]}},
    "fewer regimes": {"axes": {**RICH["axes"], "regime": "auto"}},
    "no regimes": {"axes": {n: v for n, v in RICH["axes"].items() if n != "regime"}},
    "no simulation": {"simulate": False},
    **{
        name: {"regime_options": {name: value}}
        for name, value in {
            "finite_d_factor": True, "self_terms": False, "qmc_points": 2048, "particles": 256
        }.items()
    },
}  # fmt: skip


def test_every_change_of_meaning_changes_the_key():
    keys = {rich(): "unchanged"}
    for name, change in CHANGES.items():
        key = rich(**change)
        assert key not in keys, f"{name} has the key of {keys.get(key)}"
        keys[key] = name


def test_unused_options_do_not_change_the_key():
    without = {"axes": {n: v for n, v in RICH["axes"].items() if n != "regime"}}
    assert rich(**without, regime_options={"self_terms": False}) == rich(**without)
    assert rich(simulate=False, seeds={"init": 3, "repeat": 2}) == rich(simulate=False)


FLOATS = st.floats(1e-3, 1e3)


@st.composite
def specs(draw):
    def draw_list(values, least=1, most=3):
        return draw(st.lists(values, min_size=least, max_size=most, unique=True))

    def number(values):
        return draw(st.sampled_from(["value", "list", "lin", "log"])), draw(values), draw(values)

    def axis(values):
        form, a, b = number(values)
        return {"value": a, "list": draw_list(values)}.get(form) or {form: [a, b, draw(st.integers(1, 4))]}

    spec = {
        "axes": {"d": axis(st.integers(9, 60)), "p": axis(st.integers(1, 6)), "gamma": axis(FLOATS)},
        "fixed": {"k": draw(st.integers(1, 3))},
        "time": {"max": draw(FLOATS), "samples": draw(st.integers(1, 9)), "tail": draw(st.integers(0, 3))},
        "seeds": draw(st.integers(1, 4)) if draw(st.booleans()) else draw_list(st.integers(0, 10**18)),
        "init": draw(st.sampled_from([{"kind": "gaussian"}, {"kind": "symmetric"}, {"kind": "informed"}])),
        "name": draw(st.text("aé☃ .", max_size=9)),
    }
    if draw(st.booleans()):
        spec["axes"]["noise"] = axis(FLOATS)
    if draw(st.booleans()):
        spec["axes"]["regime"] = draw_list(st.sampled_from(["classical", "mean_field", "auto"]))
    if draw(st.booleans()):
        spec["zip"] = [["d"]] if not isinstance(spec["axes"]["d"], int) else [[]][:0]
    return spec


@settings(max_examples=200, deadline=None, derandomize=True)
@given(specs())
def test_spec_has_the_same_key_after_json(written):
    spec = SweepSpec.parse(written)
    sweep_grid = Grid.of(spec)
    again = SweepSpec.read(spec.model_dump_json())
    assert Grid.of(again).key == sweep_grid.key
    assert again.model_dump_json() == spec.model_dump_json()
    assert Grid.of(SweepSpec.read(json.dumps(written))).key == sweep_grid.key


@pytest.mark.parametrize("kind", ["gaussian", "spherical"])
def test_error_at_a_point_names_its_axis_values(kind):
    init = {"kind": kind, "shared": {"d0": 5}}
    with pytest.raises(InvalidInput, match="the rank of the shared start") as info:
        grid(**axes(d=[20, 4], gamma=0.1), init=init)
    assert (info.value.field, info.value.value) == ("d", 4)
    assert info.value.allowed.endswith("(at d = 4, p = 4, gamma = 0.1)")
    assert len(grid(**axes(d=[20, 5]), init=init)) == 4
