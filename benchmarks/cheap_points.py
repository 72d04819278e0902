"""Cheap points: a whole sweep of short ODEs, against a pool of processes that write npz files.

The baseline is what a user writes without this service: a pool of processes, each of which integrates some
hundred points by `integrate` and saves their risks in one npz file. A sweep does more: it has a dataset with
coordinates, keys, statuses and checksums, its writes are durable, and it can be stopped and resumed.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, suppress
from multiprocessing import get_context
from typing import Any

import numpy as np
import psutil

from benchmarks.cluster import MEMORY_LIMIT_MEGABYTES, make_cheap_spec, open_conductor
from benchmarks.harness import Row
from benchmarks.store import peak_megabytes
from sweep_service import integrate
from sweep_service.numerics.types import Array
from sweep_service.planning.grids import Grid
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.ledger import SweepRecord

WORKERS = 2
POINTS_PER_FILE = 250
MIN_RATIO = 1.0  # a sweep, with its dataset, costs less per point
MILLION = 1_000_000
PROBE_INTERVAL_SECONDS = 5.0  # between two questions for the status of a running sweep
STATUS_LIMIT_SECONDS = 1.0  # for an answer


def cheap_points(quick: bool) -> Iterator[Row]:
    yield _compare_with_pool(200 if quick else 10_000, rounds=1 if quick else 3)
    if not quick:
        yield _measure_million()


def _compare_with_pool(points: int, rounds: int) -> Row:
    """Processor time of the sweep and of the pool, measured in turns; each turn has times of its own."""
    ours, theirs, difference = list[float](), list[float](), 0.0
    with ExitStack() as stack:
        pool = stack.enter_context(ProcessPoolExecutor(WORKERS, get_context("spawn")))
        _integrate_all(pool, make_cheap_spec(40))  # starts the processes, which load their kernels
        in_pool = {process.pid for process in multiprocessing.active_children()}
        conductor = stack.enter_context(open_conductor(WORKERS))
        for turn in range(rounds):
            spec = {**make_cheap_spec(points), "time": {"max": 0.1 + 0.001 * turn, "samples": 3}}
            began = _processor_seconds()
            sweep, _ = conductor.submit(SweepSpec.parse(spec))
            assert conductor.run(sweep.id).state == "completed"
            ours.append(_difference(_processor_seconds(), began, lambda pid: pid not in in_pool))
            began = _processor_seconds()
            risks = _integrate_all(pool, spec)
            is_theirs = {*in_pool, os.getpid()}.__contains__
            theirs.append(_difference(_processor_seconds(), began, is_theirs))
            stored = conductor.folder.open_dataset(sweep.id).ode_risk.values.reshape(risks.shape)
            difference = max(difference, float(np.max(np.abs(stored - risks))))
    return Row(
        f"cheap_points/{points}", f"a sweep of {points} short ODEs, per point", min(ours) / points,
        f"`integrate` in a pool of {WORKERS} processes with npz files", min(theirs) / points,
        ours_error=difference, floor=MIN_RATIO if rounds > 1 else None, most_error=0.0,
        note="Processor time of all processes: to submit, compute and merge a sweep, with its dataset.",
    )  # fmt: skip


def _processor_seconds() -> dict[int, float]:
    """Return the processor time of this process and of its children, by process id."""
    this = psutil.Process()
    seconds = {}
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            seconds[process.pid] = times.user + times.system
    return seconds


def _difference(
    after: dict[int, float], before: dict[int, float], is_counted: Callable[[int], bool]
) -> float:
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items() if is_counted(pid))


def _integrate_all(pool: Executor, spec: dict[str, Any]) -> Array:
    """Integrate all points of a spec in chunks, and return the risks that the chunks saved."""
    grid = Grid.of(SweepSpec.parse(spec))
    points = [{**grid.fixed, **grid.row(index)} for index in range(len(grid))]
    with tempfile.TemporaryDirectory() as root:
        chunks = [
            (points[start : start + POINTS_PER_FILE], grid.times, grid.regimes[0], f"{root}/{start}.npz")
            for start in range(0, len(points), POINTS_PER_FILE)
        ]
        return np.concatenate([np.load(path)["risk"] for path in pool.map(_integrate_chunk, chunks)])


def _integrate_chunk(chunk: tuple[list[dict[str, Any]], Array, str, str]) -> str:
    points, times, regime, path = chunk
    keep: dict[str, Any] = {"observables": ["risk"], "overlaps": False}
    solutions = [integrate(point, times=times, regime=regime, **keep) for point in points]
    np.savez(path, risk=[solution.risk.values for solution in solutions])
    return path


def _measure_million() -> Row:
    """A million points to the end: the wall time, the memory, and how long the status takes meanwhile."""
    answers, asked = list[float](), time.monotonic()
    with open_conductor(WORKERS) as conductor:

        def ask(sweep: SweepRecord) -> None:
            nonlocal asked
            if time.monotonic() - asked > PROBE_INTERVAL_SECONDS:
                began = time.process_time()
                conductor.ledger.progress_totals([sweep.id])
                conductor.folder.dataset(sweep.id).counts()
                answers.append(time.process_time() - began)
                asked = time.monotonic()

        began = time.perf_counter()
        sweep, _ = conductor.submit(SweepSpec.parse(make_cheap_spec(MILLION)))
        assert conductor.run(sweep.id, ask).state == "completed"
        wall = time.perf_counter() - began
        spent = conductor.ledger.totals(sweep.id)["seconds"]
    megabytes = peak_megabytes()
    assert megabytes < MEMORY_LIMIT_MEGABYTES, f"the conducting process held {megabytes:.0f} MB"
    assert max(answers) < STATUS_LIMIT_SECONDS, f"the status took {max(answers):.2g} s"
    return Row(
        f"cheap_points/{MILLION}", f"{MILLION} points to the end on {WORKERS} workers", wall,
        "half of all computation", spent / 2,
        note=f"The conducting process held at most {megabytes:.0f} MB; a status took at most "
        f"{1e3 * max(answers):.3g} ms.",
    )  # fmt: skip
