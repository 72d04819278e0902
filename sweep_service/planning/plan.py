"""The plan of a sweep: everything that follows from its grid."""

from __future__ import annotations

from functools import cached_property

from sweep_service.numerics.types import AnyArray
from sweep_service.planning.grids import Grid
from sweep_service.planning.growth.kept_state import MAX_DEFAULT_STATE_BYTES, count_state_numbers
from sweep_service.planning.keys import run_keys, sgd_keys
from sweep_service.planning.runs import Kind, RunNumbers
from sweep_service.planning.schema import Schema


class SweepPlan:
    """A grid, the numbers and keys of its runs, and the schema of its dataset."""

    def __init__(self, grid: Grid) -> None:
        self.grid, self.runs, self.schema = grid, RunNumbers(grid), Schema(grid)

    @cached_property
    def keys(self) -> dict[Kind, AnyArray]:
        return run_keys(self.grid)

    @cached_property
    def sgd_keys(self) -> list[AnyArray]:
        """The keys of SGD runs by the segment of the times with which they end."""
        return sgd_keys(self.grid)

    @cached_property
    def state_numbers(self) -> AnyArray:
        """The size of the last state of an SGD run at each point, in numbers of eight bytes."""
        return count_state_numbers(self.grid)

    @cached_property
    def state_bytes(self) -> int:
        """The bytes of the last states of all SGD runs."""
        runs_per_point = self.runs.count("sgd") // len(self.grid)
        return 8 * int(self.state_numbers.sum()) * runs_per_point

    @cached_property
    def keeps_state(self) -> bool:
        """Whether the last states of SGD runs are stored: if the spec says so, else if they are small."""
        if not self.grid.simulate:
            return False
        if self.grid.keep_state is not None:
            return self.grid.keep_state
        return self.state_bytes <= MAX_DEFAULT_STATE_BYTES

    def positions(self, kind: Kind, numbers: AnyArray | None = None) -> tuple[AnyArray, ...]:
        """Return the array positions of the runs with these numbers, or of all runs of a kind."""
        return self.schema.positions(kind, self.runs.table(kind, numbers))
