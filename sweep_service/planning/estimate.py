"""What a sweep will cost, before it is begun: runs, steps, seconds, bytes, and what to think twice about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sweep_service.dynamics.auto import point_warnings, theory_warnings
from sweep_service.errors import LimitExceeded, TooManySweeps
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.costs import Calibration, SgdCost, ode_seconds
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind

_NUMBER = re.compile(r"\d+(\.\d+)?(e[-+]?\d+)?")
ABSURD = 3600.0  # seconds of one run from which a cheaper theory is worth naming


@dataclass(frozen=True)
class Limits:
    """What a data folder accepts."""

    points: int = 200_000
    runs: int = 5_000_000
    core_hours: float = 10_000.0
    bytes: int = 200 << 30
    active: int = 100  # sweeps that have not ended

    def require_place(self, active: int) -> None:
        if active >= self.active:
            raise TooManySweeps("sweeps", active, f"must be at most {self.active} that have not ended")

    def require(self, points: int, runs: int) -> None:
        """Refuse by counts alone, before anything is done for each of them."""
        for name, found, most in (("points", points, self.points), ("runs", runs, self.runs)):
            if found > most:
                raise LimitExceeded(name, found, f"must be at most {most} here")


@dataclass(frozen=True)
class Estimate:
    points: int
    runs: int
    reused: int  # are stored already
    copies: int  # are equal to another one of the sweep
    sgd_steps: float
    core_seconds: float
    bytes: int
    dearest: dict[str, Any]
    warnings: tuple[str, ...]

    def content(self) -> dict[str, Any]:
        return asdict(self)

    def require(self, limits: Limits, free_bytes: int) -> None:
        """Refuse what is too much, naming the limit."""
        for name, found, most in (
            ("points", self.points, limits.points),
            ("runs", self.runs, limits.runs),
            ("core_hours", self.core_seconds / 3600.0, limits.core_hours),
            ("bytes", self.bytes, min(limits.bytes, free_bytes)),
        ):
            if found > most:
                raise LimitExceeded(name, f"{found:.6g}", f"must be at most {most:.6g} here")


def estimate(plan: SweepPlan, wanted: Mapping[Kind, AnyArray], distinct: int, known: Calibration) -> Estimate:
    """Estimate the cost of the runs in `wanted`; `distinct` counts unique runs, including reusable ones."""
    grid = plan.grid
    left = {kind: _per_point(plan, kind, wanted[kind]) for kind in wanted}
    steps, total = 0.0, 0.0
    dearest: tuple[float, int] = (-1.0, 0)
    notes: Counter[str] = Counter()
    for index, point in enumerate(grid.points):
        cost, said = 0.0, set(point_warnings(point))
        chains = int(left["sgd"][index, 0]) if "sgd" in left else 0
        if chains:
            each = float(grid.times[-1]) / point.delta_t
            steps += each * chains
            one = SgdCost(point, each, len(grid.times), known).price(chains)
            cost += one * chains
            if one > ABSURD:
                said.add(f"one SGD run takes {one / 3600.0:.3g} hours: mean field may answer the question")
        for place, regime in enumerate(grid.regimes):
            one = ode_seconds(
                point, regime, float(grid.times[-1]), len(grid.times), known, grid.options.qmc_points
            )
            cost += one * int(left["ode"][index, place])
            said.update(theory_warnings(point, regime) if regime != "auto" else ())
            if one > ABSURD:
                said.add(f"{regime} at p = {point.p} takes {one / 3600.0:.3g} hours: use mean_field")
        notes.update(said)
        total += cost
        dearest = max(dearest, (cost, index))
    return Estimate(
        points=len(grid),
        runs=plan.runs.total,
        reused=distinct - sum(map(len, wanted.values())),
        copies=plan.runs.total - distinct,
        sgd_steps=steps,
        core_seconds=total,
        bytes=plan.schema.bytes,
        dearest={**grid.row(dearest[1]), "core_seconds": dearest[0]},
        warnings=tuple(_summed(notes, len(grid))),
    )


def _summed(notes: Mapping[str, int], points: int) -> Iterator[str]:
    """One line for each kind of warning: those that differ by their numbers alone are one."""
    kinds: dict[str, tuple[str, int]] = {}
    for text, count in notes.items():
        kind = _NUMBER.sub("#", text)
        first, total = kinds.get(kind, (text, 0))
        kinds[kind] = (first, total + count)
    for text, count in kinds.values():
        yield f"{text} (such at {min(count, points)} of {points} points)" if points > 1 else text


def _per_point(plan: SweepPlan, kind: Kind, numbers: AnyArray) -> AnyArray:
    """How many runs are wanted at each point and regime, (points, regimes); SGD has one column."""
    runs = plan.runs.table(kind, numbers)
    counts = np.zeros((len(plan.grid), max(1, len(plan.grid.regimes))), dtype=np.int64)
    np.add.at(counts, (runs.point, np.maximum(runs.regime, 0)), 1)
    return counts
