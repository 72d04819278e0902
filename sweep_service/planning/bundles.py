"""Runs into bundles: what one task computes, a few seconds of work each.

Runs of one point go together, as their chains share vectors; points go together in the order of the
grid, as that is how they are merged; engines are not mixed; the dearest bundles go first, so that none
is left for the end.
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
from sweep_service.planning.costs import LANES, Calibration, SgdCost, ode_seconds, ode_work
from sweep_service.planning.jobs import Job
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind
from sweep_service.planning.schema import Schema
from sweep_service.simulators.selection import FEW_CHAINS

AIM = 5.0  # seconds of work in a bundle
LEAST = 0.5  # of a small sweep, so that it has
ENOUGH = 64  # bundles, and the last ones leave no worker idle for long
MOST_RUNS = 500
MOST_BYTES = 32 << 20  # of a part, but for one run that is larger
CHEAP = 0.05  # seconds: jobs below it and above it are not mixed, so that bundles are of equal cost


@dataclass(frozen=True)
class Priced:
    """Runs of a point, their class of work, and the seconds of one of them among so many."""

    job: Job
    work: str
    price: Callable[[int], float]
    lanes: bool = False  # do they share vectors?

    @property
    def cost(self) -> float:
        return self.price(self.job.runs) * self.job.runs


@dataclass(frozen=True)
class Bundle:
    """Jobs for one task, and what they should cost."""

    jobs: tuple[Job, ...]
    cost: float = 0.0
    work: str = ""  # the class of work of all its jobs

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:32]

    @cached_property
    def text(self) -> str:
        """Its jobs, as the ledger keeps them."""
        jobs = [[job.kind, job.point, job.regime, job.seeds, job.repeats] for job in self.jobs]
        return json.dumps(jobs, separators=(",", ":"))

    def singly(self) -> Iterator[Job]:
        """Its jobs, run by run."""
        for job in self.jobs:
            yield from job.singly()

    @classmethod
    def of(cls, text: str, cost: float = 0.0, work: str = "") -> Bundle:
        jobs = (
            Job(kind, point, regime, tuple(seeds), tuple(repeats))
            for kind, point, regime, seeds, repeats in json.loads(text)
        )
        return cls(tuple(jobs), cost, work)


def bundles(plan: SweepPlan, wanted: Mapping[Kind, AnyArray], known: Calibration) -> list[Bundle]:
    """The runs with these numbers, each once."""
    whole = [one for kind, numbers in wanted.items() for one in _jobs(plan, kind, numbers, known)]
    aim = min(AIM, max(LEAST, sum(one.cost for one in whole) / ENOUGH))
    most = {kind: most_runs(plan.schema, kind) for kind in wanted}
    classes: dict[tuple[str, bool], list[tuple[Job, float]]] = {}
    for one in whole:
        for piece in _pieces(one, aim, most[one.job.kind]):
            cost = piece.cost
            classes.setdefault((piece.work, cost < CHEAP), []).append((piece.job, cost))
    found = [bundle for (work, _), jobs in classes.items() for bundle in _packed(jobs, work, aim, most)]
    return sorted(found, key=lambda bundle: -round(math.log2(max(bundle.cost, 1e-3))))


def most_runs(schema: Schema, kind: Kind) -> int:
    """As many runs of a kind as a part may hold."""
    return max(1, min(MOST_RUNS, MOST_BYTES // schema.run_bytes(kind)))


def _packed(
    jobs: Sequence[tuple[Job, float]], work: str, aim: float, most: Mapping[Kind, int]
) -> Iterator[Bundle]:
    waiting: list[Job] = []
    cost, full = 0.0, 0.0
    for job, price in jobs:
        share = job.runs / most[job.kind]
        if waiting and (cost + price > aim or full + share > 1.0):
            yield Bundle(tuple(waiting), cost, work)
            waiting, cost, full = [], 0.0, 0.0
        waiting.append(job)
        cost, full = cost + price, full + share
    if waiting:
        yield Bundle(tuple(waiting), cost, work)


def _jobs(plan: SweepPlan, kind: Kind, numbers: AnyArray, known: Calibration) -> Iterator[Priced]:
    """Runs of a point (and regime) that form a rectangle of seeds and repeats."""
    grid, last, samples = plan.grid, float(plan.grid.times[-1]), len(plan.grid.times)
    for index, regime, runs in plan.runs.table(kind, np.sort(numbers)).by_point_and_regime():
        point, seeds = grid.points[index], runs.seed.tolist()
        if kind == "ode":
            name = grid.regimes[regime]
            each = ode_seconds(point, name, last, samples, known, grid.options.qmc_points)
            job = Job("ode", index, regime, tuple(seeds), (0,))
            yield Priced(job, ode_work(point, name), partial(_alike, each))
            continue
        cost = SgdCost(point, last / point.delta_t, samples, known)
        lanes = cost.in_lanes(LANES)
        asked: dict[int, list[int]] = {}
        for seed, repeat in zip(seeds, runs.repeat.tolist(), strict=True):
            asked.setdefault(seed, []).append(repeat)
        rows: dict[tuple[int, ...], list[int]] = {}
        for seed, some in asked.items():
            rows.setdefault(tuple(some), []).append(seed)
        for repeats, same in rows.items():
            yield Priced(Job("sgd", index, 0, tuple(same), repeats), cost.work, cost.price, lanes)


def _alike(each: float, runs: int) -> float:
    return each


def _pieces(whole: Priced, aim: float, most: int) -> Iterator[Priced]:
    """As many runs at once as make a bundle, at least one; in eights for the lanes."""
    job = whole.job
    size = max(1, min(most, int(aim / max(whole.price(job.runs), 1e-12))))
    if whole.lanes and job.runs >= FEW_CHAINS:
        size = min(most, max(LANES, size - size % LANES))
    rows, columns = max(1, size // len(job.repeats)), min(size, len(job.repeats))
    for at in range(0, len(job.seeds), rows):
        for to in range(0, len(job.repeats), columns):
            cut = replace(job, seeds=job.seeds[at : at + rows], repeats=job.repeats[to : to + columns])
            piece = replace(whole, job=cut)
            few = whole.lanes and cut.runs < min(FEW_CHAINS, job.runs)  # left over, and dear
            yield from _pieces(piece, aim, most) if few else (piece,)
