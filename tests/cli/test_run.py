"""`sweep run`: executors, input files and output."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from sweep_service.cli.answers import DONE, INTERRUPTED
from sweep_service.cli.arguments import choose_executor
from sweep_service.client.progress import Bar
from sweep_service.execution.executors import SerialExecutor
from sweep_service.execution.summary import summarise_sweep
from sweep_service.runner import MAX_SECONDS_IN_PROCESS
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import EMPTY_QUEUE, State, SweepRecord, WorkTotals
from tests.cli.commands import (
    COMMANDS,
    ENVIRONMENT,
    assert_refused,
    fork_server,
    list_files,
    list_processes,
    read_environment,
    run_command,
    run_in_new_process,
    until,
)
from tests.specs import LONG_SPEC, SMALL_SPEC


@pytest.mark.slow
def test_new_process_runs_a_sweep_from_standard_input(tmp_path):
    answer = run_in_new_process(["run", "-", "--json", "--serial"], tmp_path, input=json.dumps(SMALL_SPEC))
    assert (answer.returncode, answer.stderr) == (DONE, "")
    sweep = json.loads(answer.stdout)
    with xr.open_zarr(sweep["path"], chunks=None) as dataset:
        assert np.all(dataset.sgd_status == 1)


def test_sweep_is_computed_by_dask_by_default(tmp_path, stored_sweep):
    cwd, sweep_id = stored_sweep
    answer = run_in_new_process(["run", "-", "--workers", "1"], tmp_path, input=json.dumps(SMALL_SPEC))
    assert answer.returncode == DONE, answer.stderr
    assert answer.stdout.startswith("completed: 24 runs: 24 done\n")
    assert "dashboard" not in answer.stderr  # only a service has a door for it
    (path,) = tmp_path.glob("sweep-data/sweeps/*.zarr")
    with (
        xr.open_zarr(path, chunks=None) as dataset,
        xr.open_zarr(cwd / "sweep-data" / "sweeps" / f"{sweep_id}.zarr", chunks=None) as serial,
    ):
        for name in ("sgd_risk", "ode_risk", "sgd_status", "ode_status"):
            np.testing.assert_array_equal(dataset[name], serial[name])


@pytest.mark.slow
def test_interrupted_cluster_leaves_a_paused_sweep_and_no_process(tmp_path):
    command = [sys.executable, "-m", "sweep_service.cli", "run", "-", "--workers", "2", "--json"]
    variable = f"CHILD_OF={tmp_path}"
    child = subprocess.Popen(
        command, cwd=tmp_path, env={**ENVIRONMENT, "CHILD_OF": str(tmp_path)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    child.stdin.write(json.dumps({**LONG_SPEC, "time": {"max": 30000.0, "samples": 4}, "seeds": 4}))
    child.stdin.close()
    child.stdin = None
    until(lambda: list(tmp_path.glob("sweep-data/sweeps/*.parts/*.crumb")), 60.0)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate()
    assert child.returncode == INTERRUPTED, err
    assert json.loads(out)["state"] == "paused"
    assert run_command(tmp_path, "list", "--json").json[0]["state"] == "paused"
    until(lambda: not [pid for pid in list_processes() if variable in read_environment(pid)])


@pytest.mark.slow
def test_unreachable_scheduler_is_waited_for(tmp_path):
    child = fork_server().start(
        tmp_path, "run", "-", "--scheduler", "tcp://127.0.0.1:9", text=SMALL_SPEC, serial=False
    )
    until(lambda: "waiting for the scheduler at tcp://127.0.0.1:9" in child.text("err"), 60.0)
    child.kill(signal.SIGINT)
    answer = child.wait()
    assert answer.code == INTERRUPTED
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("argv", "phrases"),
    [
        (["--workers", "2", "--serial"], ("--workers = 2", "--serial")),
        (["--workers", "2", "--scheduler", "tcp://x:1"], ("--workers = 2", "--scheduler")),
        (["--scheduler", "tcp://x:1", "--serial"], ("--scheduler = 'tcp://x:1'", "--serial")),
        (["--scheduler", "nonsense"], ("--scheduler = 'nonsense'", "tcp://host:8786")),
        (["--scheduler", "http://x:1"], ("--scheduler = 'http://x:1'", "tcp://host:8786")),
    ],
    ids=lambda value: " ".join(value),
)
@pytest.mark.parametrize("command", ["run", "extend", "retry"])
def test_conflicting_or_invalid_executors_are_refused(tmp_path, command, argv, phrases):
    answer = run_command(tmp_path, *COMMANDS[command], *argv, text=SMALL_SPEC, serial=False)
    assert_refused(answer, *phrases)
    assert list_files(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "variables", "address"),
    [
        ({}, {}, "this machine"),
        ({"workers": 3}, {"SWEEP_SCHEDULER": "tcp://a:1"}, "this machine"),
        ({}, {"SWEEP_SCHEDULER": "tcp://a:1", "DASK_SCHEDULER_ADDRESS": "tcp://b:1"}, "tcp://a:1"),
        ({}, {"DASK_SCHEDULER_ADDRESS": "tcp://b:1"}, "tcp://b:1"),
        ({"scheduler": "tcp://c:1"}, {"SWEEP_SCHEDULER": "tcp://a:1"}, "tcp://c:1"),
        ({"serial": True}, {"SWEEP_SCHEDULER": "tcp://a:1"}, None),
    ],
    ids=["default", "workers", "environment", "dask's environment", "scheduler", "serial"],
)
def test_command_line_overrides_the_environment(tmp_path, monkeypatch, options, variables, address):
    for name in ("SWEEP_SCHEDULER", "DASK_SCHEDULER_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    arguments = {"workers": None, "scheduler": None, "serial": False, **options}
    executor = choose_executor(**arguments)(DataFolder(tmp_path / "data"), MAX_SECONDS_IN_PROCESS)
    assert getattr(getattr(executor, "cluster", None), "address", None) == address
    if "workers" in options:
        assert executor.cluster.workers == 3
    executor.close()
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("options", "variables", "in_process"),
    [({}, {}, True), ({"workers": 1}, {}, False), ({}, {"SWEEP_SCHEDULER": "tcp://a:1"}, False)],
    ids=["default", "workers", "scheduler"],
)
def test_little_work_is_done_in_process_unless_asked_otherwise(
    tmp_path, monkeypatch, options, variables, in_process
):
    for name in ("SWEEP_SCHEDULER", "DASK_SCHEDULER_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    arguments = {"workers": None, "scheduler": None, "serial": False, **options}
    executor = choose_executor(**arguments)(DataFolder(tmp_path / "data"), 0.5 * MAX_SECONDS_IN_PROCESS)
    assert isinstance(executor, SerialExecutor) == in_process
    executor.close()


def test_priority_is_stored(tmp_path):
    assert (
        run_command(tmp_path, "run", "-", "--priority", "3", "--json", text=SMALL_SPEC).json["priority"] == 3
    )


def test_output_of_run_says_how_to_open_the_dataset(tmp_path):
    answer = run_command(tmp_path, "run", "-", text=SMALL_SPEC)
    namespace = {}
    code = "\n".join(line.strip() for line in answer.out.splitlines() if line.startswith("    "))
    exec(code, namespace)
    with namespace["ds"] as dataset:
        assert "sgd_risk" in dataset


@pytest.mark.slow
def test_json_and_yaml_files_are_read(tmp_path):
    (tmp_path / "a b.json").write_text(json.dumps(SMALL_SPEC))
    yaml = (
        "axes: {d: [5, 8], p: 4, gamma: [1.0e-1, 0.5], regime: classical_noise}\nfixed: {k: 2, noise: 1e-3}\n"
    )
    yaml += "init: {kind: informed, shared: true}\nseeds: {init: 2, repeat: 2}\ntime: {max: 2, samples: 4}\n"
    (tmp_path / "b.yaml").write_text(yaml)
    first = run_command(tmp_path, "run", "a b.json", "--json").json
    second = run_command(tmp_path, "run", "b.yaml", "--json").json
    assert first["id"] == second["id"]


def test_bar_starts_at_the_progress_of_a_continued_sweep(monkeypatch):
    """400 of 1000 predicted seconds are done, and 100 are merged each minute."""
    now = 0.0
    monkeypatch.setattr("rich.console.monotonic", lambda: now)
    sweep = SweepRecord("id", "", "slow", State.RUNNING, "", "", None, "", 1000, 0)

    def show(done, **changes):
        work = WorkTotals(1, done, done, done, done, bundles_left=1, cost_left=1000.0 - done)
        totals = {
            "bundles_left": 1,
            "counts": {Status.DONE: int(done)},
            "seconds": done,
            "merged": "",
            "queue": EMPTY_QUEUE,
            "recent": [],
        }
        bar.show(summarise_sweep(sweep, {**totals, "work": {"sgd/S1": work}}) | changes)
        (task,) = bar.bar.tasks
        return task.percentage, task.time_remaining, task.fields["left"], task.fields["speed"]

    with Bar(quiet=True) as bar:
        assert show(400.0)[0] == 40.0
        shown = []
        for minute in (1, 2, 3):
            now = 60.0 * minute
            shown.append(show(400.0 + 100.0 * minute))
        now += 1.0
        shown.append(show(700.0))
        assert [values[0] for values in shown] == pytest.approx([50.0, 60.0, 70.0, 70.0])
        # 300 seconds of work at 100 per minute; rich rounds up to whole seconds
        assert shown[-1][1:] == (pytest.approx(180, abs=1), "3 min left", "1.7 core-s/s")
        assert show(700.0, eta_seconds=7200.0)[2] == "2 h left"  # the service's own prediction is used
        wide = {"eta_low_seconds": 3600.0, "eta_high_seconds": 10800.0}
        assert show(700.0, eta_seconds=7200.0, **wide)[2] == "2 h left (1 h to 3 h)"
