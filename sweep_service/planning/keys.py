"""Run keys: digests of everything that the values of a run depend on, and of nothing else.

Runs with equal keys have equal values. They are computed once, within a sweep and over all sweeps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sweep_service.abandonment import check_abandoned
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.identity import Key
from sweep_service.model.point import Point
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.grids import Grid
from sweep_service.planning.runs import Kind
from sweep_service.simulators.selection import SIMULATORS
from sweep_service.simulators.simulate import stream_key

KEY_DTYPE = np.dtype("V16")  # half of a SHA-256, enough to avoid collisions among 1e12 runs


def run_keys(grid: Grid) -> dict[Kind, AnyArray]:
    """Return the key of each run, by kind, in the order of run numbers."""
    times = Key.of(times=grid.times).digest
    return {
        "sgd": np.array(list(_sgd_keys(grid, times)), dtype=KEY_DTYPE),
        "ode": np.array(list(_ode_keys(grid, times)), dtype=KEY_DTYPE),
    }


def _sgd_keys(grid: Grid, times: str) -> Iterator[bytes]:
    for point, name in zip(grid.points, grid.simulators, strict=True) if grid.simulate else ():
        check_abandoned()
        version = SIMULATORS[name].version
        for seed in grid.seeds:
            for repeat in grid.repeats:
                stream = stream_key(point, seed, repeat).digest
                yield _digest("sgd", stream, times, name, version)


def _ode_keys(grid: Grid, times: str) -> Iterator[bytes]:
    without, options = (
        Key.of(options=options.content()).digest
        for options in (replace(grid.options, fluctuations=False), grid.options)
    )
    last: Point | None = None
    for point in grid.points if grid.regimes else ():
        if last is None or point.init is not last.init or point.shape != last.shape:
            starts, last = [point.init.key(point.shape, seed).digest for seed in grid.seeds], point
        check_abandoned()
        for regime in grid.regimes:
            parameters = ode_parameter_digest(point, regime, grid.options)
            version = regime_version(regime)
            used = options if regime in REGIMES and REGIMES[regime].has_fluctuations else without
            for start in starts:
                yield _digest("ode", regime, parameters, start, used, times, version)


def ode_parameter_digest(point: Point, regime: str, options: RegimeOptions) -> str:
    """Return a digest of the parameters that a regime depends on, apart from its start.

    A regime that does not depend on d is computed once for all d.
    """
    ignored = REGIMES[regime].ignored_parameters(options) if regime in REGIMES else ()
    return Key.of(**{name: value for name, value in point.content.items() if name not in ignored}).digest


def regime_version(name: str) -> int:
    """Return the version of a regime. That of auto, which may choose any regime, rises with each of them."""
    if name in REGIMES:
        return REGIMES[name].version
    return 1 + sum(regime.version - 1 for regime in REGIMES.values())


def _digest(*items: str | int) -> bytes:
    return hashlib.sha256("/".join(map(str, items)).encode()).digest()[: KEY_DTYPE.itemsize]


class CopyGroups:
    """Groups of runs of a sweep with equal keys, which are computed once and stored for each copy."""

    def __init__(self, keys: AnyArray) -> None:
        _, self.first, self.group = np.unique(keys, return_index=True, return_inverse=True)
        self.order = np.argsort(self.group, kind="stable")
        self.begin = np.searchsorted(self.group[self.order], np.arange(len(self.first) + 1))

    def first_runs(self) -> AnyArray:
        """Return the number of the first run of each key."""
        return np.sort(self.first)

    def expand(self, numbers: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return, for all copies of computed runs, the rows of their values and their run numbers."""
        groups = self.group[numbers]
        counts = self.begin[groups + 1] - self.begin[groups]
        rows = np.repeat(np.arange(len(numbers)), counts)
        offset = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, self.order[self.begin[groups][rows] + offset]
