"""Merging of many and of large runs in little memory."""

import json
import subprocess
import sys

import pytest
import xarray as xr

from benchmarks import store as scale
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from tests.execution.merging import BASE, MERGE, ROOT, prepare_sweep, put_parts

MEMORY_LIMIT_MEGABYTES = 1000.0
SCALE = """
import json, sys, time
from pathlib import Path
from benchmarks import store
content = json.loads(sys.argv[2])
folder, ledger, plan = store.make_unmerged_sweep(Path(sys.argv[1]), content)
began = time.process_time()
store.Merger(folder, ledger).merge(store.SWEEP_ID)
seconds = time.process_time() - began
print(json.dumps(dict(points=len(plan.grid), seconds=seconds, memory=store.peak_megabytes(),
    counts={s.label: n for s, n in ledger.totals(store.SWEEP_ID)["counts"].items()})))
"""


def merged(root, content):
    """Merge in a new process; return points, processor seconds, megabytes and counts."""
    command = [sys.executable, "-c", SCALE, str(root), json.dumps(content)]
    process = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.mark.slow
def test_hundred_thousand_points_are_merged_and_read_within_limits(tmp_path):
    report = merged(tmp_path, scale.make_spec(1000, 100))
    assert report["points"] == 100_000
    assert report["counts"] == {"done": 200_000}
    assert report["memory"] < MEMORY_LIMIT_MEGABYTES
    path = DataFolder(tmp_path).dataset_path(scale.SWEEP_ID)
    opening = scale.time_interleaved(lambda: xr.open_zarr(path, chunks=None))[0]
    assert opening.seconds < scale.OPEN_LIMIT_SECONDS
    dataset = xr.open_dataset(path, engine="zarr", cache=False)
    assert (
        scale.time_interleaved(lambda: scale.one_curve(dataset).values)[0].seconds < scale.CURVE_LIMIT_SECONDS
    )
    assert int((dataset.sgd_status == Status.DONE).sum()) == 100_000
    assert report["seconds"] < scale.MERGE_LIMIT_SECONDS * report["points"]


@pytest.mark.slow
def test_wide_runs_are_merged_in_little_memory(tmp_path):
    """5000 runs of 78 kB each."""
    content = scale.make_spec(50, 100, observables=["risk", "overlaps"], time={"max": 1.0, "samples": 120})
    content["axes"] = {**content["axes"], "p": 8}
    del content["axes"]["regime"]
    report = merged(tmp_path, content)
    assert report["counts"] == {"done": 5000}
    assert report["memory"] < MEMORY_LIMIT_MEGABYTES


@pytest.mark.slow
def test_run_with_many_copies_is_merged_in_little_memory(tmp_path):
    """800 MB of numbers, all of one run."""
    axes = {"d": {"lin": [20, 1019, 1000]}, "p": 8, "gamma": {"lin": [0.1, 1, 10]}, "regime": ["classical"]}
    spec = {
        **BASE, "axes": axes, "fixed": {"k": 2}, "init": {"kind": "informed", "shared": True}, "seeds": 1,
        "simulate": False, "time": {"max": 1.0, "samples": 120}, "observables": ["risk", "overlaps"],
    }  # fmt: skip
    sweep = prepare_sweep(tmp_path, spec)
    assert len(sweep.bundles) == 1
    put_parts(sweep)
    sweep.ledger.close()
    code = MERGE + "from benchmarks.store import peak_megabytes\nprint(peak_megabytes())"
    process = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert float(process.stdout) < 600.0  # of which imports take 200
