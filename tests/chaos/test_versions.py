"""Upgrades: processes of two versions of the code work on one data folder, and die in between."""

import json
import signal

import numpy as np
import pytest
import xarray as xr

from sweep_service.cli.answers import DONE, INTERRUPTED
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.faults import FAULT_POINTS
from sweep_service.simulators.selection import SIMULATORS
from tests.chaos.crashes import COUNTED, SPEC, assert_tidy
from tests.cli.commands import fork_server

RESTARTING = [point for point in FAULT_POINTS if point.startswith("restart:")]
OFFSET = 1000.0
OLD = {
    "simulator S1": SIMULATORS["S1"].version,
    **{f"regime {name}": REGIMES[name].version for name in ("classical_noise", "high_dimensional")},
}
RAISED = {name: OLD[name] + step for name, step in {"simulator S1": 1, "regime classical_noise": 2}.items()}
NEW = {**OLD, **RAISED}
# Code of another version: the simulator S1 and one regime have changed, and give other numbers.
NEWER = (
    COUNTED.format(bundle_seconds=0.0)
    + f"""
from dataclasses import replace
import sweep_service.execution.compute as computing
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.simulators.selection import SIMULATORS
vars(SIMULATORS["S1"])["version"] = {OLD["simulator S1"] + 1}
vars(REGIMES["classical_noise"])["version"] = {OLD["regime classical_noise"] + 2}
run_chains, integrate_run = computing.run_chains, computing.integrate_run
def new_chains(point, **options):
    simulation = run_chains(point, **options)
    simulation.values["risk"][...] += {OFFSET}
    return simulation
def new_integration(point, **options):
    solution = integrate_run(point, **options)
    dims, risk = solution.variables["risk"]
    offset = {OFFSET} * (options["regime"] == "classical_noise")
    return replace(solution, variables={{**solution.variables, "risk": (dims, risk + offset)}})
computing.run_chains, computing.integrate_run = new_chains, new_integration
"""
)
OLDER = COUNTED.format(bundle_seconds=0.0)
REASON = ", ".join(f"{name} had version {OLD[name]} and has {RAISED[name]}" for name in RAISED)


def command(cwd, *argv, code=NEWER, spec=SPEC, fault=None):
    env = {"SWEEP_FAULT": fault} if fault else {}
    text = spec if "-" in argv else ""
    return fork_server().start(cwd, *argv, "--json", text=text, before=code, env=env).wait()


def half_done(cwd):
    """Return the id of a sweep whose process, of the older version, was killed, with a part not merged."""
    killed = command(cwd, "run", "-", code=OLDER, fault="task:part#4")
    assert killed.code == -signal.SIGKILL
    (sweep,) = command(cwd, "list", code=OLDER).json
    return sweep["id"]


def dataset(path):
    with xr.open_zarr(path, chunks=None, consolidated=True) as stored:
        return stored.load().drop_vars(["sgd_seconds", "ode_seconds"])


def assert_newer(answer):
    """Check that every run, and the attributes, are of the newer version."""
    assert answer.code == DONE, answer.err
    assert answer.json["versions"] == NEW
    stored = dataset(answer.json["path"])
    assert json.loads(stored.attrs["versions"]) == answer.json["versions"]
    assert np.all(stored.sgd_risk > OFFSET / 2)
    assert np.all(stored.ode_risk.sel(regime="classical_noise") > OFFSET / 2)
    assert np.all(stored.ode_risk.sel(regime="high_dimensional") < OFFSET / 2)
    return stored


def test_half_done_sweep_is_paused_by_a_newer_version_and_resumed(tmp_path):
    sweep_id = half_done(tmp_path)
    new = command(tmp_path, "run", "-", "--no-figure")  # starts with the newer version, and is a new sweep
    assert new.json["id"] != sweep_id
    fresh = assert_newer(new)
    shown = command(tmp_path, "show", sweep_id).json
    assert shown["state"] == "paused"
    assert shown["reason"].startswith(f"{REASON}: resume computes these runs again")
    old = dataset(shown["path"])
    assert json.loads(old.attrs["versions"])["simulator S1"] == OLD["simulator S1"]
    done = old.sgd_status == 1
    assert done.any() or (old.ode_status == 1).any()  # what was computed stays readable
    assert np.all(old.sgd_risk.where(done, 0.0) < OFFSET / 2)
    listed = fork_server().start(tmp_path, "list", before=NEWER).wait()
    assert f"{sweep_id}: {REASON}" in listed.out
    assert command(tmp_path, "retry", sweep_id).code == INTERRUPTED  # does not discard what is stored
    resumed = command(tmp_path, "resume", sweep_id)
    assert resumed.json["id"] == sweep_id
    assert resumed.json["key"] == new.json["key"]
    xr.testing.assert_equal(assert_newer(resumed), fresh)
    assert_tidy(tmp_path / "sweep-data", 2)


SLOW_POINTS = [pytest.param(point, marks=pytest.mark.slow) for point in RESTARTING if point != "restart:keys"]


@pytest.mark.parametrize("point", ["restart:keys", *SLOW_POINTS])
def test_killed_resume_leads_to_the_same_sweep(tmp_path, point):
    sweep_id = half_done(tmp_path)
    assert command(tmp_path, "resume", sweep_id, fault=point).code == -signal.SIGKILL
    # Any command that changes the folder completes what was begun.
    command(tmp_path, "run", "-", spec={**SPEC, "axes": {**SPEC["axes"], "gamma": 0.3}})
    shown = command(tmp_path, "show", sweep_id).json
    assert (shown["state"], shown["reason"]) == ("queued", f"restarted: {REASON}")
    assert_newer(command(tmp_path, "resume", sweep_id))
    assert_tidy(tmp_path / "sweep-data", 2)
