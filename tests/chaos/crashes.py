"""A small sweep whose process is killed, and what must hold when its command is repeated."""

import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import xarray as xr

from sweep_service.cli.answers import DONE, FAILED
from sweep_service.faults import FAULT_POINTS
from sweep_service.workers.worker_check import NONCE
from tests.cli.commands import fork_server

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
    result = plain(plan, job, *rest)
    with open("jobs", "a") as file:
        file.write(json.dumps([plan.grid.key.digest[:8], asdict(job)], sort_keys=True) + "\\n")
    return result
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
