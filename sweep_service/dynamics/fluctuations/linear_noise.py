"""The linear noise of SGD along a trajectory of the flow: X_ν = X(t) + √δt ξ + δt m + O(δt^{3/2}).

    dΣ/dt = JΣ + ΣJᵀ + D,  Σ(0) = 0           dm/dt = Jm + s,  m(0) = 0
Σ is the covariance of ξ. Where the rate jumps, m jumps by -½ (f⁺ - f⁻): a step acts from the first step of
SGD after its time, half a δt later on average.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from sweep_service.dynamics.fluctuations.diffusion import choose_diffusion
from sweep_service.dynamics.fluctuations.linearisation import Linearisation
from sweep_service.dynamics.fluctuations.mesh import Grid, Interval, Node, choose_intervals
from sweep_service.dynamics.fluctuations.path import solve_path
from sweep_service.dynamics.fluctuations.source import mean_source
from sweep_service.dynamics.fluctuations.transition import Step, average_source, make_equation, make_step
from sweep_service.dynamics.overlap_flow import OverlapFlow
from sweep_service.errors import Stopped
from sweep_service.model.activations import Activation
from sweep_service.numerics.types import Array


class Moments(NamedTuple):
    """Σ and m at a time, and the step that led there."""

    time: float
    covariance: Array
    mean: Array
    step: Step | None


class LinearNoise:
    """Σ(t) and m(t) of a flow that has the sampling term."""

    def __init__(
        self,
        flow: OverlapFlow,
        student: Activation,
        teacher: Activation,
        points: int,
        stopped: Callable[[], bool] | None = None,
    ) -> None:
        self.flow, self.size, self.stopped = flow, flow.y0.size, stopped
        self.linear = Linearisation(flow)
        self.diffusion = choose_diffusion(flow, student, teacher, points)
        self.states: dict[float, Array] = {}  # of the trajectory, by time

    def moments(self, times: Array) -> Iterator[Moments]:
        """Yield the moments at all times of steps, among which are `times`, until the flow diverges."""
        covariance, mean = np.zeros((self.size, self.size)), np.zeros(self.size)
        change: Array | None = None  # f at the end of the last piece
        grids = self.solve(times)
        yield Moments(0.0, covariance, mean, None)
        for grid in grids:
            if change is not None:
                mean = mean - 0.5 * (self.flow(self.states[grid.begin], grid.begin) - change)
            for interval in self.intervals(grid):
                steps = self._cross(interval, times, covariance, mean)
                yield from steps
                covariance, mean = steps[-1].covariance, steps[-1].mean
            if grid.end not in self.states:
                return
            change = self.flow(self.states[grid.end], grid.last)

    def solve(self, times: Array) -> list[Grid]:
        """Integrate the flow to `times` and to the times of a grid; returns the grids up to divergence."""
        grids, self.states = solve_path(self.flow, times, self._rate, self.stopped)
        return grids

    def intervals(self, grid: Grid) -> Iterator[Interval]:
        """The intervals of a grid in order, each with J and D at its nodes."""
        nodes: dict[int, Node] = {}

        def node(index: int) -> Node:
            if index not in nodes:
                if self.stopped is not None and self.stopped():
                    raise Stopped("the integration was stopped")
                t = float(grid.times[index])
                y, now = self.states[t], min(t, grid.last)
                nodes[index] = Node(now, y, self.linear.jacobian(y, now), self.diffusion.at(y, now).matrix())
            return nodes[index]

        for first, last in grid.coarse_intervals():
            if float(grid.times[last]) not in self.states:  # diverged
                return
            yield from choose_intervals(node, first, last)
            nodes = {last: nodes[last]}

    def _rate(self, t: float) -> float:
        """The largest rate of change at the start of the trajectory, with the learning rate of t."""
        return float(np.linalg.norm(self.linear.jacobian(self.flow.y0, t), 2))

    def _cross(self, interval: Interval, times: Array, covariance: Array, mean: Array) -> list[Moments]:
        """The moments inside an interval, the last at its end."""
        begin, middle, end = interval
        sources = [mean_source(self.flow, self.linear, begin, covariance)]
        rows, last = [], begin.time
        for stop in interval.stops(times):
            J, D = zip(*(interval.at(t) for t in (last, 0.5 * (last + stop), stop)), strict=True)
            step = make_step(make_equation(stop - last, J, D))
            covariance = step.A @ covariance @ step.A.T + step.W
            rows.append((last, stop, J, step, covariance))
            for node in (middle, end):
                if stop == node.time:
                    sources.append(mean_source(self.flow, self.linear, node, covariance))
            last = stop
        moments = []
        for start, stop, J, step, covariance in rows:
            source = [interval.interpolate(sources, t) for t in (start, 0.5 * (start + stop), stop)]
            average, change = average_source(stop - start, J, source)
            mean = step.A @ mean + step.B @ average + step.C @ change
            moments.append(Moments(stop, covariance, mean, step))
        return moments
