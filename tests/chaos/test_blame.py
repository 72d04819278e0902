"""Blame for deaths: a run that kills its process each time is given up, and no other run."""

import json
import signal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import xarray as xr

from sweep_service.cli.answers import DONE, FAILED
from sweep_service.execution.task import MAX_DEATHS
from tests.chaos.crashes import assert_tidy, dataset
from tests.chaos.test_crashes import LONG
from tests.cli.commands import fork_server, run_command

TWO = {**LONG, "seeds": 2, "time": {"max": 10.0, "samples": 4}}
# Dies after a number of checkpoints.
DYING = """
import os, signal
import sweep_service.execution.conductor as conducting
import sweep_service.simulators.run as r
import sweep_service.execution.task as tasks
from sweep_service.planning.bundles import BundleLimits
conducting.DEFAULT_SETTINGS = conducting.ConductorSettings(BundleLimits(target_seconds=60.0))
r.CHECKPOINT_INTERVAL_SECONDS = 0.0 if {saves} else 30.0
r.SLICE_SECONDS = 0.02
plain, left = tasks.ObjectCheckpoint.save, [{saves}]
def saved(self, content):
    plain(self, content)
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
tasks.ObjectCheckpoint.save = saved
"""


def run(cwd, saves=0, env=None):
    before = DYING.format(saves=saves)
    return fork_server().start(cwd, "run", "-", "--serial", "--json", text=TWO, before=before, env=env).wait()


@cache
def wanted():
    with TemporaryDirectory() as folder:
        return dataset(Path(folder), run_command(Path(folder), "run", "-", "--serial", "--json", text=TWO))


def test_run_that_progresses_between_deaths_is_not_blamed(tmp_path):
    """The process is killed repeatedly, as on a machine that is taken away; the run is not the cause."""
    for _ in range(MAX_DEATHS + 2):
        assert run(tmp_path, saves=2).code == -signal.SIGKILL
    (crumb,) = tmp_path.glob("sweep-data/sweeps/*.parts/*.crumb")
    assert max(json.loads(crumb.read_text())["deaths"].values(), default=0) < MAX_DEATHS
    answer = run(tmp_path)
    assert answer.code == DONE, answer.err
    xr.testing.assert_equal(dataset(tmp_path, answer), wanted())
    assert_tidy(tmp_path / "sweep-data", 1)


def test_run_without_progress_between_deaths_is_blamed(tmp_path):
    env = {"SWEEP_FAULT": "run:sgd-1"}
    for _ in range(MAX_DEATHS + 1):
        assert run(tmp_path, env=env).code == -signal.SIGKILL
    answer = run(tmp_path, env=env)
    assert answer.code == FAILED, answer.err
    assert answer.json["counts"] == {"done": 1, "failed": 1}
    assert_tidy(tmp_path / "sweep-data", 1)
