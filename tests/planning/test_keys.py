"""Run keys of whole grids, against those of each run from its point."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep_service.abandonment import abandoned_if
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput, Stopped
from sweep_service.identity import Key, KeyTemplate, canonical_json
from sweep_service.planning import keys
from sweep_service.planning.grids import Grid
from sweep_service.planning.keys import KEY_DTYPE, CopyGroups, match_keys, regime_version, run_keys
from sweep_service.planning.spec import SweepSpec
from sweep_service.simulators.selection import SIMULATORS, choose_simulator
from sweep_service.simulators.simulate import stream_key
from tests.planning.random_specs import specs

checked = settings(max_examples=150, deadline=None, derandomize=True)


def digest(*items):
    return hashlib.sha256("/".join(map(str, items)).encode()).digest()[: KEY_DTYPE.itemsize]


def keys_of_runs(grid, points):
    """The keys as they are defined: run by run, each from the content of its point."""
    times, sgd, ode = Key.of(times=grid.times).digest, [], []
    for point in points:
        for seed in grid.seeds if grid.simulate else ():
            for repeat in grid.repeats:
                name = choose_simulator(point).name
                stream = stream_key(point, seed, repeat).digest
                sgd.append(digest("sgd", stream, times, name, SIMULATORS[name].version))
        for regime in grid.regimes:
            has_fluctuations = regime in REGIMES and REGIMES[regime].has_fluctuations
            options = grid.options if has_fluctuations else replace(grid.options, fluctuations=False)
            ignored = REGIMES[regime].ignored_parameters(grid.options) if regime in REGIMES else ()
            content = {name: value for name, value in point.content.items() if name not in ignored}
            for seed in grid.seeds:
                start = point.init.key(point.shape, seed).digest
                parts = Key.of(**content).digest, start, Key.of(options=options.content()).digest
                ode.append(digest("ode", regime, *parts, times, regime_version(regime)))
    return {"sgd": sgd, "ode": ode}


def as_bytes(columns):
    return {kind: [key.tobytes() for key in column] for kind, column in columns.items()}


def make_grid(spec):
    """A grid whose points parse; SGD and regimes may refuse them, because they have keys all the same."""
    try:
        grid = Grid.of(SweepSpec.parse(spec), validate=False)
        return grid, grid.points
    except InvalidInput:
        return None, ()


@given(specs())
@checked
def test_keys_of_a_grid_are_those_of_its_runs(spec):
    grid, points = make_grid(spec)
    if grid is not None:
        assert as_bytes(run_keys(grid)) == keys_of_runs(grid, points)


@given(st.dictionaries(st.sampled_from("abcdefg"), st.integers() | st.floats(allow_nan=False) | st.text()))
@checked
def test_digests_of_a_template_are_those_of_its_contents(content):
    content = {name: value for name, value in content.items() if value not in (float("inf"), -float("inf"))}
    for varying in ([], [*content][:1], [*content][::2], [*content]):
        texts = {name: [canonical_json(content[name]), "null"] for name in varying}
        template = KeyTemplate({name: content[name] for name in content if name not in varying}, varying)
        first = next(template.digests(texts))
        assert first == Key.of(**content).digest


def test_blocks_do_not_change_keys(monkeypatch):
    spec = {
        "axes": {"d": {"lin": [5, 24, 20]}, "p": [2, 4], "gamma": [0.1, 1], "regime": ["classical", "auto"]},
        "fixed": {"k": 2}, "seeds": {"init": 2, "repeat": 2}, "time": {"max": 1.0, "samples": 3},
    }  # fmt: skip
    grid = Grid.of(SweepSpec.parse(spec))
    whole = as_bytes(run_keys(grid))
    monkeypatch.setattr(keys, "BLOCK_SIZE", 7)
    assert as_bytes(run_keys(grid)) == whole


def test_keys_are_abandoned_with_their_client():
    spec = {"axes": {"d": [5, 6], "p": 2, "gamma": 1}, "fixed": {"k": 2}, "time": {"max": 1.0}}
    grid, asked = Grid.of(SweepSpec.parse(spec)), []

    def is_gone():
        asked.append(len(asked))
        return len(asked) > 2

    with pytest.raises(Stopped), abandoned_if(is_gone):
        run_keys(grid)


# Copies


def key_column(numbers):
    """A column of keys that differ in one of their halves, or in both."""
    return np.array([bytes([0] * 7 + [number % 2] + [0] * 7 + [number]) for number in numbers], KEY_DTYPE)


@given(st.lists(st.integers(0, 5), max_size=30))
@checked
def test_copies_have_equal_keys(numbers):
    groups = CopyGroups(key_column(numbers))
    firsts = groups.first_runs()
    assert firsts.tolist() == sorted(numbers.index(number) for number in set(numbers))
    rows, runs = groups.expand(firsts)
    assert sorted(runs.tolist()) == list(range(len(numbers)))
    assert all(numbers[firsts[row]] == numbers[run] for row, run in zip(rows, runs, strict=True))


@given(st.lists(st.integers(0, 9), unique=True), st.lists(st.integers(0, 9)))
@checked
def test_matched_keys_are_those_that_both_columns_have(ours, theirs):
    rows, matches = match_keys(key_column(ours), key_column(theirs))
    assert sorted(ours[row] for row in rows) == sorted(set(ours) & set(theirs))
    assert [ours[row] for row in rows] == [theirs[match] for match in matches]
