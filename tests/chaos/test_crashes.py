"""Killed processes: repeating the command gives the same dataset, whenever it was killed."""

import json
import shutil
import signal
import sqlite3
import time as clock
from collections import Counter
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import xarray as xr

from sweep_service.cli.answers import DONE, FAILED, INTERRUPTED
from sweep_service.faults import FAULT_POINTS
from sweep_service.workers.worker_check import NONCE
from tests.cli.commands import fork_server, run_command, until
from tests.hold import Hold

SPEC = {
    "axes": {"d": [5, 8], "p": [3, 4], "gamma": 0.2, "regime": ["classical_noise", "high_dimensional"]},
    "fixed": {"k": 2, "noise": 1e-3},
    "init": {"kind": "informed", "shared": True},
    "seeds": [1],
    "time": {"max": 1.0, "samples": 4},
    "observables": ["risk"],
}
EARLIER = {**SPEC, "axes": {**SPEC["axes"], "d": 8, "p": [3, 7]}}
# Several bundles, and a line in the file `jobs` for every computed job.
COUNTED = """
import json
from dataclasses import asdict
import sweep_service.execution.conductor as conducting
import sweep_service.execution.task as tasks
from sweep_service.planning.bundles import BundleLimits
limits = BundleLimits(target_seconds={bundle_seconds})
conducting.DEFAULT_SETTINGS = conducting.ConductorSettings(limits, merge_interval_seconds=-1.0)
plain = tasks.compute
def counted(plan, job, *rest):
    found = plain(plan, job, *rest)
    with open("jobs", "a") as file:
        file.write(json.dumps([plan.grid.key.digest[:8], asdict(job)], sort_keys=True) + "\\n")
    return found
tasks.compute = counted
"""
FAILING = """
import sweep_service.execution.compute as computing
whole = computing.integrate_run
def broken(point, **options):
    if point.p in (4, 7):
        raise RuntimeError("out of order")
    return whole(point, **options)
computing.integrate_run = broken
"""
BUNDLE_SECONDS = 0.0  # every run is a bundle, so that repeated computations are counted by run
ONCE = (
    "submit:disown",
    "submit:spec",
    "submit:keys",
    "submit:dataset",
    "submit:reuse",
    "submit:ledger",
    "finish:state",
)
RUNNING = [
    point for point in FAULT_POINTS if point.partition(":")[0] in ("submit", "task", "merge", "finish")
]
COMMANDS = {"cancel": "cancel", "retry": "retry", "remove": "rm"}


def begin(cwd, spec=SPEC, fault=None, failing=False, bundle_seconds=BUNDLE_SECONDS):
    before = COUNTED.format(bundle_seconds=bundle_seconds) + (FAILING if failing else "")
    env = {"SWEEP_FAULT": fault} if fault else {}
    return fork_server().start(cwd, "run", "-", "--serial", "--json", text=spec, before=before, env=env)


def run(cwd, **options):
    return begin(cwd, **options).wait()


@cache
def earlier(failing):
    """Make a folder with an earlier sweep that shares some runs with the next."""
    folder = TemporaryDirectory()
    answer = run(Path(folder.name), spec=EARLIER, failing=failing)
    assert answer.code == (FAILED if failing else DONE), answer.err
    return folder


def prepared(cwd, failing):
    shutil.copytree(Path(earlier(failing).name) / "sweep-data", cwd / "sweep-data")


def computed(cwd):
    """Count how often each job was computed."""
    path = cwd / "jobs"
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


def dataset(cwd, answer):
    with xr.open_zarr(cwd / answer.json["path"], chunks=None) as opened:
        return opened.load().drop_vars(["sgd_seconds", "ode_seconds"], errors="ignore")


@cache
def undisturbed(reuse, failing):
    with TemporaryDirectory() as folder:
        cwd = Path(folder)
        if reuse:
            prepared(cwd, failing)
        answer = run(cwd, failing=failing)
        assert answer.code == (FAILED if failing else DONE), answer.err
        return answer.json, dataset(cwd, answer), computed(cwd)


def assert_as_if_nothing_had_happened(cwd, answer, reuse=False, failing=False, lost=0):
    """Check the dataset, the ledger and the folder; `lost` jobs may have been computed twice."""
    expected, wanted, jobs = undisturbed(reuse, failing)
    assert answer.code == (FAILED if failing else DONE), answer.err
    assert answer.err == ""
    for name in ("state", "counts", "runs", "reused", "bundles_left", "key", "reason"):
        assert answer.json[name] == expected[name], name
    xr.testing.assert_equal(dataset(cwd, answer), wanted)
    computed_jobs = computed(cwd)
    assert set(computed_jobs) == set(jobs)
    assert sum((computed_jobs - jobs).values()) <= lost
    assert_tidy(cwd / "sweep-data", 1 + reuse)


def assert_tidy(data, sweeps):
    """Check that no file of a dead process is left, and no file of an unknown sweep."""
    endings = (".partial", ".npz", ".checkpoint", ".crumb", ".unowned", ".restart")
    assert [path for path in data.rglob("*") if path.name.endswith(endings)] == []
    with closing(sqlite3.connect(data / "ledger.sqlite")) as ledger:
        known = {name for (name,) in ledger.execute("select id from sweeps")}
    stored = {path.name.partition(".")[0] for path in (data / "sweeps").iterdir()}
    assert stored - {NONCE} == known  # read by the worker check
    assert len(known) == sweeps


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


def kill_sometime(cwd, rng, kills, failing):
    """Kill a command after random times, up to about its duration."""
    for _ in range(kills):
        child = begin(cwd, failing=failing)
        clock.sleep(float(rng.uniform(0.0, 0.7)))
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    "round", [*range(6), *(pytest.param(n, marks=pytest.mark.slow) for n in range(6, 200))]
)
def test_run_killed_at_random_times_continues(tmp_path, round):
    rng = np.random.default_rng(round)
    kills, failing = 1 + round % 2, round % 3 == 0
    kill_sometime(tmp_path, rng, kills, failing)
    assert_as_if_nothing_had_happened(tmp_path, run(tmp_path, failing=failing), failing=failing, lost=kills)


@pytest.mark.parametrize("command", ["cancel", "rm", "extend"])
@pytest.mark.parametrize("round", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 20))])
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
