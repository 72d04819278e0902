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
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sweep_service.arrays import AnyArray
from sweep_service.compute import Job
from sweep_service.costs import Calibration, ode_seconds, ode_work, sgd_seconds, sgd_work
from sweep_service.runs import Kind
from sweep_service.store.layout import Layout

AIM = 5.0  # seconds of work in a bundle
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
    classes: dict[tuple[str, bool], list[tuple[Job, float]]] = {}
    for kind, numbers in wanted.items():
        for job, cost, work in _jobs(layout, kind, numbers, known):
            classes.setdefault((work, cost < CHEAP), []).append((job, cost))
    most = {kind: most_runs(layout, kind) for kind in wanted}
    found = [bundle for (work, _), jobs in classes.items() for bundle in _packed(jobs, work, most)]
    return sorted(found, key=lambda bundle: -round(math.log2(max(bundle.cost, 1e-3))))


def most_runs(layout: Layout, kind: Kind) -> int:
    """As many runs of a kind as a part may hold."""
    return max(1, min(MOST_RUNS, MOST_BYTES // layout.run_bytes(kind)))


def _packed(jobs: Sequence[tuple[Job, float]], work: str, most: Mapping[Kind, int]) -> Iterator[Bundle]:
    waiting: list[Job] = []
    cost, full = 0.0, 0.0
    for job, price in jobs:
        share = len(job.seeds) * len(job.repeats) / most[job.kind]
        if waiting and (cost + price > AIM or full + share > 1.0):
            yield Bundle(tuple(waiting), cost, work)
            waiting, cost, full = [], 0.0, 0.0
        waiting.append(job)
        cost, full = cost + price, full + share
    if waiting:
        yield Bundle(tuple(waiting), cost, work)


def _jobs(
    layout: Layout, kind: Kind, numbers: AnyArray, known: Calibration
) -> Iterator[tuple[Job, float, str]]:
    """Runs of a point (and regime) that form a rectangle of seeds and repeats, no dearer than a bundle."""
    grid, most = layout.grid, most_runs(layout, kind)
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
            price = ode_seconds(point, grid.regimes[regime], float(grid.times[-1]), len(grid.times), known)
            for some in _split(third[begin:end].tolist(), price, most):
                yield Job("ode", index, regime, tuple(some), (0,)), price * len(some), work
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
            for some in _split(seeds, price * len(repeats), most):
                for few in _split(repeats, price * len(some), max(1, most // len(some))):
                    cost = price * len(some) * len(few)
                    yield Job("sgd", index, 0, tuple(some), tuple(few)), cost, sgd_work(point)


def _split(places: Sequence[int], price: float, most: int) -> Iterator[Sequence[int]]:
    """As many at once as make a bundle, at least one; in eights where that is no dearer, for the lanes."""
    size = max(1, min(most, int(AIM / max(price, 1e-12))))
    size = size - size % 8 if size > 8 else size
    return (places[at : at + size] for at in range(0, len(places), size))
