"""Checks that every point of a grid is valid, without parsing every point.

A point is valid if each of its values is, and if its structured parameters fit its shape. An error is that of
the first invalid point, and names the axis values of that point.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from sweep_service.abandonment import check_abandoned
from sweep_service.dynamics.fluctuations.requirements import require_fluctuations
from sweep_service.dynamics.regimes import REGIMES, Regime
from sweep_service.errors import InvalidInput
from sweep_service.model.parameters import PARAMETERS, Parameter, Scalar, later_parameters
from sweep_service.model.point import STRUCTURED_PARAMETERS, Point
from sweep_service.model.structures import split_name
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.columns.groups import Points, evaluate
from sweep_service.simulators.selection import SIMULATORS, SimulatorEntry

SHAPE = ("d", "p", "k")


def check_points(grid: Points) -> None:
    """Raise InvalidInput if a point is not valid."""
    suspects = [*_find_bad_values(grid), *_find_bad_structures(grid)]
    for index in np.unique(np.concatenate(suspects)).tolist() if suspects else ():
        check_abandoned()
        try:
            grid.point(index)
        except InvalidInput as error:
            where = ", ".join(f"{name} = {value}" for name, value in grid.row(index).items())
            raise InvalidInput(error.field, error.value, f"{error.allowed} (at {where})") from None


def _find_bad_values(grid: Points) -> Iterator[AnyArray]:
    """Yield the indices of points where a parameter of the registry has a value that is not allowed."""
    for name, parameter in PARAMETERS.items():
        if name in grid.axes and not all(_is_valid(parameter, value) for value in _extremes(grid.axes[name])):
            groups = grid.group_points({name})
            bad = [not _is_valid(parameter, grid.row(index)[name]) for index in groups.first.tolist()]
            yield np.flatnonzero(np.array(bad)[groups.of_point])
        elif name in grid.fixed and not _is_valid(parameter, grid.fixed[name]):
            yield np.zeros(1, np.int64)


def _extremes(values: Sequence[Scalar]) -> set[Scalar]:
    """Return values of which all others are valid if these are: the smallest and the largest number."""
    return set(values) if isinstance(values[0], str) else {min(values), max(values)}


def _is_valid(parameter: Parameter, value: Scalar) -> bool:
    try:
        parameter.read(value, parameter.name)
    except InvalidInput:
        return False
    return True


def _find_bad_structures(grid: Points) -> Iterator[AnyArray]:
    """Yield the indices of points whose structured parameters may not fit their shape.

    They bound d from below only, so that of points which differ in no other size the one with the smallest d
    tells whether all are valid.
    """
    others = {name for name in grid.axes if name in SHAPE[1:] or split_name(name) is not None}
    groups = grid.group_points(others)
    smallest = groups.first
    if "d" in grid.axes:
        order = np.argsort(grid.column("d").reshape(-1), kind="stable")[::-1]
        smallest = np.empty(len(groups.first), np.int64)
        smallest[groups.of_point[order]] = order  # the last one stays: that with the smallest d
    bad = [not _has_valid_point(grid, index) for index in smallest.tolist()]
    if any(bad):
        yield np.flatnonzero(np.array(bad)[groups.of_point])


def _has_valid_point(grid: Points, index: int) -> bool:
    check_abandoned()
    try:
        grid.point(index)
    except InvalidInput:
        return False
    return True


def check_support(grid: Points, regimes: Collection[str], simulate: bool) -> None:
    """Reject a sweep in which a regime or the simulators would ignore a parameter."""
    non_default = {
        name: "axes" if name in grid.axes else "fixed"
        for name, parameter in later_parameters().items()
        if any(
            value != parameter.default
            for value in grid.axes.get(name, [grid.fixed.get(name, parameter.default)])
        )
    }
    first = grid.point(0)
    for name in STRUCTURED_PARAMETERS:
        if name in first.non_default or any(axis.startswith(f"{name}.") for axis in grid.axes):
            non_default[name] = ""
    candidates: dict[str, list[Regime] | list[SimulatorEntry]] = {
        f"the regime {regime}": [REGIMES[regime]] if regime in REGIMES else list(REGIMES.values())
        for regime in regimes
    }
    if simulate:
        candidates["any simulator (simulate: false computes the regimes only)"] = list(SIMULATORS.values())
    for description, entries in candidates.items():
        if not any(set(non_default) <= set(entry.supports) for entry in entries):
            name = next(name for name in non_default if not all(name in entry.supports for entry in entries))
            value = grid.axes.get(name) or grid.fixed.get(name) or first[name]
            path = f"{non_default[name]}.{name}" if non_default[name] else name
            raise InvalidInput(path, value, f"is not supported by {description}")


def check_fluctuations(grid: Points, regimes: Collection[str]) -> None:
    """Raise InvalidInput at the first point where the fluctuations of SGD cannot be predicted."""

    def find_error(point: Point) -> InvalidInput | None:
        try:
            require_fluctuations(point, regimes)
        except InvalidInput as error:
            return error
        return None

    for error in evaluate(grid, find_error).values:  # in the order of the points
        if error is not None:
            raise error
