"""Sweeps on an embedded Dask cluster, against the same work without a cluster."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.harness import Row
from benchmarks.store import peak_megabytes
from sweep_service.dynamics.integrate import integrate
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.submission import Submission
from sweep_service.planning.grids import Grid
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import SweepRecord
from sweep_service.workers.embedded import Embedded
from sweep_service.workers.executor import DaskExecutor

OVERHEAD_LIMIT_SECONDS = 1e-3  # wall time per point beyond the computation
MIN_SPEEDUP, MAX_MAKESPAN_RATIO = 1.8, 1.3
CANCEL_LIMIT_SECONDS = 5.0
MANY_POINTS_LIMIT_SECONDS = 50.0  # for 100,000 cheap points on 2 workers
MEMORY_LIMIT_MEGABYTES = 1500.0  # of the conductor's process


def cluster(quick: bool) -> Iterator[Row]:
    yield _measure_overhead(quick)
    yield _measure_speedup(quick)
    yield _measure_makespan(quick)
    yield _measure_fairness(quick)
    yield _measure_cancel(quick)
    if not quick:
        yield _measure_many_points()


def _measure_cancel(quick: bool) -> Row:
    """Time from the request to cancel until the worker has stopped its kernel."""
    endless = {**_make_equal_spec(1, 1e9), "seeds": 1}
    with open_conductor(1) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(endless))
        while not _count_busy(conductor):
            conductor.tick()
        time.sleep(1.0)
        began = time.perf_counter()
        conductor.cancel(sweep.id)
        while _count_busy(conductor):
            time.sleep(0.02)
        seconds = time.perf_counter() - began
        predicted = (
            Submission(SweepSpec.parse(endless))
            .prepare(conductor.folder, conductor.ledger, conductor.limits)
            .core_seconds
        )
    return Row(
        "cluster/cancel", "cancel a run of a billion steps", seconds,
        "the run itself, as predicted", predicted,
        limit=None if quick else CANCEL_LIMIT_SECONDS,
    )  # fmt: skip


def _count_busy(conductor: Conductor) -> int:
    executor = conductor.executor
    assert isinstance(executor, DaskExecutor)
    return sum(map(len, executor.client.call_stack().values())) if executor.client else 0


def make_cheap_spec(points: int) -> dict[str, Any]:
    """A spec of `points` short ODEs, all different."""
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


def _make_equal_spec(runs: int, steps: float) -> dict[str, Any]:
    """A spec of `runs` SGD runs of the same cost."""
    return {
        "axes": {"d": 100, "p": 8, "gamma": 0.5},
        "fixed": {"k": 2},
        "seeds": {"init": 1, "repeat": runs},
        "time": {"max": steps * 0.5 / 800.0, "samples": 3},
        "observables": ["risk"],
    }


def _measure_overhead(quick: bool) -> Row:
    points = 40 if quick else 10_000
    spec = make_cheap_spec(points)
    with open_conductor(2) as conductor:
        wall = time_sweep(conductor, spec)
    alone = _time_single_calls(spec, min(points, 500))
    return Row(
        f"cluster/overhead-{points}", "wall time per point beyond the computation, on 2 workers",
        max(wall / points - alone / 2, 1e-9), "integrate, called point by point", alone,
        limit=None if quick else OVERHEAD_LIMIT_SECONDS, note=f"{points} points in {wall:.3g} s.",
    )  # fmt: skip


def _time_single_calls(spec: dict[str, Any], points: int) -> float:
    """Seconds per point of plain calls of `integrate`."""
    grid = Grid.of(SweepSpec.parse(spec))
    points_sample = grid.points[:: max(1, len(grid) // points)][:points]
    keep = {"observables": grid.observables, "overlaps": grid.overlaps}
    call = lambda point: integrate(point, times=grid.times, regime=grid.regimes[0], **keep)  # noqa: E731
    call(points_sample[0])
    began = time.perf_counter()
    for point in points_sample:
        call(point)
    return (time.perf_counter() - began) / len(points_sample)


def _measure_speedup(quick: bool) -> Row:
    spec = _make_equal_spec(4 if quick else 40, 1e4 if quick else 2.5e6)
    seconds = []
    for workers in (2, 1):
        with open_conductor(workers) as conductor:
            seconds.append(time_sweep(conductor, spec))
    return Row(
        "cluster/two-workers", "two workers", seconds[0], "one worker", seconds[1],
        floor=None if quick else MIN_SPEEDUP, note="Equal SGD runs, about a second each.",
    )  # fmt: skip


def _measure_makespan(quick: bool) -> Row:
    """Makespan for costs over three orders of magnitude: γ from 0.005 to 5 at one d and p."""
    spec = {
        "axes": {"d": 50, "p": 8, "gamma": {"log": [0.005, 5.0, 5 if quick else 16]}},
        "fixed": {"k": 2},
        "seeds": 2 if quick else 4,
        "time": {"max": 0.05 if quick else 200.0, "samples": 3},
        "observables": ["risk"],
    }
    with open_conductor(2) as conductor:
        wall, sweep = time_sweep(conductor, spec), conductor.ledger.sweeps()[0]
        ideal = conductor.ledger.totals(sweep.id)["seconds"] / 2
    return Row(
        "cluster/makespan", "two workers, most expensive first", wall, "half of all computation", ideal,
        floor=None if quick else 1 / MAX_MAKESPAN_RATIO,
    )  # fmt: skip


def _measure_fairness(quick: bool) -> Row:
    """Time of a small sweep alone, and beside a large one."""
    large, steps = (40, 1e4) if quick else (10_000, 2e5)
    small = {**_make_equal_spec(20, steps), "seeds": {"init": [7], "repeat": 20}}
    with open_conductor(2) as conductor:
        alone = time_sweep(conductor, small)
        done = conductor.ledger.sweeps()[0].id
        totals = conductor.ledger.totals(done)
        conductor.remove(done)
        heavy, _ = conductor.submit(SweepSpec.parse(_make_equal_spec(large, steps)))
        bundle = (
            conductor.ledger.pending_bundles(heavy.id, 1)[0].cost * totals["seconds"] / totals["cost_done"]
        )
        for _ in range(20):
            conductor.tick()
        beside = time_sweep(conductor, small, together=True)
        conductor.cancel(heavy.id)
    return Row(
        "cluster/fairness", f"20 runs beside {large}", beside, "20 runs alone", alone,
        limit=None if quick else 2.0 * alone + bundle,
        note=f"The bar is twice the time alone plus a bundle of {bundle:.2g} s.",
    )  # fmt: skip


def _measure_many_points() -> Row:
    points = 100_000
    with open_conductor(2) as conductor:
        began = time.perf_counter()
        sweep, _ = conductor.submit(SweepSpec.parse(make_cheap_spec(points)))
        submitted = time.perf_counter() - began
        assert conductor.run(sweep.id).state == "completed"
        wall = time.perf_counter() - began
        spent = conductor.ledger.totals(sweep.id)["seconds"]
    megabytes = peak_megabytes()
    assert megabytes < MEMORY_LIMIT_MEGABYTES, f"the conducting process held {megabytes:.0f} MB"
    return Row(
        f"cluster/points-{points}", f"{points} points to the end on 2 workers", wall,
        "half of all computation", spent / 2, limit=MANY_POINTS_LIMIT_SECONDS,
        note=f"{submitted:.3g} s to submit; the conducting process held at most {megabytes:.0f} MB.",
    )  # fmt: skip


@contextmanager
def open_conductor(workers: int) -> Iterator[Conductor]:
    """A conductor whose workers have started and compiled their kernels."""
    with tempfile.TemporaryDirectory() as root:
        folder = DataFolder(root)
        with Conductor(folder, DaskExecutor(Embedded(workers), folder)) as conductor:
            conductor.remove(_run(conductor, make_cheap_spec(40)).id)
            conductor.remove(_run(conductor, _make_equal_spec(4, 1e4)).id)
            yield conductor


def time_sweep(conductor: Conductor, spec: dict[str, Any], together: bool = False) -> float:
    """Seconds from the submission of a sweep to its end, alone or together with other sweeps."""
    began = time.perf_counter()
    if not together:
        assert _run(conductor, spec).state == "completed"
    else:
        sweep, _ = conductor.submit(SweepSpec.parse(spec))
        while not conductor.ledger.sweep(sweep.id).state.has_ended:
            conductor.tick()
    return time.perf_counter() - began


def _run(conductor: Conductor, spec: dict[str, Any]) -> SweepRecord:
    sweep, _ = conductor.submit(SweepSpec.parse(spec))
    return conductor.run(sweep.id)
