"""Processes killed at random moments: repeating the command gives the same dataset.

The variable SWEEP_KILLS sets the number of rounds, 60 by default.
"""

import os
import time as clock

import numpy as np
import pytest

from sweep_service.cli.answers import DONE
from tests.chaos.crashes import assert_as_if_nothing_had_happened, assert_tidy, begin, run
from tests.cli.commands import fork_server, run_command

ROUNDS = int(os.environ.get("SWEEP_KILLS", "60"))
COMMAND_ROUNDS = range(1, ROUNDS // 10)


def kill_sometime(cwd, rng, kills, failing):
    """Kill a command after random times, up to about its duration."""
    for _ in range(kills):
        child = begin(cwd, failing=failing)
        clock.sleep(float(rng.uniform(0.0, 0.7)))
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    "round", [*range(6), *(pytest.param(n, marks=pytest.mark.slow) for n in range(6, ROUNDS))]
)
def test_run_killed_at_random_times_continues(tmp_path, round):
    rng = np.random.default_rng(round)
    kills, failing = 1 + round % 2, round % 3 == 0
    kill_sometime(tmp_path, rng, kills, failing)
    assert_as_if_nothing_had_happened(tmp_path, run(tmp_path, failing=failing), failing=failing, lost=kills)


@pytest.mark.parametrize("command", ["cancel", "rm", "extend"])
@pytest.mark.parametrize("round", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in COMMAND_ROUNDS)])
def test_other_commands_killed_at_random_times_can_be_repeated(tmp_path, command, round):
    """The commands can be repeated, and nothing is left half done."""
    assert run(tmp_path, fault="merge:removed#2").code < 0
    (sweep,) = run_command(tmp_path, "list", "--json").json
    text = {"axes": {"gamma": [0.4]}} if command == "extend" else ""
    arguments = [command, sweep["id"], *(["-", "--serial"] if command == "extend" else [])]
    child = fork_server().start(tmp_path, *arguments, "--json", text=text)
    clock.sleep(float(np.random.default_rng(round).uniform(0.0, 0.3)))
    child.kill()
    child.wait()
    answer = run_command(tmp_path, *arguments, "--json", text=text)
    assert answer.code == DONE or (command == "rm" and "no sweep begins" in answer.err), answer.err
    if command == "rm":  # the next command that changes the folder cleans up
        assert run(tmp_path).code == DONE
    assert_tidy(tmp_path / "sweep-data", {"cancel": 1, "rm": 1, "extend": 2}[command])
    if command == "cancel":
        shown = run_command(tmp_path, "show", sweep["id"], "--json").json
        again = run(tmp_path)
        assert shown["state"] == "cancelled"
        assert "pending" not in again.json["counts"]
