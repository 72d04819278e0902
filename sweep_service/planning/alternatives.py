"""Cheaper alternatives: regimes in place of SGD or of another regime, with their predicted errors."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sweep_service.dynamics.auto import CANDIDATES, LARGE_DELTA_T, is_defined, predict_error
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.model.point import Point
from sweep_service.planning.costs import Calibration, ode_seconds

MAX_ADVISED_ERROR = 0.05  # in units of R(0)
MIN_SAVING = 2.0  # an alternative must be cheaper by this factor
MAX_DRAWN_WIDTH = 2000  # of a start, whose symmetries decide which regimes are defined


@dataclass(frozen=True)
class Question:
    """What an alternative must do: reach time `last` with so many samples, in less than `seconds` a run."""

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
