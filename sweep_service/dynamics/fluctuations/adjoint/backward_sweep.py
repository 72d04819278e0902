"""The standard deviation of the risk without Σ, for states too large for it.

    dλ/ds = -Jᵀλ,  λ(t) = ∇R(t)            Var R(t) = δt ∫₀ᵗ λᵀDλ ds
λ goes back from all times at once, in one small subspace per interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from sweep_service.dynamics.fluctuations.adjoint.products import Products, ProductsAt
from sweep_service.dynamics.fluctuations.adjoint.subspace import Subspace, make_subspace
from sweep_service.dynamics.fluctuations.mesh import Grid
from sweep_service.dynamics.fluctuations.path import Path, solve_path
from sweep_service.dynamics.fluctuations.risk_derivatives import differentiate_risk
from sweep_service.dynamics.fluctuations.transition import make_equation, make_step
from sweep_service.dynamics.overlap_flow import OverlapFlow
from sweep_service.errors import Stopped
from sweep_service.numerics.types import Array

RATE_ITERATIONS = 10  # of the power method; the rate only sets the length of the first interval


def integrate_risk_variances(
    flow: OverlapFlow, products: ProductsAt, times: Array, stopped: Callable[[], bool] | None = None
) -> Array:
    """Var R/δt at each time, NaN after divergence."""
    row = np.random.default_rng(0).standard_normal(flow.y0.size)
    path = solve_path(flow, times, lambda t: _estimate_rate(products(flow.y0, t), row), stopped)
    sweep = BackwardSweep(flow, products, path, times, stopped)
    for grid in reversed(path.grids):
        sweep.cross_grid(grid)
    return sweep.variances


class BackwardSweep:
    """Rows λ of the times that have been passed, and what their integrals have gained."""

    def __init__(
        self,
        flow: OverlapFlow,
        products: ProductsAt,
        path: Path,
        times: Array,
        stopped: Callable[[], bool] | None,
    ) -> None:
        self.flow, self.products, self.path, self.stopped = flow, products, path, stopped
        self.times, self.variances = times, np.where(times == 0.0, 0.0, np.nan)
        self.active = np.zeros(0, dtype=int)  # positions of times
        self.rows = np.zeros((0, flow.y0.size))  # λ of these times
        self.nodes: dict[int, tuple[float, Products]] = {}

    def cross_grid(self, grid: Grid) -> None:
        """Go back over a piece in which the rate is smooth, from the last time before divergence."""
        self.nodes = {}
        blocks = [block for ends in grid.coarse_intervals() for block in self._known(grid, *ends)]
        for first, last in reversed(blocks):
            inside = (self.times > grid.times[first]) & (self.times <= grid.times[last])
            self.variances[inside] = 0.0
            self._cross(grid, first, last)

    def _known(self, grid: Grid, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The interval, or the blocks of it before divergence."""
        size = last - first
        while size >= 2:
            if first + size <= last and float(grid.times[first + size]) in self.path.states:
                yield first, first + size
                first += size
            size //= 2

    def _cross(self, grid: Grid, first: int, last: int) -> None:
        """Go back over an interval, or over its halves if J or D are not quadratic in it."""
        middle = (first + last) // 2
        begin, end = float(grid.times[first]), float(grid.times[last])
        new = np.flatnonzero((self.times > begin) & (self.times <= end))[::-1]
        rows = [self.rows, *(self._gradient(float(t))[None] for t in self.times[new])]
        sizes = np.maximum(np.linalg.norm(np.vstack(rows), axis=1), np.finfo(float).tiny)
        directions = np.vstack(rows) / sizes[:, None]
        if not len(directions):
            return
        times, products = zip(*(self._node(grid, index) for index in (first, middle, last)), strict=True)
        subspace = make_subspace(times, products, directions, must=last - first <= 2)
        if subspace is None:
            self._cross(grid, middle, last)
            self._cross(grid, first, middle)
            return
        self.active = np.append(self.active, new)
        self.rows = self._carry_back(subspace, sizes[:, None] * (directions @ subspace.basis.T))
        self.nodes = {first: self.nodes[first]}

    def _carry_back(self, subspace: Subspace, c: Array) -> Array:
        """Rows at the begin of an interval from their coefficients; each one starts at its time."""
        interval = subspace.interval
        stops = interval.stops(self.times)
        for start, stop in zip([*stops[-2::-1], interval.begin.time], stops[::-1], strict=True):
            J, D = zip(*(interval.at(t) for t in (start, 0.5 * (start + stop), stop)), strict=True)
            step, moving = make_step(make_equation(stop - start, J, D)), self.times[self.active] >= stop
            self.variances[self.active[moving]] += np.sum((c[moving] @ step.W) * c[moving], axis=1)
            c[moving] = c[moving] @ step.A
        return np.asarray(c @ subspace.basis)

    def _gradient(self, t: float) -> Array:
        return differentiate_risk(self.flow, self.path.states[t])

    def _node(self, grid: Grid, index: int) -> tuple[float, Products]:
        """The time and the products of a node."""
        if index not in self.nodes:
            if self.stopped is not None and self.stopped():
                raise Stopped("the integration was stopped")
            t = float(grid.times[index])
            now = min(t, grid.last)
            self.nodes[index] = now, self.products(self.path.states[t], now)
        return self.nodes[index]


def _estimate_rate(products: Products, row: Array) -> float:
    """The largest rate of change, by the power method."""
    rate = 0.0
    for _ in range(RATE_ITERATIONS):
        (image,) = products.pull_back(row[None] / np.linalg.norm(row))
        rate, row = max(rate, float(np.linalg.norm(image))), image
    return rate
