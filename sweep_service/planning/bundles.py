"""Groups runs into bundles: what one task computes, a few seconds of work each.

Runs of one point stay together because their chains share vectors. Points follow the order of the grid,
because parts are merged in that order. Simulators are not mixed. The most expensive bundles go first, so that
none of them is left for the end.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sweep_service.numerics.types import AnyArray
from sweep_service.planning.columns.jobs import cost_jobs
from sweep_service.planning.costs import Calibration
from sweep_service.planning.growth.kept_state import ContinuedRuns, split_by_start
from sweep_service.planning.jobs import Job
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind
from sweep_service.planning.schema import Schema


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
        return f"[{','.join([job.to_json() for job in self.jobs])}]"

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
    continued: ContinuedRuns | None = None,
) -> list[Bundle]:
    """Bundle the runs with these numbers, each run once; those in `continued` cost less.

    A few bundles of each class of work come first, so that the rate of each class is known early. Of the
    others, the most expensive ones come first.
    """
    tables = [
        cost_jobs(plan, kind, begun, calibration, recorded)
        for kind in numbers
        for recorded, begun in split_by_start(continued, kind, numbers[kind])
    ]
    seconds = limits.seconds(sum(table.seconds for table in tables))
    max_runs = {kind: limits.runs(plan.schema, kind) for kind in numbers}
    classes: dict[tuple[str, bool], list[tuple[Job, float]]] = {}
    for table in tables:
        for work_class, job, job_seconds in table.split(seconds, max_runs[table.kind]):
            group = (work_class, job_seconds < limits.cheap_job_seconds)
            classes.setdefault(group, []).append((job, job_seconds))
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
