"""`sweep list` and `sweep show`: states, counts, failures, and prefixes of ids."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sweep_service.cli.answers import DONE, FAILED
from sweep_service.cli.inspect import MAX_FAILURES_SHOWN
from tests.cli.commands import BREAK_SEED_1, assert_refused, run_command
from tests.specs import SMALL_SPEC


def test_show_and_list_agree(stored_sweep):
    cwd, sweep_id = stored_sweep
    (listed,) = run_command(cwd, "list", "--json").json
    sweep = run_command(cwd, "show", sweep_id[:12], "--json").json
    assert (listed["id"], listed["name"], listed["state"], listed["runs"]) == (
        sweep_id,
        "small",
        "completed",
        24,
    )
    assert {name: sweep[name] for name in listed} == listed
    assert sweep["counts"] == {"done": 24}
    assert (cwd / sweep["path"]).is_dir()
    text = run_command(cwd, "list").out
    assert sweep_id in text
    assert "small" in text


def test_show_counts_reused_runs(tmp_path):
    run_command(tmp_path, "run", "-", text=SMALL_SPEC)
    wider = {**SMALL_SPEC, "seeds": {"init": 3, "repeat": 2}}
    sweep_id = run_command(tmp_path, "run", "-", "--json", text=wider).json["id"]
    sweep = run_command(tmp_path, "show", sweep_id, "--json").json
    assert sweep["reused"] == 24
    assert sweep["counts"] == {"done": 36}


def test_text_shows_few_failures_and_json_all(tmp_path):
    fail = BREAK_SEED_1.replace('options["seed"] == 1', "True")
    spec = {**SMALL_SPEC, "simulate": False, "seeds": 4}  # 8 distinct runs of 16
    sweep_id = run_command(tmp_path, "run", "-", "--json", text=spec, before=fail).json["id"]
    shown = run_command(tmp_path, "show", sweep_id).out
    assert shown.count("    sweep rerun") == MAX_FAILURES_SHOWN
    assert f"… all failures: {tmp_path}/sweep-data/sweeps/{sweep_id}.failures" in shown
    assert len(run_command(tmp_path, "show", sweep_id, "--json").json["failures"]) == 8


def execute_in_ledger(folder, statement, *values):
    with closing(sqlite3.connect(Path(folder) / "ledger.sqlite")) as ledger, ledger:
        ledger.execute(statement, values)


def test_failed_sweep_shows_the_reason(tmp_path):
    sweep_id = run_command(tmp_path, "run", "-", "--json", text=SMALL_SPEC).json["id"]
    execute_in_ledger(
        tmp_path / "sweep-data", "UPDATE sweeps SET state = 'failed', reason = 'its keys are damaged'"
    )
    shutil.rmtree(tmp_path / "sweep-data" / "sweeps" / f"{sweep_id}.zarr")
    answer = run_command(tmp_path, "run", "-", text=SMALL_SPEC)
    assert answer.code == FAILED
    assert answer.out.startswith("failed: its keys are damaged\n")
    shown = run_command(tmp_path, "show", sweep_id)
    assert shown.code == DONE
    assert "failed: its keys are damaged" in shown.out


@pytest.mark.slow
def test_sweep_is_found_only_by_an_unambiguous_prefix(tmp_path):
    first = run_command(tmp_path, "run", "-", "--json", text=SMALL_SPEC).json["id"]
    run_command(tmp_path, "run", "-", text={**SMALL_SPEC, "seeds": 1})
    assert_refused(run_command(tmp_path, "show", first[:4]), "2 sweeps begin with")
    assert_refused(run_command(tmp_path, "show", "nope"), "no sweep begins with 'nope'")
    for path in ("../../x", "/", "."):
        assert_refused(run_command(tmp_path, "rm", path), "no sweep")
    assert len(run_command(tmp_path, "list", "--json").json) == 2
    run_command(tmp_path, "rm", first)
    assert_refused(run_command(tmp_path, "rm", ""), "")  # the only one, but not named
    assert len(run_command(tmp_path, "list", "--json").json) == 1


def test_fixed_parameters_are_shown_and_listed(stored_sweep):
    cwd, sweep_id = stored_sweep
    text = "p = 4, k = 2, noise = 0.001, erf, informed"
    for command in (["show", sweep_id], ["list"]):
        assert text in run_command(cwd, *command).out
    assert run_command(cwd, "show", sweep_id, "--json").json["fixed"] == {
        "p": 4, "k": 2, "noise": 0.001, "activation": "erf", "teacher_activation": "erf",
        "init.kind": "informed", "init.teacher": "orthonormal",
    }  # fmt: skip


def test_extension_has_a_price_and_a_name(tmp_path):
    sweep_id = run_command(tmp_path, "run", "-", "--json", text=SMALL_SPEC).json["id"]
    change = {"axes": {"gamma": [0.2]}}
    answer = run_command(tmp_path, "extend", sweep_id, "-", "--dry-run", text=change)
    assert "36: 10 to compute, 20 already stored, 6 copies of others" in answer.out
    assert len(run_command(tmp_path, "list", "--json").json) == 1
    answer = run_command(tmp_path, "extend", sweep_id, "-", "--name", "finer", "--json", text=change)
    assert (answer.json["name"], answer.json["extends"]) == ("finer", sweep_id)
