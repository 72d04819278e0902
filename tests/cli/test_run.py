"""`sweep run`: who computes, what is read, and what is said in the end."""

import json
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from sweep_service.cli.answers import DONE, INTERRUPTED
from sweep_service.cli.arguments import executor_of
from sweep_service.client.progress import Bar
from sweep_service.execution.summary import view
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State, Sweep
from tests.cli.commands import (
    COMMANDS,
    ENVIRONMENT,
    LONG,
    SMALL,
    assert_refused,
    environment,
    fresh,
    nursery,
    processes,
    sweep,
    trace_of,
    until,
)


@pytest.mark.slow
def test_a_new_process_runs_a_sweep_from_standard_input(tmp_path):
    answer = fresh(["run", "-", "--json", "--serial"], tmp_path, input=json.dumps(SMALL))
    assert (answer.returncode, answer.stderr) == (DONE, "")
    about = json.loads(answer.stdout)
    with xr.open_zarr(about["path"], chunks=None) as found:
        assert np.all(found.sgd_status == 1)


def test_by_default_a_sweep_is_computed_by_dask(tmp_path, filled):
    cwd, known = filled
    answer = fresh(["run", "-", "--workers", "1"], tmp_path, input=json.dumps(SMALL))
    assert answer.returncode == DONE, answer.stderr
    assert answer.stdout.startswith("completed: 24 runs: 24 done\n")
    assert re.findall(r"dashboard http\S+", answer.stderr), answer.stderr
    (path,) = tmp_path.glob("sweep-data/sweeps/*.zarr")
    with (
        xr.open_zarr(path, chunks=None) as found,
        xr.open_zarr(cwd / "sweep-data" / "sweeps" / f"{known}.zarr", chunks=None) as serial,
    ):
        for name in ("sgd_risk", "ode_risk", "sgd_status", "ode_status"):
            np.testing.assert_array_equal(found[name], serial[name])


@pytest.mark.slow
def test_an_interrupted_cluster_leaves_a_paused_sweep_and_no_process(tmp_path):
    command = [sys.executable, "-m", "sweep_service.cli", "run", "-", "--workers", "2", "--json"]
    mark = f"CHILD_OF={tmp_path}"
    child = subprocess.Popen(
        command, cwd=tmp_path, env={**ENVIRONMENT, "CHILD_OF": str(tmp_path)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    child.stdin.write(json.dumps({**LONG, "time": {"max": 30000.0, "samples": 4}, "seeds": 4}))
    child.stdin.close()
    child.stdin = None
    until(lambda: list(tmp_path.glob("sweep-data/sweeps/*.parts/*.crumb")), 60.0)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate()
    assert child.returncode == INTERRUPTED, err
    assert json.loads(out)["state"] == "paused"
    assert sweep(tmp_path, "list", "--json").json[0]["state"] == "paused"
    until(lambda: not [pid for pid in processes() if mark in environment(pid)])


@pytest.mark.slow
def test_a_scheduler_that_is_not_there_is_waited_for(tmp_path):
    child = nursery().start(
        tmp_path, "run", "-", "--scheduler", "tcp://127.0.0.1:9", text=SMALL, serial=False
    )
    until(lambda: "waiting for the scheduler at tcp://127.0.0.1:9" in child.text("err"), 60.0)
    child.kill(signal.SIGINT)
    answer = child.wait()
    assert answer.code == INTERRUPTED
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("argv", "words"),
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
def test_who_computes_is_said_once_and_well(tmp_path, command, argv, words):
    answer = sweep(tmp_path, *COMMANDS[command], *argv, text=SMALL, serial=False)
    assert_refused(answer, *words)
    assert trace_of(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "given", "address"),
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
def test_the_command_line_goes_before_the_environment(tmp_path, monkeypatch, options, given, address):
    for name in ("SWEEP_SCHEDULER", "DASK_SCHEDULER_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    asked = {"workers": None, "scheduler": None, "serial": False, **options}
    executor = executor_of(**asked)(DataFolder(tmp_path / "data"))
    assert getattr(getattr(executor, "cluster", None), "address", None) == address
    if "workers" in options:
        assert executor.cluster.workers == 3
    executor.close()
    assert not (tmp_path / "data").exists()


def test_a_priority_is_kept(tmp_path):
    assert sweep(tmp_path, "run", "-", "--priority", "3", "--json", text=SMALL).json["priority"] == 3


def test_run_says_how_to_open_what_it_stored(tmp_path):
    answer = sweep(tmp_path, "run", "-", text=SMALL)
    namespace = {}
    code = "\n".join(line.strip() for line in answer.out.splitlines() if line.startswith("    "))
    exec(code, namespace)
    with namespace["ds"] as found:
        assert "sgd_risk" in found


@pytest.mark.slow
def test_files_of_both_kinds_and_a_name_with_spaces_are_read(tmp_path):
    (tmp_path / "a b.json").write_text(json.dumps(SMALL))
    yaml = (
        "axes: {d: [5, 8], p: 4, gamma: [1.0e-1, 0.5], regime: classical_noise}\nfixed: {k: 2, noise: 1e-3}\n"
    )
    yaml += "init: {kind: informed, shared: true}\nseeds: {init: 2, repeat: 2}\ntime: {max: 2, samples: 4}\n"
    (tmp_path / "b.yaml").write_text(yaml)
    first = sweep(tmp_path, "run", "a b.json", "--json").json
    second = sweep(tmp_path, "run", "b.yaml", "--json").json
    assert first["id"] == second["id"]


def test_the_bar_goes_on_where_a_sweep_was_and_knows_long_bundles(monkeypatch):
    """Of 1000 predicted seconds 400 are behind it, and 100 are merged each minute."""
    now = 0.0
    monkeypatch.setattr("rich.console.monotonic", lambda: now)
    one = Sweep("id", "", "slow", State.RUNNING, "", "", None, "", 1000, 0)

    def shown(done, **more):
        costs = {"cost_done": done, "cost_left": 1000.0 - done, "cost_dropped": 0.0, "seconds": done}
        bar.show(view(one, {**costs, "bundles_left": 1, "counts": {Status.DONE: int(done)}}) | more)
        (task,) = bar.bar.tasks
        return task.percentage, task.time_remaining, task.fields["left"], task.fields["speed"]

    with Bar(quiet=True) as bar:
        assert shown(400.0)[0] == 40.0
        seen = []
        for minute in (1, 2, 3):
            now = 60.0 * minute
            seen.append(shown(400.0 + 100.0 * minute))
        now += 1.0
        seen.append(shown(700.0))
        assert [one[0] for one in seen] == pytest.approx([50.0, 60.0, 70.0, 70.0])
        # 300 seconds of work at 100 a minute; whole seconds are rounded up, by rich
        assert seen[-1][1:] == (pytest.approx(180, abs=1), "3 min left", "1.7 core-s/s")
        assert shown(700.0, eta_seconds=7200.0)[2] == "2 h left"  # a service knows better
