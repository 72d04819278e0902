"""Shared by the tests of the merger: a submitted sweep with synthetic parts."""

import hashlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import xarray as xr

import sweep_service
from benchmarks import store as scale
from sweep_service.execution.merger import MAX_MERGE_BYTES, Merger
from sweep_service.planning.bundles import Bundle
from sweep_service.planning.grids import Grid
from sweep_service.planning.jobs import Job
from sweep_service.planning.keys import CopyGroups
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.planning.versions import engine_versions, job_versions
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State, SweepRecord, utc_now
from sweep_service.store.parts import Part

ROOT = Path(sweep_service.__file__).parents[1]


BASE = {
    "axes": {"d": [5, 6, 7], "p": 2, "gamma": [0.1, 0.2], "regime": ["classical", "classical_noise"]},
    "fixed": {"k": 1},
    "seeds": {"init": 2, "repeat": 2},
    "time": {"max": 0.1, "samples": 2},
    "observables": ["risk"],
}


MERGE = """
import sys
from sweep_service.store.folder import DataFolder
from sweep_service.execution.merger import Merger
folder = DataFolder(sys.argv[1])
Merger(folder, folder.ledger()).merge("s")
"""


def prepare_sweep(root, spec=BASE, size=5):
    """Make a submitted sweep `s`, with bundles of `size` jobs and a part for each bundle."""
    parsed, folder = SweepSpec.parse(spec), DataFolder(root)
    plan = SweepPlan(Grid.of(parsed))
    folder.objects.prepare()
    folder.objects.put("s.json", parsed.model_dump_json().encode())
    folder.put_keys("s", plan.keys)
    folder.create_dataset("s", plan, {})
    jobs = []
    for kind in plan.schema.variables:
        jobs += [
            Job.of(plan.runs.find(f"{kind}-{number}")) for number in CopyGroups(plan.keys[kind]).first_runs()
        ]
    bundles = [Bundle(tuple(jobs[at : at + size]), 1.0) for at in range(0, len(jobs), size)]
    ledger, now = folder.ledger(), utc_now()
    ledger.add(
        SweepRecord(
            "s", "", "", State.RUNNING, now, now, None, "", 36, 0, versions=engine_versions(plan.grid)
        ),
        bundles,
    )
    rng = np.random.default_rng(0)
    parts = {bundle.key: synthetic(plan, bundle, rng) for bundle in bundles}
    return SimpleNamespace(folder=folder, plan=plan, ledger=ledger, bundles=bundles, parts=parts)


def synthetic(plan, bundle, rng):
    results = [
        scale.make_part(plan, kind, np.concatenate(numbers), rng)
        for kind in ("sgd", "ode")
        if (numbers := [job.numbers(plan.runs) for job in bundle.jobs if job.kind == kind])
    ]
    numbers = {kind: array for part in results for kind, array in part.numbers.items()}
    values = {kind: array for part in results for kind, array in part.values.items()}
    return Part(numbers, values, (), job_versions(plan.grid, bundle.jobs))


def put_parts(sweep, keys=None):
    for key in sweep.parts if keys is None else keys:
        sweep.folder.objects.put(f"s.parts/{key}.npz", sweep.parts[key].pack())


def merge(sweep, max_merge_bytes=MAX_MERGE_BYTES):
    Merger(sweep.folder, sweep.ledger, max_merge_bytes=max_merge_bytes).merge("s")


def list_parts(sweep):
    return list(sweep.folder.objects.list("s.parts/"))


def digest(sweep):
    """Return a digest of every file of the dataset."""
    root = sweep.folder.dataset_path("s")
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }


def open_sweep(sweep):
    return xr.open_zarr(sweep.folder.dataset_path("s"), chunks=None)
