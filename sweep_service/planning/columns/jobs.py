"""The jobs of a sweep with their predicted costs, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.columns.costs import SgdColumns, cost_regime
from sweep_service.planning.costs import LANES, Calibration, SgdCost
from sweep_service.planning.grids import Grid
from sweep_service.planning.jobs import Job
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind, RunTable
from sweep_service.simulators.selection import MIN_CHAINS_PER_VECTOR

MIN_RUN_SECONDS = 1e-12  # so that sizes are finite


class Rectangle(NamedTuple):
    """Seeds and repeats that one job computes, as positions."""

    seeds: tuple[int, ...]
    repeats: tuple[int, ...]

    @property
    def runs(self) -> int:
        return len(self.seeds) * len(self.repeats)


@dataclass(frozen=True)
class JobCost:
    """A job, the predicted seconds of one run among a number of runs, and whether its chains share lanes."""

    job: Job
    seconds_per_run: Callable[[int], float]
    shares_lanes: bool = False

    @property
    def seconds(self) -> float:
        return self.seconds_per_run(self.job.runs) * self.job.runs

    def split(self, max_seconds: float, max_runs: int) -> Iterator[JobCost]:
        """Cut it into pieces that fit a bundle, of at least one run and of whole vectors if it uses lanes."""
        job = self.job
        size = int(
            choose_size(self.seconds_per_run(job.runs), job.runs, self.shares_lanes, max_seconds, max_runs)
        )
        rows, columns = max(1, size // len(job.repeats)), min(size, len(job.repeats))
        for row in range(0, len(job.seeds), rows):
            for column in range(0, len(job.repeats), columns):
                seeds, repeats = job.seeds[row : row + rows], job.repeats[column : column + columns]
                piece = replace(self, job=replace(job, seeds=seeds, repeats=repeats))
                # A remainder of a few chains does not use the lanes, so each of them costs more.
                is_remainder = self.shares_lanes and piece.job.runs < min(MIN_CHAINS_PER_VECTOR, job.runs)
                yield from piece.split(max_seconds, max_runs) if is_remainder else (piece,)


def choose_size(
    run_seconds: Any, runs: Any, shares_lanes: Any, max_seconds: float, max_runs: int
) -> AnyArray:
    """Return the number of runs of a piece of a job that fits a bundle; all arguments may be columns."""
    size = np.clip(max_seconds / np.maximum(run_seconds, MIN_RUN_SECONDS), 1, max_runs).astype(np.int64)
    whole_vectors = np.minimum(max_runs, np.maximum(LANES, size - size % LANES))
    return np.where(shares_lanes & (runs >= MIN_CHAINS_PER_VECTOR), whole_vectors, size)


@dataclass(frozen=True)
class JobTable:
    """Jobs of one kind in the order of the grid, one row each.

    `rectangle` holds positions in `rectangles`, `work_class` positions in `work_classes`, and `run_seconds`
    the predicted seconds of one run. `price` returns, for a row, a function from a number of runs to the
    seconds of one of them.
    """

    kind: Kind
    point: AnyArray
    regime: AnyArray
    rectangle: AnyArray
    rectangles: list[Rectangle]
    work_class: AnyArray
    work_classes: list[str]
    run_seconds: Array
    shares_lanes: AnyArray
    price: Callable[[int], Callable[[int], float]]

    @cached_property
    def runs(self) -> AnyArray:
        return np.array([rectangle.runs for rectangle in self.rectangles], np.int64)[self.rectangle]

    @property
    def seconds(self) -> float:
        return float(np.sum(self.run_seconds * self.runs))

    def split(self, max_seconds: float, max_runs: int) -> Iterator[tuple[str, Job, float]]:
        """Yield the class of work, the job and its seconds, of jobs that fit a bundle."""
        sizes = choose_size(self.run_seconds, self.runs, self.shares_lanes, max_seconds, max_runs)
        columns = (
            self.point, self.regime, self.rectangle, self.work_class, self.run_seconds * self.runs,
            sizes >= self.runs, self.shares_lanes,
        )  # fmt: skip
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for row, (point, regime, rectangle, work_class, seconds, fits, shares) in enumerate(rows):
            name = self.work_classes[work_class]
            job = Job(self.kind, point, regime, *self.rectangles[rectangle])
            if fits:
                yield name, job, seconds
            else:
                for piece in JobCost(job, self.price(row), shares).split(max_seconds, max_runs):
                    yield name, piece.job, piece.seconds


def cost_jobs(
    plan: SweepPlan, kind: Kind, numbers: AnyArray, calibration: Calibration, recorded: int = 0
) -> JobTable:
    """Return the runs with these numbers as rectangles of seeds and repeats, with their cost.

    Runs of SGD continue after `recorded` samples.
    """
    table = plan.runs.table(kind, np.sort(numbers))
    first, rectangle, rectangles = find_rectangles(table)
    rows = Rows(table.point[first], np.maximum(table.regime[first], 0), rectangle, rectangles)
    if kind == "sgd":
        return _cost_chains(plan.grid, rows, calibration, recorded)
    return _cost_integrations(plan.grid, rows, calibration)


class Rows(NamedTuple):
    """Points, regimes and rectangles of jobs."""

    point: AnyArray
    regime: AnyArray
    rectangle: AnyArray
    rectangles: list[Rectangle]


def _cost_integrations(grid: Grid, rows: Rows, calibration: Calibration) -> JobTable:
    work_classes: dict[str, int] = {}
    work_class, seconds = np.zeros(len(rows.point), np.int64), np.zeros(len(rows.point))
    for place, regime in enumerate(grid.regimes):
        of_regime = np.flatnonzero(rows.regime == place)
        costs = cost_regime(grid, regime, calibration)
        # Rates are learned for each regime.
        names = [f"{cost.work_class}/{regime}" for cost in costs.values]
        codes = np.array([work_classes.setdefault(name, len(work_classes)) for name in names])
        work_class[of_regime] = codes[costs.group[rows.point[of_regime]]]
        seconds[of_regime] = costs.column(lambda cost: cost.seconds)[rows.point[of_regime]]
    never = np.zeros(len(rows.point), bool)
    return JobTable(
        "ode", *rows, work_class, list(work_classes), seconds, never,
        lambda row: partial(_constant, float(seconds[row])),
    )  # fmt: skip


def _constant(seconds: float, runs: int) -> float:
    """Seconds per run that do not depend on the number of runs."""
    return seconds


def _cost_chains(grid: Grid, rows: Rows, calibration: Calibration, recorded: int) -> JobTable:
    columns = SgdColumns(grid, {rectangle.runs for rectangle in rows.rectangles}, calibration, recorded)
    seconds = np.zeros(len(rows.point))
    for place, rectangle in enumerate(rows.rectangles):
        of_rectangle = np.flatnonzero(rows.rectangle == place)
        seconds[of_rectangle] = columns.bundled_seconds(rectangle.runs)[rows.point[of_rectangle]]

    def price(row: int) -> Callable[[int], float]:
        point = int(rows.point[row])
        return SgdCost(grid.point(point), columns.steps[point], columns.samples, calibration).bundled_seconds

    names = [rates.work_class for rates in columns.rates.values]
    work_class = columns.rates.group[rows.point]
    return JobTable("sgd", *rows, work_class, names, seconds, columns.uses_lanes(LANES)[rows.point], price)


def find_rectangles(table: RunTable) -> tuple[AnyArray, AnyArray, list[Rectangle]]:
    """Divide the runs of each point and regime into rectangles of seeds and repeats.

    Returns for each job the first run of its point and regime, its rectangle as a position in a list, and the
    list.
    """
    pairs = np.stack([table.seed, np.maximum(table.repeat, 0)], axis=-1)
    is_first = np.diff(table.point, prepend=-1).astype(bool) | np.diff(table.regime, prepend=-2).astype(bool)
    begins = np.flatnonzero(is_first)
    rectangles: dict[Rectangle, int] = {}
    covers: dict[bytes, list[int]] = {}  # positions of the rectangles of each set of runs
    cover_of_group = []
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(table)], strict=False):
        content = pairs[begin:end].tobytes()
        if content not in covers:
            cover = _cover(pairs[begin:end].tolist())
            covers[content] = [rectangles.setdefault(item, len(rectangles)) for item in cover]
        cover_of_group.append(covers[content])
    first = np.repeat(begins, [len(cover) for cover in cover_of_group])
    rectangle = np.fromiter(chain.from_iterable(cover_of_group), np.int64, len(first))
    return first, rectangle, list(rectangles)


def _cover(pairs: Sequence[tuple[int, int]]) -> Iterator[Rectangle]:
    """Yield rectangles that contain each pair of a seed and a repeat once."""
    repeats_by_seed: dict[int, list[int]] = {}
    for seed, repeat in pairs:
        repeats_by_seed.setdefault(seed, []).append(repeat)
    seeds_by_repeats: dict[tuple[int, ...], list[int]] = {}
    for seed, repeats in repeats_by_seed.items():
        seeds_by_repeats.setdefault(tuple(repeats), []).append(seed)
    for same_repeats, seeds in seeds_by_repeats.items():
        yield Rectangle(tuple(seeds), same_repeats)
