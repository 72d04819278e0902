"""Sweeps on an embedded Dask cluster, against the same work without one."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.harness import Row
from benchmarks.store import memory
from sweep_service.dynamics.integrate import integrate
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.submission import Submission
from sweep_service.planning.grids import Grid
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import Sweep
from sweep_service.workers.cluster import Embedded
from sweep_service.workers.executor import DaskExecutor

OVERHEAD = 1e-3  # seconds of wall time per point beyond the computing
SPEEDUP, MAKESPAN = 1.8, 1.3
CANCEL = 5.0  # seconds
MEMORY = 1500.0  # megabytes of the conducting process


def cluster(quick: bool) -> Iterator[Row]:
    yield _overhead(quick)
    yield _speedup(quick)
    yield _makespan(quick)
    yield _fairness(quick)
    yield _cancel(quick)
    if not quick:
        yield _many()


def _cancel(quick: bool) -> Row:
    """From a word to a worker that has stopped its kernel."""
    endless = {**_equal(1, 1e9), "seeds": 1}
    with conducting(1) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(endless))
        while not _busy(conductor):
            conductor.tick()
        time.sleep(1.0)
        began = time.perf_counter()
        conductor.cancel(sweep.id)
        while _busy(conductor):
            time.sleep(0.02)
        took = time.perf_counter() - began
        seconds = (
            Submission(SweepSpec.parse(endless))
            .look(conductor.folder, conductor.ledger, conductor.limits)
            .core_seconds
        )
    return Row(
        "cluster/cancel", "cancel a run of a billion steps", took, "the run itself, as predicted", seconds,
        limit=None if quick else CANCEL,
    )  # fmt: skip


def _busy(conductor: Conductor) -> int:
    executor = conductor.executor
    assert isinstance(executor, DaskExecutor)
    return sum(map(len, executor.client.call_stack().values())) if executor.client else 0


def _cheap(points: int) -> dict[str, Any]:
    """So many short ODEs, all different."""
    return {
        "axes": {
            "d": {"lin": [10, 9 + points // 20, points // 20]},
            "p": [1, 2, 3, 4],
            "gamma": {"log": [0.01, 0.1, 5]},
            "regime": "classical_noise",
        },
        "fixed": {"k": 1, "noise": 1e-3},
        "simulate": False,
        "time": {"max": 0.1, "samples": 3},
        "observables": ["risk"],
    }


def _equal(runs: int, steps: float) -> dict[str, Any]:
    """So many SGD runs of the same cost."""
    return {
        "axes": {"d": 100, "p": 8, "gamma": 0.5},
        "fixed": {"k": 2},
        "seeds": {"init": 1, "repeat": runs},
        "time": {"max": steps * 0.5 / 800.0, "samples": 3},
        "observables": ["risk"],
    }


def _overhead(quick: bool) -> Row:
    points = 40 if quick else 10_000
    spec = _cheap(points)
    with conducting(2) as conductor:
        wall = timed(conductor, spec)
    alone = _one_by_one(spec, min(points, 500))
    return Row(
        f"cluster/overhead-{points}", "wall time per point beyond the computing, on 2 workers",
        max(wall / points - alone / 2, 1e-9), "integrate, called point by point", alone,
        limit=None if quick else OVERHEAD, note=f"{points} points in {wall:.3g} s.",
    )  # fmt: skip


def _one_by_one(spec: dict[str, Any], points: int) -> float:
    """Seconds per point of plain calls."""
    grid = Grid.of(SweepSpec.parse(spec))
    some = grid.points[:: max(1, len(grid) // points)][:points]
    keep = {"observables": grid.observables, "overlaps": grid.overlaps}
    call = lambda point: integrate(point, times=grid.times, regime=grid.regimes[0], **keep)  # noqa: E731
    call(some[0])
    began = time.perf_counter()
    for point in some:
        call(point)
    return (time.perf_counter() - began) / len(some)


def _speedup(quick: bool) -> Row:
    spec = _equal(4 if quick else 40, 1e4 if quick else 2.5e6)
    seconds = []
    for workers in (2, 1):
        with conducting(workers) as conductor:
            seconds.append(timed(conductor, spec))
    return Row(
        "cluster/two-workers", "two workers", seconds[0], "one worker", seconds[1],
        floor=None if quick else SPEEDUP, note="Equal SGD runs, about a second each.",
    )  # fmt: skip


def _makespan(quick: bool) -> Row:
    """Costs over three orders of magnitude: γ from 0.005 to 5 at one d and p."""
    spec = {
        "axes": {"d": 50, "p": 8, "gamma": {"log": [0.005, 5.0, 5 if quick else 16]}},
        "fixed": {"k": 2},
        "seeds": 2 if quick else 4,
        "time": {"max": 0.05 if quick else 200.0, "samples": 3},
        "observables": ["risk"],
    }
    with conducting(2) as conductor:
        wall, sweep = timed(conductor, spec), conductor.ledger.sweeps()[0]
        ideal = conductor.ledger.totals(sweep.id)["seconds"] / 2
    return Row(
        "cluster/makespan", "two workers, dearest first", wall, "half of all the computing", ideal,
        floor=None if quick else 1 / MAKESPAN,
    )  # fmt: skip


def _fairness(quick: bool) -> Row:
    """A small sweep alone, and beside a large one."""
    large, steps = (40, 1e4) if quick else (10_000, 2e5)
    small = {**_equal(20, steps), "seeds": {"init": [7], "repeat": 20}}
    with conducting(2) as conductor:
        alone = timed(conductor, small)
        done = conductor.ledger.sweeps()[0].id
        totals = conductor.ledger.totals(done)
        conductor.remove(done)
        heavy, _ = conductor.submit(SweepSpec.parse(_equal(large, steps)))
        bundle = conductor.ledger.pending(heavy.id, 1)[0].cost * totals["seconds"] / totals["cost_done"]
        for _ in range(20):
            conductor.tick()
        beside = timed(conductor, small, together=True)
        conductor.cancel(heavy.id)
    return Row(
        "cluster/fairness", f"20 runs beside {large}", beside, "20 runs alone", alone,
        limit=None if quick else 2.0 * alone + bundle,
        note=f"The bar is twice the time alone and a bundle of {bundle:.2g} s.",
    )  # fmt: skip


def _many() -> Row:
    points = 100_000
    with conducting(2) as conductor:
        began = time.perf_counter()
        sweep, _ = conductor.submit(SweepSpec.parse(_cheap(points)))
        submitted = time.perf_counter() - began
        assert conductor.run(sweep.id).state == "completed"
        wall = time.perf_counter() - began
        spent = conductor.ledger.totals(sweep.id)["seconds"]
    held = memory()
    assert held < MEMORY, f"the conducting process held {held:.0f} MB"
    return Row(
        f"cluster/points-{points}", f"{points} points to the end on 2 workers", wall,
        "half of all the computing", spent / 2,
        note=f"{submitted:.3g} s to submit; the conducting process held at most {held:.0f} MB.",
    )  # fmt: skip


@contextmanager
def conducting(workers: int) -> Iterator[Conductor]:
    """With workers that are there and warm."""
    with tempfile.TemporaryDirectory() as root:
        folder = DataFolder(root)
        with Conductor(folder, DaskExecutor(Embedded(workers), folder)) as conductor:
            conductor.remove(_run(conductor, _cheap(40)).id)
            conductor.remove(_run(conductor, _equal(4, 1e4)).id)
            yield conductor


def timed(conductor: Conductor, spec: dict[str, Any], together: bool = False) -> float:
    """Seconds from a submission to its end, alone or with what else is going on."""
    began = time.perf_counter()
    if not together:
        assert _run(conductor, spec).state == "completed"
    else:
        sweep, _ = conductor.submit(SweepSpec.parse(spec))
        while not conductor.ledger.sweep(sweep.id).state.ended:
            conductor.tick()
    return time.perf_counter() - began


def _run(conductor: Conductor, spec: dict[str, Any]) -> Sweep:
    sweep, _ = conductor.submit(SweepSpec.parse(spec))
    return conductor.run(sweep.id)
