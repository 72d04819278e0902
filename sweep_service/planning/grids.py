"""Expands a spec into a grid: its points, its named axes, and the canonical spec with its key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES, Regime
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.identity import Key
from sweep_service.model.initial import INITS
from sweep_service.model.observables import select_observables
from sweep_service.model.parameters import PARAMETERS, Scalar, later_parameters
from sweep_service.model.point import Point
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.designs import Columns, expand_design
from sweep_service.planning.spec import Axis, Spaced, SweepSpec, spaced_values
from sweep_service.simulators.selection import SIMULATORS, SimulatorEntry, choose_simulator
from sweep_service.validation import read_number

CORE_AXES = ("d", "p", "gamma")  # dimensions of every product
REGIME = "regime"  # an axis of ODE runs, not of points
EXPONENTS = ("kappa", "delta")
POINT = "point"  # the only dimension of designs that are not a product
INIT_PREFIX = "init."
OVERLAPS = "overlaps"  # listed among the observables of a spec to store M and Q, or q
MAX_DEFAULT_OVERLAPS = 256  # overlaps per sample up to which they are stored by default


@dataclass(frozen=True)
class Grid:
    """Points in order, and what is computed at each.

    In a product `axes` are its dimensions; otherwise they are columns along the dimension `point`.
    """

    is_product: bool
    axes: Columns
    fixed: Mapping[str, Scalar]
    init: Mapping[str, Any]
    regimes: tuple[str, ...]
    simulate: bool
    seeds: tuple[int, ...]
    repeats: tuple[int, ...]
    times: Array
    observables: tuple[str, ...]
    overlaps: bool
    options: RegimeOptions

    @classmethod
    def of(cls, spec: SweepSpec, validate: bool = True) -> Grid:
        """Expand a spec. An error at a point names the axis values of that point.

        `validate=False` skips the check of every point, for a spec that was checked before.
        """
        axes, fixed, init = _read_axes(spec)
        regimes = _read_regimes(axes.pop(REGIME, []), spec.simulate)
        is_product, columns = expand_design(spec, axes, fixed)
        if spec.points is not None:
            columns = {
                name: _read_column(name, columns[name], spec) for name in sorted(columns, key=axis_sort_key)
            }
        for name in (*CORE_AXES, "k"):
            if name not in columns and name not in fixed:
                raise InvalidInput(f"axes.{name}", None, "is required, in axes or fixed")
        if is_product:
            columns = {name: columns.get(name) or [fixed.pop(name)] for name in CORE_AXES} | columns
        else:
            points = len(next(iter(columns.values())))
            columns |= {name: [fixed.pop(name)] * points for name in CORE_AXES if name not in columns}
            columns = {name: columns[name] for name in sorted(columns, key=axis_sort_key)}
        names = spec.observables
        grid = cls(
            is_product=is_product,
            axes=columns,
            fixed=_fill_defaults(fixed, columns),
            init=init,
            regimes=regimes,
            simulate=spec.simulate,
            seeds=tuple(spec.seeds.init),
            repeats=tuple(spec.seeds.repeat),
            times=spec.time.times(),
            observables=select_observables(names and [name for name in names if name != OVERLAPS]),
            overlaps=_has_few_overlaps(columns, fixed) if names is None else OVERLAPS in names,
            options=RegimeOptions.parse(spec.regime_options),
        )
        if validate:
            _check_support(grid)
            _ = grid.points
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
        init = dict(self.init)
        for name in [name for name in values if name.startswith(INIT_PREFIX)]:
            init[name.removeprefix(INIT_PREFIX)] = values.pop(name)
        return Point.parse({**{n: v for n, v in values.items() if n not in EXPONENTS}, "init": init})

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """All points, cached because parsing one takes a while."""
        points: list[Point] = []
        for index in range(len(self)):
            try:
                point = self.point(index)
            except InvalidInput as error:
                where = ", ".join(f"{name} = {value}" for name, value in self.row(index).items())
                raise InvalidInput(error.field, error.value, f"{error.allowed} (at {where})") from None
            if points and point.init.has_same_rule(points[-1].init):  # share the object and its cached digest
                point = replace(point, init=points[-1].init)
            points.append(point)
        return tuple(points)

    @cached_property
    def simulators(self) -> tuple[str, ...]:
        """The name of the simulator of each point; none without SGD."""
        return tuple(choose_simulator(point).name for point in self.points) if self.simulate else ()

    @cached_property
    def content(self) -> dict[str, Any]:
        """The canonical spec: equal for equivalent specs, and without the name."""
        init = self.point(0).init.content()
        return {
            "product": self.is_product,
            "axes": [[name, list(values)] for name, values in self.axes.items()],
            "fixed": dict(self.fixed),
            "init": {name: value for name, value in init.items() if INIT_PREFIX + name not in self.axes},
            "regimes": self.regimes,
            "simulate": self.simulate,
            "seeds": self.seeds,
            "repeats": self.repeats if self.simulate else (),
            "times": self.times,
            "observables": self.observables,
            "overlaps": self.overlaps,
            "regime_options": self.options.content() if self.regimes else {},
        }

    @cached_property
    def key(self) -> Key:
        return Key.of(**self.content)


def _read_axes(spec: SweepSpec) -> tuple[dict[str, list[Scalar]], dict[str, Scalar], dict[str, Any]]:
    """Return axes as lists, fixed values and the initial condition; reject unknown and duplicate names."""
    if spec.init.get("kind") == "weights":
        raise InvalidInput("init.kind", "weights", "is only for Python: give a sweep the overlaps instead")
    known = _axis_names(spec)
    zipped = {name for group in spec.zip or [] for name in group}
    axes: dict[str, list[Scalar]] = {}
    fixed: dict[str, Scalar] = {}
    init = dict(spec.init)
    for name, axis in spec.axes.items():
        if name not in known:
            raise unknown_name("axes (key)", name, known)
        values = _read_values(name, axis, allow_repeats=name in zipped)
        if isinstance(axis, (list, Spaced)) or name == REGIME:
            axes[name] = values
        else:
            fixed[name] = values[0]
    for name, value in spec.fixed.items():
        if name not in known:
            raise unknown_name("fixed (key)", name, known)
        if name in spec.axes:
            raise InvalidInput(f"fixed.{name}", value, "is already an axis")
        if name == REGIME:
            axes[name] = [value]
        else:
            fixed[name] = _convert(name, value, f"fixed.{name}")
    for name in [*axes, *fixed]:
        if name.startswith(INIT_PREFIX) and name.removeprefix(INIT_PREFIX) in init:
            raise InvalidInput(name, "given", "is already in init")
    for name in [name for name in fixed if name.startswith(INIT_PREFIX)]:
        init[name.removeprefix(INIT_PREFIX)] = fixed.pop(name)
    return {name: axes[name] for name in sorted(axes, key=axis_sort_key)}, fixed, init


def axis_sort_key(name: str) -> tuple[int, str]:
    """Sort key that gives axes the same order in whatever order they are written."""
    later = later_parameters()
    known = (*(name for name in PARAMETERS if name not in later), *EXPONENTS, *later)
    return (known.index(name) if name in known else len(known), name)


def _read_column(name: str, values: Sequence[Scalar], spec: SweepSpec) -> list[Scalar]:
    known = [axis for axis in _axis_names(spec) if axis != REGIME]
    if name not in known:
        raise unknown_name("points (key)", name, known)
    return [_convert(name, value, f"points[{row}].{name}") for row, value in enumerate(values)]


def _axis_names(spec: SweepSpec) -> list[str]:
    """Return the names that may be axes."""
    return [*PARAMETERS, *EXPONENTS, REGIME, *(INIT_PREFIX + name for name in _init_numbers(spec.init))]


def _init_numbers(init: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the numbers of an initial condition."""
    name = init.get("kind")
    kind = INITS.get(name) if isinstance(name, str) else None
    return tuple(kind.parameters) if kind is not None else ()


def _read_values(name: str, axis: Axis, allow_repeats: bool = False) -> list[Scalar]:
    field = f"axes.{name}"
    if isinstance(axis, Spaced):
        if name == REGIME or (name in PARAMETERS and PARAMETERS[name].kind == "text"):
            raise InvalidInput(field, axis.scale, "must be a list of names")
        values = [_convert(name, value, field) for value in spaced_values(name, axis)]
        return list(dict.fromkeys(values))  # rounding may give duplicates
    values = [_convert(name, value, field) for value in (axis if isinstance(axis, list) else [axis])]
    if len(set(values)) != len(values) and not allow_repeats:
        raise InvalidInput(field, values, "must not repeat a value")
    return values


def _convert(name: str, value: Scalar, field: str) -> Scalar:
    """Convert a value to the type of its parameter, so that 1 and 1.0 give the same axis."""
    if name in PARAMETERS:
        return PARAMETERS[name].coerce(value, field)
    if name == REGIME and not isinstance(value, str):
        raise InvalidInput(field, value, "must be a name")
    return value if name == REGIME else read_number(value, field)


def _read_regimes(names: Sequence[Scalar], simulate: bool) -> tuple[str, ...]:
    for name in names:
        if name != "auto" and name not in REGIMES:
            raise unknown_name("axes.regime", name, ("auto", *REGIMES))
    if not names and not simulate:
        raise InvalidInput(
            "simulate", False, "leaves nothing to compute: add a regime to axes, or set simulate to true"
        )
    return tuple(str(name) for name in names)


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


def _check_support(grid: Grid) -> None:
    """Reject a sweep in which a regime or the simulators would ignore a parameter."""
    non_default = {
        name: "axes" if name in grid.axes else "fixed"
        for name, parameter in later_parameters().items()
        if any(
            value != parameter.default
            for value in grid.axes.get(name, [grid.fixed.get(name, parameter.default)])
        )
    }
    candidates: dict[str, list[Regime] | list[SimulatorEntry]] = {
        f"the regime {regime}": [REGIMES[regime]] if regime in REGIMES else list(REGIMES.values())
        for regime in grid.regimes
    }
    if grid.simulate:
        candidates["any simulator (simulate: false computes the regimes only)"] = list(SIMULATORS.values())
    for description, entries in candidates.items():
        if not any(set(non_default) <= set(entry.supports) for entry in entries):
            name = next(name for name in non_default if not all(name in entry.supports for entry in entries))
            value = grid.axes.get(name) or grid.fixed[name]
            raise InvalidInput(f"{non_default[name]}.{name}", value, f"is not supported by {description}")


def _has_few_overlaps(columns: Columns, fixed: Mapping[str, Scalar]) -> bool:
    p, k = (max(int(value) for value in columns.get(name, [fixed.get(name, 1)])) for name in ("p", "k"))
    return p * k + p * (p + 1) // 2 <= MAX_DEFAULT_OVERLAPS
