"""`sweep rerun` and `sweep retry` of failed runs."""

import shlex

import pytest

from sweep_service.cli.answers import DONE, FAILED
from tests.cli.commands import BREAK_SEED_1, assert_refused, run_command
from tests.specs import SMALL_SPEC


@pytest.mark.parametrize("run", ["sgd", "sgd-", "sgd-16", "sgd--1", "sgd-²", "sgd-x", "-3", "x-1", "ode-1.5"])
def test_rerun_refuses_an_unknown_run(stored_sweep, run):
    cwd, sweep_id = stored_sweep
    assert_refused(run_command(cwd, "rerun", sweep_id, "--", run), "run")


def test_failure_has_a_command_that_reproduces_it(tmp_path):
    answer = run_command(tmp_path, "run", "-", "--json", text=SMALL_SPEC, before=BREAK_SEED_1)
    assert answer.code == FAILED
    assert answer.json["state"] == "incomplete"
    assert answer.json["counts"] == {"done": 20, "failed": 4}
    failures = answer.json["failures"]
    assert [len(failure["runs"]) for failure in failures] == [2, 2]  # one run for both d
    assert (
        run_command(tmp_path, "run", "-", text=SMALL_SPEC).code == FAILED
    )  # the same sweep is not computed again
    command = failures[0]["command"].split()
    assert command[0] == "sweep"
    again = run_command(tmp_path, *command[1:], "--json", before=BREAK_SEED_1)
    assert again.code == FAILED
    assert "out of order" in again.json["trace"]
    repaired = run_command(tmp_path, *command[1:])
    assert (repaired.code, repaired.out) == (DONE, "done\n")


def test_incomplete_sweep_is_reported_with_the_next_commands(tmp_path):
    answer = run_command(tmp_path, "run", "-", "--data", "my data", text=SMALL_SPEC, before=BREAK_SEED_1)
    (sweep_id,) = [sweep["id"] for sweep in run_command(tmp_path, "list", "--data", "my data", "--json").json]
    assert answer.code == FAILED
    assert answer.out.startswith("incomplete: 24 runs: 20 done, 4 failed\n")
    assert "first error: RuntimeError: out of order" in answer.out
    assert f"{tmp_path}/my data/sweeps/{sweep_id}.failures" in answer.out
    commands = [shlex.split(line) for line in answer.out.splitlines() if line.startswith("    sweep ")]
    assert [command[1] for command in commands] == ["rerun", "retry"]
    shown = run_command(tmp_path, "show", sweep_id, "--data", "my data").out
    assert "4 failed runs" in shown
    assert shown.count("    sweep rerun") == 2
    assert "None" not in shown
    assert "…" not in shown  # all failures are shown
    rerun, retry = commands
    assert run_command(tmp_path, *rerun[1:]).code == DONE
    repaired = run_command(tmp_path, *retry[1:])
    assert repaired.code == DONE
    assert repaired.out.startswith("completed: 24 runs: 24 done\n")
    assert run_command(tmp_path, "show", sweep_id, "--data", "my data", "--json").json["failures"] == []


@pytest.mark.slow
def test_extension_with_failed_runs_is_incomplete(tmp_path):
    sweep_id = run_command(tmp_path, "run", "-", "--json", text=SMALL_SPEC).json["id"]
    answer = run_command(
        tmp_path, "extend", sweep_id, "-", "--json", text={"axes": {"gamma": [0.9]}}, before=BREAK_SEED_1
    )
    assert answer.json["state"] == "incomplete"
    assert answer.json["extends"] == sweep_id
    assert answer.code == FAILED
