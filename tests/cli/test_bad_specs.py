"""Invalid specs are refused with one line for each error, and no files are left."""

import json

import pytest

from sweep_service.cli.answers import DONE, REFUSED
from sweep_service.planning.spec_text import MAX_SPEC_BYTES
from tests.cli.commands import assert_refused, list_files, run_command
from tests.specs import SMALL_SPEC


def changed_spec(**change):
    return json.dumps({**SMALL_SPEC, **change})


def changed_axes(**change):
    return changed_spec(axes={**SMALL_SPEC["axes"], **change})


YAML_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(12)
)
INVALID_SPECS = {
    "an unknown key": (changed_spec(axs={}), "axs", "axes"),
    "an unknown axis": (changed_axes(gama=1.0), "gama", "gamma"),
    "an unknown regime": (changed_axes(regime="clasical"), "clasical", "classical"),
    "a negative gamma": (changed_axes(gamma=-0.1), "gamma = -0.1"),
    "d = 0": (changed_axes(d=0), "d = 0"),
    "an empty axis": (changed_axes(gamma=[]), "axes.gamma", "0 values"),
    "a value twice": (changed_axes(gamma=[0.1, 0.1]), "axes.gamma"),
    "NaN": (changed_axes(gamma=float("nan")), "axes.gamma = nan"),
    "infinity": (changed_axes(gamma=[1.0, float("inf")]), "axes.gamma[1] = inf"),
    "a billion points": (
        changed_axes(**{name: {"lin": [100, 2e4, 1000]} for name in ("d", "p", "gamma")}),
        "points = 1000000000: must be at most 1000000",
    ),
    "ten billion runs": (changed_spec(seeds={"init": 100_000, "repeat": 100_000}), "runs"),
    "infinitely many steps": (changed_axes(gamma=1e-320), ""),
    "a million core hours": (changed_spec(time={"max": 1e12, "samples": 3}), "core_hours"),
    "no time": (json.dumps({name: value for name, value in SMALL_SPEC.items() if name != "time"}), "time"),
    "a very long name": (changed_spec(name="x" * 1000), "name"),
    "a YAML bomb": (YAML_BOMB, "alias"),
    "very deep nesting": ("[" * 100_000, "neither JSON nor YAML"),
    "neither JSON nor YAML": ("{]", "neither JSON nor YAML"),
    "nothing": ("", "must be a mapping"),
    "a list": ("[1, 2]", "must be a mapping"),
    "100 MB": (" " * 100_000_000, f"at most {MAX_SPEC_BYTES}"),
}  # fmt: skip


@pytest.mark.parametrize("command", ["run", pytest.param("estimate", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", INVALID_SPECS)
def test_invalid_spec_is_refused_and_leaves_no_files(tmp_path, name, command):
    if command == "estimate" and name in ("a million core hours", "infinitely many steps"):
        pytest.skip("an estimate reports the cost")
    text, *phrases = INVALID_SPECS[name]
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (20, 20))"  # no refusal may take long
    answer = run_command(tmp_path, command, "-", "--json", text=text, before=limit)
    assert_refused(answer, *phrases)
    assert list_files(tmp_path) == []


@pytest.mark.parametrize("name", ["nowhere.yaml", "folder/nowhere"])
def test_missing_file_is_not_taken_for_a_preset(tmp_path, name):
    answer = run_command(tmp_path, "estimate", name)
    assert_refused(answer, "cannot be read: No such file")
    assert "fig2-left" not in answer.err


def test_all_errors_are_printed_one_per_line(tmp_path):
    (tmp_path / "spec.yaml").write_text(
        "axes:\n  d: null\n  p: [4, -1]\n  lr: 0.1\nfixed: {k: 2}\ntime: {max: 1}\n", "utf-8"
    )
    for command in ("run", "estimate"):
        answer = run_command(tmp_path, command, "spec.yaml")
        assert (answer.code, answer.out) == (REFUSED, "")
        lines = answer.err.splitlines()
        assert [line.partition(" =")[0] for line in lines[:3]] == [
            "sweep: line 2, column 6: axes.d",
            "sweep: line 3, column 10: axes.p[1]",
            "sweep: line 4, column 3: axes (key)",
        ]
        assert lines[0].endswith("must be a whole number >= 1 and <= 1e+12")
        assert "did you mean 'gamma', the learning rate?" in lines[2]
        assert lines[3:] == ["sweep: line 1, column 1: axes.gamma = None: is required, in axes or fixed"]
    assert list_files(tmp_path) == ["spec.yaml"]


def test_number_of_printed_errors_is_bounded(tmp_path):
    answer = run_command(tmp_path, "estimate", "-", text=changed_axes(gamma=[-1.0] * 1000))
    assert answer.code == REFUSED
    assert len(answer.err.splitlines()) == 21
    assert answer.err.splitlines()[-1] == "sweep: only the first 20 errors are listed"


@pytest.mark.parametrize("name", ["a negative gamma", "a million core hours", "ten billion runs"])
def test_invalid_spec_leaves_no_files_in_an_existing_folder(tmp_path, name):
    (tmp_path / "sweep-data").mkdir()
    assert_refused(run_command(tmp_path, "run", "-", text=INVALID_SPECS[name][0]), *INVALID_SPECS[name][1:])
    assert list((tmp_path / "sweep-data").iterdir()) == []


def test_name_like_a_path_is_only_a_name(tmp_path):
    name = "../../../outside\n\x1b[31m"
    answer = run_command(tmp_path, "run", "-", "--json", text=changed_spec(name=name))
    assert answer.code in (DONE, REFUSED)
    assert set(list_files(tmp_path)) <= {"sweep-data"}
    assert not (tmp_path.parent / "outside").exists()
    if answer.code == DONE:
        assert len(run_command(tmp_path, "list").out.splitlines()) == 2  # one is the header


def test_invalid_change_is_refused_and_adds_no_sweep(stored_sweep):
    cwd, sweep_id = stored_sweep
    for text, word in (
        ("{}", ""), ('{"time": {"max": 1e-3}}', "time.max"), ('{"time": 3}', "time"),
        ('{"axes": {"gamma": [-1]}}', "gamma"),
        ('{"axes": {"gamma": []}}', "gamma"), ("[]", "change"),
    ):  # fmt: skip
        answer = run_command(cwd, "extend", sweep_id, "-", text=text)
        if text != "{}":
            assert_refused(answer, word)
        assert len(run_command(cwd, "list", "--json").json) == 1
