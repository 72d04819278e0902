"""Intervals of time on which J and D of a trajectory are close to quadratic functions of time.

The trajectory is integrated once to the times of a fine grid. Coarse intervals of the grid are then halved
while J or D in their middle differ from the average of their ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sweep_service.numerics.types import Array

HALVINGS = 5  # at most, of an interval [t, 2t]
# Largest h‖J½ - (J₀ + J₁)/2‖ and ‖D½ - (D₀ + D₁)/2‖/max‖D‖ of an interval: sd R then errs by at most 1 %,
# as measured against tolerances ten times smaller.
DRIFT_TOLERANCE, DIFFUSION_TOLERANCE = 0.05, 0.015

MAX_CHANGE_IN_STEP = 0.1  # h‖J₁ - J₀‖ of a step, within which J is replaced by a constant


class Node(NamedTuple):
    """A time with the state, J and D."""

    time: float
    y: Array
    J: Array
    D: Array


class Interval(NamedTuple):
    """Nodes at the begin, middle and end."""

    begin: Node
    middle: Node
    end: Node

    def at(self, t: float) -> tuple[Array, Array]:
        """J and D at a time inside."""
        J, D = [node.J for node in self], [node.D for node in self]
        return self.interpolate(J, t), self.interpolate(D, t)

    def stops(self, times: Array) -> list[float]:
        """Ends of steps: the times inside, the middle, and times between which J changes little."""
        begin, middle, end = self
        change = (end.time - begin.time) * float(np.linalg.norm(end.J - begin.J))
        halves = max(1, int(np.ceil(0.5 * np.sqrt(change / MAX_CHANGE_IN_STEP))))
        first, second = (np.linspace(a.time, b.time, halves + 1) for a, b in ((begin, middle), (middle, end)))
        inside = times[(times > begin.time) & (times < end.time)]
        return np.unique(np.concatenate([inside, first[1:], second[1:]])).tolist()

    def interpolate(self, values: Sequence[Array], t: float) -> Array:
        """The parabola through values at the nodes."""
        x = (t - self.begin.time) / (self.end.time - self.begin.time)
        first, second, third = values
        return np.asarray(
            (1.0 - x) * (1.0 - 2.0 * x) * first + 4.0 * x * (1.0 - x) * second + x * (2.0 * x - 1.0) * third
        )


class Grid(NamedTuple):
    """Times of a piece in which the rate is smooth, 2^HALVINGS + 1 in each coarse interval."""

    times: Array
    last: float  # time at which the end is evaluated: before the rate jumps

    @classmethod
    def make(cls, begin: float, end: float, jumps: bool, rate: float) -> Grid:
        """Divide a piece into intervals whose lengths double from 1/rate."""
        length = end - begin
        doublings = max(0, int(np.ceil(np.log2(max(length * rate, 1.0)))))
        edges = begin + np.concatenate([[0.0], length * 2.0 ** np.arange(-doublings, 1.0)])
        count = 2**HALVINGS
        parts = np.linspace(edges[:-1], edges[1:], count, endpoint=False, axis=1)
        return cls(np.append(parts.ravel(), end), float(np.nextafter(end, begin)) if jumps else end)

    @property
    def begin(self) -> float:
        return float(self.times[0])

    @property
    def end(self) -> float:
        return float(self.times[-1])

    def coarse_intervals(self) -> list[tuple[int, int]]:
        """Positions of the ends of the coarse intervals."""
        firsts = range(0, len(self.times) - 1, 2**HALVINGS)
        return [(first, first + 2**HALVINGS) for first in firsts]


def choose_intervals(node: Callable[[int], Node], first: int, last: int) -> Iterator[Interval]:
    """Divide the times first..last of a grid into intervals, in order."""
    middle = (first + last) // 2
    interval = Interval(node(first), node(middle), node(last))
    if last - first <= 2 or _is_quadratic(interval):
        yield interval
        return
    yield from choose_intervals(node, first, middle)
    yield from choose_intervals(node, middle, last)


def _is_quadratic(interval: Interval) -> bool:
    begin, middle, end = interval
    h = end.time - begin.time
    drift = h * float(np.linalg.norm(middle.J - 0.5 * (begin.J + end.J)))
    scatter = float(np.linalg.norm(middle.D - 0.5 * (begin.D + end.D)))
    largest = max(float(np.linalg.norm(node.D)) for node in interval)
    return drift <= DRIFT_TOLERANCE and scatter <= DIFFUSION_TOLERANCE * largest
