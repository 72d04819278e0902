"""The spec of a sweep as a user writes it, in JSON, YAML or Python.

Pydantic defines the structure and its JSON schema; `validation` checks single values. Physical parameters
are checked point by point when the spec is expanded into a grid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_serializer,
)

from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.identity import canonicalise
from sweep_service.model.parameters import PARAMETERS, Scalar
from sweep_service.numerics.types import Array
from sweep_service.validation import read_integer, read_number, read_seeds, reject_unknown_keys

MAX_SPEC_BYTES = 1 << 20  # a larger sweep needs an axis or a design, not a list
MAX_YAML_BYTES = 1 << 16  # smaller, because the YAML parser is slow
MAX_NUMBER = 1e15  # for every number of a spec
MIN_LAST_TIME = 1e-12
MAX_VALUES = 100_000  # of one axis, of samples in time, of seeds
MAX_QUOTED_CHARACTERS = 60  # of a name in an error message


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Spaced(_Model):
    """n values from start to stop, ends included: {lin: [start, stop, n]} or {log: [start, stop, n]}."""

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


def _read_scalar(value: Any, field: str) -> Scalar:
    if isinstance(value, str):
        return value
    number = read_number(value, field, least=-MAX_NUMBER, most=MAX_NUMBER)
    return int(value) if isinstance(value, (int, np.integer)) else number


def _read_axis(value: Any, field: str) -> Axis:
    if isinstance(value, Spaced):
        return value
    if isinstance(value, Mapping):
        reject_unknown_keys(value, ("lin", "log"), field)
        if len(value) != 1:
            raise InvalidInput(field, dict(value), "must be {lin: [a, b, n]} or {log: [a, b, n]}")
        ((scale, ends),) = value.items()
        scale_field = f"{field}.{scale}"
        if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 3:
            raise InvalidInput(scale_field, ends, "must be [first, last, count]")
        bounds = {"most": MAX_NUMBER, **({"above": 0.0} if scale == "log" else {"least": -MAX_NUMBER})}
        first, last = (read_number(end, scale_field, **bounds) for end in ends[:2])
        return Spaced(
            scale=scale, start=first, stop=last, count=read_integer(ends[2], scale_field, 1, MAX_VALUES)
        )
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        if not 1 <= len(value) <= MAX_VALUES:
            raise InvalidInput(field, f"{len(value)} values", f"must have 1 to {MAX_VALUES} values")
        return [_read_scalar(item, field) for item in value]
    return _read_scalar(value, field)


def spaced_values(name: str, axis: Spaced) -> list[Scalar]:
    """Return the values of an axis, rounded if the parameter is an integer."""
    is_integer = name in PARAMETERS and PARAMETERS[name].kind == "integer"
    return [round(value) if is_integer else value for value in axis.values().tolist()]


def _list_values(name: str, axis: Axis) -> list[Scalar]:
    if isinstance(axis, Spaced):
        return spaced_values(name, axis)
    return axis if isinstance(axis, list) else [axis]


def _read_axes(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise InvalidInput("axes", value, "must be a mapping from names to values")
    return {
        name: _read_axis(axis, f"axes.{str(name)[:MAX_QUOTED_CHARACTERS]}") for name, axis in value.items()
    }


def _read_scalars(value: Any, field: str) -> Any:
    if not isinstance(value, Mapping):
        raise InvalidInput(field, value, "must be a mapping from names to single values")
    return {
        name: _read_scalar(item, f"{field}.{str(name)[:MAX_QUOTED_CHARACTERS]}")
        for name, item in value.items()
    }


def _read_name(value: Any) -> Any:
    if isinstance(value, str) and not value.isprintable():
        raise InvalidInput("name", value, "must be printable")
    if isinstance(value, str) and re.search(r"[/\\]", value):
        raise InvalidInput("name", value, "must not contain / or \\")
    return value


def _read_fixed(value: Any) -> Any:
    return _read_scalars(value, "fixed")


def _read_points(value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_VALUES:
        raise InvalidInput("points", value, f"must be a list of 1 to {MAX_VALUES} mappings")
    return [_read_scalars(point, f"points[{row}]") for row, point in enumerate(value)]


def _read_seed_list(value: Any, field: str) -> list[int]:
    """Return a list of seeds; a number n stands for 0, ..., n - 1."""
    if isinstance(value, (list, tuple)):
        if len(value) > MAX_VALUES:
            raise InvalidInput(field, f"{len(value)} seeds", f"must be at most {MAX_VALUES}")
        return list(read_seeds(value, field))
    return list(range(read_integer(value, field, 1, MAX_VALUES)))


def _read_seeds(value: Any) -> Any:
    if isinstance(value, Seeds):
        return value
    if not isinstance(value, Mapping):
        value = {"init": value}
    reject_unknown_keys(value, ("init", "repeat"), "seeds")
    return Seeds(
        **{name: _read_seed_list(value.get(name, 1), f"seeds.{name}") for name in ("init", "repeat")}
    )


class Seeds(_Model):
    """Seeds of the initial conditions (`init`) and indices of the input streams from each (`repeat`)."""

    init: list[int]
    repeat: list[int]


_SEEDS: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": MAX_VALUES},
        {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
    ]
}
# The form in a spec; it is parsed into `Seeds`.
SEEDS_SCHEMA = {
    "anyOf": [
        *_SEEDS["anyOf"],
        {
            "type": "object",
            "properties": {"init": _SEEDS, "repeat": _SEEDS},
            "additionalProperties": False,
        },
    ],
    "title": "Seeds: a number, a list, or {init, repeat}",
}


class Time(_Model):
    """t = 0, `samples` log-spaced times from min to max, and `tail` evenly spaced times in the last half."""

    max: float = Field(gt=0, le=1e15)
    min: float | None = Field(default=None, gt=0)  # by default max/1e5
    samples: int = Field(default=120, ge=1, le=MAX_VALUES)
    tail: int = Field(default=0, ge=0, le=MAX_VALUES)

    def times(self) -> Array:
        first = self.max * 1e-5 if self.min is None else self.min
        if self.max < MIN_LAST_TIME:
            raise InvalidInput("time.max", self.max, f"must be >= {MIN_LAST_TIME:g}")
        if first > self.max:
            raise InvalidInput("time.min", first, f"must be <= time.max = {self.max:g}")
        spaced = np.geomspace(first, self.max, self.samples) if self.samples > 1 else np.array([self.max])
        tail = np.linspace(self.max / 2, self.max, self.tail) if self.tail else np.empty(0)
        return np.unique(np.minimum(np.concatenate([[0.0], spaced, tail]), self.max))


Multiple = Literal["k"] | Annotated[int, Field(ge=1, le=10**6)]


class Scaling(_Model):
    """p = p0 d^kappa and gamma = gamma0 d^-delta over the axes d, kappa and delta."""

    p0: float = Field(gt=0, le=1e6)
    gamma0: float = Field(gt=0, le=1e12)
    p_multiple_of: Multiple = "k"


class Triangle(_Model):
    """Points (d, p, gamma) with gamma/(p d) = delta_t, on a lattice in their logarithms."""

    delta_t: float = Field(gt=0, lt=1)
    resolution: int = Field(ge=1, le=400)
    d_min: int | None = Field(default=None, ge=1, le=10**12)  # by default k + 1
    p_min: int | None = Field(default=None, ge=1, le=10**6)  # by default k
    gamma_max: float = Field(default=1.0, gt=0, le=1e12)
    p_multiple_of: Multiple = "k"


class SweepSpec(_Model):
    """The points of a sweep, what is computed at each of them, and the recorded times."""

    name: Annotated[str, BeforeValidator(_read_name)] = Field(default="", max_length=200)
    axes: Annotated[dict[str, Axis], BeforeValidator(_read_axes)] = {}
    fixed: Annotated[dict[str, Scalar], BeforeValidator(_read_fixed)] = {}
    init: dict[str, Any] = {"kind": "gaussian"}
    simulate: bool = True
    seeds: Annotated[Seeds, BeforeValidator(_read_seeds), WithJsonSchema(SEEDS_SCHEMA, mode="validation")] = (
        Seeds(init=[0], repeat=[0])
    )
    time: Time
    observables: list[str] | None = None
    regime_options: dict[str, Any] = {}
    zip: list[list[str]] | None = None
    scaling: Scaling | None = None
    triangle: Triangle | None = None
    points: Annotated[list[dict[str, Scalar]] | None, BeforeValidator(_read_points)] = None

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> dict[str, Any]:
        """Add the parameters of the registry by name to axes and fixed values."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        axes, fixed = (schema["properties"][name] for name in ("axes", "fixed"))
        axes["properties"] = {
            name: {**axes["additionalProperties"], "description": parameter.long_name}
            for name, parameter in PARAMETERS.items()
        }
        fixed["properties"] = {name: parameter.schema() for name, parameter in PARAMETERS.items()}
        return schema

    @classmethod
    def parse(cls, value: Any) -> SweepSpec:
        """Parse a mapping.

        Raises
        ------
        InvalidInput
            Names the first field that is wrong, its value and what is allowed.
        """
        if isinstance(value, SweepSpec):
            return value
        if not isinstance(value, Mapping):
            raise InvalidInput(
                "spec", value, f"must be a mapping with keys from {', '.join(cls.model_fields)}"
            )
        try:
            plain = {name: canonicalise(item) if name == "init" else item for name, item in value.items()}
            json.dumps([plain.get("init"), plain.get("regime_options")], default=_reject)
            return cls.model_validate(plain)
        except ValidationError as error:
            raise _to_invalid_input(error) from None
        except (RecursionError, TypeError, ValueError):
            allowed = "must contain only numbers, strings, lists and mappings"
            raise InvalidInput("init, regime_options", None, allowed) from None

    def extend(self, change: str | bytes) -> SweepSpec:
        """Return a spec with the values of axes, points and seeds of `change` (JSON or YAML) added.

        Everything else stays as it is, because a change would make the stored runs useless.
        """
        if len(change) > MAX_SPEC_BYTES:
            raise InvalidInput("change", f"{len(change)} bytes", f"must be at most {MAX_SPEC_BYTES} bytes")
        more = _parse_text(change)
        if not isinstance(more, Mapping):
            raise InvalidInput("change", more, "must be a mapping with keys from name, axes, points, seeds")
        reject_unknown_keys(more, ("name", "axes", "points", "seeds"), "change")
        old = json.loads(self.model_dump_json())
        axes = dict(self.axes)
        for name, axis in _read_axes(more.get("axes", {})).items():
            old_values = _list_values(name, axes.get(name, self.fixed.get(name, [])))
            axes[name] = list(dict.fromkeys([*old_values, *_list_values(name, axis)]))
        fixed = {name: value for name, value in self.fixed.items() if name not in axes}
        new_seeds = more.get("seeds", {})
        new_seeds = new_seeds if isinstance(new_seeds, Mapping) else {"init": new_seeds}
        reject_unknown_keys(new_seeds, ("init", "repeat"), "seeds")
        union = {}
        for name, old_seeds in (("init", self.seeds.init), ("repeat", self.seeds.repeat)):
            added = _read_seed_list(new_seeds[name], f"seeds.{name}") if name in new_seeds else []
            union[name] = list(dict.fromkeys([*old_seeds, *added]))
        if "points" in more:
            if self.points is None:
                raise InvalidInput("points", "given", "can only be added to a sweep whose design is points")
            points = [*self.points, *_read_points(more["points"])]
            old["points"] = list({tuple(sorted(point.items())): point for point in points}.values())
        return SweepSpec.parse(
            {**old, "name": more.get("name", self.name), "axes": axes, "fixed": fixed, "seeds": union}
        )

    def as_written(self) -> dict[str, Any]:
        """Return the spec as a user would write it: without defaults, and seeds 0, ..., n - 1 as n."""
        content = self.model_dump(mode="json", exclude_defaults=True)
        if "seeds" in content:
            short = {
                name: len(seeds) if seeds == list(range(len(seeds))) else seeds
                for name, seeds in content["seeds"].items()
            }
            content["seeds"] = short["init"] if short["repeat"] == 1 else short
        return content

    @classmethod
    def read(cls, text: str | bytes) -> SweepSpec:
        """Parse JSON or YAML."""
        if len(text) > MAX_SPEC_BYTES:
            raise InvalidInput("spec", f"{len(text)} bytes", f"must be at most {MAX_SPEC_BYTES} bytes")
        return cls.parse(_parse_text(text))

    @classmethod
    def load(cls, path: str | Path) -> SweepSpec:
        """Read a JSON or YAML file."""
        try:
            with open(path, "rb") as file:
                text = file.read(MAX_SPEC_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a valid path"
            raise InvalidInput("spec", str(path), f"cannot be read: {reason}") from None
        return cls.read(text)


_SECTIONS: dict[str, type[BaseModel]] = {"time": Time, "scaling": Scaling, "triangle": Triangle}


def _to_invalid_input(error: ValidationError) -> InvalidInput:
    """Convert the first problem that Pydantic reports; unknown keys come first."""
    problems = error.errors(include_url=False)
    problem = next((item for item in problems if item["type"] == "extra_forbidden"), problems[0])
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, InvalidInput):
        return cause
    path = [str(key) for key in problem["loc"]]
    if problem["type"] == "extra_forbidden":
        known = _SECTIONS[path[0]] if len(path) > 1 else SweepSpec
        return unknown_name(f"{'.'.join(path[:-1]) or 'spec'} (key)", path[-1], known.model_fields)
    if problem["type"] == "missing":
        return InvalidInput(".".join(path), None, "is required")
    message = problem["msg"].replace("Input should be", "must be").replace("Value should have", "must have")
    return InvalidInput(".".join(path), problem["input"], message[0].lower() + message[1:])


def _reject(value: Any) -> Any:
    raise TypeError(type(value))


class _YamlLoader(yaml.SafeLoader):
    """YAML 1.1 without aliases, which could expand a few lines to billions of items."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("must not contain aliases")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(names) != len({repr(name) for name in names}):
            raise yaml.YAMLError("has a duplicate key")
        return super().construct_mapping(node, deep)


# Numbers as in JSON: YAML 1.1 reads 1:30 in base 60, 010 in base 8, and 1e-3 as text.
_YamlLoader.yaml_implicit_resolvers = {
    first: [(tag, rule) for tag, rule in rules if tag.rpartition(":")[2] not in ("int", "float", "timestamp")]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_NUMBERS = {
    "int": r"^[-+]?\d{1,40}$",
    "float": r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$|^[-+]?\.(inf|nan)$",
}
for _tag, _rule in _NUMBERS.items():
    _YamlLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_rule), list("-+.0123456789"))


def _parse_text(text: str | bytes) -> Any:
    """Parse JSON, or else YAML. Constants such as NaN are rejected later, where values are read."""
    content = _parse_json_or_yaml(text)
    try:
        json.dumps(content, ensure_ascii=False, default=str, skipkeys=True).encode()
    except UnicodeEncodeError:  # "\ud800" is JSON, but no text that can be stored
        raise InvalidInput("spec", None, "contains text that is not valid Unicode") from None
    except RecursionError:
        raise InvalidInput("spec", None, "is nested too deeply") from None
    return content


def _parse_json_or_yaml(text: str | bytes) -> Any:
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        try:
            return json.loads(text, object_pairs_hook=_reject_duplicate_keys)
        except json.JSONDecodeError:
            if len(text) > MAX_YAML_BYTES:
                raise InvalidInput(
                    "spec", f"{len(text)} bytes", f"must be at most {MAX_YAML_BYTES} in YAML"
                ) from None
            return yaml.load(text, Loader=_YamlLoader)
    except InvalidInput:
        raise
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}" if error.problem_mark else "somewhere"
        raise InvalidInput("spec", line, "is neither JSON nor YAML") from None
    except Exception as error:  # a tag that does not fit its value may raise any exception
        has_message = isinstance(error, yaml.YAMLError) and (
            "alias" in str(error) or "duplicate" in str(error)
        )
        raise InvalidInput("spec", None, str(error) if has_message else "is neither JSON nor YAML") from None


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise InvalidInput("spec", None, "has a duplicate key")
    return mapping
