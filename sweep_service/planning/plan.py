"""The plan of a sweep: everything that follows from its grid."""

from __future__ import annotations

from functools import cached_property

from sweep_service.numerics.types import AnyArray
from sweep_service.planning.grids import Grid
from sweep_service.planning.keys import run_keys
from sweep_service.planning.runs import Kind, RunNumbers
from sweep_service.planning.schema import Schema


class SweepPlan:
    """A grid, the numbers and keys of its runs, and the schema of its dataset."""

    def __init__(self, grid: Grid) -> None:
        self.grid, self.runs, self.schema = grid, RunNumbers(grid), Schema(grid)

    @cached_property
    def keys(self) -> dict[Kind, AnyArray]:
        return run_keys(self.grid)

    def positions(self, kind: Kind, numbers: AnyArray | None = None) -> tuple[AnyArray, ...]:
        """Return the array positions of the runs with these numbers, or of all runs of a kind."""
        return self.schema.positions(kind, self.runs.table(kind, numbers))
