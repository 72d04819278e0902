"""How accurately the seeds of a spec will determine the risk of SGD: predicted before any run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.abandonment import check_abandoned
from sweep_service.analysis.error_bars.representatives import (
    HIGH_DIMENSIONAL,
    Candidate,
    Representative,
    choose_representatives,
    list_candidates,
)
from sweep_service.analysis.error_bars.seeds import count_seeds, seeds_needed
from sweep_service.analysis.error_bars.validity import MAX_NONLINEARITY
from sweep_service.analysis.single_point import as_sweep
from sweep_service.dynamics.integrate import integrate
from sweep_service.errors import Stopped, SweepError
from sweep_service.model.point import Point
from sweep_service.numerics.jit import elapsed_work_seconds
from sweep_service.numerics.types import Array
from sweep_service.planning.costs import Calibration
from sweep_service.planning.grids import Grid
from sweep_service.planning.outline import Outline
from sweep_service.text import format_duration, format_number, format_percent
from sweep_service.validation import read_relative_error

MAX_SECONDS = 2.0  # of processor time by the predicted prices, for all points together
MAX_ELAPSED_SECONDS = 20.0  # after which the prediction ends, as prices may be wrong and machines busy
MAX_STARTS = 8  # whose curves are integrated; the scatter between them is then known to 27 %
MAX_TIMES = 24
MIN_ERROR = 1e-6  # of which half is considered: none scatters less, but for round-off
NOTABLE_RATIO = 1.5  # of the largest error over time to the last one, from which both are in the sentence


@dataclass(frozen=True)
class Draws:
    """The draws over which a spec takes means: its seeds, or the repeats of a single seed."""

    starts: tuple[int, ...]
    repeats: int

    @property
    def count(self) -> int:
        return len(self.starts) if self.are_seeds else self.repeats

    @property
    def are_seeds(self) -> bool:
        return len(self.starts) > 1

    def describe(self, count: int | None = None) -> str:
        """Such as "8 seeds of 2 repeats"; `count` instead of their number."""
        count = self.count if count is None else count
        noun = "seed" if self.are_seeds else "repeat"
        text = f"{count} {noun}{'' if count == 1 else 's'}"
        return f"{text} of {self.repeats} repeats" if self.are_seeds and self.repeats > 1 else text

    @property
    def meaning(self) -> str:
        """What an error is made of."""
        if not self.are_seeds:
            return (
                "The error is the standard error of the mean over repeats, runs after the same start: "
                "the scatter between starts is not part of it, as the spec has one seed."
            )
        return (
            "The error is the standard error of the mean over seeds: it comes from the scatter between "
            f"{min(len(self.starts), MAX_STARTS)} starts and from that of the runs after a start."
        )


def predict_seeds(
    outline: Outline, calibration: Calibration, relative_error: float | None = None
) -> dict[str, Any]:
    """Predict how accurately the seeds of a spec will determine the risk, and how many a given error needs.

    The linear theory of fluctuations predicts the scatter of runs, and theories of several starts that
    between them. It is evaluated at up to three points, for some seconds at most.

    Parameters
    ----------
    relative_error
        Standard error of the mean over the mean. By default about half of the largest one.

    Returns
    -------
    dict
        `points`, that with the largest error first, each with the values `at` its axes, and over `time` the
        `scatter` of a draw over the mean, the `error` of the mean of all draws, the `nonlinearity`, and the
        `seeds` that `relative_error` needs; `summary` and `notes` in words, and the number of `draws` and
        what they are.

    Raises
    ------
    InvalidInput
        If `relative_error` is not a number from 1e-9 to 1e6, or a point of the spec is invalid.
    """
    if relative_error is not None:
        relative_error = read_relative_error(relative_error)
    draws = Draws(outline.seeds, len(outline.repeats))
    answer: dict[str, Any] = {
        "relative_error": relative_error, "draws": draws.count,
        "draws_are": "seeds" if draws.are_seeds else "repeats", "repeats": draws.repeats,
        "points_in_spec": len(outline), "points": [], "summary": [], "notes": [],
    }  # fmt: skip
    if not outline.simulate:
        return answer | {"notes": ["nothing is predicted, as the spec has no runs of SGD"]}
    grid = Grid.expand(outline, validate=False)  # the estimate checks every point
    times = _thin(grid.times[grid.times > 0.0])
    candidates = list_candidates(grid, float(times[-1]), len(times), calibration)
    starts = min(len(draws.starts), MAX_STARTS)
    chosen = list(choose_representatives(candidates, starts, MAX_SECONDS))
    if not chosen:
        answer["notes"].append(_explain_price(candidates))
    is_late = _deadline(MAX_ELAPSED_SECONDS)
    for representative in chosen:
        at = _varying(grid, representative)
        try:
            point = _predict_point(representative.candidate.point, draws, times, is_late)
        except SweepError as error:
            check_abandoned()
            reason = "it takes too long" if isinstance(error, Stopped) else str(error)
            answer["notes"].append(f"not predicted at {_format_values(at) or 'this point'}: {reason}")
        else:
            answer["points"].append({"at": at, "title": representative.title, **point})
    return _complete(answer, draws)


def _thin(times: Array) -> Array:
    """At most `MAX_TIMES` of the times, evenly spaced by position, with the last."""
    positions = np.linspace(0, len(times) - 1, min(len(times), MAX_TIMES)).round().astype(int)
    return times[np.unique(positions)]


def _deadline(seconds: float) -> Callable[[], bool]:
    """A function that returns whether this time has passed; it raises if the prediction is abandoned."""
    end = elapsed_work_seconds() + seconds

    def is_late() -> bool:
        check_abandoned()
        return elapsed_work_seconds() > end

    return is_late


def _predict_point(point: Point, draws: Draws, times: Array, is_late: Callable[[], bool]) -> dict[str, Any]:
    """The scatter of a draw at a point over time. Raises `Stopped` if it takes too long."""
    theory = _integrate_starts(point, draws.starts[:MAX_STARTS], times, is_late)
    result = seeds_needed(theory.assign_coords(repeat=np.arange(draws.repeats)))
    scatter = result["predicted_scatter"]
    if not np.isfinite(scatter.values[-1]):
        raise SweepError("the theory diverges, or its risk is zero")
    return {
        "delta_t": point.delta_t,
        "starts": theory.sizes["seed"],
        "time": times.tolist(),
        "scatter": scatter.values.tolist(),
        "nonlinearity": result["nonlinearity"].values.tolist(),
    }


def _integrate_starts(
    point: Point, starts: tuple[int, ...], times: Array, is_late: Callable[[], bool]
) -> xr.Dataset:
    """The theory of several starts. The scatter of runs is that after the first, as it takes far longer."""
    options: dict[str, Any] = {
        "times": times, "regime": HIGH_DIMENSIONAL, "observables": ["risk"], "overlaps": False,
        "stopped": is_late,
    }  # fmt: skip
    first = as_sweep(integrate(point, seed=list(starts[:1]), fluctuations=True, **options))
    if len(starts) == 1:
        return first
    others = as_sweep(integrate(point, seed=list(starts[1:]), **options))
    curves = {name: xr.concat([first[name], others[name]], "seed") for name in ("ode_risk", "ode_status")}
    return first.isel(seed=[0] * len(starts)).assign_coords(seed=list(starts)).assign(curves)


def _varying(grid: Grid, representative: Representative) -> dict[str, Any]:
    """The values of the axes that have several."""
    row = grid.row(representative.candidate.position)
    return {name: value for name, value in row.items() if len(set(grid.axes[name])) > 1}


def _explain_price(candidates: list[Candidate]) -> str:
    """Why no point is affordable."""
    cheapest = min(candidates, key=lambda candidate: candidate.seconds)
    where = f"p = {cheapest.point.p}"
    if math.isinf(cheapest.seconds):
        return f"nothing is predicted, as {where} is too large for the linear theory"
    return (
        f"nothing is predicted, as it would take about {format_duration(cheapest.seconds)} at the cheapest "
        f"point, {where}, and at most {format_duration(MAX_SECONDS)} are allowed"
    )


def _complete(answer: dict[str, Any], draws: Draws) -> dict[str, Any]:
    """Add the errors, the numbers of seeds for the same relative error at every point, and the sentences."""
    points = answer["points"]
    for point in points:
        point["error"] = [scatter / math.sqrt(draws.count) for scatter in point["scatter"]]
    if not points:
        return answer
    points.sort(key=lambda point: -point["error"][-1])
    if answer["relative_error"] is None:
        answer["relative_error"] = choose_smaller_error(points[0]["error"][-1])
    for point in points:
        point["seeds"] = count_seeds(np.array(point["scatter"]), answer["relative_error"]).tolist()
        answer["summary"].append(describe_accuracy(point, draws, answer["relative_error"]))
    answer["notes"].append(draws.meaning)
    return answer


def choose_smaller_error(error: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is at most about half of an error."""
    half = 0.55 * max(error, MIN_ERROR)
    power = 10.0 ** math.floor(math.log10(half))
    return float(f"{power * max(step for step in (1, 2, 5) if step * power <= half * (1.0 + 1e-9)):.1g}")


def describe_accuracy(point: Mapping[str, Any], draws: Draws, relative_error: float) -> str:
    """Such as "With 8 seeds the risk at t = 100 will be known to 4 %; 2 % needs 31 seeds."."""
    error, largest = point["error"], int(np.nanargmax(point["error"]))
    text = f"With {draws.describe()} the risk at t = {_format_time(point, -1)} will be known to "
    text += format_percent(error[-1])
    if error[largest] > NOTABLE_RATIO * error[-1]:
        text += f" ({format_percent(error[largest])} at t = {_format_time(point, largest)})"
    where = ", ".join(filter(None, [_format_values(point["at"]), point["title"]]))
    text += f" at {where}" if where else ""
    needed = int(point["seeds"][-1])
    text += f"; {format_percent(relative_error)} needs {draws.describe(needed)}."
    if point["nonlinearity"][-1] > MAX_NONLINEARITY:
        text += " These are lower bounds, as the linear theory does not hold there."
    return text


def _format_time(point: Mapping[str, Any], index: int) -> str:
    return format_number(float(point["time"][index]))


def _format_values(at: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {format_number(value)}" for name, value in at.items())
