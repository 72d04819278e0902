"""Kept states: the last state of SGD runs, by which a later sweep continues them to longer times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sweep_service.model.point import Point
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.columns.groups import evaluate
from sweep_service.planning.grids import Grid
from sweep_service.simulators.chain_state import count_numbers
from sweep_service.simulators.selection import choose_simulator

MAX_DEFAULT_STATE_BYTES = 64 << 20  # of a sweep, up to which states are kept without being asked for


def count_state_numbers(grid: Grid) -> AnyArray:
    """Return the size of the state of an SGD run at each point, in numbers of eight bytes."""
    if not grid.simulate:
        return np.zeros(len(grid), np.int64)
    return evaluate(grid, _count_numbers).column(lambda count: count)


def _count_numbers(point: Point) -> int:
    choice = choose_simulator(point)
    is_learned = point.second_layer_rate > 0.0
    return count_numbers(choice.choose_form(1), choice.rows, point.k, point.d, is_learned)


@dataclass(frozen=True)
class ContinuedRuns:
    """SGD runs of a sweep that continue runs of earlier sweeps, one row each, in the order of `numbers`."""

    numbers: AnyArray  # of the runs
    samples: AnyArray  # that the earlier run has recorded
    source: AnyArray  # position of its sweep in `sources`
    source_numbers: AnyArray  # of the earlier runs in their sweeps
    keys: AnyArray  # of the earlier runs
    sources: tuple[str, ...]  # sweep ids

    def __len__(self) -> int:
        return len(self.numbers)

    def rows(self, numbers: AnyArray) -> AnyArray:
        """Return the rows of those of these runs that are continued."""
        return np.flatnonzero(np.isin(self.numbers, numbers))

    def split_by_samples(self, numbers: AnyArray) -> Iterator[tuple[int, AnyArray]]:
        """Yield the numbers of recorded samples, from 0 on, and those of these runs that begin there."""
        rows = self.rows(numbers)
        samples = np.zeros(len(numbers), np.int64)
        order = np.argsort(self.numbers[rows])
        continued = self.numbers[rows][order]
        is_continued = np.isin(numbers, continued)
        samples[is_continued] = self.samples[rows][order][np.searchsorted(continued, numbers[is_continued])]
        for count in np.unique(samples).tolist():
            yield count, numbers[samples == count]


def split_by_start(
    continued: ContinuedRuns | None, kind: str, numbers: AnyArray
) -> Iterator[tuple[int, AnyArray]]:
    """Yield the number of samples that are recorded already, and the runs of which that is so."""
    if continued is None or kind != "sgd":
        yield 0, numbers
    else:
        yield from continued.split_by_samples(numbers)
