"""How much one service can feed: the real conductor, ledger and merger, with workers that are simulated.

Costs are processor times of the service's process, without what workers do. An exponent is that of the cost
as a power of a size, fitted over all sizes that were measured.
"""

from __future__ import annotations

import gc
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import zarr

from benchmarks.harness import Row
from benchmarks.simulated_cluster import SimulatedExecutor
from benchmarks.store import peak_megabytes
from sweep_service.api.status_cache import StatusCache
from sweep_service.execution.conductor import Conductor, ConductorSettings
from sweep_service.execution.summary import summarise_sweep
from sweep_service.planning.bundles import Bundle, BundleLimits
from sweep_service.planning.estimate import Limits
from sweep_service.planning.jobs import Job
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import Ledger, State, SweepRecord, utc_now

NO_LIMITS = Limits(points=10**9, runs=10**9, core_hours=math.inf, bytes=1 << 60, active=10**6)
BUNDLE_SECONDS = (2.0, 5.0, 20.0)  # for which the number of cores is given
STEPS_PER_RUN = 3e7  # some seconds of predicted work, so that a bundle of one run fills the window alone
RUNS_PER_BUNDLE = 500
BUNDLES_PER_SWEEP = 20
ENDLESS = 1e9  # seconds of a task that does not end
# A cost that should not grow may be three times as large after two or three decades: an exponent below 0.25.
FLAT_FLOOR = 1 / 3
STATUS_LIMIT_SECONDS, LIST_LIMIT_SECONDS = 0.1, 0.1


def scale(quick: bool) -> Iterator[Row]:
    # Chains share vectors of eight lanes, so that bundles of these sizes are full.
    for runs_per_bundle, bundles in ((1, 8), (16, 8)) if quick else ((1, 1000), (16, 500), (496, 100)):
        yield measure_feed(runs_per_bundle, bundles, 4 if quick else 200)
    yield measure_status((10, 20, 40) if quick else (10_000, 100_000, 1_000_000, 10_000_000), quick)
    yield from measure_sweeps((2, 4, 8) if quick else (10, 100, 1000), quick)
    yield measure_workers((1, 2, 4) if quick else (20, 200, 2000), quick)
    yield measure_runs((10, 20, 40) if quick else (10_000, 100_000, 1_000_000), quick)


def measure_feed(runs_per_bundle: int, bundles: int, workers: int) -> Row:
    """The cost of a bundle from its submission to its merge, on a saturated service."""
    runs = runs_per_bundle * bundles
    with open_conductor(runs_per_bundle, workers, task_seconds=0.01 * workers / bundles) as conductor:
        seconds = run_simulated(conductor, make_spec(runs)) / bundles
        assert isinstance(conductor.executor, SimulatedExecutor)
        assert conductor.executor.ended_tasks == bundles
        (sweep,) = conductor.ledger.sweeps()
        plain = time_plain_zarr(conductor.folder.plan(sweep.id)) / bundles
    cores = ", ".join(f"{size / seconds:,.0f} of {size:g} s" for size in BUNDLE_SECONDS)
    return Row(
        f"scale/feed-{runs_per_bundle}", f"a bundle of {runs_per_bundle} runs, submitted and merged", seconds,
        "its numbers written at once by zarr", plain,
        note=f"{1 / seconds:,.0f} bundles/s or {runs_per_bundle / seconds:,.0f} runs/s, "
        f"enough for as many cores as bundles: {cores}.",
    )  # fmt: skip


def measure_runs(sizes: Sequence[int], quick: bool) -> Row:
    """The cost of a run and the memory of the service, for sweeps of more and more runs."""
    costs, megabytes, before = [], [], peak_megabytes()
    runs_per_bundle = 5 if quick else RUNS_PER_BUNDLE
    for runs in sizes:
        with open_conductor(runs_per_bundle, workers=200, task_seconds=0.1) as conductor:
            costs.append(run_simulated(conductor, make_spec(runs, samples=4)) / runs)
        gc.collect()
        megabytes.append(peak_megabytes() - before)
    return Row(
        "scale/runs", f"a run of a sweep of {sizes[-1]:,}", costs[-1], f"a run of a sweep of {sizes[0]:,}",
        costs[0], floor=None if quick else FLAT_FLOOR,
        note=f"{describe_exponent(sizes, costs)} with the number of runs. The process grew by "
        f"{', '.join(f'{value:.0f}' for value in megabytes)} MB.",
    )  # fmt: skip


def measure_workers(sizes: Sequence[int], quick: bool) -> Row:
    """The cost of a bundle on larger and larger clusters, which have as many bundles more in flight."""
    costs, windows = [], []
    for workers in sizes:
        bundles = 5 * workers  # more than are in flight
        with open_conductor(1, workers, task_seconds=workers / 4000) as conductor:
            costs.append(run_simulated(conductor, make_spec(bundles, samples=4)) / bundles)
            assert isinstance(conductor.executor, SimulatedExecutor)
            windows.append(conductor.executor.largest_window)
    return Row(
        "scale/workers", f"a bundle of one run with {sizes[-1]:,} workers", costs[-1],
        f"with {sizes[0]:,} workers", costs[0], floor=None if quick else FLAT_FLOOR,
        note=f"{describe_exponent(sizes, costs)} with the number of workers; "
        f"at most {windows[-1]:,} bundles in flight.",
    )  # fmt: skip


def measure_sweeps(sizes: Sequence[int], quick: bool) -> Iterator[Row]:
    """A status, a page of the list, and a tick of the conductor, with more and more sweeps."""
    status, page, tick = [], [], []
    for count in sizes:
        with open_conductor(1, workers=2 * count, task_seconds=ENDLESS) as conductor:
            for at in range(count):
                bundles = make_synthetic_bundles(at, BUNDLES_PER_SWEEP, 1)
                add_sweep(conductor.ledger, at, bundles, State.RUNNING)
            conductor.tick()  # submits
            tick.append(time_best(lambda conductor=conductor: conductor.tick()) / count)
            status.append(time_best(lambda ledger=conductor.ledger: describe_one(ledger, sweep_id_of(0))))
            page.append(time_best(lambda ledger=conductor.ledger: describe_page(ledger)))
    bar = {"floor": None if quick else FLAT_FLOOR}
    many, few = f"{sizes[-1]:,} sweeps", f"{sizes[0]:,} sweeps"
    yield Row(
        "scale/sweeps-status", f"a status that is not cached, among {many}", status[-1], f"among {few}",
        status[0], **bar, note=f"{describe_exponent(sizes, status)} with the number of sweeps.",
    )  # fmt: skip
    yield Row(
        "scale/sweeps-list", f"a page of 50 that is not cached, of {many}", page[-1],
        f"of {max(50, sizes[0])} sweeps or fewer", page[0],
        limit=None if quick else LIST_LIMIT_SECONDS,
        note=f"{describe_exponent(sizes[1:], page[1:])} beyond a page of sweeps.",
    )  # fmt: skip
    yield Row(
        "scale/sweeps-tick", f"a tick of the conductor, per running sweep of {many}", tick[-1],
        f"of {few}", tick[0], **bar,
        note=f"{describe_exponent(sizes, tick)} with the number of sweeps; "
        f"{1e3 * tick[-1] * sizes[-1]:.3g} ms for all.",
    )  # fmt: skip


def measure_status(sizes: Sequence[int], quick: bool) -> Row:
    """A status of a running sweep just after a merge, and one from the cache, by the number of runs."""
    seconds, per_bundle = [], 5 if quick else RUNS_PER_BUNDLE
    with tempfile.TemporaryDirectory() as root:
        ledger = DataFolder(root).ledger()
        for at, runs in enumerate(sizes):
            add_sweep(ledger, at, make_synthetic_bundles(at, runs // per_bundle, per_bundle), State.RUNNING)
            merged = ledger.pending_bundles(sweep_id_of(at), max(1, runs // per_bundle // 2))
            ledger.mark_merged(
                sweep_id_of(at),
                {bundle.key: (5.0, {Status.DONE: per_bundle}) for bundle in merged},
                {bundle.key: 5.0 for bundle in merged},
            )
            seconds.append(time_best(lambda at=at: describe_one(ledger, sweep_id_of(at))))
        cache = StatusCache(ledger)
        cached = time_best(lambda: summarise_sweep(*cache.read(sweep_id_of(len(sizes) - 1)), threads=2000.0))
        ledger.close()
    return Row(
        "scale/status", f"the status of a sweep of {sizes[-1]:,} runs just after a merge", seconds[-1],
        "a status between merges, which is cached", cached, limit=None if quick else STATUS_LIMIT_SECONDS,
        note=f"{describe_exponent(sizes, seconds)} with the number of runs: "
        f"{', '.join(f'{1e3 * value:.3g}' for value in seconds)} ms.",
    )  # fmt: skip


@contextmanager
def open_conductor(runs_per_bundle: int, workers: int, task_seconds: float) -> Iterator[Conductor]:
    """A conductor that fills bundles by their number of runs, with a simulated cluster."""
    bundles = BundleLimits(target_seconds=1e15, min_seconds=1e15, max_runs=runs_per_bundle)
    with tempfile.TemporaryDirectory() as root:
        folder = DataFolder(root)
        executor = SimulatedExecutor(folder, workers, task_seconds)
        settings = ConductorSettings(bundles, clock=executor.clock)
        with Conductor(folder, executor, NO_LIMITS, settings=settings) as conductor:
            yield conductor


def make_spec(runs: int, samples: int = 40) -> SweepSpec:
    """Repeats of some points, with the risk at some times."""
    points = math.gcd(runs, 10)
    return SweepSpec.parse(
        {
            "axes": {"d": {"lin": [10, 9 + points, points]} if points > 1 else 10, "p": 4, "gamma": 0.5},
            "fixed": {"k": 2},
            "seeds": {"init": 1, "repeat": runs // points},
            "time": {"max": STEPS_PER_RUN * 0.5 / 40.0, "samples": samples},
            "observables": ["risk"],
        }
    )


def run_simulated(conductor: Conductor, spec: SweepSpec) -> float:
    """Execute a sweep; return the processor seconds of the service from its submission to its end."""
    sweep, _ = conductor.submit(spec)
    executor = conductor.executor
    assert isinstance(executor, SimulatedExecutor)
    began = executor.clock.busy
    assert conductor.run(sweep.id).state is State.COMPLETED
    seconds = executor.clock.busy - began
    assert conductor.counts(sweep.id) == {Status.DONE: sweep.runs}
    return seconds


def time_plain_zarr(plan: SweepPlan) -> float:
    """Processor seconds to write random numbers of all variables, chunk by chunk in order."""
    with tempfile.TemporaryDirectory() as root:
        rng, began = np.random.default_rng(0), time.process_time()
        group = zarr.open_group(Path(root), mode="w")
        for variables in plan.schema.variables.values():
            for variable in variables.values():
                options = {"shape": variable.shape, "chunks": variable.chunks, "dtype": variable.dtype}
                group.create_array(variable.name, **options)[...] = rng.random(variable.shape)
        return time.process_time() - began


def make_synthetic_bundles(seed: int, count: int, runs: int) -> list[Bundle]:
    """Bundles of one job each, which are in the ledger only."""
    repeats = tuple(range(runs))
    return [Bundle((Job("sgd", at, 0, (seed,), repeats),), 5.0, "sgd/S1") for at in range(count)]


def sweep_id_of(at: int) -> str:
    return f"20260101-000000-{at:08x}"


def add_sweep(ledger: Ledger, at: int, bundles: Sequence[Bundle], state: State) -> None:
    """Add a sweep to the ledger, without files."""
    runs, now = sum(job.runs for bundle in bundles for job in bundle.jobs), utc_now()
    record = SweepRecord(sweep_id_of(at), f"{at}", f"number {at}", state, now, now, None, "", runs, 0)
    ledger.add(record, bundles)


def describe_one(ledger: Ledger, sweep_id: str) -> float:
    """The progress of a sweep, as a service reads it when nothing is cached."""
    return float(summarise_sweep(*StatusCache(ledger).read(sweep_id), threads=2000.0)["progress"])


def describe_page(ledger: Ledger) -> int:
    return len([summarise_sweep(*entry, threads=2000.0) for entry in StatusCache(ledger).query(limit=50)])


def time_best(call: Callable[[], object], repeats: int = 3) -> float:
    """The least processor time of some calls."""
    seconds = []
    for _ in range(repeats):
        began = time.process_time()
        call()
        seconds.append(time.process_time() - began)
    return max(min(seconds), 1e-7)


def describe_exponent(sizes: Sequence[float], costs: Sequence[float]) -> str:
    """Say with which power of a size a cost grows."""
    exponent = float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])
    return f"It grows with the power {exponent:.2f}"
