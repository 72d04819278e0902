"""Structured parameters: the parts of a point that are mappings instead of single values.

Beside the registry of parameters, a point has `init`, `teacher`, `second_layer` and `schedule`. Each number
inside them may be an axis of a sweep, named after its structure, such as `schedule.alpha`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sweep_service.identity import canonicalise
from sweep_service.model.initial import INITS, describe_init
from sweep_service.model.schedule import NUMBERS as SCHEDULE_NUMBERS

SECOND_LAYER = "second_layer"
# As parameters of a point, beside those of the registry; `teacher` is divided into `init.teacher` and this.
TEACHER_SECOND_LAYER = "teacher_second_layer"
SCALE = "scale"
SCALED_SECOND_LAYER = f"{SECOND_LAYER}.{SCALE}"


@dataclass(frozen=True)
class Structure:
    """One structured parameter.

    `numbers` lists the numbers of a value as it is written, or of all possible values if it is None;
    `insert` returns the value with one number set.
    """

    name: str
    about: str
    default: Any
    numbers: Callable[[Any], list[str]]
    insert: Callable[[Any, str, float], Any]
    symbols: Mapping[str, str]


def _init_numbers(value: Any) -> list[str]:
    if value is None:
        return list(dict.fromkeys(name for kind in INITS.values() for name in kind.parameters))
    name = value.get("kind") if isinstance(value, Mapping) else None
    return list(INITS[name].parameters) if isinstance(name, str) and name in INITS else []


def _teacher_numbers(value: Any) -> list[str]:
    return ["rho", SCALE, SCALED_SECOND_LAYER]


def _second_layer_numbers(value: Any) -> list[str]:
    return [SCALE]


def _schedule_numbers(value: Any) -> list[str]:
    if value is None:
        return [name for numbers in SCHEDULE_NUMBERS.values() for name in numbers]
    kind = next(iter(value), None) if isinstance(value, Mapping) else None
    return list(SCHEDULE_NUMBERS.get(kind, ())) if isinstance(kind, str) else []


def _insert_entry(value: Any, name: str, number: float) -> Any:
    return {**value, name: number}


def _insert_in_teacher(value: Any, name: str, number: float) -> Any:
    mapping = value if isinstance(value, Mapping) else {}
    if name == SCALED_SECOND_LAYER:
        return {**mapping, SECOND_LAYER: {**mapping.get(SECOND_LAYER, {}), SCALE: number}}
    return {**mapping, name: number}


def _insert_in_schedule(value: Any, name: str, number: float) -> Any:
    ((kind, numbers),) = value.items()
    return {kind: {**numbers, name: number}}


STRUCTURES: dict[str, Structure] = {
    structure.name: structure
    for structure in (
        Structure(
            "init", "the initial condition", {"kind": "gaussian"}, _init_numbers, _insert_entry,
            {"epsilon": "ε"},
        ),
        Structure(
            "teacher", "the teacher", {}, _teacher_numbers,
            _insert_in_teacher, {"rho": "ρ*", SCALED_SECOND_LAYER: "a*"},
        ),
        Structure(
            SECOND_LAYER, "the second layer of the student", {}, _second_layer_numbers, _insert_entry,
            {SCALE: "a"},
        ),
        Structure(
            "schedule", "the schedule", "constant", _schedule_numbers,
            _insert_in_schedule, {"alpha": "α", "tau": "τ", "t0": "t₀"},
        ),
    )
}  # fmt: skip


def split_name(name: str) -> tuple[Structure, str] | None:
    """The structure and the number that a name such as `schedule.alpha` stands for; None for other names."""
    prefix, dot, number = name.partition(".")
    return (STRUCTURES[prefix], number) if dot and prefix in STRUCTURES else None


def number_names(values: Mapping[str, Any] | None = None) -> list[str]:
    """Names of the numbers of these structures as they are written, or of all possible ones."""
    return [
        f"{structure.name}.{number}"
        for structure in STRUCTURES.values()
        for number in structure.numbers(
            None if values is None else values.get(structure.name, structure.default)
        )
    ]


def find_number(structures: Mapping[str, Any], name: str) -> Any:
    """The number of this name, such as `schedule.alpha`, as it is written; None if it is not."""
    value: Any = structures
    for key in _find_path(structures, name):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def default_number(structures: Mapping[str, Any], name: str) -> float | None:
    """The value of a number that is not written, if it has a default."""
    prefix, _, short = name.partition(".")
    if prefix == "init":
        kind = INITS.get(str(structures.get("init", {}).get("kind")))
        return kind.parameters[short][0] if kind is not None and short in kind.parameters else None
    return 1.0 if name in (SCALED_SECOND_LAYER, f"teacher.{SCALED_SECOND_LAYER}") else None


def remove_number(structures: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Structures without the number of this name."""

    def remove(value: Any, path: list[str]) -> Any:
        if not path or not isinstance(value, Mapping) or path[0] not in value:
            return value
        rest = {key: entry for key, entry in value.items() if key != path[0]}
        return rest if len(path) == 1 else {**rest, path[0]: remove(value[path[0]], path[1:])}

    return dict(remove(structures, _find_path(structures, name)))


def _find_path(structures: Mapping[str, Any], name: str) -> list[str]:
    """Keys that lead to a number; those of a schedule are below its kind."""
    prefix, *rest = name.split(".")
    value = structures.get(prefix)
    kind = [str(key) for key in value] if prefix == "schedule" and isinstance(value, Mapping) else []
    return [prefix, *kind[:1], *rest]


def split_teacher(value: Any) -> tuple[Any, dict[str, Any]]:
    """The Gram matrix of a teacher as `init.teacher` is written, None if it is not given, and the rest."""
    if not isinstance(value, Mapping):
        return value, {}
    gram = {name: entry for name, entry in value.items() if name != SECOND_LAYER}
    rest = {name: entry for name, entry in value.items() if name == SECOND_LAYER}
    return gram or None, rest


def describe_structures(structures: Mapping[str, Any]) -> dict[str, float | str]:
    """Structures as single values by name, such as `init.kind` and `schedule.alpha`.

    Lists and matrices become JSON. Second layers of ones and a constant schedule are left out.
    """
    gram, rest = split_teacher(structures.get("teacher", {}))
    init = structures.get("init", STRUCTURES["init"].default)
    values = describe_init(init if gram is None else {**init, "teacher": gram})
    result = {f"init.{name}": value for name, value in values.items()}
    for name, layer in (
        (SECOND_LAYER, structures.get(SECOND_LAYER)),
        (f"teacher.{SECOND_LAYER}", rest.get(SECOND_LAYER)),
    ):
        if layer:
            kind = layer.get("init", "ones")
            result[f"{name}.init"] = kind if isinstance(kind, str) else json.dumps(canonicalise(kind))
            if isinstance(kind, str):
                result[f"{name}.{SCALE}"] = float(layer.get(SCALE, 1.0))
    schedule = structures.get("schedule", "constant")
    if isinstance(schedule, Mapping):
        ((kind, numbers),) = schedule.items()
        result["schedule.kind"] = str(kind)
        if isinstance(numbers, Mapping):
            result |= {f"schedule.{name}": float(number) for name, number in numbers.items()}
        else:
            result["schedule.steps"] = json.dumps(canonicalise(numbers))
    return result


def insert_numbers(structures: Mapping[str, Any], numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Structures with these numbers, given by names such as `schedule.alpha`, set."""
    values = dict(structures)
    for name, number in numbers.items():
        split = split_name(name)
        assert split is not None
        structure, short = split
        values[structure.name] = structure.insert(
            values.get(structure.name, structure.default), short, number
        )
    return values
