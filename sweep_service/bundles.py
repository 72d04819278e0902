"""Runs into bundles: what one task computes, a few seconds of work each.

Runs of one point go together, as their chains share vectors; points go together in the order of the
grid, as that is how they are merged; engines are not mixed; the dearest bundles go first, so that none
is left for the end.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sweep_service.arrays import AnyArray
from sweep_service.compute import Job
from sweep_service.costs import Calibration, ode_seconds, ode_work, sgd_seconds, sgd_work
from sweep_service.point import Point
from sweep_service.runs import Kind
from sweep_service.store.layout import Layout

AIM = 5.0  # seconds of work in a bundle
LEAST = 0.5  # of a small sweep, so that it has
ENOUGH = 64  # bundles, and the last ones leave no worker idle for long
LANES = 8
MOST_RUNS = 500
MOST_BYTES = 32 << 20  # of a part, but for one run that is larger
CHEAP = 0.05  # seconds: jobs below it and above it are not mixed, so that bundles are of equal cost


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

    @classmethod
    def of(cls, text: str, cost: float = 0.0, work: str = "") -> Bundle:
        jobs = (
            Job(kind, point, regime, tuple(seeds), tuple(repeats))
            for kind, point, regime, seeds, repeats in json.loads(text)
        )
        return cls(tuple(jobs), cost, work)


def bundles(layout: Layout, wanted: Mapping[Kind, AnyArray], known: Calibration) -> list[Bundle]:
    """The runs with these numbers, each once."""
    whole = [one for kind, numbers in wanted.items() for one in _jobs(layout, kind, numbers, known)]
    total = sum(job.runs * price for job, price, _ in whole)
    aim = min(AIM, max(LEAST, total / ENOUGH))
    most = {kind: most_runs(layout, kind) for kind in wanted}
    classes: dict[tuple[str, bool], list[tuple[Job, float]]] = {}
    for job, price, work in whole:
        for piece in _pieces(job, price, aim, most[job.kind], has_lanes(layout.grid.points[job.point], job)):
            cost = price * piece.runs
            classes.setdefault((work, cost < CHEAP), []).append((piece, cost))
    found = [bundle for (work, _), jobs in classes.items() for bundle in _packed(jobs, work, aim, most)]
    return sorted(found, key=lambda bundle: -round(math.log2(max(bundle.cost, 1e-3))))


def most_runs(layout: Layout, kind: Kind) -> int:
    """As many runs of a kind as a part may hold."""
    return max(1, min(MOST_RUNS, MOST_BYTES // layout.run_bytes(kind)))


def has_lanes(point: Point, job: Job) -> bool:
    """Do the chains of a job share vectors, so that few of them take as long as eight?"""
    return job.kind == "sgd" and sgd_work(point) == "sgd/S1"


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


def _jobs(
    layout: Layout, kind: Kind, numbers: AnyArray, known: Calibration
) -> Iterator[tuple[Job, float, str]]:
    """Runs of a point (and regime) that form a rectangle of seeds and repeats; their price; their work."""
    grid = layout.grid
    if len(numbers) == 0:
        return
    first, second, third = np.unravel_index(np.sort(numbers), layout.runs.shape(kind))
    group = first if kind == "sgd" else first * len(grid.regimes) + second
    begins = np.flatnonzero(np.diff(group, prepend=-1))
    for begin, end in zip(begins, [*begins[1:], len(group)], strict=True):
        index = int(first[begin])
        point = grid.points[index]
        if kind == "ode":
            regime = int(second[begin])
            work = ode_work(point, grid.regimes[regime])
            price = ode_seconds(
                point, grid.regimes[regime], float(grid.times[-1]), len(grid.times), known,
                grid.options.qmc_points,
            )  # fmt: skip
            yield Job("ode", index, regime, tuple(third[begin:end].tolist()), (0,)), price, work
            continue
        steps = float(grid.times[-1]) / point.delta_t
        price = sgd_seconds(point, steps, len(grid.times), end - begin, known)
        asked: dict[int, list[int]] = {}
        for seed, repeat in zip(second[begin:end].tolist(), third[begin:end].tolist(), strict=True):
            asked.setdefault(seed, []).append(repeat)
        rows: dict[tuple[int, ...], list[int]] = {}
        for seed, some in asked.items():
            rows.setdefault(tuple(some), []).append(seed)
        for repeats, seeds in rows.items():
            yield Job("sgd", index, 0, tuple(seeds), repeats), price, sgd_work(point)


def _pieces(job: Job, price: float, aim: float, most: int, lanes: bool) -> Iterator[Job]:
    for seeds in _split(job.seeds, price * len(job.repeats), aim, most, lanes):
        room = max(1, most // len(seeds))
        for repeats in _split(job.repeats, price * len(seeds), aim, room, lanes and len(seeds) < LANES):
            yield replace(job, seeds=seeds, repeats=repeats)


def _split(
    places: tuple[int, ...], price: float, aim: float, most: int, lanes: bool
) -> Iterator[tuple[int, ...]]:
    """As many at once as make a bundle, at least one; in eights where that is no dearer, for the lanes."""
    size = max(1, min(most, int(aim / max(price, 1e-12))))
    if size >= LANES:
        size -= size % LANES
    elif lanes and price * LANES <= AIM:
        size = min(LANES, most)
    return (places[at : at + size] for at in range(0, len(places), size))
