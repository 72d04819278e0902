"""A few points that stand for a spec: those at which the scatter of SGD is predicted before a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sweep_service.dynamics.fluctuations.requirements import count_components, max_components
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.model.point import Point
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.costs import Calibration, ode_seconds
from sweep_service.planning.grids import Grid

HIGH_DIMENSIONAL = "high_dimensional"
MAX_CANDIDATES = 64  # points that are priced, so that large specs take no longer


class Candidate(NamedTuple):
    """A point with the predicted seconds of its scatter: after one start, and of the curve of another start.

    Infinite where the state is too large for a prediction.
    """

    position: int
    point: Point
    seconds: float
    seconds_per_start: float


class Representative(NamedTuple):
    """A point that is chosen, and what it stands for."""

    candidate: Candidate
    title: str


def list_candidates(grid: Grid, last: float, samples: int, calibration: Calibration) -> list[Candidate]:
    """Return up to `MAX_CANDIDATES` points in the order of δt, evenly spaced by rank, with their prices."""
    order = np.argsort(_step_times(grid), kind="stable")
    ranks = np.unique(np.linspace(0, len(order) - 1, min(len(order), MAX_CANDIDATES)).round().astype(int))
    with_fluctuations = RegimeOptions(fluctuations=True)
    candidates = []
    for index in order[ranks].tolist():
        point = grid.point(index)
        curve = ode_seconds(point, HIGH_DIMENSIONAL, last, samples, calibration)
        seconds = np.inf
        if count_components(point) <= max_components(point):
            seconds = ode_seconds(point, HIGH_DIMENSIONAL, last, samples, calibration, with_fluctuations)
        candidates.append(Candidate(index, point, seconds, curve))
    return candidates


def choose_representatives(
    candidates: list[Candidate], starts: int, max_seconds: float
) -> Iterator[Representative]:
    """Yield the points with the largest, the smallest and a middle δt that take `max_seconds` in total.

    The scatter of a run is √δt times a number without d, so that runs differ most at the largest δt. The
    smallest δt shows how much the points differ, or that they do not, where the starts scatter more.
    """
    left, remaining = list(candidates), max_seconds
    for title, share in (("the largest δt", 1.0), ("the smallest δt", 0.0), ("a middle δt", 0.5)):
        affordable = [candidate for candidate in left if _price(candidate, starts) <= remaining]
        if not affordable:
            return
        chosen = affordable[round(share * (len(affordable) - 1))]
        is_alone = len(candidates) == 1
        yield Representative(chosen, "" if is_alone else title)
        remaining -= _price(chosen, starts)
        left.remove(chosen)


def _price(candidate: Candidate, starts: int) -> float:
    return candidate.seconds + (starts - 1) * candidate.seconds_per_start


def _step_times(grid: Grid) -> AnyArray:
    """δt = γ/(p d) at every point, in their order."""
    d, p, gamma = (grid.column(name).astype(float) for name in ("d", "p", "gamma"))
    return (gamma / (p * d)).ravel()
