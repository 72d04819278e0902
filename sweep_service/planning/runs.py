"""Runs as a table: one column each for kind, point, regime, seed and repeat.

The columns hold positions in the lists of a grid. Each kind of run has its own numbers, which stored keys,
parts and failure records use: SGD runs are numbered over (point, seed, repeat) and ODE runs over
(point, regime, seed), with the last position varying fastest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

import numpy as np

from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.grids import Grid
from sweep_service.planning.outline import Outline
from sweep_service.validation import read_integer

Kind = Literal["sgd", "ode"]
KINDS: tuple[Kind, ...] = ("sgd", "ode")
NO_POSITION = -1  # the regime of an SGD run, and the repeat of an ODE run

# The columns that number the runs of each kind.
NUMBERED_BY: dict[Kind, tuple[str, str, str]] = {
    "sgd": ("point", "seed", "repeat"),
    "ode": ("point", "regime", "seed"),
}


class Run(NamedTuple):
    """One row of a `RunTable`."""

    kind: Kind
    point: int
    regime: int
    seed: int
    repeat: int


@dataclass(frozen=True)
class RunTable:
    """Columns of equal length, one row per run; `kind` holds positions in `KINDS`."""

    kind: AnyArray
    point: AnyArray
    regime: AnyArray
    seed: AnyArray
    repeat: AnyArray

    @classmethod
    def of(cls, kind: Kind, **columns: AnyArray) -> RunTable:
        """Make a table of runs of one kind from the columns that number them."""
        arrays = np.broadcast_arrays(*(np.asarray(columns[name], np.int64) for name in NUMBERED_BY[kind]))
        numbered = {name: array.reshape(-1) for name, array in zip(NUMBERED_BY[kind], arrays, strict=True)}
        absent = np.full(arrays[0].size, NO_POSITION)
        rest = {name: absent for name in ("regime", "repeat") if name not in numbered}
        return cls(kind=np.full(arrays[0].size, KINDS.index(kind), np.int8), **numbered, **rest)

    def __len__(self) -> int:
        return len(self.kind)

    def __getitem__(self, rows: AnyArray | slice) -> RunTable:
        return RunTable(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def by_point_and_regime(self) -> Iterator[tuple[int, int, RunTable]]:
        """Yield (point, regime, rows) for each point and regime, whose rows must be contiguous."""
        if len(self) == 0:
            return
        is_first = np.ones(len(self), dtype=bool)
        is_first[1:] = (np.diff(self.point) != 0) | (np.diff(self.regime) != 0)
        begins = np.flatnonzero(is_first)
        for begin, end in zip(begins, [*begins[1:], len(self)], strict=True):
            yield int(self.point[begin]), int(self.regime[begin]), self[begin:end]

    def run(self, row: int) -> Run:
        kind, *positions = (int(getattr(self, field.name)[row]) for field in fields(self))
        return Run(KINDS[kind], *positions)


@dataclass(frozen=True)
class RunNumbers:
    """The numbering of the runs of a grid or an outline: converts numbers to rows of a table and back."""

    grid: Grid | Outline

    def shape(self, kind: Kind) -> tuple[int, ...]:
        """Return the lengths of the columns that number the runs of a kind."""
        sizes = {
            "point": len(self.grid),
            "regime": len(self.grid.regimes),
            "seed": len(self.grid.seeds),
            "repeat": len(self.grid.repeats) if self.grid.simulate else 0,
        }
        return tuple(sizes[name] for name in NUMBERED_BY[kind])

    def count(self, kind: Kind) -> int:
        return math.prod(self.shape(kind))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds that have runs."""
        return tuple(kind for kind in KINDS if self.count(kind))

    @property
    def total(self) -> int:
        return sum(self.count(kind) for kind in KINDS)

    def table(self, kind: Kind, numbers: AnyArray | None = None) -> RunTable:
        """Return the runs with these numbers, or all runs of a kind in the order of their numbers."""
        numbers = np.arange(self.count(kind)) if numbers is None else numbers
        positions = np.unravel_index(numbers, self.shape(kind))
        return RunTable.of(kind, **dict(zip(NUMBERED_BY[kind], positions, strict=True)))

    def numbers(self, kind: Kind, runs: RunTable) -> AnyArray:
        """Return the numbers of runs of one kind."""
        columns = tuple(getattr(runs, name) for name in NUMBERED_BY[kind])
        return np.ravel_multi_index(columns, self.shape(kind))

    def find(self, name: str) -> Run:
        """Return the run with a name such as sgd-12, as shown in failure records and messages."""
        text, _, digits = name.partition("-")
        kind = next((kind for kind in self.kinds if kind == text), None)
        if kind is None:
            raise InvalidInput("run", name, f"must begin with {' or '.join(self.kinds)}")
        value = int(digits) if digits.isascii() and digits.isdigit() else digits
        number = read_integer(value, "run", 0, self.count(kind) - 1)
        return self.table(kind, np.array([number])).run(0)


def run_name(kind: Kind, number: int) -> str:
    """Return the name of a run in messages and failure records."""
    return f"{kind}-{number}"
