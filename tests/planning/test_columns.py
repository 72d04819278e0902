"""What is worked out once for many points, against the same point by point."""

import re
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings

from sweep_service.dynamics.auto import collect_point_warnings, collect_regime_warnings
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput
from sweep_service.planning.columns.costs import SgdColumns, cost_regime
from sweep_service.planning.columns.groups import evaluate, group_columns
from sweep_service.planning.columns.warnings import find_warnings, format_warnings
from sweep_service.planning.costs import Calibration, SgdCost, ode_seconds, ode_work_class
from sweep_service.planning.grids import Grid
from sweep_service.planning.spec import SweepSpec
from tests.planning.random_specs import specs

checked = settings(max_examples=80, deadline=None, derandomize=True)
KNOWN = Calibration({"sgd/S1": 3.0, "ode/small/erf": 2.0})


def make_grid(**change):
    spec = {
        "axes": {"d": [5, 20], "p": [2, 4], "gamma": [0.1, 1.0, 2.0], "regime": ["classical"]},
        "fixed": {"k": 2},
        "time": {"max": 10.0, "samples": 5},
    }
    return Grid.of(SweepSpec.parse({**spec, **change}))


# Evaluation


def test_a_function_is_called_once_for_each_combination_that_it_reads():
    calls = []

    def read(point):
        calls.append((point.p, point.gamma_over_p))
        return calls[-1]

    values = evaluate(make_grid(), read)
    assert len(calls) == len(set(calls)) == 6
    assert [values[index] for index in range(12)] == [(p, g / p) for p in (2, 4) for g in (0.1, 1.0, 2.0)] * 2
    assert values.axes == {"p", "gamma"}


def test_a_parameter_that_is_read_late_is_noticed():
    """A function that reads d only where p = 4: its values at p = 2 say nothing about that."""
    values = evaluate(make_grid(), lambda point: point.d if point.p == 4 else 0)
    assert values.column(int).reshape(2, 2, 3).tolist() == [[[0] * 3, [5] * 3], [[0] * 3, [20] * 3]]


def test_an_activation_that_follows_another_one_is_noticed():
    grid = make_grid(axes={"d": 5, "p": 2, "gamma": 1.0, "activation": ["erf", "relu"]})
    values = evaluate(grid, lambda point: point.teacher_activation.name)
    assert [values[index] for index in range(2)] == ["erf", "relu"]


def test_codes_beyond_the_integers_are_combined():
    rows = np.arange(2000)  # 2000^6 is about 2^66
    columns = [np.roll(rows, shift) // 2 * 2 for shift in range(5)]
    groups = group_columns([*columns, rows // 2 * 2], 2000)
    assert groups.first[groups.of_point].tolist() == rows.tolist()
    groups = group_columns([rows // 2 * 2] * 6, 2000)
    assert groups.first[groups.of_point].tolist() == (rows // 2 * 2).tolist()


# Checks


def find_first_error(grid):
    """The error of the first point that does not parse, as it names the axis values of that point."""
    for index in range(len(grid)):
        try:
            grid.point(index)
        except InvalidInput as error:
            return error, ", ".join(f"{name} = {value}" for name, value in grid.row(index).items())
    return None, ""


@given(specs())
@checked
def test_an_invalid_point_is_found_as_by_parsing_all_points(spec):
    try:
        spec = SweepSpec.parse(spec)
        error, where = find_first_error(Grid.of(spec, validate=False))
    except InvalidInput:  # of the spec
        return
    if error is None:
        with suppress(InvalidInput):  # of the sweep, such as a parameter that no regime supports
            Grid.of(spec)
        return
    with pytest.raises(InvalidInput) as info:
        Grid.of(spec)
    assert (info.value.field, info.value.value) == (error.field, error.value)
    assert info.value.allowed == f"{error.allowed} (at {where})"


# Costs and warnings


def try_grid(spec):
    try:
        return Grid.of(SweepSpec.parse(spec))
    except InvalidInput:
        return None


@given(specs())
@checked
def test_costs_are_those_of_each_point(spec):
    grid = try_grid(spec)
    if grid is None:
        return
    last, samples = float(grid.times[-1]), len(grid.times)
    for regime in grid.regimes:
        costs = cost_regime(grid, regime, KNOWN)
        for index, point in enumerate(grid.points):
            expected = ode_seconds(point, regime, last, samples, KNOWN, grid.options)
            assert costs[index] == (ode_work_class(point, regime), expected)
    columns = SgdColumns(grid, [3, 11], KNOWN)
    for chains in (1, 3, 11) if grid.simulate else ():
        seconds, lanes = columns.bundled_seconds(chains), columns.uses_lanes(chains)
        for index, point in enumerate(grid.points):
            cost = SgdCost(point, last / point.delta_t, samples, KNOWN)
            assert lanes[index] == cost.uses_lanes(chains)
            assert seconds[index] == pytest.approx(
                cost.bundled_seconds(chains), rel=1e-12
            )  # order of products
            assert columns.rates[index].work_class == cost.work_class


def pattern(text):
    """A text without its numbers, and without the factors that are written only where they are not one."""
    text = text.replace("γu/", "γ/").replace("/(pb)", "/p").replace("uδt", "δt")
    return re.sub(r"\d+(\.\d+)?(e[-+]?\d+)?", "#", text)


@given(specs())
@checked
def test_warnings_are_those_of_each_point(spec):
    grid = try_grid(spec)
    if grid is None:
        return
    first, count = {}, {}
    for point in grid.points:
        texts = collect_point_warnings(point)
        for regime in grid.regimes:
            texts += collect_regime_warnings(point, regime) if regime in REGIMES else ()
        for text in {pattern(text): text for text in reversed(texts)}.values():
            first.setdefault(pattern(text), text)
            count[pattern(text)] = count.get(pattern(text), 0) + 1
    size = f" of {len(grid)} points)"
    expected = {f"{text} (at {count[key]}{size}" if len(grid) > 1 else text for key, text in first.items()}
    found = list(format_warnings(find_warnings(grid)))
    assert set(found) == expected
    assert len(found) == len(expected)
