"""Warnings about the points of a grid, each with the number of points that it applies to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from sweep_service.dynamics.auto import collect_model_warnings
from sweep_service.dynamics.cautions import POINT_CAUTIONS, Caution
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.model.parameters import PARAMETERS
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.columns.groups import PerPoint, evaluate
from sweep_service.planning.grids import Grid

_NUMBER = re.compile(r"\d+(\.\d+)?(e[-+]?\d+)?")


class PointWarning(NamedTuple):
    """A warning: whether it applies to each point, and its text at a point to which it does."""

    applies: AnyArray
    describe: Callable[[int], str]


class PointColumns:
    """Numbers of all points by the names that cautions read: columns, or single numbers that do not vary."""

    def __init__(self, grid: Grid) -> None:
        self.d, self.p, self.noise = (_column(grid, name) for name in ("d", "p", "noise"))
        self.second_layer_rate, self.init = _column(grid, "second_layer_rate"), grid.point(0).init
        gamma, batch = _column(grid, "gamma"), _column(grid, "batch")
        factor = evaluate(grid, lambda point: point.schedule.largest_factor).column(float)
        self.largest_noise_rate = gamma / self.p / batch * factor
        self.largest_step = gamma / (self.p * self.d) * factor


def _column(grid: Grid, name: str) -> Any:
    if name in grid.axes:
        return grid.column(name).reshape(-1)
    return grid.fixed.get(name, PARAMETERS[name].default)


def find_warnings(grid: Grid) -> Iterator[PointWarning]:
    """Yield the warnings about points, for SGD and every regime, then those of the regimes of a grid."""
    columns = PointColumns(grid)
    yield from (_apply(caution, grid, columns) for caution in POINT_CAUTIONS)
    yield from _find_model_warnings(grid)
    regimes = (REGIMES[name] for name in grid.regimes if name in REGIMES)
    for caution in dict.fromkeys(caution for regime in regimes for caution in regime.cautions):
        yield _apply(caution, grid, columns)


def _apply(caution: Caution, grid: Grid, columns: PointColumns) -> PointWarning:
    applies = np.broadcast_to(caution.applies(columns), len(grid))
    return PointWarning(applies, lambda index: caution.describe(grid.point(index)))


def _find_model_warnings(grid: Grid) -> Iterator[PointWarning]:
    """Yield the warnings about students and teachers that differ by more than their numbers."""
    warnings = evaluate(grid, lambda point: {_pattern(text): text for text in collect_model_warnings(point)})
    for pattern in dict.fromkeys(pattern for texts in warnings.values for pattern in texts):
        yield _select(warnings, pattern)


def _select(warnings: PerPoint[dict[str, str]], pattern: str) -> PointWarning:
    return PointWarning(
        warnings.column(lambda texts: pattern in texts), lambda index: warnings[index][pattern]
    )


def _pattern(text: str) -> str:
    return _NUMBER.sub("#", text)


def format_warnings(warnings: Iterable[PointWarning]) -> Iterator[str]:
    """Yield one line for all warnings that differ only by their numbers, with the number of points.

    The text is that of the first point to which one of them applies, and the lines are in the order of these.
    """
    lines: dict[str, tuple[int, str, AnyArray]] = {}
    for applies, describe in warnings:
        first = int(np.argmax(applies))
        if applies[first]:
            line = (first, describe(first), applies)
            pattern = _pattern(line[1])
            if pattern in lines:
                earlier = lines[pattern]
                line = (*min(line, earlier, key=lambda item: item[0])[:2], applies | earlier[2])
            lines[pattern] = line
    for _, text, applies in sorted(lines.values(), key=lambda line: line[0]):
        yield f"{text} (at {int(applies.sum())} of {len(applies)} points)" if len(applies) > 1 else text
