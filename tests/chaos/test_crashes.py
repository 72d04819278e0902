"""Killed processes: repeating the command gives the same dataset, whenever it was killed."""

import json
import signal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import xarray as xr

from sweep_service.cli.answers import DONE, INTERRUPTED
from sweep_service.faults import FAULT_POINTS
from tests.chaos.crashes import (
    COMMANDS,
    ONCE,
    RUNNING,
    SPEC,
    assert_as_if_nothing_had_happened,
    assert_tidy,
    dataset,
    prepared,
    run,
    undisturbed,
)
from tests.cli.commands import fork_server, run_command, until
from tests.hold import Hold


def test_sweep_has_several_bundles():
    """Otherwise a fault point would not be reached a second time."""
    _, _, jobs = undisturbed(False, False)
    assert len(jobs) == 8
    assert set(jobs.values()) == {1}


@pytest.mark.parametrize(
    ("times", "reuse", "failing"),
    [
        (2, False, False),
        pytest.param(1, True, True, marks=pytest.mark.slow),
        pytest.param(1, False, False, marks=pytest.mark.slow),
        pytest.param(3, False, True, marks=pytest.mark.slow),
        pytest.param(2, True, False, marks=pytest.mark.slow),
    ],
    ids=["again", "reused and failing", "first", "third time, failing", "second time, reused"],
)  # fmt: skip
@pytest.mark.parametrize("point", RUNNING)
def test_run_killed_at_any_fault_point_continues(tmp_path, point, times, reuse, failing):
    times = 1 if point in ONCE else times
    if reuse:
        prepared(tmp_path, failing)
    killed = run(tmp_path, fault=f"{point}#{times}", failing=failing)
    assert killed.code == -signal.SIGKILL, killed
    again = run(tmp_path, failing=failing)
    # only a bundle without a part is computed again
    assert_as_if_nothing_had_happened(tmp_path, again, reuse, failing, lost=point == "task:computed")


def test_run_killed_repeatedly_continues(tmp_path):
    """Killed at each fault point in turn, in one folder."""
    for point in RUNNING:
        run(tmp_path, fault=point)
    assert_as_if_nothing_had_happened(tmp_path, run(tmp_path), lost=1)


@pytest.mark.parametrize("point", [point for point in FAULT_POINTS if point.partition(":")[0] in COMMANDS])
def test_command_killed_at_any_fault_point_can_be_repeated(tmp_path, point):
    assert run(tmp_path, fault="merge:removed#2").code < 0
    (sweep,) = run_command(tmp_path, "list", "--json").json
    command = COMMANDS[point.partition(":")[0]]
    arguments = [command, sweep["id"], *(["--serial"] if command == "retry" else []), "--json"]
    if command == "retry":
        assert run_command(tmp_path, "cancel", sweep["id"]).code == DONE
    killed = run_command(tmp_path, *arguments, env={"SWEEP_FAULT": point})
    assert killed.code == -signal.SIGKILL
    again = run_command(tmp_path, *arguments)
    assert again.code == DONE or (command == "rm" and "no sweep begins" in again.err), again.err
    if command == "rm":  # the next command that changes the folder cleans up
        assert run(tmp_path).code == DONE
    assert_tidy(tmp_path / "sweep-data", 1)
    if command == "retry":
        _, wanted, _ = undisturbed(False, False)
        xr.testing.assert_equal(dataset(tmp_path, again), wanted)
    elif command == "cancel":
        assert "pending" not in run_command(tmp_path, "show", sweep["id"], "--json").json["counts"]


LONG = {
    **SPEC,
    "axes": {"d": 150, "p": 8, "gamma": 0.1},
    "init": {"kind": "informed"},
    "seeds": 1,
    "time": {"max": 100.0, "samples": 4},
}  # 1.2 million steps
# The process sends itself a signal after its second checkpoint.
SIGNALLED = """
import os
import sweep_service.simulators.run as r
import sweep_service.execution.task as tasks
r.CHECKPOINT_INTERVAL_SECONDS = 0.05
r.SLICE_SECONDS = 0.02
save, saves = tasks.ObjectCheckpoint.save, []
def saved(self, content):
    save(self, content)
    saves.append(None)
    if len(saves) == 2:
        os.kill(os.getpid(), {number})
tasks.ObjectCheckpoint.save = saved
"""
STEPS = """
import sweep_service.simulators.run as r
plain = r.ChainLoop._advance
def counted(self, first, group, until):
    before = int(self.position[2])
    try:
        plain(self, first, group, until)
    finally:
        with open("steps", "a") as file:
            file.write(f"{int(self.position[2]) - before}\\n")
r.ChainLoop._advance = counted
"""


@cache
def long_result():
    with TemporaryDirectory() as folder:
        answer = run_command(Path(folder), "run", "-", "--serial", "--json", text=LONG)
        return dataset(Path(folder), answer)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_long_run_continues_from_its_checkpoint(tmp_path, number):
    before = SIGNALLED.format(number=int(number)) + STEPS
    answer = run_command(tmp_path, "run", "-", "--serial", "--json", text=LONG, before=before)
    if number == signal.SIGINT:
        assert answer.code == INTERRUPTED
        assert answer.json["state"] == "paused"
    assert list(tmp_path.glob("sweep-data/sweeps/*.parts/*.checkpoint"))
    again = run_command(tmp_path, "run", "-", "--serial", "--json", text=LONG, before=STEPS)
    assert again.code == DONE, again.err
    xr.testing.assert_equal(dataset(tmp_path, again), long_result())
    assert_tidy(tmp_path / "sweep-data", 1)
    if number == signal.SIGINT:  # no step was computed twice
        steps = sum(int(line) for line in (tmp_path / "steps").read_text().split())
        assert steps == int(long_result().sgd_steps.sum())


def test_killed_process_releases_its_folder_at_once(tmp_path):
    hold = Hold(tmp_path, "task:computed")
    child = fork_server().start(tmp_path, "run", "-", "--serial", text=SPEC, env=hold.environment)
    until(hold.count)
    child.kill()
    child.wait()
    answer = run_command(tmp_path, "cancel", "2", "--json")
    assert answer.json["state"] == "cancelled"
    assert json.loads(answer.out)["id"]
