"""Estimates of a sweep before it starts: runs, steps, core-seconds, bytes and warnings; and the limits."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sweep_service.dynamics.auto import (
    CANDIDATES,
    is_defined,
    predict_error,
)
from sweep_service.dynamics.cautions import LARGE_DELTA_T
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import LimitExceeded, NoRoom, TooManySweeps
from sweep_service.model.point import Point
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.columns.costs import SgdColumns, cost_regime
from sweep_service.planning.columns.warnings import PointWarning, find_warnings, format_warnings
from sweep_service.planning.costs import Calibration, ode_seconds
from sweep_service.planning.grids import Grid
from sweep_service.planning.growth.kept_state import ContinuedRuns, split_by_start
from sweep_service.planning.outline import Outline
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind, RunNumbers
from sweep_service.planning.schema import Schema

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

    points: int = 1_000_000
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
    continued: int = 0  # SGD runs that go on from the kept state of a shorter run
    state_bytes: int = 0  # of the last states of SGD runs, if they are kept

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def check_limits(self, limits: Limits, free_bytes: int) -> None:
        """Raise LimitExceeded, with the name of the limit, if the sweep is too large; NoRoom for the disk."""
        for name, amount, limit in (
            ("points", self.points, limits.points),
            ("runs", self.runs, limits.runs),
            ("core_hours", self.core_seconds / 3600.0, limits.core_hours),
            ("bytes", self.stored_bytes, limits.bytes),
        ):
            if amount > limit:
                raise LimitExceeded(name, f"{amount:.6g}", f"must be at most {limit:.6g} here")
        if self.stored_bytes > free_bytes:
            raise NoRoom(
                "bytes", f"{self.stored_bytes:.6g}", f"must be at most {free_bytes:.6g}, the free disk space"
            )

    @property
    def stored_bytes(self) -> int:
        """Bytes of the dataset and of kept states."""
        return self.bytes + self.state_bytes


class Method:
    """SGD or a regime of a sweep: its runs, its cost, and the point where one of its runs costs most."""

    def __init__(self, name: str, runs: AnyArray, run_seconds: Array) -> None:
        """`runs` counts those at each point, and `run_seconds` is the cost of one."""
        self.name, self.runs, self.run_seconds = name, int(runs.sum()), run_seconds
        self.seconds_by_point = np.zeros(len(runs))  # also where a run, of which there is none, takes forever
        np.multiply(runs, run_seconds, where=runs > 0, out=self.seconds_by_point)
        self.seconds = float(self.seconds_by_point.sum())
        self.dearest = _find_largest(np.where(runs, run_seconds, -1.0))

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "runs": self.runs, "core_seconds": self.seconds}


def _find_largest(numbers: Array) -> tuple[float, int]:
    """Return the largest number and its index; of equal ones, the last."""
    index = len(numbers) - 1 - int(np.argmax(numbers[::-1]))
    return float(numbers[index]), index


def estimate(
    plan: SweepPlan,
    numbers: Mapping[Kind, AnyArray],
    distinct: int,
    calibration: Calibration,
    continued: ContinuedRuns | None = None,
) -> Estimate:
    """Estimate the cost of the runs in `numbers`; `distinct` counts unique runs, including reusable ones."""
    grid = plan.grid
    warnings = [*find_warnings(grid)]
    methods, steps = [], 0.0
    if "sgd" in numbers:
        method, steps = _cost_sgd(plan, numbers["sgd"], calibration, continued)
        methods.append(method)
        warnings += _warn_of_long_runs(grid, method)
    counts = _count_per_point(plan, "ode", numbers["ode"]) if grid.regimes else np.empty((0, 0))
    for regime, runs in zip(grid.regimes, counts.T, strict=True):
        costs = cost_regime(grid, regime, calibration)
        methods.append(Method(regime, runs, costs.column(lambda cost: cost.seconds)))
        warnings += _warn_of_long_runs(grid, methods[-1])
    seconds, index = _find_largest(np.sum([method.seconds_by_point for method in methods], axis=0))
    methods = [method for method in methods if method.runs]
    return Estimate(
        points=len(grid),
        runs=plan.runs.total,
        reused=distinct - sum(map(len, numbers.values())),
        copies=plan.runs.total - distinct,
        sgd_steps=steps,
        core_seconds=sum(method.seconds for method in methods),
        bytes=plan.schema.bytes,
        dearest={**grid.row(index), "core_seconds": seconds},
        warnings=tuple(format_warnings(warnings)),
        breakdown=tuple(method.to_dict() for method in methods),
        alternatives=tuple(_find_alternatives(plan, methods, calibration)),
        continued=0 if continued is None else len(continued),
        state_bytes=plan.state_bytes if plan.keeps_state else 0,
    )


def _cost_sgd(
    plan: SweepPlan, numbers: AnyArray, calibration: Calibration, continued: ContinuedRuns | None
) -> tuple[Method, float]:
    """Return the cost of SGD runs and their steps; a run at a point costs the mean of those there."""
    size = len(plan.grid)
    chains, seconds, run_seconds, steps = np.zeros(size, np.int64), np.zeros(size), np.zeros(size), 0.0
    for recorded, begun in split_by_start(continued, "sgd", numbers):
        begun_chains = _count_per_point(plan, "sgd", begun)[:, 0]
        columns = SgdColumns(plan.grid, np.unique(begun_chains).tolist(), calibration, recorded)
        own_seconds, has_runs = _bundled_seconds(columns, begun_chains), begun_chains > 0
        steps += float(np.sum(columns.steps[has_runs] * begun_chains[has_runs]))
        is_mixed = has_runs & (chains > 0)
        chains += begun_chains
        seconds[has_runs] += (own_seconds * begun_chains)[has_runs]
        run_seconds = np.where(has_runs & ~is_mixed, own_seconds, run_seconds)
        run_seconds[is_mixed] = seconds[is_mixed] / chains[is_mixed]
    return Method(SGD, chains, run_seconds), steps


def _bundled_seconds(columns: SgdColumns, chains: AnyArray) -> Array:
    """Return the seconds of one chain at points with these numbers of them."""
    seconds = np.zeros(len(chains))
    for count in np.unique(chains[chains > 0]).tolist():
        seconds = np.where(chains == count, columns.bundled_seconds(count), seconds)
    return seconds


def _warn_of_long_runs(grid: Grid, method: Method) -> Iterator[PointWarning]:
    def describe(index: int) -> str:
        name = "an SGD run" if method.name == SGD else f"{method.name} at p = {grid.point(index).p}"
        return f"{name} takes {method.run_seconds[index] / 3600.0:.3g} hours"

    yield PointWarning(method.run_seconds > LONG_RUN_SECONDS, describe)


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


def _count_per_point(plan: SweepPlan, kind: Kind, numbers: AnyArray) -> AnyArray:
    """Count runs at each point and regime, shape (points, regimes); SGD has one column."""
    runs = plan.runs.table(kind, numbers)
    shape = len(plan.grid), max(1, len(plan.grid.regimes))
    columns = runs.point * shape[1] + np.maximum(runs.regime, 0)
    return np.bincount(columns, minlength=math.prod(shape)).reshape(shape)


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
