"""From a spec to its points: the designs, the labelled axes, and the canonical form with its key."""

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
from sweep_service.model.observables import chosen
from sweep_service.model.parameters import PARAMETERS, Scalar, added_later
from sweep_service.model.point import Point
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.designs import Columns, columns_of
from sweep_service.planning.spec import Axis, Spaced, SweepSpec, spaced_values
from sweep_service.simulators.selection import SIMULATORS, SimulatorKind
from sweep_service.validation import number

CORE = ("d", "p", "gamma")  # dimensions of every product
REGIME = "regime"  # an axis, but of theories and not of points
EXPONENTS = ("kappa", "delta")
POINT = "point"  # the one dimension of every other design
INIT = "init."
OVERLAPS = "overlaps"  # asked for as if it were an observable: M and Q, or q
FEW_OVERLAPS = 256  # numbers per sample up to which they are kept unasked


@dataclass(frozen=True)
class Grid:
    """Points in order, and what is computed at each.

    In a product `axes` are its dimensions; else they are columns along the one dimension `point`.
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
    def of(cls, spec: SweepSpec, checked: bool = False) -> Grid:
        """Expand a spec; what is wrong with one of its points is said with where that point is.

        `checked` says that it was read before, and spares looking at every point again.
        """
        axes, fixed, init = _read(spec)
        regimes = _regimes(axes.pop(REGIME, []), spec.simulate)
        is_product, columns = columns_of(spec, axes, fixed)
        if spec.points is not None:
            columns = {name: _column(name, columns[name], spec) for name in sorted(columns, key=axis_order)}
        for name in (*CORE, "k"):
            if name not in columns and name not in fixed:
                raise InvalidInput(f"axes.{name}", None, "is required, here or in fixed")
        if is_product:
            columns = {name: columns.get(name) or [fixed.pop(name)] for name in CORE} | columns
        else:
            points = len(next(iter(columns.values())))
            columns |= {name: [fixed.pop(name)] * points for name in CORE if name not in columns}
            columns = {name: columns[name] for name in sorted(columns, key=axis_order)}
        asked = spec.observables
        grid = cls(
            is_product=is_product,
            axes=columns,
            fixed=_complete(fixed, columns),
            init=init,
            regimes=regimes,
            simulate=spec.simulate,
            seeds=tuple(spec.seeds.init),
            repeats=tuple(spec.seeds.repeat),
            times=spec.time.times(),
            observables=chosen(asked and [name for name in asked if name != OVERLAPS]),
            overlaps=_few_overlaps(columns, fixed) if asked is None else OVERLAPS in asked,
            options=RegimeOptions.parse(spec.regime_options),
        )
        if not checked:
            _require_support(grid)
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
        """One of d, p, k, gamma, … at every point, in the grid's shape."""
        if name in self.fixed:
            return np.full(self.shape, self.fixed[name])
        values = np.array(self.axes[name])
        if not self.is_product:
            return values
        along = [1] * len(self.shape)
        along[list(self.axes).index(name)] = len(values)
        return np.broadcast_to(values.reshape(along), self.shape)

    def row(self, index: int) -> dict[str, Scalar]:
        """The values of the axes at one point."""
        places = [int(at) for at in np.unravel_index(index, self.shape)]
        if not self.is_product:
            places *= len(self.axes)
        return {name: values[at] for (name, values), at in zip(self.axes.items(), places, strict=True)}

    def point(self, index: int) -> Point:
        """One point, read as `simulate` and `integrate` read it."""
        values = {**self.fixed, **self.row(index)}
        init = dict(self.init)
        for name in [name for name in values if name.startswith(INIT)]:
            init[name.removeprefix(INIT)] = values.pop(name)
        return Point.parse({**{n: v for n, v in values.items() if n not in EXPONENTS}, "init": init})

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """All of them: for who looks at each more than once, as reading one takes a while."""
        found: list[Point] = []
        for index in range(len(self)):
            try:
                point = self.point(index)
            except InvalidInput as error:
                where = ", ".join(f"{name} = {value}" for name, value in self.row(index).items())
                raise InvalidInput(error.field, error.value, f"{error.allowed} (at {where})") from None
            if found and point.init.is_like(found[-1].init):  # one object for most, with one digest
                point = replace(point, init=found[-1].init)
            found.append(point)
        return tuple(found)

    @cached_property
    def content(self) -> dict[str, Any]:
        """The canonical form: specs that mean the same have the same one, whatever they are called."""
        init = self.point(0).init.content()
        return {
            "product": self.is_product,
            "axes": [[name, list(values)] for name, values in self.axes.items()],
            "fixed": dict(self.fixed),
            "init": {name: value for name, value in init.items() if INIT + name not in self.axes},
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


def _read(spec: SweepSpec) -> tuple[dict[str, list[Scalar]], dict[str, Scalar], dict[str, Any]]:
    """Axes as lists, fixed values and the start: each name once and known, each value of its own type."""
    if spec.init.get("kind") == "weights":
        raise InvalidInput("init.kind", "weights", "is for Python only: a sweep is given overlaps")
    known = _known(spec)
    zipped = {name for group in spec.zip or [] for name in group}
    axes: dict[str, list[Scalar]] = {}
    fixed: dict[str, Scalar] = {}
    init = dict(spec.init)
    for name, axis in spec.axes.items():
        if name not in known:
            raise unknown_name("axes (key)", name, known)
        values = _values(name, axis, repeats=name in zipped)
        if isinstance(axis, (list, Spaced)) or name == REGIME:
            axes[name] = values
        else:
            fixed[name] = values[0]
    for name, value in spec.fixed.items():
        if name not in known:
            raise unknown_name("fixed (key)", name, known)
        if name in spec.axes:
            raise InvalidInput(f"fixed.{name}", value, "is an axis already")
        if name == REGIME:
            axes[name] = [value]
        else:
            fixed[name] = _typed(name, value, f"fixed.{name}")
    for name in [*axes, *fixed]:
        if name.startswith(INIT) and name.removeprefix(INIT) in init:
            raise InvalidInput(name, "given", "is in init already")
    for name in [name for name in fixed if name.startswith(INIT)]:
        init[name.removeprefix(INIT)] = fixed.pop(name)
    return {name: axes[name] for name in sorted(axes, key=axis_order)}, fixed, init


def axis_order(name: str) -> tuple[int, str]:
    """One order of axes, whatever order they were written in."""
    later = added_later()
    known = (*(name for name in PARAMETERS if name not in later), *EXPONENTS, *later)
    return (known.index(name) if name in known else len(known), name)


def _column(name: str, values: Sequence[Scalar], spec: SweepSpec) -> list[Scalar]:
    known = [one for one in _known(spec) if one != REGIME]
    if name not in known:
        raise unknown_name("points (key)", name, known)
    return [_typed(name, value, f"points[{row}].{name}") for row, value in enumerate(values)]


def _known(spec: SweepSpec) -> list[str]:
    """Names that may be axes."""
    return [*PARAMETERS, *EXPONENTS, REGIME, *(INIT + name for name in _numbers_of(spec.init))]


def _numbers_of(init: Mapping[str, Any]) -> tuple[str, ...]:
    """The numbers of an initial condition that may be axes."""
    name = init.get("kind")
    kind = INITS.get(name) if isinstance(name, str) else None
    return tuple(kind.parameters) if kind is not None else ()


def _values(name: str, axis: Axis, repeats: bool = False) -> list[Scalar]:
    field = f"axes.{name}"
    if isinstance(axis, Spaced):
        if name == REGIME or (name in PARAMETERS and PARAMETERS[name].kind == "text"):
            raise InvalidInput(field, axis.scale, "must be a list of names")
        values = [_typed(name, value, field) for value in spaced_values(name, axis)]
        return list(dict.fromkeys(values))  # rounding makes duplicates
    values = [_typed(name, value, field) for value in (axis if isinstance(axis, list) else [axis])]
    if len(set(values)) != len(values) and not repeats:
        raise InvalidInput(field, values, "must not repeat a value")
    return values


def _typed(name: str, value: Scalar, field: str) -> Scalar:
    """One spelling for each number, so that 1 and 1.0 are the same axis."""
    if name in PARAMETERS:
        return PARAMETERS[name].typed(value, field)
    if name == REGIME and not isinstance(value, str):
        raise InvalidInput(field, value, "must be a name")
    return value if name == REGIME else number(value, field)


def _regimes(names: Sequence[Scalar], simulate: bool) -> tuple[str, ...]:
    for name in names:
        if name != "auto" and name not in REGIMES:
            raise unknown_name("axes.regime", name, ("auto", *REGIMES))
    if not names and not simulate:
        raise InvalidInput("simulate", False, "leaves nothing to compute: name a regime in axes, or simulate")
    return tuple(str(name) for name in names)


def _complete(fixed: Mapping[str, Scalar], columns: Columns) -> dict[str, Scalar]:
    """With the defaults that a point would take, so that saying them changes nothing.

    A parameter that was added to the registry later is there only if it is not at its default: specs from
    before it existed keep their keys.
    """
    found = dict(fixed)
    for name, parameter in PARAMETERS.items():
        if not parameter.in_every_key:
            if found.get(name) == parameter.default:
                found.pop(name, None)
        elif name not in columns and name not in found:
            if parameter.default is not None:
                found[name] = parameter.default
            elif parameter.default_from in found:
                found[name] = found[parameter.default_from]
    return {name: found[name] for name in sorted(found)}


def _require_support(grid: Grid) -> None:
    """Refuse a sweep of which something would ignore a parameter."""
    unusual = {
        name: "axes" if name in grid.axes else "fixed"
        for name, one in added_later().items()
        if any(value != one.default for value in grid.axes.get(name, [grid.fixed.get(name, one.default)]))
    }
    able: dict[str, list[Regime] | list[SimulatorKind]] = {
        f"the regime {regime}": [REGIMES[regime]] if regime in REGIMES else list(REGIMES.values())
        for regime in grid.regimes
    }
    if grid.simulate:
        able["any simulator; simulate: false leaves the theories"] = list(SIMULATORS.values())
    for who, entries in able.items():
        if not any(set(unusual) <= set(one.supports) for one in entries):
            name = next(name for name in unusual if not all(name in one.supports for one in entries))
            raise InvalidInput(f"{unusual[name]}.{name}", "given", f"is not supported by {who}")


def _few_overlaps(columns: Columns, fixed: Mapping[str, Scalar]) -> bool:
    p, k = (max(int(v) for v in columns.get(name, [fixed.get(name, 1)])) for name in ("p", "k"))
    return p * k + p * (p + 1) // 2 <= FEW_OVERLAPS
