"""The spec of a sweep as a user writes it, in JSON, YAML or Python.

Pydantic defines the structure and its JSON schema; `axes` and `validation` check single values. What several
fields must satisfy together is checked in `outline`, and each point when the spec is expanded into a grid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic.fields import FieldInfo

from sweep_service.display import format_spec_html
from sweep_service.errors import ErrorCollector, InvalidInput, unknown_name
from sweep_service.identity import canonicalise
from sweep_service.model.parameters import PARAMETERS, Scalar
from sweep_service.model.structures import STRUCTURES
from sweep_service.numerics.types import Array
from sweep_service.planning.axes import (
    MAX_VALUES,
    Axis,
    join_path,
    read_axes,
    read_axis,
    read_entries,
    read_fixed,
    read_points,
    read_single,
)
from sweep_service.planning.hints import FIELD_HINTS
from sweep_service.planning.spec_text import locating_errors, parse_text, read_file
from sweep_service.validation import (
    describe_numbers,
    read_integer,
    read_number,
    read_seeds,
    reject_nonfinite,
    reject_unknown_keys,
)

MIN_LAST_TIME = 1e-12
MAX_NAME_LENGTH = 200
MAX_LAST_TIME = 1e15
FINAL_RISK = "final_risk"  # the time average of the risk over the last half
MAX_CONTINUATIONS = 100  # of the recorded times


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def check_name(value: Any) -> Any:
    """Return the name of a sweep; raise InvalidInput for a text that cannot be shown on one line."""
    if isinstance(value, str) and not value.isprintable():
        raise InvalidInput("name", value, "must be printable")
    if isinstance(value, str) and re.search(r"[/\\]", value):
        raise InvalidInput("name", value, "must not contain / or \\")
    return value


def read_point_list(value: Any) -> Any:
    """Read the field `points`: a list of points, or None."""
    if value is None:
        return None
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_VALUES:
        raise InvalidInput("points", value, f"must be a list of 1 to {MAX_VALUES} mappings")
    return read_points(value)


def _read_section(value: Any, field: str, example: str) -> Any:
    if not isinstance(value, (Mapping, BaseModel)):
        raise InvalidInput(field, value, f"must be a mapping, such as {example}")
    return value


def _read_time(value: Any) -> Any:
    return _read_section(value, "time", "{max: 100}")


def _read_continuations(value: Any) -> Any:
    if not isinstance(value, list) or len(value) > MAX_CONTINUATIONS:
        allowed = f"must be a list of at most {MAX_CONTINUATIONS} entries such as {{max: 1000, samples: 40}}"
        raise InvalidInput("time.then", value, allowed)
    return [read_continuation(item, f"time.then[{row}]") for row, item in enumerate(value)]


def _read_scaling(value: Any) -> Any:
    return None if value is None else _read_section(value, "scaling", "{p0: 8, gamma0: 8}")


def _read_triangle(value: Any) -> Any:
    example = "{delta_t: 1e-3, resolution: 12}"
    return None if value is None else _read_section(value, "triangle", example)


def _read_target_error(value: Any) -> Any:
    example = "{value: risk, relative: 0.05, max_seeds: 200}"
    return None if value is None else _read_section(value, "target_error", example)


def _read_text_or_mapping(value: Any, field: str) -> Any:
    if not isinstance(value, (str, Mapping)):
        raise InvalidInput(field, value, _ALLOWED[field])
    return value


def _read_teacher(value: Any) -> Any:
    return _read_text_or_mapping(value, "teacher")


def _read_schedule(value: Any) -> Any:
    return _read_text_or_mapping(value, "schedule")


def read_seed_list(name: str, value: Any, field: str) -> list[int]:
    """Return a list of seeds; a number n stands for 0, ..., n - 1."""
    path = f"{field}.{name}"
    if isinstance(value, (list, tuple)):
        if len(value) > MAX_VALUES:
            raise InvalidInput(path, f"{len(value)} seeds", f"must be at most {MAX_VALUES}")
        return list(read_seeds(value, path))
    return list(range(read_integer(value, path, 1, MAX_VALUES)))


def _read_seeds(value: Any) -> Any:
    if isinstance(value, Seeds):
        return value
    if not isinstance(value, Mapping):
        value = {"init": value}
    reject_unknown_keys(value, ("init", "repeat"), "seeds")
    return Seeds(**read_entries({"init": 1, "repeat": 1, **value}, "seeds", read_seed_list))


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


class LaterTime(_Model):
    """`samples` log-spaced times from the last one before them, which is left out, to max."""

    max: float
    samples: int


def read_continuation(value: Any, path: str) -> LaterTime:
    """Read an entry of `time.then`."""
    if isinstance(value, LaterTime):
        return value
    if not isinstance(value, Mapping):
        raise InvalidInput(path, value, "must be a mapping, such as {max: 1000, samples: 40}")
    reject_unknown_keys(value, ("max", "samples"), path)
    for name in ("max", "samples"):
        if name not in value:
            raise InvalidInput(f"{path}.{name}", None, "is required")
    return LaterTime(
        max=read_number(value["max"], f"{path}.max", above=0.0, most=MAX_LAST_TIME),
        samples=read_integer(value["samples"], f"{path}.samples", 1, MAX_VALUES),
    )


class Time(_Model):
    """t = 0, `samples` log-spaced times from min to max, and `tail` evenly spaced times in the last half.

    `then` continues them: runs go on from the state in which they were at the last time before.
    """

    max: float = Field(gt=0, le=MAX_LAST_TIME)
    min: float | None = Field(default=None, gt=0)  # by default max/1e5
    samples: int = Field(default=120, ge=1, le=MAX_VALUES)
    tail: int = Field(default=0, ge=0, le=MAX_VALUES)
    then: Annotated[list[LaterTime], BeforeValidator(_read_continuations)] = []

    @property
    def last(self) -> float:
        """The last time."""
        return self.then[-1].max if self.then else self.max

    def times(self) -> Array:
        return np.concatenate(self.parts())

    def parts(self) -> list[Array]:
        """Return the times up to `max`, and those that each entry of `then` appends."""
        parts = [self._first_times()]
        for row, later in enumerate(self.then):
            before = float(parts[-1][-1])
            if later.max <= before:
                raise InvalidInput(
                    f"time.then[{row}].max", later.max, f"must be > {before:g}, the time before"
                )
            times = np.geomspace(before, later.max, later.samples + 1)[1:]
            times[-1] = later.max
            if np.any(np.diff(times, prepend=before) <= 0.0):
                allowed = f"must be fewer, as times from {before:g} to {later.max:g} would coincide"
                raise InvalidInput(f"time.then[{row}].samples", later.samples, allowed)
            parts.append(times)
        return parts

    def _first_times(self) -> Array:
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


class TargetError(_Model):
    """The standard error up to which seeds are added at each point: of ln(value), or of the value."""

    value: str = "risk"  # an observable at the last time, or final_risk
    relative: float | None = Field(default=None, ge=1e-4, le=10)
    absolute: float | None = Field(default=None, gt=0)
    max_seeds: int = Field(ge=1, le=MAX_VALUES)


class SweepSpec(_Model):
    """The points of a sweep, what is computed at each of them, and the recorded times."""

    name: Annotated[str, BeforeValidator(check_name)] = Field(default="", max_length=MAX_NAME_LENGTH)
    axes: Annotated[dict[str, Axis], BeforeValidator(read_axes)] = {}
    fixed: Annotated[dict[str, Scalar], BeforeValidator(read_fixed)] = {}
    init: dict[str, Any] = {"kind": "gaussian"}
    teacher: Annotated[
        Any, BeforeValidator(_read_teacher), WithJsonSchema({"type": ["string", "object"]})
    ] = Field(default={}, description=STRUCTURES["teacher"].about)
    second_layer: dict[str, Any] = Field(default={}, description=STRUCTURES["second_layer"].about)
    schedule: Annotated[
        Any, BeforeValidator(_read_schedule), WithJsonSchema({"type": ["string", "object"]})
    ] = Field(default="constant", description=STRUCTURES["schedule"].about)
    simulate: bool = True
    seeds: Annotated[Seeds, BeforeValidator(_read_seeds), WithJsonSchema(SEEDS_SCHEMA, mode="validation")] = (
        Seeds(init=[0], repeat=[0])
    )
    time: Annotated[Time, BeforeValidator(_read_time)]
    observables: list[str] | None = None
    regime_options: dict[str, Any] = {}
    fluctuations: bool = Field(
        default=False, description="predict the scatter of SGD's risk and the shift of its mean"
    )
    keep_state: bool | None = Field(
        default=None, description="store the last state of each SGD run, from which it can be continued"
    )
    target_error: Annotated[TargetError | None, BeforeValidator(_read_target_error)] = Field(
        default=None,
        description="add seeds at each point until the standard error of a value is small enough",
    )
    zip: list[list[str]] | None = None
    scaling: Annotated[Scaling | None, BeforeValidator(_read_scaling)] = None
    triangle: Annotated[Triangle | None, BeforeValidator(_read_triangle)] = None
    points: Annotated[list[dict[str, Scalar]] | None, BeforeValidator(read_point_list)] = None

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
            Names the field that is wrong, its value and what is allowed; `InvalidSpec` if there are several.
        """
        if isinstance(value, SweepSpec):
            return value
        if not isinstance(value, Mapping):
            raise InvalidInput(
                "spec", value, f"must be a mapping with keys from {', '.join(cls.model_fields)}"
            )
        try:
            plain = {name: canonicalise(item) if name in STRUCTURES else item for name, item in value.items()}
            free = {name: plain[name] for name in (*STRUCTURES, "regime_options") if name in plain}
            json.dumps(free, default=_reject)
            for name, item in free.items():
                reject_nonfinite(item, name)
            return cls.model_validate(plain)
        except InvalidInput:
            raise
        except ValidationError as error:
            errors = ErrorCollector()
            errors.add_all(_read_problems(error))
            errors.raise_errors()
            raise AssertionError from error  # there is at least one
        except (RecursionError, TypeError, ValueError):
            allowed = "must contain only numbers, strings, lists and mappings"
            raise InvalidInput(f"{', '.join(STRUCTURES)}, regime_options", None, allowed) from None

    @classmethod
    def parse_valid_fields(cls, value: Mapping[str, Any]) -> tuple[SweepSpec, set[str]]:
        """Parse the valid fields of an invalid spec; return also the paths of the fields left out."""
        fields: dict[str, Any] = {"time": {"max": 1.0}}
        left_out = {"time"} - value.keys()
        readers: dict[str, Callable[[Any, Any, str], Any]] = {"axes": read_axis, "fixed": read_single}
        for name in cls.model_fields.keys() & value.keys():
            if name in readers and isinstance(value[name], Mapping):
                fields[name] = {}
                for key, item in value[name].items():
                    try:
                        fields[name] |= {key: readers[name](key, item, name)}
                    except InvalidInput:
                        left_out.add(join_path(name, key))
            else:
                try:
                    cls.parse({"time": fields["time"], name: value[name]})
                    fields[name] = value[name]
                except InvalidInput:
                    left_out.add(name)
        return cls.parse(fields), left_out

    @property
    def structures(self) -> dict[str, Any]:
        """Structured parameters as they are written, without those at their defaults, but always init."""
        values = {name: getattr(self, name) for name in STRUCTURES}
        return {n: v for n, v in values.items() if n == "init" or v != STRUCTURES[n].default}

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

    def _repr_html_(self) -> str:
        """Show the spec in a notebook, as it would be written."""
        return format_spec_html(self.as_written())

    @classmethod
    def read(cls, text: str | bytes) -> SweepSpec:
        """Parse JSON or YAML."""
        with locating_errors(text):
            return cls.parse(parse_text(text))

    @classmethod
    def load(cls, path: str | Path) -> SweepSpec:
        """Read a JSON or YAML file."""
        return cls.read(read_file(path))


_SECTIONS: dict[str, type[BaseModel]] = {
    "time": Time, "scaling": Scaling, "triangle": Triangle, "target_error": TargetError,
}  # fmt: skip
_ZIP = "must be a list of groups of axes that vary together, such as [[d, gamma]]"
# What is allowed, by the path of a field without positions.
_ALLOWED = {
    "name": "must be a text of at most 200 characters",
    "init": "must be a mapping with a kind, such as {kind: gaussian}",
    "teacher": "must be a mapping, such as {rho: 0.2}",
    "second_layer": "must be a mapping, such as {init: rademacher}",
    "schedule": "must be constant or a mapping, such as {power: {t0: 10, alpha: 0.5}}",
    "simulate": "must be true or false",
    "observables": "must be a list of names",
    "observables[]": "must be a name",
    "regime_options": "must be a mapping",
    "fluctuations": "must be true or false",
    "keep_state": "must be true or false",
    "zip": _ZIP,
    "zip[]": _ZIP,
    "zip[][]": "must be the name of an axis",
}


def _read_problems(error: ValidationError) -> Iterator[InvalidInput]:
    """Yield one error for each field that Pydantic rejects; unknown keys come first."""
    problems = error.errors(include_url=False)
    problems.sort(key=lambda problem: problem["type"] != "extra_forbidden")
    seen = set[str]()
    for problem in problems:
        cause = problem.get("ctx", {}).get("error")
        if isinstance(cause, InvalidInput):
            yield cause
            continue
        location = problem["loc"][:2] if problem["loc"][0] in _SECTIONS else problem["loc"]
        path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in location)[1:]
        if path not in seen:  # each alternative of a union has its own problem
            seen.add(path)
            yield _read_problem(problem, location, path)


def _read_problem(problem: Any, location: Sequence[int | str], path: str) -> InvalidInput:
    if problem["type"] in ("extra_forbidden", "invalid_key"):
        if len(location) == 1:
            return unknown_name("spec (key)", path, SweepSpec.model_fields, FIELD_HINTS)
        section = str(location[0])
        return unknown_name(f"{section} (key)", str(location[1]), _SECTIONS[section].model_fields)
    if problem["type"] == "missing":
        return InvalidInput(path, None, "is required")
    if location[0] in _SECTIONS:
        allowed = _describe_field(_SECTIONS[str(location[0])].model_fields[str(location[1])])
    else:
        message = problem["msg"].replace("Input should be", "must be")
        allowed = _ALLOWED.get(re.sub(r"\d+", "", path), message[0].lower() + message[1:])
    return InvalidInput(path, problem["input"], allowed)


def _describe_field(field: FieldInfo) -> str:
    """Return what is allowed for a number of a section."""
    if field.annotation is str:
        return "must be a text"
    if field.annotation == Multiple:
        return "must be k or a whole number >= 1 and <= 1e+06"
    limits: dict[str, float | None] = {
        sign: getattr(limit, name)
        for limit in field.metadata
        for name, sign in (("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<="))
        if hasattr(limit, name)
    }
    is_number = float in (field.annotation, *get_args(field.annotation))
    return f"must be {describe_numbers('finite number' if is_number else 'whole number', limits)}"


def _reject(value: Any) -> Any:
    raise TypeError(type(value))
