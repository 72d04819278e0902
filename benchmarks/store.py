"""The store at scale: merging parts, against writing the same numbers at once; and reading them."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

from benchmarks.harness import Row, time_interleaved
from sweep_service.execution.merger import Merger
from sweep_service.planning.bundles import Bundle
from sweep_service.planning.grids import Grid
from sweep_service.planning.jobs import Job
from sweep_service.planning.keys import KEY_DTYPE
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import Ledger, State, SweepRecord, utc_now
from sweep_service.store.parts import Part

SWEEP_ID = "scale"
RUNS_PER_PART = 500
MERGE_LIMIT_SECONDS = 2e-4  # processor time per point
OPEN_LIMIT_SECONDS, CURVE_LIMIT_SECONDS = 1.0, 0.05


def store(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as root:
        folder, ledger, plan = make_unmerged_sweep(
            Path(root), make_spec(20 if quick else 1000, 10 if quick else 100)
        )
        points = len(plan.grid)
        began, wall_seconds = time.process_time(), time.perf_counter()
        Merger(folder, ledger).merge(SWEEP_ID)
        merge_seconds, wall_seconds = time.process_time() - began, time.perf_counter() - wall_seconds
        assert ledger.totals(SWEEP_ID)["counts"] == {Status.DONE: 2 * points}
        ledger.close()
        began = time.process_time()
        write_at_once(Path(root) / "once.zarr", plan)
        write_seconds = time.process_time() - began
        yield Row(
            f"store/merge-{points}", f"{points} points from parts of {RUNS_PER_PART} runs", merge_seconds,
            "the risks in one write", write_seconds, limit=None if quick else MERGE_LIMIT_SECONDS * points,
            note=f"{1e3 * merge_seconds / points:.3f} ms per point; {wall_seconds:.3g} s by the wall clock, "
            f"with every fsync; at most {peak_megabytes():.0f} MB.",
        )  # fmt: skip
        path = folder.dataset_path(SWEEP_ID)
        dataset = xr.open_dataset(path, engine="zarr", cache=False)
        opened, curve, whole = time_interleaved(
            lambda: xr.open_zarr(path, chunks=None),
            lambda: one_curve(dataset).values,
            lambda: dataset.sgd_risk.values,
            repeats=2 if quick else 5,
        )
        yield Row(
            f"store/open-{points}", "open_zarr", opened.seconds, "reading every risk", whole.seconds,
            limit=None if quick else OPEN_LIMIT_SECONDS,
        )  # fmt: skip
        yield Row(
            f"store/curve-{points}", "one curve of an open dataset", curve.seconds, "reading every risk",
            whole.seconds, limit=None if quick else CURVE_LIMIT_SECONDS,
        )  # fmt: skip


def make_spec(d: int, gamma: int, **other: Any) -> dict[str, Any]:
    """SGD and one regime at d × gamma points."""
    return {
        "axes": {
            "d": {"lin": [10, 9 + d, d]},
            "p": 4,
            "gamma": {"log": [0.01, 1.0, gamma]},
            "regime": ["classical_noise"],
        },
        "fixed": {"k": 2},
        "time": {"max": 10.0, "samples": 40},
        "observables": ["risk"],
        **other,
    }


def make_unmerged_sweep(root: Path, content: dict[str, Any]) -> tuple[DataFolder, Ledger, SweepPlan]:
    """A sweep without copies that is computed but not merged; its parts hold random numbers."""
    folder, spec = DataFolder(root), SweepSpec.parse(content)
    folder.objects.prepare()
    folder.objects.put(f"{SWEEP_ID}.json", spec.model_dump_json().encode())
    plan = SweepPlan(Grid.of(spec, validate=False))
    folder.create_dataset(SWEEP_ID, plan, {})
    counts = {kind: plan.runs.count(kind) for kind in plan.schema.variables}
    folder.put_keys(SWEEP_ID, {kind: make_keys(counts.get(kind, 0)) for kind in ("sgd", "ode")})
    bundles, rng = [], np.random.default_rng(0)
    for kind, count in counts.items():
        for begin in range(0, count, RUNS_PER_PART):
            bundles.append(Bundle((Job(kind, begin, 0, (0,), (0,)),), 5.0))  # only its name is used
            part = make_part(plan, kind, np.arange(begin, min(count, begin + RUNS_PER_PART)), rng)
            folder.objects.put(f"{SWEEP_ID}.parts/{bundles[-1].key}.npz", part.pack())
    ledger, now = folder.ledger(), utc_now()
    ledger.add(
        SweepRecord(SWEEP_ID, "", "", State.RUNNING, now, now, None, "", sum(counts.values()), 0), bundles
    )
    return folder, ledger, plan


def make_keys(count: int) -> np.ndarray[Any, Any]:
    """`count` different run keys."""
    return np.arange(2 * count, dtype="<u8").view(KEY_DTYPE)


def make_part(plan: SweepPlan, kind: Kind, numbers: np.ndarray[Any, Any], rng: np.random.Generator) -> Part:
    """A part as a task would write it, with random values."""
    values: dict[str, Any] = {}
    for name, variable in plan.schema.variables[kind].items():
        shape = (len(numbers), *variable.shape[len(variable.leading) :])
        if name == "status":
            values[name] = np.full(shape, Status.DONE, np.int8)
        elif variable.dtype == "float64":
            values[name] = rng.random(shape)
        else:
            values[name] = rng.integers(0, 5, shape).astype(variable.dtype)
    return Part({kind: numbers}, {kind: values}, ())


def write_at_once(path: Path, plan: SweepPlan) -> None:
    """Write risks from memory, chunk by chunk in order."""
    group = zarr.open_group(path, mode="w")
    for variables in plan.schema.variables.values():
        risk = variables["risk"]
        array = group.create_array(risk.name, shape=risk.shape, chunks=risk.chunks, dtype=risk.dtype)
        array[...] = np.random.default_rng(0).random(risk.shape)


def one_curve(dataset: xr.Dataset) -> xr.DataArray:
    return dataset.sgd_risk.sel(d=15, p=4, seed=0, repeat=0).isel(gamma=3)


def peak_megabytes() -> float:
    """Peak memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would also count the memory of the parent when it forked this process
        peak = next(line for line in status.read_text("utf-8").splitlines() if line.startswith("VmHWM"))
        return float(peak.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
