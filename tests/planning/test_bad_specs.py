"""Every way to write a wrong spec, each with its own error."""

import math
from contextlib import suppress

import numpy as np
import pytest

from sweep_service.errors import InvalidInput
from sweep_service.planning.axes import EXPONENTS, MAX_VALUES
from sweep_service.planning.grids import Grid
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import Scaling, SweepSpec, Triangle
from tests.planning.base_spec import BASE, make_grid, with_axes
from tests.planning.test_spec import CORE_AXES


def bad(field, allowed, **change):
    return pytest.param(change, field, allowed, id=f"{field}: {allowed} {change!r}"[:90])


SCALING = {"scaling": {"p0": 8, "gamma0": 8}}


TRIANGLE = {"axes": {}, "triangle": {"delta_t": 1e-3, "resolution": 3}}


KAPPA = {"axes": {"d": [5, 20], "kappa": 0.5, "delta": 0.0}}


NOT_NUMBERS = (True, False, "1", None, {}, math.nan, math.inf, -math.inf, 10**400)


POINTS = [{"d": 5, "p": 4, "gamma": 0.1}, {"d": 6, "p": 4, "gamma": 0.2}]


def part(name, **change):
    """Return a design with one of its fields changed."""
    design = {"scaling": {**SCALING, **KAPPA}, "triangle": TRIANGLE}[name]
    return {**design, name: {**design[name], **change}}


BAD = [
    # a typo at every level; the message suggests the nearest name
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
    *(
        bad("axes (key)", f"'{name}'", **with_axes(**{name + "x": 1}))
        for name in ("gamma", "noise", "regime")
    ),
    *(bad("fixed (key)", f"'{name}'", fixed={"k": 2, name + "x": 1}) for name in ("gamma", "noise")),
    bad("axes (key)", "'init.scale'", **with_axes(**{"init.scales": 1})),
    bad(
        "axes (key)", "must be one of", **with_axes(**{"init.epsilon": 0.1})
    ),  # belongs to another kind of initial condition
    bad("axes.gamma (key)", "'log'", **with_axes(gamma={"logg": [1, 2, 3]})),
    bad("seeds (key)", "'repeat'", seeds={"repeats": 3}),
    bad("init (key)", "'scale'", init={"kind": "gaussian", "scales": 1}),
    bad("init.shared (key)", "d0", init={"kind": "gaussian", "shared": {"d": 3}}),
    bad("regime_options (key)", "'self_terms'", regime_options={"self_term": True}),
    bad("points[0] (key)", "'gamma'", axes={}, points=[{"d": 5, "p": 4, "gama": 0.1}]),
    # unknown names
    bad("axes.regime", "'classical'", **with_axes(regime="clasical")),
    bad("axes.regime[1]", "'mean_field'", **with_axes(regime=["classical", "mean_fields"])),
    bad("fixed.regime", "must be one of auto", fixed={"k": 2, "regime": 3}),
    bad("axes.regime", "must be one of auto", **with_axes(regime=True)),  # `regime: yes` in YAML
    bad("axes.regime[0]", "must be one of auto", **with_axes(regime=[1])),
    bad("observables[1]", "'cosine'", observables=["risk", "cosin"]),
    bad("regime_options.qmc_points", "power of two", regime_options={"qmc_points": 100}),
    bad("regime_options.self_terms", "true or false", regime_options={"self_terms": 1}),
    bad("init.kind", "'gaussian'", init={"kind": "gausian"}),
    bad("init.kind", "must be one of", init={}),
    bad("fixed.activation", "'relu'", fixed={"k": 2, "activation": "rellu"}),
    bad("fixed.activation", "must be one of", fixed={"k": 2, "activation": 1}),
    bad("axes.activation", "list of names", **with_axes(activation={"log": [1, 2, 3]})),
    # values out of range
    bad("axes.gamma[1]", "> 0", **with_axes(gamma=[0.1, -0.1])),
    bad("axes.gamma", "> 0", **with_axes(gamma=0)),
    bad("axes.gamma.lin[0]", "> 0", **with_axes(gamma={"lin": [-1, 1, 3]})),
    bad("fixed.noise", ">= 0", fixed={"k": 2, "noise": -1e-9}),
    *(bad(f"axes.{name}", ">= 1", **with_axes(**{name: value})) for name in "dp" for value in (0, -3)),
    *(bad(f"axes.{name}[1]", ">= 1", **with_axes(**{name: [4, 0]})) for name in "dp"),
    bad("fixed.k", ">= 1", fixed={"k": 0}),
    *(bad("axes.d", "whole number >= 1", **with_axes(d=value)) for value in (5.5, "5", None, True)),
    bad("axes.d[0]", "whole number", **with_axes(d=[5.5])),
    bad("axes.d[1]", "lists cannot be nested", **with_axes(d=[5, [6, 7]])),
    bad("axes.d.lin[0]", ">= 1", **with_axes(d={"lin": [0, 4, 5]})),
    bad("d", "k = 6", fixed={"k": 6}, init={"kind": "informed"}),
    bad("d", "(at d = 5, p = 4, gamma = 0.1)", fixed={"k": 6}, init={"kind": "informed"}),
    bad("axes.p", "<= 20000", **with_axes(p=20_001)),
    bad("init.scale", "(at d = 5", **with_axes(**{"init.scale": [1.0, -1.0]})),
    bad("init.shared", "{d0: N}", init={"kind": "gaussian", "shared": True}),
    bad("init.M", "shape (4, 2)", init={"kind": "overlaps", "M": [[1.0]], "Q": [[1.0]], "P": [[1.0]]}),
    # not numbers
    *(bad("axes.gamma", "finite number", **with_axes(gamma=x)) for x in NOT_NUMBERS if x != {}),
    *(bad("axes.gamma[1]", "finite number", **with_axes(gamma=[0.1, x])) for x in NOT_NUMBERS),
    *(
        bad("axes.gamma.log[1]", "finite number", **with_axes(gamma={"log": [0.1, x, 3]}))
        for x in NOT_NUMBERS
    ),
    *(bad("fixed.noise", "must be a", fixed={"k": 2, "noise": x}) for x in NOT_NUMBERS),
    *(bad("time.max", "must be", time={"max": x}) for x in NOT_NUMBERS),
    *(bad("time.samples", "must be", time={"max": 1.0, "samples": x}) for x in (*NOT_NUMBERS, 1.5)),
    *(bad("init.scale", "finite number", init={"kind": "gaussian", "scale": x}) for x in NOT_NUMBERS),
    *(bad("triangle.delta_t", "must be", **part("triangle", delta_t=x)) for x in NOT_NUMBERS),
    *(bad("scaling.p0", "must be", **part("scaling", p0=x)) for x in NOT_NUMBERS),
    *(
        bad("points[1].d", "must be a", axes={}, points=[POINTS[0], {**POINTS[1], "d": x}])
        for x in NOT_NUMBERS
    ),
    # axes
    *(bad("axes.gamma", f"1 to {MAX_VALUES}", **with_axes(gamma=values)) for values in ([], [1] * 10**6)),
    bad("axes.gamma", "{lin: [a, b, n]} or {log: [a, b, n]}", **with_axes(gamma={})),
    bad("axes.gamma", "must be", **with_axes(gamma={"lin": [0, 1, 2], "log": [1, 2, 3]})),
    *(
        bad("axes.gamma.log", "[first, last, count]", **with_axes(gamma={"log": x}))
        for x in (1, [1, 2], "abc")
    ),
    *(bad("axes.gamma.log[0]", "> 0", **with_axes(gamma={"log": [x, 1, 3]})) for x in (0, -1)),
    *(
        bad("axes.gamma.lin[2]", "whole number", **with_axes(gamma={"lin": [1, 2, n]}))
        for n in (0, -1, 1.5, 10**9)
    ),
    *(
        bad(f"axes.{n}", "must not repeat", **with_axes(**{n: x}))
        for n, x in {"d": [5, 5.0], "p": [4, 4]}.items()
    ),
    bad("axes.gamma", "must not repeat", **with_axes(gamma=[1, 0.5, 1.0])),
    bad("axes.regime", "must not repeat", **with_axes(regime=["classical", "classical"])),
    bad("fixed.gamma", "is already an axis", fixed={"k": 2, "gamma": 1.0}),
    bad("fixed.regime", "is already an axis", **with_axes(regime="auto"), fixed={"k": 2, "regime": "auto"}),
    *(bad(f"axes.{name}", "is required", axes={n: 5 for n in CORE_AXES if n != name}) for name in CORE_AXES),
    bad("axes.k", "is required", fixed={}),
    bad("axes", "must be a mapping", axes=[1, 2]),
    bad("fixed", "must be a mapping", fixed=None),
    bad("fixed.k", "use axes for several values", fixed={"k": [1, 2]}),
    # seeds, times, observables and options
    bad("simulate", "leaves nothing to compute", simulate=False),
    *(bad("simulate", "must be true or false", simulate=value) for value in (0, "yes", None)),
    *(bad("seeds.init", "whole number >= 1", seeds=value) for value in (0, -1, 1.5, True, "3", None)),
    *(bad("seeds.init", "must", seeds=value) for value in ([], [0, 0], [-1], [0.5], ["0"])),
    *(bad("seeds.repeat", "must", seeds={"repeat": value}) for value in (0, [], [1, 1], MAX_VALUES + 1)),
    bad("time", "is required", time=...),
    bad("time.max", "is required", time={}),
    *(bad("time.max", "> 0", time={"max": value}) for value in (0.0, -1.0)),
    bad("time.max", "<= 1e+15", time={"max": 1e16}),
    bad("time.min", "<= time.max = 1", time={"max": 1.0, "min": 2.0}),
    bad("time.min", "> 0", time={"max": 1.0, "min": 0.0}),
    bad("time.samples", ">= 1", time={"max": 1.0, "samples": 0}),
    bad("time.tail", ">= 0", time={"max": 1.0, "tail": -1}),
    *(bad("time", "must be a mapping, such as {max: 100}", time=value) for value in (None, 10.0, [0, 1])),
    bad("name", "at most 200 characters", name="x" * 10**6),
    bad("name", "must be a text", name=3),
    bad("observables", "must be a list of names", observables="risk"),
    bad("observables[0]", "must be a name", observables=[1]),
    bad("init", "{kind: gaussian}", init="gaussian"),
    # designs
    *(
        bad(second, f"cannot be combined with {first}", **{**KAPPA, first: first_value, second: second_value})
        for (first, first_value), (second, second_value) in [
            (("zip", [["d"]]), ("scaling", SCALING["scaling"])),
            (("scaling", SCALING["scaling"]), ("triangle", TRIANGLE["triangle"])),
            (("triangle", TRIANGLE["triangle"]), ("points", POINTS)),
            (("zip", [["d"]]), ("points", POINTS)),
        ]
    ),
    *(bad(f"axes.{name}", "needs scaling", **with_axes(**{name: [0.5]})) for name in EXPONENTS),
    bad("fixed.kappa", "needs scaling", fixed={"k": 2, "kappa": 0.5}),
    bad("zip[0][1]", "'gamma'", zip=[["d", "gama"]], **with_axes(gamma=[0.1, 0.2])),
    bad(
        "zip[0]",
        "of equal length: d has 2, gamma has 3",
        zip=[["d", "gamma"]],
        **with_axes(gamma=[0.1, 0.2, 0.3]),
    ),
    bad("zip[0][1]", "list of values; a single value", zip=[["d", "gamma"]]),
    bad("zip[0][1]", "twice", zip=[["d", "d"]]),
    bad("zip[1][0]", "twice", zip=[["d"], ["d"]]),
    bad("zip", "must", zip=[[]]),
    bad("zip[0]", "such as [[d, gamma]]", zip=["d"]),
    bad("zip[0][0]", "must be the name of an axis", zip=[[5]]),
    *(bad(f"axes.{n}", "follows from scaling", **SCALING, axes={**KAPPA["axes"], n: [4]}) for n in "p"),
    bad("fixed.gamma", "follows from scaling", **SCALING, **KAPPA, fixed={"k": 2, "gamma": 1.0}),
    *(
        bad(f"axes.{name}", "is required", **SCALING, axes={n: 1 for n in KAPPA["axes"] if n != name})
        for name in KAPPA["axes"]
    ),
    bad("axes.k", "is required", **SCALING, **KAPPA, fixed={}),
    bad("axes.kappa", "a value outside (1e-15, 1e15)", **SCALING, axes={**KAPPA["axes"], "kappa": 30}),
    bad("axes.delta", "a value outside (1e-15, 1e15)", **SCALING, axes={**KAPPA["axes"], "delta": -30}),
    bad("scaling.p_multiple_of", "k or a whole number", **part("scaling", p_multiple_of="x")),
    bad("scaling.p0", "> 0", **part("scaling", p0=0)),
    bad("scaling.p0", "is required", **KAPPA, scaling={"gamma0": 1}),
    *(bad(f"axes.{n}", "follows from the triangle", **{**TRIANGLE, "axes": {n: [5]}}) for n in CORE_AXES),
    *(bad(f"fixed.{n}", "follows from the triangle", **TRIANGLE, fixed={"k": 2, n: 5}) for n in CORE_AXES),
    bad("axes.k", "is required", **TRIANGLE, fixed={}),
    bad("triangle.delta_t", "must be <", **part("triangle", delta_t=0.9)),
    bad("triangle.delta_t", "< 1", **part("triangle", delta_t=1.0)),
    bad("triangle.resolution", ">= 1", **part("triangle", resolution=0)),
    bad("triangle.gamma_max", "> 0", **part("triangle", gamma_max=0.0)),
    bad("points[2].gamma", "is required", axes={}, points=[*POINTS, {"d": 5, "p": 4}]),
    bad("points[0].gamma", "is required, in points or fixed", axes={}, points=[{"d": 5, "p": 4}]),
    bad("points[2].noise", "in all points or in none", axes={}, points=[*POINTS, {**POINTS[1], "noise": 1}]),
    bad("points (key)", "must be in axes or fixed", axes={}, points=[{**POINTS[0], "regime": "auto"}]),
    bad("points[0]", "must be a mapping", axes={}, points=[3]),
    bad("points", "must be a list of 1", axes={}, points=[]),
    bad("axes.d", "cannot be combined with points", points=POINTS),
    bad("points[1].p", ">= 1", axes={}, points=[POINTS[0], {**POINTS[1], "p": 0}]),
    bad("points[1].gamma", "> 0", axes={}, points=[POINTS[0], {**POINTS[1], "gamma": -1}]),
]


@pytest.mark.parametrize(("change", "field", "allowed"), BAD)
def test_error_names_the_field_and_what_is_allowed(change, field, allowed):
    written = {name: value for name, value in {**BASE, **change}.items() if value is not ...}
    with pytest.raises(InvalidInput) as info:
        Grid.of(SweepSpec.parse(written))
    assert (info.value.field, allowed in info.value.allowed) == (field, True), str(info.value)
    assert len(str(info.value)) < 600  # most of it lists the names that are allowed


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
        with_axes(gamma={"lin": [-1e308, 1e308, 5]}),
        with_axes(d={"lin": [-1e308, 1e308, 5]}),
        {"time": {"max": 1e-320}},
        {"init": {"kind": 10**5000}},
        with_axes(d=np.array(5.5)),
    ],
    ids=lambda change: repr(change)[:80] if "init" not in change else "kind with 5000 digits",
)
def test_extreme_numbers_raise_only_invalid_input(change):
    with pytest.raises(InvalidInput):
        make_grid(**change)


@pytest.mark.parametrize(
    "change",
    [
        {"points": [{"d": 5, "p": 4, "gamma": 0.1}], "axes": {}, "fixed": {"k": 2, "d": 7}},
        {"points": [{"d": 5, "p": 4, "gamma": 0.1}], "axes": {"d": 7}},
        {"init": {"kind": "gaussian", "scale": 3.0}, "fixed": {"k": 2, "init.scale": 2.0}},
        {"init": {"kind": "gaussian", "scale": 3.0}, **with_axes(**{"init.scale": [1.0, 2.0]})},
    ],
    ids=["points and fixed", "points and a scalar axis", "init and fixed", "init and an axis"],
)
def test_value_given_twice_is_rejected(change):
    with pytest.raises(InvalidInput):
        make_grid(**change)


@pytest.mark.parametrize("change", [{"zip": []}, {"points": [{}]}, {"points": [{}, {}]}])
def test_design_without_columns_is_rejected_or_has_a_layout(change):
    with suppress(InvalidInput):
        SweepPlan(make_grid(axes={}, fixed={**CORE_AXES, "k": 2}, **change))


@pytest.mark.parametrize("name", ["<script>", "%2e%2e", "..", "☃"])
def test_name_does_not_change_the_key(name):
    assert make_grid(name=name).key == make_grid().key


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "C:\\x", "a\nb", "a\x00b"])
def test_name_must_not_be_a_path(name):
    with pytest.raises(InvalidInput) as info:
        make_grid(name=name)
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
def test_long_name_gives_a_short_error(change):
    with pytest.raises(InvalidInput) as info:
        make_grid(**change)
    assert len(str(info.value)) < 600  # most of it lists the names that are allowed


@pytest.mark.parametrize(
    "text", ['{"axes": {"\\ud800d": 5}}', '{"init": {"kind": "\\udfff"}}', '{"\\ud800": 1}']
)
def test_text_that_is_not_unicode_is_rejected(text):
    """JSON can escape half of a surrogate pair, which no file could hold."""
    with pytest.raises(InvalidInput, match="not valid Unicode"):
        SweepSpec.read(text)
