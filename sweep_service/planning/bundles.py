"""Groups runs into bundles: what one task computes, a few seconds of work each.

Runs of one point stay together because their chains share vectors. Points follow the order of the grid,
because parts are merged in that order. Simulators are not mixed. The most expensive bundles go first, so that
none of them is left for the end.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from sweep_service.numerics.types import AnyArray
from sweep_service.planning.costs import LANES, Calibration, SgdCost, ode_seconds, ode_work_class
from sweep_service.planning.jobs import Job
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind
from sweep_service.planning.schema import Schema
from sweep_service.simulators.selection import MIN_CHAINS_PER_VECTOR


@dataclass(frozen=True)
class BundleLimits:
    """The size of bundles. Small sweeps get shorter bundles, so that they have at least `min_bundles`."""

    target_seconds: float = 5.0
    min_seconds: float = 0.5  # bundles are not made shorter than this
    min_bundles: int = 64  # so that the last ones leave no worker idle for long
    max_runs: int = 500
    max_part_bytes: int = 32 << 20  # a single run may exceed it
    cheap_job_seconds: float = 0.05  # jobs below and above are not mixed, so that bundles have similar costs

    def seconds(self, total_seconds: float) -> float:
        """Seconds of work for a bundle of a sweep with this total cost."""
        return min(self.target_seconds, max(self.min_seconds, total_seconds / self.min_bundles))

    def runs(self, schema: Schema, kind: Kind) -> int:
        """Maximal number of runs of a kind in one part."""
        return max(1, min(self.max_runs, self.max_part_bytes // schema.run_bytes(kind)))


DEFAULT_LIMITS = BundleLimits()


@dataclass(frozen=True)
class JobCost:
    """A job, its class of work, and the predicted seconds of one run among a number of runs."""

    job: Job
    work_class: str
    seconds_per_run: Callable[[int], float]
    shares_lanes: bool = False

    @property
    def seconds(self) -> float:
        return self.seconds_per_run(self.job.runs) * self.job.runs


@dataclass(frozen=True)
class Bundle:
    """Jobs for one task, and their predicted cost in seconds."""

    jobs: tuple[Job, ...]
    cost: float = 0.0
    work_class: str = ""  # and the regime; the same for all jobs

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(self.jobs_json.encode()).hexdigest()[:32]

    @cached_property
    def jobs_json(self) -> str:
        """The jobs as the ledger stores them."""
        jobs = [[job.kind, job.point, job.regime, job.seeds, job.repeats] for job in self.jobs]
        return json.dumps(jobs, separators=(",", ":"))

    def split_runs(self) -> Iterator[Job]:
        """Yield a job for each run."""
        for job in self.jobs:
            yield from job.split_runs()

    @classmethod
    def from_json(cls, text: str, cost: float = 0.0, work_class: str = "") -> Bundle:
        jobs = (
            Job(kind, point, regime, tuple(seeds), tuple(repeats))
            for kind, point, regime, seeds, repeats in json.loads(text)
        )
        return cls(tuple(jobs), cost, work_class)


def make_bundles(
    plan: SweepPlan,
    numbers: Mapping[Kind, AnyArray],
    calibration: Calibration,
    limits: BundleLimits = DEFAULT_LIMITS,
) -> list[Bundle]:
    """Bundle the runs with these numbers, each run once.

    A few bundles of each class of work come first, so that the rate of each class is known early. Of the
    others, the most expensive ones come first.
    """
    costs = [cost for kind in numbers for cost in _estimate_jobs(plan, kind, numbers[kind], calibration)]
    seconds = limits.seconds(sum(cost.seconds for cost in costs))
    max_runs = {kind: limits.runs(plan.schema, kind) for kind in numbers}
    classes: dict[tuple[str, bool], list[tuple[Job, float]]] = {}
    for cost in costs:
        for piece in _split(cost, seconds, max_runs[cost.job.kind]):
            piece_seconds = piece.seconds
            group = (piece.work_class, piece_seconds < limits.cheap_job_seconds)
            classes.setdefault(group, []).append((piece.job, piece_seconds))
    bundles = [
        bundle
        for (work_class, _), jobs in classes.items()
        for bundle in _pack(jobs, work_class, seconds, max_runs)
    ]
    pilots = _choose_pilots(bundles)
    return sorted(
        bundles, key=lambda bundle: (bundle.key not in pilots, -round(math.log2(max(bundle.cost, 1e-3))))
    )


def _choose_pilots(bundles: Sequence[Bundle]) -> set[str]:
    """Return the keys of some bundles of each class, from its beginning, its middle and its end."""
    by_class: dict[str, list[Bundle]] = {}
    for bundle in bundles:
        by_class.setdefault(bundle.work_class, []).append(bundle)
    places = (0.0, 0.5, 1.0)
    return {group[round(place * (len(group) - 1))].key for group in by_class.values() for place in places}


def _pack(
    jobs: Sequence[tuple[Job, float]], work_class: str, max_seconds: float, max_runs: Mapping[Kind, int]
) -> Iterator[Bundle]:
    """Fill bundles with jobs in order, up to the time and the number of runs of a bundle."""
    current: list[Job] = []
    cost, filled = 0.0, 0.0
    for job, seconds in jobs:
        share = job.runs / max_runs[job.kind]
        if current and (cost + seconds > max_seconds or filled + share > 1.0):
            yield Bundle(tuple(current), cost, work_class)
            current, cost, filled = [], 0.0, 0.0
        current.append(job)
        cost, filled = cost + seconds, filled + share
    if current:
        yield Bundle(tuple(current), cost, work_class)


def _estimate_jobs(
    plan: SweepPlan, kind: Kind, numbers: AnyArray, calibration: Calibration
) -> Iterator[JobCost]:
    """Yield the runs of each point (and regime) as rectangles of seeds and repeats, with their cost."""
    grid, last, samples = plan.grid, float(plan.grid.times[-1]), len(plan.grid.times)
    for index, regime, runs in plan.runs.table(kind, np.sort(numbers)).by_point_and_regime():
        point, seeds = grid.points[index], runs.seed.tolist()
        if kind == "ode":
            name = grid.regimes[regime]
            seconds = ode_seconds(point, name, last, samples, calibration, grid.options)
            job = Job("ode", index, regime, tuple(seeds), (0,))
            work_class = f"{ode_work_class(point, name)}/{name}"  # rates are learned for each regime
            yield JobCost(job, work_class, partial(_constant, seconds))
            continue
        cost = SgdCost(point, last / point.delta_t, samples, calibration)
        shares_lanes = cost.uses_lanes(LANES)
        repeats_by_seed: dict[int, list[int]] = {}
        for seed, repeat in zip(seeds, runs.repeat.tolist(), strict=True):
            repeats_by_seed.setdefault(seed, []).append(repeat)
        seeds_by_repeats: dict[tuple[int, ...], list[int]] = {}
        for seed, seed_repeats in repeats_by_seed.items():
            seeds_by_repeats.setdefault(tuple(seed_repeats), []).append(seed)
        for repeats, same_seeds in seeds_by_repeats.items():
            job = Job("sgd", index, 0, tuple(same_seeds), repeats)
            yield JobCost(job, cost.work_class, cost.bundled_seconds, shares_lanes)


def _constant(seconds: float, runs: int) -> float:
    """Seconds per run that do not depend on the number of runs."""
    return seconds


def _split(cost: JobCost, max_seconds: float, max_runs: int) -> Iterator[JobCost]:
    """Cut a job into pieces that fit a bundle, of at least one run and of whole vectors if it uses lanes."""
    job = cost.job
    size = max(1, min(max_runs, int(max_seconds / max(cost.seconds_per_run(job.runs), 1e-12))))
    if cost.shares_lanes and job.runs >= MIN_CHAINS_PER_VECTOR:
        size = min(max_runs, max(LANES, size - size % LANES))
    rows, columns = max(1, size // len(job.repeats)), min(size, len(job.repeats))
    for row in range(0, len(job.seeds), rows):
        for column in range(0, len(job.repeats), columns):
            seeds, repeats = job.seeds[row : row + rows], job.repeats[column : column + columns]
            piece = replace(cost, job=replace(job, seeds=seeds, repeats=repeats))
            # A remainder of a few chains does not use the lanes, so each of them costs more.
            is_remainder = cost.shares_lanes and piece.job.runs < min(MIN_CHAINS_PER_VECTOR, job.runs)
            yield from _split(piece, max_seconds, max_runs) if is_remainder else (piece,)
