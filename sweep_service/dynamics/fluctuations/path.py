"""The trajectory of a flow at requested times and at those of a mesh."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sweep_service.dynamics.fluctuations.mesh import Grid
from sweep_service.dynamics.overlap_flow import OverlapFlow
from sweep_service.dynamics.solve import solve
from sweep_service.numerics.types import Array


class Path(NamedTuple):
    """Grids in order of time, and states by time; both end where the flow diverges."""

    grids: list[Grid]
    states: dict[float, Array]


def solve_path(
    flow: OverlapFlow, times: Array, rate: Callable[[float], float], stopped: Callable[[], bool] | None
) -> Path:
    """Integrate a flow; `rate` is the largest rate at its start, with the learning rate of a time."""
    breaks = [t for t in flow.breaks if t < times[-1]]
    edges = [0.0, *breaks, *times[-1:]] if times[-1] > 0.0 else []
    grids = [Grid.make(begin, end, end < times[-1], rate(begin)) for begin, end in itertools.pairwise(edges)]
    wanted = np.unique(np.concatenate([times, *(grid.times for grid in grids)]))
    path = solve(flow, wanted, stopped=stopped)
    finite = np.all(np.isfinite(path.states), axis=1)
    states = dict(zip(wanted[finite].tolist(), path.states[finite], strict=True))
    return Path([grid for grid in grids if grid.begin in states], states)
