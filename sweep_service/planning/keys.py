"""Keys of runs: a key says everything that a run's numbers depend on, and nothing else.

Equal keys, equal numbers: runs with equal keys are computed once, within a sweep and over all sweeps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.identity import Key
from sweep_service.model.point import Point
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.grids import Grid
from sweep_service.planning.runs import Kind
from sweep_service.simulators.selection import choose_engine
from sweep_service.simulators.simulate import stream_key

KEY = np.dtype("V16")  # half of a SHA-256: enough that no two of 1e12 runs meet


def run_keys(grid: Grid) -> dict[Kind, AnyArray]:
    """The key of each run, by kind, in the order of the runs' numbers."""
    times = Key.of(times=grid.times).digest
    return {
        "sgd": np.array(list(_sgd_keys(grid, times)), dtype=KEY),
        "ode": np.array(list(_ode_keys(grid, times)), dtype=KEY),
    }


def _sgd_keys(grid: Grid, times: str) -> Iterator[bytes]:
    for point in grid.points if grid.simulate else ():
        simulator = choose_engine(point).kind
        for seed in grid.seeds:
            for repeat in grid.repeats:
                stream = stream_key(point, seed, repeat).digest
                yield _digest("sgd", stream, times, simulator.name, simulator.version)


def _ode_keys(grid: Grid, times: str) -> Iterator[bytes]:
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
    """A digest of the parameters that a regime depends on beside its start.

    A theory that does not depend on d is computed once for all d.
    """
    ignored = REGIMES[regime].ignored(options) if regime in REGIMES else ()
    return Key.of(**{name: value for name, value in point.content.items() if name not in ignored}).digest


def regime_version(name: str) -> int:
    """The version of a regime. That of auto, which may choose any regime, rises with each of theirs."""
    if name in REGIMES:
        return REGIMES[name].version
    return 1 + sum(regime.version - 1 for regime in REGIMES.values())


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
