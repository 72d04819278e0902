"""Groups of points that are equal for a purpose, so that a large grid is not worked through point by point.

What a function of a point returns depends on the parameters that it reads, often a few of them. `evaluate`
finds out which, and calls it once for each combination of their values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from sweep_service.abandonment import check_abandoned
from sweep_service.model.parameters import PARAMETERS, Scalar, later_parameters
from sweep_service.model.point import Point
from sweep_service.model.structures import TEACHER_SECOND_LAYER
from sweep_service.numerics.types import AnyArray

Value = TypeVar("Value")
Number = TypeVar("Number", float, int, bool)
FIELDS = frozenset(field.name for field in fields(Point))
MAX_CODE = 2**62  # of combined codes, which are integers of 64 bits


class PointGroups(NamedTuple):
    """The group of each point, and the index of the first point of each group."""

    of_point: AnyArray
    first: AnyArray


class Points(Protocol):
    """What is needed of a grid."""

    @property
    def axes(self) -> Mapping[str, Sequence[Scalar]]: ...

    @property
    def fixed(self) -> Mapping[str, Scalar]: ...

    def row(self, index: int) -> dict[str, Scalar]: ...

    def column(self, name: str) -> AnyArray: ...

    def point(self, index: int) -> Point: ...

    def group_points(self, names: Collection[str]) -> PointGroups: ...


def group_product(lengths: Mapping[str, int], names: Collection[str]) -> PointGroups:
    """Group the points of a product of axes by the values of some of them."""
    shape = tuple(lengths.values())
    kept = tuple(length if name in names else 1 for name, length in lengths.items())
    count = int(np.prod(kept))
    groups = np.broadcast_to(np.arange(count, dtype=np.int32).reshape(kept), shape).reshape(-1)
    positions = np.unravel_index(np.arange(count), kept)
    return PointGroups(groups, np.ravel_multi_index(positions, shape) if shape else np.zeros(1, np.int64))


def group_columns(codes: Sequence[AnyArray], size: int) -> PointGroups:
    """Group points by columns of codes, integers from 0 on."""
    combined, largest = np.zeros(size, np.int64), 1
    for column in codes:
        length = int(column.max()) + 1
        if largest * length > MAX_CODE:
            combined, largest = _number(combined).of_point.astype(np.int64), size
        combined, largest = combined * length + column, largest * length
    return _number(combined)


def _number(codes: AnyArray) -> PointGroups:
    """Number codes from 0 on, in the order in which they first occur."""
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(first), np.int32)
    rank[order] = np.arange(len(first))
    return PointGroups(rank[inverse], first[order])


def number_values(values: Sequence[Scalar]) -> AnyArray:
    """Return a code for each value, the same for equal ones."""
    if isinstance(values[0], str):
        codes: dict[Scalar, int] = {}
        return np.array([codes.setdefault(value, len(codes)) for value in values])
    return np.unique(np.array(values), return_inverse=True)[1]


class RecordingPoint(Point):
    """A point that records which of its fields are read, also by its own properties."""

    @classmethod
    def of(cls, point: Point) -> RecordingPoint:
        recording = object.__new__(cls)
        # Not what the point has cached, because reading it would not be recorded.
        recording.__dict__.update({name: point.__dict__[name] for name in FIELDS}, fields_read=set())
        return recording

    def __getattribute__(self, name: str) -> Any:
        if name in FIELDS:
            object.__getattribute__(self, "__dict__")["fields_read"].add(name)
        return object.__getattribute__(self, name)


@dataclass(frozen=True)
class PerPoint(Generic[Value]):
    """The values of a function at all points: one for each group, and the group of each point.

    `axes` are those that the function reads.
    """

    values: list[Value]
    group: AnyArray
    axes: frozenset[str]

    def column(self, read: Callable[[Value], Number]) -> AnyArray:
        """Return a number of the value at each point."""
        return np.array([read(value) for value in self.values])[self.group]

    def __getitem__(self, index: int) -> Value:
        return self.values[self.group[index]]


def evaluate(grid: Points, function: Callable[[Point], Value]) -> PerPoint[Value]:
    """Evaluate a function at all points of a grid.

    The function must depend on nothing but the point. It is called for the first point of each combination
    of values of the axes that it has read so far, until it reads no other axis.
    """
    axes: set[str] = set()
    values: dict[int, Value] = {}
    while True:
        groups = grid.group_points(axes)
        known = len(axes)
        for index in groups.first.tolist():
            if index in values:
                continue
            check_abandoned()
            point = RecordingPoint.of(grid.point(index))
            values[index] = function(point)
            axes |= axes_of_fields(grid, point.__dict__["fields_read"])
            if len(axes) > known:
                break
        else:
            return PerPoint(
                [values[index] for index in groups.first.tolist()], groups.of_point, frozenset(axes)
            )


def axes_of_fields(grid: Points, names: Collection[str]) -> set[str]:
    """Return the axes on which some fields of the points of a grid depend."""
    return {axis for name in names for axis in _axes_of_field(grid, name)}


def _axes_of_field(grid: Points, name: str) -> Iterable[str]:
    if name in PARAMETERS:
        default_from = PARAMETERS[name].default_from
        follows = default_from and name not in grid.axes and name not in grid.fixed
        names: Collection[str] = (default_from,) if follows else (name,)
        return (axis for axis in names if axis in grid.axes)
    if name == "others":
        return (axis for axis in later_parameters() if axis in grid.axes)
    # The Gram matrix of the teacher is part of the initial condition.
    prefixes = {"init": ("init.", "teacher."), TEACHER_SECOND_LAYER: ("teacher.",)}.get(name, (f"{name}.",))
    return (axis for axis in grid.axes if axis.startswith(prefixes))
