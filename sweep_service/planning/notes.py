"""What a user should know about a sweep before it starts, and later about its dataset."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sweep_service.errors import InvalidInput
from sweep_service.planning.grids import Grid
from sweep_service.planning.outline import MAX_DEFAULT_OVERLAPS, OVERLAPS, count_overlaps
from sweep_service.planning.spec import SweepSpec
from sweep_service.text import format_number


def collect_notes(spec: SweepSpec, grid: Grid) -> tuple[str, ...]:
    """Return what the dataset leaves out because it is large, and where SGD waits for its first step."""
    return (*_note_left_out_overlaps(spec, grid), *_note_first_step(grid))


def check_steps(grid: Grid) -> None:
    """Raise InvalidInput if SGD would take no step at some point.

    Its curve would be constant and its final risk that of the start, which looks like a result.
    """
    if not grid.simulate:
        return
    with np.errstate(over="ignore"):  # infinitely many steps are refused by their price
        steps = np.rint(grid.times[-1] / _step_times(grid))
    if steps.all():
        return
    index = int(np.argmin(steps))
    allowed = (
        f"must be more than half a step of SGD, δt = {format_number(float(_step_times(grid)[index]))} "
        f"(at {_format_point(grid, index)}): increase it, decrease gamma, or set simulate to false"
    )
    raise InvalidInput("time.max", float(grid.times[-1]), allowed)


def _note_left_out_overlaps(spec: SweepSpec, grid: Grid) -> Iterator[str]:
    if grid.overlaps or spec.observables is not None:
        return
    p, k = grid.largest_p, grid.largest_k
    yield (
        f"the {OVERLAPS} M and Q are not stored, because {count_overlaps(p, k)} numbers per sample "
        f"(p = {p}, k = {k}) are more than {MAX_DEFAULT_OVERLAPS}: list {OVERLAPS} among the observables "
        "to store them"
    )


def _note_first_step(grid: Grid) -> Iterator[str]:
    """SGD at time t has taken round(t/δt) steps, so early samples may precede the first one."""
    later = grid.times[grid.times > 0.0]
    if not grid.simulate or not len(later):
        return
    step_times = _step_times(grid)
    index = int(np.argmax(step_times))
    count = int(np.sum(np.rint(later / step_times[index]) == 0))
    if count:
        yield (
            f"SGD is still at its start at the first {count} of {len(later)} recorded times t > 0, because "
            f"a step takes δt = {format_number(float(step_times[index]))} (at {_format_point(grid, index)})"
        )


def _step_times(grid: Grid) -> np.ndarray:
    """δt = γ/(pd) at every point, in the order of the points."""
    return (grid.column("gamma") / (grid.column("p") * grid.column("d"))).reshape(-1)


def _format_point(grid: Grid, index: int) -> str:
    return ", ".join(f"{name} = {format_number(value)}" for name, value in grid.row(index).items())
