"""Structured parameters: the parts of a point that are mappings instead of single values.

Beside the registry of parameters, a point has `init`, `teacher`, `second_layer` and `schedule`. Each number
inside them may be an axis of a sweep, named after its structure, such as `schedule.alpha`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sweep_service.model.initial import INITS
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
            "schedule", "the factor of the learning rate over time", "constant", _schedule_numbers,
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


def has_number(structures: Mapping[str, Any], name: str) -> bool:
    """Whether the number of this name, such as `schedule.alpha`, is written in its structure."""
    if (split := split_name(name)) is None or split[0].name not in structures:
        return False
    structure, short = split
    paths = _list_paths(structures[structure.name])
    if structure.name == "schedule":
        paths = [path.partition(".")[2] for path in paths]  # its numbers are below its kind
    return short in paths


def _list_paths(value: Any) -> list[str]:
    """Paths of the entries of nested mappings, such as `second_layer.scale`."""
    if not isinstance(value, Mapping):
        return []
    below = {name: _list_paths(entry) for name, entry in value.items()}
    return [
        path for name, paths in below.items() for path in (str(name), *(f"{name}.{rest}" for rest in paths))
    ]


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
