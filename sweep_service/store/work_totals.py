"""Sums over the bundles of a sweep by class of work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

QUEUE_ENDS = 64  # bundles at each end of a queue, more than most clusters have threads


class Queue(NamedTuple):
    """The ends of the queue of bundles, as (class of work, predicted cost), both beginning at the end."""

    first: list[tuple[str, float]]
    last: list[tuple[str, float]]


EMPTY_QUEUE = Queue([], [])


@dataclass
class WorkTotals:
    """Bundles, predicted cost, processor seconds, and seconds that workers were busy with them."""

    bundles: int = 0  # merged
    cost_done: float = 0.0
    seconds: float = 0.0
    elapsed: float = 0.0
    squares: float = 0.0  # Σ elapsed²/cost, which gives the scatter of elapsed/cost
    bundles_left: int = 0
    cost_left: float = 0.0
    cost_dropped: float = 0.0
