"""Estimates of a sweep before it starts: runs, steps, core-seconds, bytes and warnings; and the limits."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sweep_service.abandonment import check_abandoned
from sweep_service.dynamics.auto import (
    CANDIDATES,
    LARGE_DELTA_T,
    collect_point_warnings,
    collect_regime_warnings,
    is_defined,
    predict_error,
)
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import LimitExceeded, NoRoom, TooManySweeps
from sweep_service.model.point import Point
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.costs import Calibration, SgdCost, ode_seconds
from sweep_service.planning.outline import Outline
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind, RunNumbers
from sweep_service.planning.schema import Schema

_NUMBER = re.compile(r"\d+(\.\d+)?(e[-+]?\d+)?")
UNLIMITED_BYTES = 2**62
LONG_RUN_SECONDS = 3600.0  # runs that take longer give a warning
MIN_ADVISED_SECONDS = 10.0  # of core time, from which a cheaper alternative is sought
# Of cheaper alternatives.
MAX_ADVISED_ERROR = 0.05  # in units of R(0)
MIN_SAVING = 2.0  # an alternative must be cheaper by this factor
MAX_DRAWN_WIDTH = 2000  # of a start, whose symmetries decide which regimes are defined
SGD = "sgd"  # name of SGD in a breakdown, beside those of regimes


@dataclass(frozen=True)
class Limits:
    """The largest sweep that is accepted, and the number of sweeps that have not ended."""

    points: int = 200_000
    runs: int = 5_000_000
    core_hours: float = 10_000.0
    bytes: int = 200 << 30
    active: int = 100  # sweeps that have not ended

    def check_active(self, active: int) -> None:
        """Raise TooManySweeps if one more sweep would exceed the number of active sweeps."""
        if active >= self.active:
            raise TooManySweeps("sweeps", active, f"must be at most {self.active} that have not ended")

    def check_outline(self, outline: Outline) -> None:
        """Raise LimitExceeded by the lengths of axes alone, before any work is done for each point or run."""
        _check("points", len(outline), self.points)
        _check("runs", RunNumbers(outline).total, self.runs)
        if self.bytes < UNLIMITED_BYTES:
            _check("bytes", Schema(outline).bytes, self.bytes)

    def for_estimates(self) -> Limits:
        """Return the limits beyond which not even an estimate is made; it reports the other ones."""
        return replace(self, core_hours=math.inf, bytes=UNLIMITED_BYTES)


def _check(name: str, count: int, limit: int) -> None:
    if count > limit:
        raise LimitExceeded(name, count, f"must be at most {limit} here")


@dataclass(frozen=True)
class Estimate:
    """The predicted cost of a sweep. The field names are those of the REST API."""

    points: int
    runs: int
    reused: int  # runs that are already stored
    copies: int  # runs that equal another run of the sweep
    sgd_steps: float
    core_seconds: float
    bytes: int
    dearest: dict[str, Any]  # axis values and core-seconds of the most expensive point
    warnings: tuple[str, ...]
    breakdown: tuple[dict[str, Any], ...] = ()  # runs to compute and core-seconds of SGD and of each regime
    alternatives: tuple[dict[str, Any], ...] = ()  # cheaper regimes with their predicted errors

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def check_limits(self, limits: Limits, free_bytes: int) -> None:
        """Raise LimitExceeded, with the name of the limit, if the sweep is too large; NoRoom for the disk."""
        for name, amount, limit in (
            ("points", self.points, limits.points),
            ("runs", self.runs, limits.runs),
            ("core_hours", self.core_seconds / 3600.0, limits.core_hours),
            ("bytes", self.bytes, limits.bytes),
        ):
            if amount > limit:
                raise LimitExceeded(name, f"{amount:.6g}", f"must be at most {limit:.6g} here")
        if self.bytes > free_bytes:
            raise NoRoom(
                "bytes", f"{self.bytes:.6g}", f"must be at most {free_bytes:.6g}, the free disk space"
            )


class Method:
    """SGD or a regime of a sweep: its runs, its cost, and the point where one of its runs costs most."""

    def __init__(self, name: str) -> None:
        self.name, self.runs, self.seconds = name, 0, 0.0
        self.dearest: tuple[float, int] = (-1.0, 0)

    def add(self, index: int, runs: int, run_seconds: float) -> float:
        """Add runs at a point; return their seconds."""
        self.runs, self.seconds = self.runs + runs, self.seconds + runs * run_seconds
        if runs:
            self.dearest = max(self.dearest, (run_seconds, index))
        return runs * run_seconds

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "runs": self.runs, "core_seconds": self.seconds}


def estimate(
    plan: SweepPlan, numbers: Mapping[Kind, AnyArray], distinct: int, calibration: Calibration
) -> Estimate:
    """Estimate the cost of the runs in `numbers`; `distinct` counts unique runs, including reusable ones."""
    grid = plan.grid
    counts = {kind: _count_per_point(plan, kind, numbers[kind]) for kind in numbers}
    steps, dearest = 0.0, (-1.0, 0)
    warnings: Counter[str] = Counter()
    sgd, regimes = Method(SGD), [Method(regime) for regime in grid.regimes]
    last, samples = float(grid.times[-1]), len(grid.times)
    for index, point in enumerate(grid.points):
        cost, point_warnings = 0.0, list(collect_point_warnings(point))
        chains = int(counts["sgd"][index, 0]) if "sgd" in counts else 0
        if chains:
            chain_steps = last / point.delta_t
            steps += chain_steps * chains
            seconds = SgdCost(point, chain_steps, samples, calibration).bundled_seconds(chains)
            cost += sgd.add(index, chains, seconds)
            if seconds > LONG_RUN_SECONDS:
                point_warnings.append(f"an SGD run takes {seconds / 3600.0:.3g} hours")
        for column, method in enumerate(regimes):
            regime = method.name
            seconds = ode_seconds(point, regime, last, samples, calibration, grid.options)
            cost += method.add(index, int(counts["ode"][index, column]), seconds)
            point_warnings += collect_regime_warnings(point, regime) if regime != "auto" else ()
            if seconds > LONG_RUN_SECONDS:
                point_warnings.append(f"{regime} at p = {point.p} takes {seconds / 3600.0:.3g} hours")
        warnings.update(dict.fromkeys(point_warnings, 1))  # each once, in the order of the points
        dearest = max(dearest, (cost, index))
        check_abandoned()
    methods = [method for method in (sgd, *regimes) if method.runs]
    return Estimate(
        points=len(grid),
        runs=plan.runs.total,
        reused=distinct - sum(map(len, numbers.values())),
        copies=plan.runs.total - distinct,
        sgd_steps=steps,
        core_seconds=sum(method.seconds for method in methods),
        bytes=plan.schema.bytes,
        dearest={**grid.row(dearest[1]), "core_seconds": dearest[0]},
        warnings=tuple(_merge_warnings(warnings, len(grid))),
        breakdown=tuple(method.to_dict() for method in methods),
        alternatives=tuple(_find_alternatives(plan, methods, calibration)),
    )


def _find_alternatives(
    plan: SweepPlan, methods: Sequence[Method], calibration: Calibration
) -> Iterator[dict[str, Any]]:
    """Yield a cheaper regime for each method that takes long, at the point where it costs most."""
    grid = plan.grid
    for method in methods:
        if method.seconds < MIN_ADVISED_SECONDS or method.name == "auto":  # auto chooses the cheapest itself
            continue
        seconds, index = method.dearest
        question = Question(float(grid.times[-1]), len(grid.times), seconds, calibration, grid.options)
        alternative = find_alternative(grid.point(index), question, grid.regimes)
        if alternative is not None:
            yield {"instead_of": method.name, "instead_of_run_seconds": seconds, **alternative}


def _merge_warnings(warnings: Mapping[str, int], points: int) -> Iterator[str]:
    """Yield one line for all warnings that differ only by their numbers."""
    merged: dict[str, tuple[str, int]] = {}
    for text, count in warnings.items():
        pattern = _NUMBER.sub("#", text)
        first, total = merged.get(pattern, (text, 0))
        merged[pattern] = (first, total + count)
    for text, count in merged.values():
        yield f"{text} (at {min(count, points)} of {points} points)" if points > 1 else text


def _count_per_point(plan: SweepPlan, kind: Kind, numbers: AnyArray) -> AnyArray:
    """Count runs at each point and regime, shape (points, regimes); SGD has one column."""
    runs = plan.runs.table(kind, numbers)
    counts = np.zeros((len(plan.grid), max(1, len(plan.grid.regimes))), dtype=np.int64)
    np.add.at(counts, (runs.point, np.maximum(runs.regime, 0)), 1)
    return counts


@dataclass(frozen=True)
class Question:
    """What an alternative must do: reach time `last`, record `samples`, and take less than `seconds`."""

    last: float
    samples: int
    seconds: float
    calibration: Calibration
    options: RegimeOptions


def find_alternative(point: Point, question: Question, excluded: Collection[str]) -> dict[str, Any] | None:
    """Return the cheapest accurate regime at a point, its seconds per run and its predicted error.

    A regime that warns about the point, as mean field does for narrow students, is never advised.
    """
    if point.delta_t > LARGE_DELTA_T or point.p > MAX_DRAWN_WIDTH:
        return None
    start = point.start(0)
    candidates = []
    for regime in CANDIDATES:
        is_valid = not any(caution(point) for caution in REGIMES[regime].cautions)
        if regime in excluded or not is_valid or not is_defined(point, start, regime):
            continue
        error = predict_error(point, start, regime)
        if error <= MAX_ADVISED_ERROR:
            seconds = ode_seconds(
                point, regime, question.last, question.samples, question.calibration, question.options
            )
            candidates.append((seconds, regime, error))
    if not candidates or MIN_SAVING * min(candidates)[0] > question.seconds:
        return None
    seconds, regime, error = min(candidates)
    return {"regime": regime, "run_seconds": seconds, "error": error}
