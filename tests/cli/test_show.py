"""`sweep list` and `sweep show`: states, counts, failures, and sweeps by the beginning of an id."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sweep_service.cli.answers import DONE, FAILED
from sweep_service.cli.inspect import FEW_FAILURES
from tests.cli.commands import FAIL, SMALL, assert_refused, sweep


def test_show_and_list_tell_the_state_and_the_counts(filled):
    cwd, known = filled
    (one,) = sweep(cwd, "list", "--json").json
    about = sweep(cwd, "show", known[:12], "--json").json
    assert (one["id"], one["name"], one["state"], one["runs"]) == (known, "small", "completed", 24)
    assert {name: about[name] for name in one} == one
    assert about["counts"] == {"done": 24}
    assert (cwd / about["path"]).is_dir()
    text = sweep(cwd, "list").out
    assert known in text
    assert "small" in text


def test_show_counts_reused_runs_too(tmp_path):
    sweep(tmp_path, "run", "-", text=SMALL)
    wider = {**SMALL, "seeds": {"init": 3, "repeat": 2}}
    known = sweep(tmp_path, "run", "-", "--json", text=wider).json["id"]
    about = sweep(tmp_path, "show", known, "--json").json
    assert about["reused"] == 24
    assert about["counts"] == {"done": 36}


def test_people_are_shown_a_few_failures_and_programs_all(tmp_path):
    fail = FAIL.replace('options["seed"] == 1', "True")
    some = {**SMALL, "simulate": False, "seeds": 4}  # 8 theories at 16 places
    known = sweep(tmp_path, "run", "-", "--json", text=some, before=fail).json["id"]
    shown = sweep(tmp_path, "show", known).out
    assert shown.count("    sweep rerun") == FEW_FAILURES
    assert f"… all of them in {tmp_path}/sweep-data/sweeps/{known}.failures" in shown
    assert len(sweep(tmp_path, "show", known, "--json").json["failures"]) == 8


def in_ledger(folder, statement, *values):
    with closing(sqlite3.connect(Path(folder) / "ledger.sqlite")) as ledger, ledger:
        ledger.execute(statement, values)


def test_a_sweep_that_could_not_go_on_says_why(tmp_path):
    known = sweep(tmp_path, "run", "-", "--json", text=SMALL).json["id"]
    in_ledger(tmp_path / "sweep-data", "UPDATE sweeps SET state = 'failed', reason = 'its keys are damaged'")
    shutil.rmtree(tmp_path / "sweep-data" / "sweeps" / f"{known}.zarr")
    answer = sweep(tmp_path, "run", "-", text=SMALL)
    assert answer.code == FAILED
    assert answer.out.startswith("failed: its keys are damaged\n")
    shown = sweep(tmp_path, "show", known)
    assert shown.code == DONE
    assert "failed: its keys are damaged" in shown.out


@pytest.mark.slow
def test_a_sweep_is_named_by_the_beginning_of_its_id_only(tmp_path):
    first = sweep(tmp_path, "run", "-", "--json", text=SMALL).json["id"]
    sweep(tmp_path, "run", "-", text={**SMALL, "seeds": 1})
    assert_refused(sweep(tmp_path, "show", first[:4]), "2 sweeps begin with")
    assert_refused(sweep(tmp_path, "show", "nope"), "no sweep begins with 'nope'")
    for path in ("../../x", "/", "."):
        assert_refused(sweep(tmp_path, "rm", path), "no sweep")
    assert len(sweep(tmp_path, "list", "--json").json) == 2
    sweep(tmp_path, "rm", first)
    assert_refused(sweep(tmp_path, "rm", ""), "")  # the only one, but not named
    assert len(sweep(tmp_path, "list", "--json").json) == 1
