"""Expands a spec into a grid: its points, its named axes, and the canonical spec with its key."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sweep_service.dynamics.options import RegimeOptions
from sweep_service.errors import LimitExceeded
from sweep_service.identity import Key
from sweep_service.model.fixed import fixed_values
from sweep_service.model.parameters import PARAMETERS, Scalar
from sweep_service.model.point import STRUCTURED_PARAMETERS, Point
from sweep_service.model.structures import insert_numbers, split_name
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.axes import CORE_AXES, EXPONENTS, POINT, axis_sort_key
from sweep_service.planning.columns.checks import check_fluctuations, check_points, check_support
from sweep_service.planning.columns.groups import (
    PerPoint,
    PointGroups,
    evaluate,
    group_columns,
    group_product,
    number_values,
)
from sweep_service.planning.designs import MAX_POINTS, Columns
from sweep_service.planning.outline import Outline
from sweep_service.planning.spec import SweepSpec, TargetError
from sweep_service.simulators.selection import choose_simulator


@dataclass(frozen=True)
class Grid:
    """Points in order, and what is computed at each.

    In a product `axes` are its dimensions; otherwise they are columns along the dimension `point`.
    """

    is_product: bool
    axes: Columns
    fixed: Mapping[str, Scalar]
    structures: Mapping[str, Any]  # as written: init, teacher, second_layer, schedule
    regimes: tuple[str, ...]
    simulate: bool
    seeds: tuple[int, ...]
    repeats: tuple[int, ...]
    times: Array
    observables: tuple[str, ...]
    overlaps: bool
    options: RegimeOptions
    segments: tuple[int, ...] = ()  # numbers of samples after which runs continue
    keep_state: bool | None = None
    target: TargetError | None = None
    pilot: int = 1  # seeds that every point has; with a target error the others may be skipped

    @classmethod
    def of(cls, spec: SweepSpec, validate: bool = True) -> Grid:
        """Check a spec and expand it. An error at a point names the axis values of that point.

        `validate=False` skips the check of every point, for a spec that was checked before.
        """
        return cls.expand(Outline.of(spec), validate)

    @classmethod
    def expand(cls, outline: Outline, validate: bool = True) -> Grid:
        """Make the points of an outline."""
        spec, fixed = outline.spec, dict(outline.fixed)
        if len(outline) > MAX_POINTS:
            raise LimitExceeded("points", len(outline), f"must be at most {MAX_POINTS}")
        if outline.is_product:
            columns: dict[str, list[Scalar]] = {
                name: outline.axes.get(name) or [fixed.pop(name)] for name in CORE_AXES
            }
            columns |= outline.axes
        else:
            columns = outline.design.make_columns(spec, outline.axes, fixed)
            fixed = {name: value for name, value in fixed.items() if name not in columns}
            size = len(next(iter(columns.values())))
            columns |= {name: [fixed.pop(name)] * size for name in CORE_AXES if name not in columns}
            columns = {name: columns[name] for name in sorted(columns, key=axis_sort_key)}
        grid = cls(
            is_product=outline.is_product,
            axes=columns,
            fixed=_fill_defaults(fixed, columns),
            structures=outline.structures,
            regimes=outline.regimes,
            simulate=outline.simulate,
            seeds=outline.seeds,
            repeats=outline.repeats,
            times=outline.times,
            observables=outline.observables,
            overlaps=outline.overlaps,
            options=outline.options,
            segments=outline.segments,
            keep_state=outline.keep_state,
            target=outline.target,
            pilot=outline.pilot,
        )
        if validate:
            check_points(grid)
            check_support(grid, grid.regimes, grid.simulate)
            if grid.options.fluctuations:
                check_fluctuations(grid, grid.regimes)
        return grid

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(self.axes) if self.is_product else (POINT,)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        lengths = tuple(len(values) for values in self.axes.values())
        return lengths if self.is_product else lengths[:1]

    def __len__(self) -> int:
        return math.prod(self.shape)

    def column(self, name: str) -> AnyArray:
        """Return a parameter such as d, p, k or gamma at every point, in the shape of the grid."""
        if name in self.fixed:
            return np.full(self.shape, self.fixed[name])
        values = np.array(self.axes[name])
        if not self.is_product:
            return values
        shape = [1] * len(self.shape)
        shape[list(self.axes).index(name)] = len(values)
        return np.broadcast_to(values.reshape(shape), self.shape)

    @cached_property
    def largest_p(self) -> int:
        return int(self.column("p").max())

    @cached_property
    def largest_k(self) -> int:
        return int(self.column("k").max())

    def values(self, name: str, points: AnyArray) -> list[Scalar]:
        """Return the values of an axis at some points."""
        axis, positions = self.axes[name], points
        if self.is_product:
            positions = np.unravel_index(points, self.shape)[list(self.axes).index(name)]
        return [axis[position] for position in positions.tolist()]

    def row(self, index: int) -> dict[str, Scalar]:
        """Return the values of the axes at one point."""
        positions = [int(position) for position in np.unravel_index(index, self.shape)]
        if not self.is_product:
            positions *= len(self.axes)
        axes = zip(self.axes.items(), positions, strict=True)
        return {name: values[position] for (name, values), position in axes}

    def point(self, index: int) -> Point:
        """Parse one point as `simulate` and `integrate` do."""
        values = {**self.fixed, **self.row(index)}
        numbers = {name: values.pop(name) for name in self.number_axes}
        structures = insert_numbers(self.structures, numbers) if numbers else self.structures
        return Point.parse({**{n: v for n, v in values.items() if n not in EXPONENTS}, **structures})

    @cached_property
    def number_axes(self) -> tuple[str, ...]:
        """Axes that are numbers of structured parameters, such as `init.scale`."""
        return tuple(name for name in self.axes if split_name(name) is not None)

    @property
    def points(self) -> tuple[Point, ...]:
        """All points, for small grids: parsing a million of them takes half a minute."""
        return tuple(map(self.point, range(len(self))))

    def group_points(self, names: Collection[str]) -> PointGroups:
        """Group the points by the values of some axes, in the order of the first points."""
        if self.is_product:
            lengths = {name: len(values) for name, values in self.axes.items()}
            return group_product(lengths, names)
        return group_columns([self._codes(name) for name in self.axes if name in names], len(self))

    def _codes(self, name: str) -> AnyArray:
        if name not in self._codes_by_axis:
            self._codes_by_axis[name] = number_values(self.axes[name])
        return self._codes_by_axis[name]

    @cached_property
    def _codes_by_axis(self) -> dict[str, AnyArray]:
        return {}

    @cached_property
    def simulators(self) -> PerPoint[str] | None:
        """The name of the simulator of each point; none without SGD."""
        return evaluate(self, lambda point: choose_simulator(point).name) if self.simulate else None

    @cached_property
    def content(self) -> dict[str, Any]:
        """The canonical spec: equal for equivalent specs, and without the name."""
        first = self.point(0)
        init = first.init.content()
        return {
            "product": self.is_product,
            "axes": [[name, list(values)] for name, values in self.axes.items()],
            "fixed": dict(self.fixed),
            "init": {name: value for name, value in init.items() if f"init.{name}" not in self.axes},
            **{name: first[name] for name in STRUCTURED_PARAMETERS if name in first.non_default},
            "regimes": self.regimes,
            "simulate": self.simulate,
            "seeds": self.seeds,
            "repeats": self.repeats if self.simulate else (),
            "times": self.times,
            "observables": self.observables,
            "overlaps": self.overlaps,
            "regime_options": self.options.content() if self.regimes else {},
            **({"segments": self.segments} if self.segments else {}),
            **({"keep_state": True} if self.keep_state else {}),
            **(self._target_content() if self.target is not None else {}),
        }

    def _target_content(self) -> dict[str, Any]:
        assert self.target is not None
        return {"target_error": self.target.model_dump(), "pilot": self.pilot}

    @property
    def has_rounds(self) -> bool:
        """Whether stored results decide what is computed next."""
        return self.target is not None

    @cached_property
    def key(self) -> Key:
        return Key.of(**self.content)

    def single_values(self) -> dict[str, Scalar]:
        """Return the parameters with one value at all points, and axes of a product with a single one."""
        single = {name: axis[0] for name, axis in self.axes.items() if self.is_product and len(axis) == 1}
        return single | fixed_values(self.axes, self.fixed, self.structures)


def _fill_defaults(fixed: Mapping[str, Scalar], columns: Columns) -> dict[str, Scalar]:
    """Add the defaults of a point, so that writing them in a spec does not change its key.

    A parameter that was added to the registry later is included only if it differs from its default, so
    that older specs keep their keys.
    """
    values = dict(fixed)
    for name, parameter in PARAMETERS.items():
        if not parameter.in_every_key:
            if values.get(name) == parameter.default:
                values.pop(name, None)
        elif name not in columns and name not in values:
            if parameter.default is not None:
                values[name] = parameter.default
            elif parameter.default_from in values:
                values[name] = values[parameter.default_from]
    return {name: values[name] for name in sorted(values)}
