"""Predicted costs of all runs of a grid, as columns over its points."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from sweep_service.model.point import Point
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.columns.groups import PerPoint, evaluate
from sweep_service.planning.costs import (
    LANES,
    MAX_VECTOR_SECONDS,
    RECORDING_WORK_CLASS,
    Calibration,
    SgdCost,
    ode_seconds,
    ode_work_class,
)
from sweep_service.planning.grids import Grid


class OdeCost(NamedTuple):
    """The class of work of a regime at a point, and the predicted seconds of an integration."""

    work_class: str
    seconds: float


def cost_regime(grid: Grid, regime: str, calibration: Calibration) -> PerPoint[OdeCost]:
    """Return the cost of a regime at each point."""
    last, samples = float(grid.times[-1]), len(grid.times)

    def cost(point: Point) -> OdeCost:
        seconds = ode_seconds(point, regime, last, samples, calibration, grid.options)
        return OdeCost(ode_work_class(point, regime), seconds)

    return evaluate(grid, cost)


class ChainRates(NamedTuple):
    """The cost of one of some chains that are computed together, whatever the learning rate."""

    step_seconds: float
    recording_seconds: float
    has_lanes: bool


@dataclass(frozen=True)
class PointRates:
    """The cost of the chains of a point by their number."""

    work_class: str
    by_chains: dict[int, ChainRates]


class SgdColumns:
    """`SgdCost` at all points of a grid. `counts` are the numbers of chains that may be asked for.

    Chains continue from their state after `recorded` samples.
    """

    def __init__(
        self, grid: Grid, counts: Collection[int], calibration: Calibration, recorded: int = 0
    ) -> None:
        column = {name: grid.column(name).reshape(-1) for name in ("d", "p", "gamma")}
        with np.errstate(over="ignore"):  # infinitely many steps are refused by their price
            duration = float(grid.times[-1]) - (float(grid.times[recorded - 1]) if recorded else 0.0)
            self.steps: Array = duration / (column["gamma"] / (column["p"] * column["d"]))
        counts = {1, LANES, *counts}
        self.samples = len(grid.times) - recorded
        self.rates = evaluate(grid, partial(_find_rates, self.samples, counts, calibration))

    def bundled_seconds(self, chains: int) -> Array:
        """Seconds of one of `chains` chains at each point: sharing vectors, or one by one."""
        return np.where(self.uses_lanes(chains), self._seconds(chains), self._seconds(1))

    def uses_lanes(self, chains: int) -> AnyArray:
        """Return at which points chains share vectors, so that a few of them take as long as eight."""
        has_lanes = self.rates.column(lambda rates: rates.by_chains[chains].has_lanes)
        return has_lanes & (LANES * self._seconds(LANES) <= MAX_VECTOR_SECONDS)

    def _seconds(self, chains: int) -> Array:
        stepping = self.rates.column(lambda rates: rates.by_chains[chains].step_seconds)
        recording = self.rates.column(lambda rates: rates.by_chains[chains].recording_seconds)
        return self.steps * stepping + recording


def _find_rates(samples: int, counts: Collection[int], calibration: Calibration, point: Point) -> PointRates:
    cost = SgdCost(point, 1.0, samples, calibration)  # the cost of a step does not depend on their number
    stepping, recording = calibration(cost.work_class), calibration(RECORDING_WORK_CLASS)
    by_chains = {
        chains: ChainRates(
            stepping * cost.stepping_seconds(chains),
            recording * cost.recording_seconds(chains),
            cost.has_lanes(chains),
        )
        for chains in counts
    }
    return PointRates(cost.work_class, by_chains)
