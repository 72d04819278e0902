"""Axes of a spec: their names, and how their values are written and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, model_serializer

from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import ErrorCollector, InvalidInput, unknown_name
from sweep_service.model.parameters import PARAMETERS, Scalar, later_parameters
from sweep_service.model.structures import number_names
from sweep_service.numerics.types import Array
from sweep_service.planning.hints import NAME_HINTS
from sweep_service.validation import read_integer, read_number, reject_unknown_keys

CORE_AXES = ("d", "p", "gamma")  # dimensions of every product
POINT = "point"  # the only dimension of designs that are not a product
REGIME = "regime"  # an axis of ODE runs, not of points
EXPONENTS = ("kappa", "delta")
AUTO = "auto"  # may stand for a regime

MAX_NUMBER = 1e15  # for every number of a spec
MAX_VALUES = 100_000  # of one axis, of samples in time, of seeds
MAX_QUOTED_CHARACTERS = 60  # of a name in an error message


class Spaced(BaseModel):
    """n values from start to stop, ends included: {lin: [start, stop, n]} or {log: [start, stop, n]}."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    scale: Literal["lin", "log"]
    start: float
    stop: float
    count: int

    @model_serializer
    def _to_written_form(self) -> dict[str, list[float | int]]:
        return {self.scale: [self.start, self.stop, self.count]}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> dict[str, Any]:
        ends = {"type": "array", "minItems": 3, "maxItems": 3, "items": {"type": "number"}}
        forms = [
            {
                "type": "object",
                "properties": {scale: ends},
                "required": [scale],
                "additionalProperties": False,
            }
            for scale in ("lin", "log")
        ]
        return {"oneOf": forms, "title": "n values from a to b: [a, b, n]"}

    def values(self) -> Array:
        space = np.linspace if self.scale == "lin" else np.geomspace
        return space(self.start, self.stop, self.count)


Axis = Scalar | list[Scalar] | Spaced
Entry = TypeVar("Entry")


def axis_names(structures: Mapping[str, Any] | None = None) -> list[str]:
    """Return the names that may be axes, with the numbers of these structured parameters or of all."""
    return [*PARAMETERS, *EXPONENTS, REGIME, *number_names(structures)]


def axis_sort_key(name: str) -> tuple[int, str]:
    """Sort key that gives axes the same order in whatever order they are written."""
    later = later_parameters()
    known = (*(name for name in PARAMETERS if name not in later), *EXPONENTS, *later)
    return (known.index(name) if name in known else len(known), name)


def join_path(field: str, name: Any) -> str:
    """Return the path of an entry of a mapping, with a very long name cut off."""
    return f"{field}.{str(name)[:MAX_QUOTED_CHARACTERS]}"


def is_integer(name: str) -> bool:
    return name in PARAMETERS and PARAMETERS[name].kind == "integer"


def holds_names(name: str) -> bool:
    """Whether the values of an axis are names, such as those of regimes."""
    return name == REGIME or (name in PARAMETERS and PARAMETERS[name].kind == "text")


def spaced_values(name: str, axis: Spaced) -> list[Scalar]:
    """Return the values of an axis in order and once each, rounded if the parameter is an integer."""
    values = axis.values() + 0.0  # -0.0 is 0.0
    rounded = np.rint(values) if is_integer(name) else values
    distinct = dict.fromkeys(rounded.tolist())
    return [int(value) for value in distinct] if is_integer(name) else list(distinct)


def list_values(name: str, axis: Axis) -> list[Scalar]:
    """Return the values of an axis in any form, converted to the type of its parameter.

    So 1 and 1.0 give the same axis.
    """
    if isinstance(axis, Spaced):
        return spaced_values(name, axis)
    return [convert(name, value) for value in (axis if isinstance(axis, list) else [axis])]


def convert(name: str, value: Scalar) -> Scalar:
    """Convert a valid value to the type of its parameter."""
    if holds_names(name):
        return value
    return int(value) if is_integer(name) else float(value) + 0.0


def read_axes(value: Any) -> dict[str, Axis]:
    """Read a mapping from names to values; raises all errors at once."""
    if not isinstance(value, Mapping):
        raise InvalidInput("axes", value, "must be a mapping from names to values")
    return read_entries(value, "axes", read_axis)


def read_fixed(value: Any) -> dict[str, Scalar]:
    """Read a mapping from names to single values; raises all errors at once."""
    return _read_singles(value, "fixed")


def read_points(value: Sequence[Any]) -> list[dict[str, Scalar]]:
    """Read a list of points, each a mapping from names to single values; raises all errors at once."""
    errors, points = ErrorCollector(), list[dict[str, Scalar]]()
    for row, point in enumerate(value):
        try:
            points.append(_read_singles(point, f"points[{row}]"))
        except InvalidInput as error:
            errors.add(error)
            if errors.is_full:
                break
    errors.raise_errors()
    return points


def _read_singles(value: Any, field: str) -> dict[str, Scalar]:
    if not isinstance(value, Mapping):
        raise InvalidInput(field, value, "must be a mapping from names to single values")
    return read_entries(value, field, read_single)


def read_entries(
    value: Mapping[Any, Any], field: str, read: Callable[[Any, Any, str], Entry]
) -> dict[str, Entry]:
    """Read each entry of a mapping; raises all errors at once."""
    errors, entries = ErrorCollector(), {}
    for name, item in value.items():
        try:
            entries[name] = read(name, item, field)
        except InvalidInput as error:
            errors.add(error)
            if errors.is_full:
                break
    errors.raise_errors()
    return entries


def _check_name(name: Any, field: str) -> None:
    if name not in PARAMETERS and name not in (known := axis_names()):
        raise unknown_name(f"{field} (key)", name, known, NAME_HINTS)


def read_axis(name: Any, value: Any, field: str = "axes") -> Axis:
    """Read the values of an axis: a single value, a list, {lin: [a, b, n]} or {log: [a, b, n]}."""
    _check_name(name, field)
    path = join_path(field, name)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        value = _read_spaced(name, value, path)
    if isinstance(value, Spaced):
        _check_range(name, value, f"{path}.{value.scale}")
        return value
    if isinstance(value, (list, tuple)):
        return _read_list(name, value, path)
    return read_value(name, value, path)


def _read_list(name: str, values: Sequence[Any], path: str) -> list[Scalar]:
    if not 1 <= len(values) <= MAX_VALUES:
        raise InvalidInput(path, f"{len(values)} values", f"must have 1 to {MAX_VALUES} values")
    errors, scalars = ErrorCollector(), list[Scalar]()
    for row, value in enumerate(values):
        try:
            scalars.append(read_value(name, value, f"{path}[{row}]"))
        except InvalidInput as error:
            errors.add(error)
            if errors.is_full:
                break
    errors.raise_errors()
    return scalars


def _read_spaced(name: str, value: Mapping[Any, Any], path: str) -> Spaced:
    if holds_names(name):
        raise InvalidInput(path, value, "must be a name or a list of names")
    reject_unknown_keys(value, ("lin", "log"), path)
    if len(value) != 1:
        raise InvalidInput(path, dict(value), "must be {lin: [a, b, n]} or {log: [a, b, n]}")
    ((scale, ends),) = value.items()
    path = f"{path}.{scale}"
    if not isinstance(ends, Sequence) or isinstance(ends, (str, bytes)) or len(ends) != 3:
        raise InvalidInput(path, ends, "must be [first, last, count]")
    bounds = {"most": MAX_NUMBER, **({"above": 0.0} if scale == "log" else {"least": -MAX_NUMBER})}
    errors, numbers = ErrorCollector(), list[float]()
    for row, end in enumerate(ends[:2]):
        with errors.catch():
            numbers.append(read_number(end, f"{path}[{row}]", **bounds))
    with errors.catch():
        count = read_integer(ends[2], f"{path}[2]", 1, MAX_VALUES)
    errors.raise_errors()
    return Spaced(scale=scale, start=numbers[0], stop=numbers[1], count=count)


def _check_range(name: str, axis: Spaced, path: str) -> None:
    """Check the ends of a range, between which all other values are."""
    errors = ErrorCollector()
    for row, end in enumerate((axis.start, axis.stop)[: axis.count]):
        with errors.catch():
            read_value(name, round(end) if is_integer(name) else end, f"{path}[{row}]")
    errors.raise_errors()


def read_single(name: Any, value: Any, field: str) -> Scalar:
    """Read the value of a name where only one is possible."""
    _check_name(name, field)
    path = join_path(field, name)
    value = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(value, (list, tuple, Mapping)):
        advice = "use axes for several values" if field == "fixed" else "write one point for each value"
        raise InvalidInput(path, value, f"must be a single value: {advice}")
    return read_value(name, value, path)


def read_value(name: str, value: Any, path: str) -> Scalar:
    """Read a single value of an axis as it is written, and check that it is allowed there."""
    if isinstance(value, (list, tuple, Mapping)):
        allowed = _describe_value(name)
        raise InvalidInput(path, value, f"{allowed}; lists cannot be nested")
    if name == REGIME:
        if not isinstance(value, str) or (value != AUTO and value not in REGIMES):
            raise unknown_name(path, value, (AUTO, *REGIMES))
        return value
    if name in PARAMETERS:
        PARAMETERS[name].read(value, path)
    else:
        read_number(value, path, least=-MAX_NUMBER, most=MAX_NUMBER)
    if isinstance(value, str):
        return value
    return int(value) if isinstance(value, (int, np.integer)) else float(value) + 0.0


def _describe_value(name: str) -> str:
    """Return what is allowed as a value of an axis."""
    try:
        read_value(name, None, name)
    except InvalidInput as error:
        return error.allowed
    raise AssertionError(name)  # None is never allowed
