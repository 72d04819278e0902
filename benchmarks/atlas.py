"""Questions to the runs of many sweeps, against pandas on the same Parquet files."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.harness import Row
from benchmarks.store import peak_megabytes
from sweep_service.analysis.atlas.atlas import Atlas
from sweep_service.analysis.atlas.folder import FolderAtlas
from sweep_service.planning.grids import Grid
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.folder import KEYS_DIGEST, DataFolder, digest_keys
from sweep_service.store.run_index.files import make_index, save_index

COLD_SECONDS, WARM_SECONDS, FACET_SECONDS = 3.0, 1.0, 0.5
ONE_COLD_SECONDS, ONE_WARM_SECONDS = 2.0, 0.2
MAX_MEGABYTES = 1024.0
COLUMNS = ("gamma", "p", "seed", "kind", "d", "final_risk")


def atlas(quick: bool) -> Iterator[Row]:
    sweeps, side = (4, 4) if quick else (500, 20)
    yield from measure_many(sweeps, side, quick)
    yield from measure_one(30 if quick else 1000, quick)


def measure_many(sweeps: int, side: int, quick: bool) -> Iterator[Row]:
    """A filtered diagram and facets of many sweeps, first from the files and then from memory."""
    with tempfile.TemporaryDirectory() as root:
        folder = DataFolder(root)
        for at in range(sweeps):
            store_sweep(folder, at, side, side, seeds=5)
        runs, before = sweeps * side * side * 5, peak_megabytes()

        def ask(opened: Atlas) -> object:
            return opened.select(d=50).phase_diagram("gamma", "p", "sgd_final_risk", noise="mean")

        cold, opened = time_call(lambda: open_and_ask(folder, ask))
        grown = peak_megabytes() - before
        plain_cold, frame = time_call(lambda: read_with_pandas(folder))
        warm, _ = time_best(lambda: ask(opened))
        facets, _ = time_best(lambda: opened.select(d=50).facets())
        plain_warm, _ = time_best(lambda: group_with_pandas(frame))
    what = f"{runs:,} runs of {sweeps} sweeps"
    yield Row(
        "atlas/cold", f"a filtered diagram of {what}, from the indexes", cold, "pandas on the same files",
        plain_cold, limit=None if quick else COLD_SECONDS,
        note=f"The process grew by {grown:.0f} MB, of at most {MAX_MEGABYTES:.0f}.",
    )  # fmt: skip
    limits = (None, None) if quick else (WARM_SECONDS, FACET_SECONDS)
    yield Row(
        "atlas/warm", f"the same of {what}, again", warm, "pandas, in memory", plain_warm, limit=limits[0]
    )
    yield Row("atlas/facets", f"facets of {what}", facets, "a diagram by pandas", plain_warm, limit=limits[1])


def measure_one(side: int, quick: bool) -> Iterator[Row]:
    """A diagram of all points of one large sweep, from their summaries."""
    with tempfile.TemporaryDirectory() as root:
        folder = DataFolder(root)
        store_sweep(folder, 0, side, side, seeds=1)

        def ask(opened: Atlas) -> object:
            return opened.phase_diagram("gamma", "d", "sgd_final_risk")

        cold, opened = time_call(lambda: open_and_ask(folder, ask))
        plain_cold, frame = time_call(lambda: read_with_pandas(folder))
        warm, _ = time_best(lambda: ask(opened))
        plain_warm, _ = time_best(
            lambda: frame.groupby(["gamma", "d"]).final_risk.agg(["mean", "std", "count"])
        )
    limits = (None, None) if quick else (ONE_COLD_SECONDS, ONE_WARM_SECONDS)
    what = f"a diagram of {side * side:,} points of one sweep"
    yield Row("atlas/one-cold", f"{what}, from its index", cold, "pandas", plain_cold, limit=limits[0])
    yield Row("atlas/one-warm", f"{what}, again", warm, "pandas, in memory", plain_warm, limit=limits[1])


def store_sweep(folder: DataFolder, at: int, rows: int, columns: int, seeds: int) -> None:
    """Store a sweep with random values, as a conductor would, and its index."""
    axes: dict[str, Any] = {
        "d": 50,
        "p": {"lin": [2, 1 + rows, rows]},
        "gamma": {"log": [0.01, 1.0, columns]},
    }
    if seeds == 1:  # widths up to a thousand would have more overlaps
        axes = {"d": {"lin": [10, 9 + rows, rows]}, "p": 4, "gamma": axes["gamma"]}
    spec = SweepSpec.parse(
        {
            "name": f"number {at}", "axes": axes, "fixed": {"k": 2, "noise": 1e-3 * (at + 1)},
            "seeds": seeds, "time": {"max": 10.0, "samples": 4}, "observables": ["risk"],
        }
    )  # fmt: skip
    sweep_id, plan = f"20260101-{at:06d}-{at:08x}", SweepPlan(Grid.of(spec, validate=False))
    folder.objects.prepare()
    folder.put_spec(sweep_id, spec)
    attributes = {"spec": spec.model_dump_json(), KEYS_DIGEST: digest_keys(plan.keys)}
    dataset = folder.create_dataset(sweep_id, plan, attributes)
    folder.put_keys(sweep_id, plan.keys)
    numbers, random = np.arange(plan.runs.count("sgd")), np.random.default_rng(at)
    values = {
        "risk": random.random((len(numbers), len(plan.grid.times))),
        "seconds": random.random(len(numbers)),
        "steps": np.full(len(numbers), 1000),
        "status": np.full(len(numbers), Status.DONE, np.int8),
    }
    dataset.write("sgd", numbers, values)
    save_index(folder, sweep_id, make_index(folder, sweep_id))


def open_and_ask(folder: DataFolder, ask: Callable[[Atlas], object]) -> Atlas:
    opened = FolderAtlas(folder).refresh()
    ask(opened)
    return opened


def read_with_pandas(folder: DataFolder) -> pd.DataFrame:
    paths = sorted(Path(str(folder.root), "sweeps").glob("*.index.parquet"))
    frame = pd.concat([pd.read_parquet(path, columns=[*COLUMNS, "noise"]) for path in paths])
    group_with_pandas(frame)
    return frame


def group_with_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    chosen = frame[(frame.kind == "sgd") & (frame.d == 50)]
    return chosen.groupby(["gamma", "p", "noise"]).final_risk.agg(["mean", "std", "count"])


def time_call(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    value = call()
    return time.process_time() - began, value


def time_best(call: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    timings = [time_call(call) for _ in range(repeats)]
    return max(min(seconds for seconds, _ in timings), 1e-7), timings[0][1]
