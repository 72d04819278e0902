"""Specs that are refused, with one line and without a trace."""

import json

import pytest

from sweep_service.cli.answers import DONE, REFUSED
from sweep_service.planning.spec import LARGEST_SPEC
from tests.cli.commands import SMALL, assert_refused, sweep, trace_of


def bad(**change):
    return json.dumps({**SMALL, **change})


def bad_axis(**change):
    return bad(axes={**SMALL["axes"], **change})


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(12)
)
BAD = {
    "an unknown key": (bad(axs={}), "axs", "axes"),
    "an unknown axis": (bad_axis(gama=1.0), "gama", "gamma"),
    "an unknown regime": (bad_axis(regime="clasical"), "clasical", "classical"),
    "a negative gamma": (bad_axis(gamma=-0.1), "gamma = -0.1"),
    "d = 0": (bad_axis(d=0), "d = 0"),
    "an empty axis": (bad_axis(gamma=[]), "axes.gamma", "0 values"),
    "a value twice": (bad_axis(gamma=[0.1, 0.1]), "axes.gamma"),
    "NaN": (bad_axis(gamma=float("nan")), "axes.gamma = nan"),
    "infinity": (bad_axis(gamma=[1.0, float("inf")]), "axes.gamma = inf"),
    "a billion points": (
        bad_axis(**{name: {"lin": [100, 9e4, 1000]} for name in ("d", "p", "gamma")}), "1000000000 points"
    ),
    "ten billion runs": (bad(seeds={"init": 100_000, "repeat": 100_000}), "runs"),
    "steps without end": (bad_axis(gamma=1e-320), ""),
    "a million core hours": (bad(time={"max": 1e12, "samples": 3}), "core_hours"),
    "no time": (json.dumps({name: value for name, value in SMALL.items() if name != "time"}), "time"),
    "a name without end": (bad(name="x" * 1000), "name"),
    "a bomb": (BOMB, "alias"),
    "nesting without end": ("[" * 100_000, "neither JSON nor YAML"),
    "neither JSON nor YAML": ("{]", "neither JSON nor YAML"),
    "nothing": ("", "must be a mapping"),
    "a list": ("[1, 2]", "must be a mapping"),
    "100 MB": (" " * 100_000_000, f"at most {LARGEST_SPEC}"),
}  # fmt: skip


@pytest.mark.parametrize("command", ["run", pytest.param("estimate", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_spec_is_refused_and_leaves_no_trace(tmp_path, name, command):
    if command == "estimate" and name in ("a million core hours", "steps without end"):
        pytest.skip("an estimate may tell")
    text, *words = BAD[name]
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (20, 20))"  # none may take long
    answer = sweep(tmp_path, command, "-", "--json", text=text, before=limit)
    assert_refused(answer, *words)
    assert trace_of(tmp_path) == []


@pytest.mark.parametrize("name", ["a negative gamma", "a million core hours", "ten billion runs"])
def test_a_bad_spec_leaves_no_trace_in_a_folder_that_is_there(tmp_path, name):
    (tmp_path / "sweep-data").mkdir()
    assert_refused(sweep(tmp_path, "run", "-", text=BAD[name][0]), *BAD[name][1:])
    assert list((tmp_path / "sweep-data").iterdir()) == []


def test_a_name_like_a_path_stays_a_name(tmp_path):
    name = "../../../outside\n\x1b[31m"
    answer = sweep(tmp_path, "run", "-", "--json", text=bad(name=name))
    assert answer.code in (DONE, REFUSED)
    assert set(trace_of(tmp_path)) <= {"sweep-data"}
    assert not (tmp_path.parent / "outside").exists()
    if answer.code == DONE:
        assert len(sweep(tmp_path, "list").out.splitlines()) == 2  # with its header


def test_a_bad_change_is_refused_and_adds_no_sweep(filled):
    cwd, known = filled
    for text, word in (
        ("{}", ""), ('{"time": {"max": 3}}', "time"), ('{"axes": {"gamma": [-1]}}', "gamma"),
        ('{"axes": {"gamma": []}}', "gamma"), ("[]", "change"),
    ):  # fmt: skip
        answer = sweep(cwd, "extend", known, "-", text=text)
        if text != "{}":
            assert_refused(answer, word)
        assert len(sweep(cwd, "list", "--json").json) == 1
