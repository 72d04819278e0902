"""Runs: the smallest things with a result and a key, numbered along the axes of a grid.

SGD runs are numbered (point, seed, repeat) and ODE runs (point, regime, seed), last index fastest.
A run's key says everything that its numbers depend on, and nothing else: equal keys, equal numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.identity import Key
from sweep_service.model.point import Point
from sweep_service.numerics.types import AnyArray
from sweep_service.simulators.selection import choose_engine
from sweep_service.simulators.simulate import stream_key
from sweep_service.sweeps.grids import Grid

Kind = Literal["sgd", "ode"]
KINDS: tuple[Kind, ...] = ("sgd", "ode")
KEY = np.dtype("V16")  # half of a SHA-256: enough that no two of 1e12 runs meet


@dataclass(frozen=True)
class Runs:
    """The runs of a grid."""

    grid: Grid

    def shape(self, kind: Kind) -> tuple[int, int, int]:
        grid = self.grid
        if kind == "sgd":
            return len(grid), len(grid.seeds), len(grid.repeats) if grid.simulate else 0
        return len(grid), len(grid.regimes), len(grid.seeds)

    def count(self, kind: Kind) -> int:
        return int(np.prod(self.shape(kind)))

    @cached_property
    def keys(self) -> dict[Kind, AnyArray]:
        """The key of each run, in the order of their numbers."""
        times = Key.of(times=self.grid.times).digest
        return {
            "sgd": np.array(list(self._sgd_keys(times)), dtype=KEY),
            "ode": np.array(list(self._ode_keys(times)), dtype=KEY),
        }

    def _sgd_keys(self, times: str) -> Iterator[bytes]:
        grid = self.grid
        for point in grid.points if grid.simulate else ():
            simulator = choose_engine(point).kind
            for seed in grid.seeds:
                for repeat in grid.repeats:
                    stream = stream_key(point, seed, repeat).digest
                    yield _digest("sgd", stream, times, simulator.name, simulator.version)

    def _ode_keys(self, times: str) -> Iterator[bytes]:
        grid = self.grid
        options = Key.of(options=grid.options.content()).digest
        last: Point | None = None
        for point in grid.points if grid.regimes else ():
            if last is None or point.init is not last.init or point.shape != last.shape:
                starts, last = [point.init.key(point.shape, seed).digest for seed in grid.seeds], point
            for regime in grid.regimes:
                physics = ode_content(point, regime, grid.options)
                version = regime_version(regime)
                for start in starts:
                    yield _digest("ode", regime, physics, start, options, times, version)


def ode_content(point: Point, regime: str, options: RegimeOptions) -> str:
    """What of a point a regime looks at beside its start: a theory without d is computed once for all d."""
    ignored = REGIMES[regime].ignored(options) if regime in REGIMES else ()
    return Key.of(**{name: value for name, value in point.content.items() if name not in ignored}).digest


def regime_version(name: str) -> int:
    """Of a regime; that of auto, which may choose any of them, is raised with each of theirs."""
    return REGIMES[name].version if name in REGIMES else 1 + sum(one.version - 1 for one in REGIMES.values())


def _digest(*parts: str | int) -> bytes:
    return hashlib.sha256("/".join(map(str, parts)).encode()).digest()[: KEY.itemsize]


class Copies:
    """Runs of a sweep with equal keys: computed once, stored at each."""

    def __init__(self, keys: AnyArray) -> None:
        _, self.first, self.group = np.unique(keys, return_index=True, return_inverse=True)
        self.order = np.argsort(self.group, kind="stable")
        self.begin = np.searchsorted(self.group[self.order], np.arange(len(self.first) + 1))

    def unique(self) -> AnyArray:
        """The first run of each key."""
        return np.sort(self.first)

    def expand(self, numbers: AnyArray) -> tuple[AnyArray, AnyArray]:
        """For runs that were computed: the rows of their values, and the numbers they belong to."""
        groups = self.group[numbers]
        counts = self.begin[groups + 1] - self.begin[groups]
        rows = np.repeat(np.arange(len(numbers)), counts)
        offset = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, self.order[self.begin[groups][rows] + offset]
