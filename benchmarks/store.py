"""The store at scale: parts into a dataset, against writing the same numbers at once; then reading them."""

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

from benchmarks.harness import Row, interleaved
from sweep_service.execution.merger import Merger
from sweep_service.planning.bundles import Bundle
from sweep_service.planning.grids import Grid
from sweep_service.planning.jobs import Job
from sweep_service.planning.keys import KEY
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import Ledger, State, Sweep, utc_now
from sweep_service.store.parts import Part

NAME = "scale"
RUNS = 500  # in a part
# Seconds of the processor per point, of opening, of one curve; megabytes of a whole process.
MERGE_LIMIT, OPEN_LIMIT, CURVE_LIMIT, MEMORY_LIMIT = 2e-4, 1.0, 0.05, 1000.0


def store(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as root:
        folder, ledger, plan = waiting(Path(root), spec(20 if quick else 1000, 10 if quick else 100))
        points = len(plan.grid)
        began, wall = time.process_time(), time.perf_counter()
        Merger(folder, ledger).merge(NAME)
        merged, wall = time.process_time() - began, time.perf_counter() - wall
        assert ledger.totals(NAME)["counts"] == {Status.DONE: 2 * points}
        ledger.close()
        began = time.process_time()
        at_once(Path(root) / "once.zarr", plan)
        once = time.process_time() - began
        yield Row(
            f"store/merge-{points}", f"{points} points from parts of {RUNS} runs", merged,
            "the risks in one write", once, limit=None if quick else MERGE_LIMIT * points,
            note=f"{1e3 * merged / points:.3f} ms per point; {wall:.3g} s by the wall clock, "
            f"with every fsync; at most {memory():.0f} MB.",
        )  # fmt: skip
        path = folder.dataset_path(NAME)
        dataset = xr.open_dataset(path, engine="zarr", cache=False)
        opened, curve, whole = interleaved(
            lambda: xr.open_zarr(path, chunks=None),
            lambda: one_curve(dataset).values,
            lambda: dataset.sgd_risk.values,
            repeats=2 if quick else 5,
        )
        yield Row(
            f"store/open-{points}", "open_zarr", opened.seconds, "reading every risk", whole.seconds,
            limit=None if quick else OPEN_LIMIT,
        )  # fmt: skip
        yield Row(
            f"store/curve-{points}", "one curve of an open dataset", curve.seconds, "reading every risk",
            whole.seconds, limit=None if quick else CURVE_LIMIT,
        )  # fmt: skip


def spec(d: int, gamma: int, **other: Any) -> dict[str, Any]:
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


def waiting(root: Path, content: dict[str, Any]) -> tuple[DataFolder, Ledger, SweepPlan]:
    """A sweep none of whose runs is shared, computed but not merged: its parts hold random numbers."""
    folder, asked = DataFolder(root), SweepSpec.parse(content)
    folder.objects.prepare()
    folder.objects.put(f"{NAME}.json", asked.model_dump_json().encode())
    plan = SweepPlan(Grid.of(asked, checked=True))
    folder.create_dataset(NAME, plan, {})
    counts = {kind: plan.runs.count(kind) for kind in plan.schema.variables}
    folder.put_keys(NAME, {kind: distinct(counts.get(kind, 0)) for kind in ("sgd", "ode")})
    some, rng = [], np.random.default_rng(0)
    for kind, count in counts.items():
        for begin in range(0, count, RUNS):
            some.append(Bundle((Job(kind, begin, 0, (0,), (0,)),), 5.0))  # its name is all that is needed
            part = synthetic(plan, kind, np.arange(begin, min(count, begin + RUNS)), rng)
            folder.objects.put(f"{NAME}.parts/{some[-1].key}.npz", part.pack())
    ledger, now = folder.ledger(), utc_now()
    ledger.add(Sweep(NAME, "", "", State.RUNNING, now, now, None, "", sum(counts.values()), 0), some)
    return folder, ledger, plan


def distinct(count: int) -> np.ndarray[Any, Any]:
    """So many keys."""
    return np.arange(2 * count, dtype="<u8").view(KEY)


def synthetic(plan: SweepPlan, kind: Kind, numbers: np.ndarray[Any, Any], rng: np.random.Generator) -> Part:
    """A part as a bundle would leave it, without the work."""
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


def at_once(path: Path, plan: SweepPlan) -> None:
    """The same risks, from memory, chunk by chunk in order."""
    group = zarr.open_group(path, mode="w")
    for some in plan.schema.variables.values():
        risk = some["risk"]
        array = group.create_array(risk.name, shape=risk.shape, chunks=risk.chunks, dtype=risk.dtype)
        array[...] = np.random.default_rng(0).random(risk.shape)


def one_curve(dataset: xr.Dataset) -> xr.DataArray:
    return dataset.sgd_risk.sel(d=15, p=4, seed=0, repeat=0).isel(gamma=3)


def memory() -> float:
    """The most that this process ever held, in megabytes."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would also count what the parent held when it began this process
        peak = next(line for line in status.read_text("utf-8").splitlines() if line.startswith("VmHWM"))
        return float(peak.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
