"""A sweep spec: what a person writes down, read from JSON, YAML or Python.

Pydantic holds the shape and gives its JSON schema. What a value may be is said by the readers of
`fields.py`; the science is checked point by point when the spec becomes a grid.
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
from sweep_service.identity import canonical
from sweep_service.model.parameters import PARAMETERS, Scalar
from sweep_service.numerics.types import Array
from sweep_service.validation import number, only_known, seeds, whole

LARGEST_SPEC = 1 << 20  # bytes: what needs more is an axis or a design, not a list
LARGEST_YAML = 1 << 16  # bytes: its reader is slow
LARGEST = 1e15  # any number of a spec
SHORTEST = 1e-12  # the last time
MOST_VALUES = 100_000  # of one axis, of samples in time, of seeds

LONGEST = 60  # letters of a name that are quoted in an error


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Spaced(_Model):
    """n values from start to stop, ends included: {lin: [start, stop, n]} or {log: [start, stop, n]}."""

    scale: Literal["lin", "log"]
    start: float
    stop: float
    count: int

    @model_serializer
    def _as_written(self) -> dict[str, list[float | int]]:
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


def _scalar(value: Any, field: str) -> Scalar:
    if isinstance(value, str):
        return value
    found = number(value, field, least=-LARGEST, most=LARGEST)
    return int(value) if isinstance(value, (int, np.integer)) else found


def _axis(value: Any, field: str) -> Axis:
    if isinstance(value, Spaced):
        return value
    if isinstance(value, Mapping):
        only_known(value, ("lin", "log"), field)
        if len(value) != 1:
            raise InvalidInput(field, dict(value), "must be {lin: [a, b, n]} or {log: [a, b, n]}")
        ((scale, ends),) = value.items()
        where = f"{field}.{scale}"
        if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 3:
            raise InvalidInput(where, ends, "must be [first, last, how many]")
        bounds = {"most": LARGEST, **({"above": 0.0} if scale == "log" else {"least": -LARGEST})}
        first, last = (number(end, where, **bounds) for end in ends[:2])
        return Spaced(scale=scale, start=first, stop=last, count=whole(ends[2], where, 1, MOST_VALUES))
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        if not 1 <= len(value) <= MOST_VALUES:
            raise InvalidInput(field, f"{len(value)} values", f"must have 1 to {MOST_VALUES} values")
        return [_scalar(item, field) for item in value]
    return _scalar(value, field)


def spaced_values(name: str, axis: Spaced) -> list[Scalar]:
    """Values of an axis, rounded where the parameter is an integer."""
    is_integer = name in PARAMETERS and PARAMETERS[name].kind == "integer"
    return [round(value) if is_integer else value for value in axis.values().tolist()]


def _listed(name: str, axis: Axis) -> list[Scalar]:
    if isinstance(axis, Spaced):
        return spaced_values(name, axis)
    return axis if isinstance(axis, list) else [axis]


def _axes(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise InvalidInput("axes", value, "must be a mapping from names to values")
    return {name: _axis(axis, f"axes.{str(name)[:LONGEST]}") for name, axis in value.items()}


def _scalars(value: Any, field: str) -> Any:
    if not isinstance(value, Mapping):
        raise InvalidInput(field, value, "must be a mapping from names to single values")
    return {name: _scalar(item, f"{field}.{str(name)[:LONGEST]}") for name, item in value.items()}


def _title(value: Any) -> Any:
    if isinstance(value, str) and not value.isprintable():
        raise InvalidInput("name", value, "must be printable")
    if isinstance(value, str) and re.search(r"[/\\]", value):
        raise InvalidInput("name", value, "must be a title, not a path: without / and \\")
    return value


def _fixed(value: Any) -> Any:
    return _scalars(value, "fixed")


def _points(value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_VALUES:
        raise InvalidInput("points", value, f"must be a list of 1 to {MOST_VALUES} mappings")
    return [_scalars(point, f"points[{row}]") for row, point in enumerate(value)]


def _seed_list(value: Any, field: str) -> list[int]:
    """So many seeds, from 0 on; or the seeds themselves."""
    if isinstance(value, (list, tuple)):
        if len(value) > MOST_VALUES:
            raise InvalidInput(field, f"{len(value)} seeds", f"must be at most {MOST_VALUES}")
        return list(seeds(value, field))
    return list(range(whole(value, field, 1, MOST_VALUES)))


def _seeds(value: Any) -> Any:
    if isinstance(value, Seeds):
        return value
    if not isinstance(value, Mapping):
        value = {"init": value}
    only_known(value, ("init", "repeat"), "seeds")
    return Seeds(**{name: _seed_list(value.get(name, 1), f"seeds.{name}") for name in ("init", "repeat")})


class Seeds(_Model):
    """Seeds of initial conditions, and of the streams of inputs that start from each."""

    init: list[int]
    repeat: list[int]


_SEEDS: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": MOST_VALUES},
        {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
    ]
}
# As it is written; what it becomes is `Seeds`.
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
    """`samples` log-spaced times from min to max, t = 0, and `tail` evenly spaced ones in the last half."""

    max: float = Field(gt=0, le=1e15)
    min: float | None = Field(default=None, gt=0)  # by default max/1e5
    samples: int = Field(default=120, ge=1, le=MOST_VALUES)
    tail: int = Field(default=0, ge=0, le=MOST_VALUES)

    def times(self) -> Array:
        first = self.max * 1e-5 if self.min is None else self.min
        if self.max < SHORTEST:
            raise InvalidInput("time.max", self.max, f"must be >= {SHORTEST:g}")
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
    """All (d, p, gamma) whose step gamma/(p d) is delta_t, on a lattice in their logarithms."""

    delta_t: float = Field(gt=0, lt=1)
    resolution: int = Field(ge=1, le=400)
    d_min: int | None = Field(default=None, ge=1, le=10**12)  # by default k + 1
    p_min: int | None = Field(default=None, ge=1, le=10**6)  # by default k
    gamma_max: float = Field(default=1.0, gt=0, le=1e12)
    p_multiple_of: Multiple = "k"


class SweepSpec(_Model):
    """Points, what to compute at each of them, and when to look."""

    name: Annotated[str, BeforeValidator(_title)] = Field(default="", max_length=200)
    axes: Annotated[dict[str, Axis], BeforeValidator(_axes)] = {}
    fixed: Annotated[dict[str, Scalar], BeforeValidator(_fixed)] = {}
    init: dict[str, Any] = {"kind": "gaussian"}
    simulate: bool = True
    seeds: Annotated[Seeds, BeforeValidator(_seeds), WithJsonSchema(SEEDS_SCHEMA, mode="validation")] = Seeds(
        init=[0], repeat=[0]
    )
    time: Time
    observables: list[str] | None = None
    regime_options: dict[str, Any] = {}
    zip: list[list[str]] | None = None
    scaling: Scaling | None = None
    triangle: Triangle | None = None
    points: Annotated[list[dict[str, Scalar]] | None, BeforeValidator(_points)] = None

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> dict[str, Any]:
        """With the parameters of the registry by name, in axes and in fixed values."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        axes, fixed = (schema["properties"][name] for name in ("axes", "fixed"))
        axes["properties"] = {
            name: {**axes["additionalProperties"], "description": one.long_name}
            for name, one in PARAMETERS.items()
        }
        fixed["properties"] = {name: one.schema() for name, one in PARAMETERS.items()}
        return schema

    @classmethod
    def parse(cls, value: Any) -> SweepSpec:
        """Read a mapping; what is wrong with it becomes an `InvalidInput` that names the field."""
        if isinstance(value, SweepSpec):
            return value
        if not isinstance(value, Mapping):
            raise InvalidInput("spec", value, f"must be a mapping with {', '.join(cls.model_fields)}")
        try:
            plain = {name: canonical(item) if name == "init" else item for name, item in value.items()}
            json.dumps([plain.get("init"), plain.get("regime_options")], default=_refuse)
            return cls.model_validate(plain)
        except ValidationError as error:
            raise _explained(error) from None
        except (RecursionError, TypeError, ValueError):
            allowed = "must hold what JSON can hold: numbers, texts, lists, mappings"
            raise InvalidInput("init, regime_options", None, allowed) from None

    def extended(self, change: str | bytes) -> SweepSpec:
        """With more values of axes, more points and more seeds; the rest stays, or old runs would not fit."""
        if len(change) > LARGEST_SPEC:
            raise InvalidInput("change", f"{len(change)} bytes", f"must be at most {LARGEST_SPEC} bytes")
        more = _loaded(change)
        if not isinstance(more, Mapping):
            raise InvalidInput("change", more, "must be a mapping with axes, points or seeds")
        only_known(more, ("name", "axes", "points", "seeds"), "change")
        old = json.loads(self.model_dump_json())
        axes = dict(self.axes)
        for name, axis in _axes(more.get("axes", {})).items():
            both = [*_listed(name, axes.get(name, self.fixed.get(name, []))), *_listed(name, axis)]
            axes[name] = list(dict.fromkeys(both))
        fixed = {name: value for name, value in self.fixed.items() if name not in axes}
        asked = more.get("seeds", {})
        asked = asked if isinstance(asked, Mapping) else {"init": asked}
        only_known(asked, ("init", "repeat"), "seeds")
        union = {}
        for name, old_seeds in (("init", self.seeds.init), ("repeat", self.seeds.repeat)):
            more_seeds = _seed_list(asked[name], f"seeds.{name}") if name in asked else []
            union[name] = list(dict.fromkeys([*old_seeds, *more_seeds]))
        if "points" in more:
            if self.points is None:
                raise InvalidInput("points", "given", "needs a sweep that was given as points")
            rows = [*self.points, *_points(more["points"])]
            old["points"] = list({tuple(sorted(one.items())): one for one in rows}.values())
        return SweepSpec.parse(
            {**old, "name": more.get("name", self.name), "axes": axes, "fixed": fixed, "seeds": union}
        )

    def written(self) -> dict[str, Any]:
        """As a person would write it: without what is the default, and seeds from 0 on as their number."""
        found = self.model_dump(mode="json", exclude_defaults=True)
        if "seeds" in found:
            counted = {
                name: len(some) if some == list(range(len(some))) else some
                for name, some in found["seeds"].items()
            }
            found["seeds"] = counted["init"] if counted["repeat"] == 1 else counted
        return found

    @classmethod
    def read(cls, text: str | bytes) -> SweepSpec:
        """JSON or YAML."""
        if len(text) > LARGEST_SPEC:
            raise InvalidInput("spec", f"{len(text)} bytes", f"must be at most {LARGEST_SPEC} bytes")
        return cls.parse(_loaded(text))

    @classmethod
    def load(cls, path: str | Path) -> SweepSpec:
        """A JSON or YAML file."""
        try:
            with open(path, "rb") as file:
                text = file.read(LARGEST_SPEC + 1)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "is no path"
            raise InvalidInput("spec", str(path), f"cannot be read: {why}") from None
        return cls.read(text)


_PARTS: dict[str, type[BaseModel]] = {"time": Time, "scaling": Scaling, "triangle": Triangle}


def _explained(error: ValidationError) -> InvalidInput:
    """The first problem, in our words."""
    problems = error.errors(include_url=False)
    problem = next((one for one in problems if one["type"] == "extra_forbidden"), problems[0])
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, InvalidInput):
        return cause
    place = [str(part) for part in problem["loc"]]
    if problem["type"] == "extra_forbidden":
        known = _PARTS[place[0]] if len(place) > 1 else SweepSpec
        return unknown_name(f"{'.'.join(place[:-1]) or 'spec'} (key)", place[-1], known.model_fields)
    if problem["type"] == "missing":
        return InvalidInput(".".join(place), None, "is required")
    message = problem["msg"].replace("Input should be", "must be").replace("Value should have", "must have")
    return InvalidInput(".".join(place), problem["input"], message[0].lower() + message[1:])


def _refuse(value: Any) -> Any:
    raise TypeError(type(value))


class _Yaml(yaml.SafeLoader):
    """YAML 1.1 without aliases, with which a few lines become billions of items; 1e-3 is a number."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(names) != len({repr(name) for name in names}):
            raise yaml.YAMLError("a key is written twice")
        return super().construct_mapping(node, deep)


# Numbers as in JSON: YAML's own rules read 1:30 in base sixty, 010 in base eight, and 1e-3 as text.
_Yaml.yaml_implicit_resolvers = {
    first: [(tag, rule) for tag, rule in rules if tag.rpartition(":")[2] not in ("int", "float", "timestamp")]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_NUMBERS = {
    "int": r"^[-+]?\d{1,40}$",
    "float": r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$|^[-+]?\.(inf|nan)$",
}
for _tag, _rule in _NUMBERS.items():
    _Yaml.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_rule), list("-+.0123456789"))


def _loaded(text: str | bytes) -> Any:
    """Both formats hold what JSON holds; a constant like NaN is refused by the readers."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        try:
            return json.loads(text, object_pairs_hook=_once)
        except json.JSONDecodeError:
            if len(text) > LARGEST_YAML:
                raise InvalidInput(
                    "spec", f"{len(text)} bytes", f"must be at most {LARGEST_YAML} in YAML"
                ) from None
            return yaml.load(text, Loader=_Yaml)
    except InvalidInput:
        raise
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}" if error.problem_mark else "somewhere"
        raise InvalidInput("spec", line, "is neither JSON nor YAML here") from None
    except Exception as error:  # a tag that does not fit its value fails in many ways
        ours = isinstance(error, yaml.YAMLError) and ("alias" in str(error) or "twice" in str(error))
        raise InvalidInput("spec", None, str(error) if ours else "is neither JSON nor YAML") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidInput("spec", None, "has a key twice")
    return found
