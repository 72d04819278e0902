"""`sweep rerun` and `sweep retry`: what failed, alone and again."""

import shlex

import pytest

from sweep_service.cli.answers import DONE, FAILED
from tests.cli.commands import FAIL, SMALL, assert_refused, sweep


@pytest.mark.parametrize("run", ["sgd", "sgd-", "sgd-16", "sgd--1", "sgd-²", "sgd-x", "-3", "x-1", "ode-1.5"])
def test_a_run_that_is_not_there_cannot_be_rerun(filled, run):
    cwd, known = filled
    assert_refused(sweep(cwd, "rerun", known, "--", run), "run")


def test_a_failed_run_is_told_of_and_its_command_reproduces_it(tmp_path):
    answer = sweep(tmp_path, "run", "-", "--json", text=SMALL, before=FAIL)
    assert answer.code == FAILED
    assert answer.json["state"] == "incomplete"
    assert answer.json["counts"] == {"done": 20, "failed": 4}
    failures = answer.json["failures"]
    assert [len(one["runs"]) for one in failures] == [2, 2]  # one theory for both d
    assert sweep(tmp_path, "run", "-", text=SMALL).code == FAILED  # the same sweep, as it is
    command = failures[0]["command"].split()
    assert command[0] == "sweep"
    again = sweep(tmp_path, *command[1:], "--json", before=FAIL)
    assert again.code == FAILED
    assert "out of order" in again.json["trace"]
    mended = sweep(tmp_path, *command[1:])
    assert (mended.code, mended.out) == (DONE, "done\n")


def test_what_failed_is_told_with_what_to_do(tmp_path):
    answer = sweep(tmp_path, "run", "-", "--data", "my data", text=SMALL, before=FAIL)
    (known,) = [one["id"] for one in sweep(tmp_path, "list", "--data", "my data", "--json").json]
    assert answer.code == FAILED
    assert answer.out.startswith("incomplete: 24 runs: 20 done, 4 failed\n")
    assert "the first error: RuntimeError: out of order" in answer.out
    assert f"{tmp_path}/my data/sweeps/{known}.failures" in answer.out
    commands = [shlex.split(line) for line in answer.out.splitlines() if line.startswith("    sweep ")]
    assert [command[1] for command in commands] == ["rerun", "retry"]
    shown = sweep(tmp_path, "show", known, "--data", "my data").out
    assert "4 failed runs" in shown
    assert shown.count("    sweep rerun") == 2
    assert "None" not in shown
    assert "…" not in shown  # all are there
    rerun, retry = commands
    assert sweep(tmp_path, *rerun[1:]).code == DONE
    mended = sweep(tmp_path, *retry[1:])
    assert mended.code == DONE
    assert mended.out.startswith("completed: 24 runs: 24 done\n")
    assert sweep(tmp_path, "show", known, "--data", "my data", "--json").json["failures"] == []


@pytest.mark.slow
def test_an_extension_with_failed_runs_says_so(tmp_path):
    known = sweep(tmp_path, "run", "-", "--json", text=SMALL).json["id"]
    answer = sweep(tmp_path, "extend", known, "-", "--json", text={"axes": {"gamma": [0.9]}}, before=FAIL)
    assert answer.json["state"] == "incomplete"
    assert answer.json["extends"] == known
    assert answer.code == FAILED
