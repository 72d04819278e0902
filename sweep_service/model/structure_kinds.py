"""Kinds of structured parameters: how a value of each kind is written, and the fields that it has.

The catalogue publishes them, and the form of the web page is built from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sweep_service.model import schedule, second_layer
from sweep_service.model.initial import INITS, InitKind
from sweep_service.model.structures import SCALE, SECOND_LAYER

# `numbers` is a list of numbers, `rows` a list of such lists.
FieldType = Literal["number", "integer", "switch", "numbers", "rows"]


@dataclass(frozen=True)
class KindField:
    """A part of a value that can be set.

    `path` leads to it inside the value. `default` is what it means to leave it out; a field that has none is
    required, unless `if_empty` says what it means. `start` is a first value when its kind is chosen.
    """

    name: str
    type: FieldType
    path: tuple[str, ...]
    title: str
    about: str = ""
    default: float | bool | None = None
    if_empty: str = ""
    start: Any = None

    @property
    def is_required(self) -> bool:
        return self.default is None and not self.if_empty


@dataclass(frozen=True)
class StructureKind:
    """A kind of value: `template` is what all its values contain beside the fields."""

    name: str
    about: str
    template: Any
    fields: tuple[KindField, ...] = ()


@dataclass(frozen=True)
class KindedStructure:
    """A structured parameter, or a part of it; the first kind is the default.

    A value that is left out, or that leaves out the template, is of the default kind.
    """

    name: str
    title: str
    kinds: tuple[StructureKind, ...]


_SHARED = KindField(
    "shared", "switch", ("shared",), "the same start for all d", "draws Ω(0) once for each p, k and seed",
    default=False,
)  # fmt: skip
_SHARED_AT = KindField(
    "shared", "integer", ("shared", "d0"), "shared, drawn at d0", "draws Ω(0) in d0 dimensions for all d",
    if_empty="not shared",
)  # fmt: skip


def _init_kind(kind: InitKind) -> StructureKind:
    numbers = tuple(
        KindField(name, "number", (name,), name, default=default)
        for name, (default, _) in kind.parameters.items()
    )
    shared = _SHARED if kind.fixed_overlaps else _SHARED_AT
    return StructureKind(kind.name, kind.formula, {"kind": kind.name}, (*numbers, shared))


_TEACHER_KINDS = (
    StructureKind(
        "as usual for the start",
        "random for gaussian and spherical starts, otherwise orthonormal",
        {},
    ),
    StructureKind("orthonormal", "P = I", {"gram": "orthonormal"}),
    StructureKind("random", "rows of W* drawn like those of W", {"gram": "random"}),
    StructureKind(
        "random with a scale",
        "rows of W* iid N(0, scale² I_d)",
        {},
        (KindField(SCALE, "number", (SCALE,), SCALE, start=1.0),),
    ),
    StructureKind(
        "equicorrelated",
        "P_rs = norm_r norm_s (rho + (1 - rho) δ_rs)",
        {},
        (
            KindField("rho", "number", ("rho",), "rho", "cosine of each pair of teachers", start=0.2),
            KindField("norms", "numbers", ("norms",), "norms", "length of each teacher", if_empty="all 1"),
        ),
    ),
    StructureKind(
        "Gram matrix",
        "P = W* W*ᵀ/d",
        {},
        (KindField("gram", "rows", ("gram",), "P, a row on each line", start=[[1.0, 0.2], [0.2, 1.0]]),),
    ),
)


def _second_layer_kinds(letter: str, size: str) -> tuple[StructureKind, ...]:
    scale = KindField(SCALE, "number", (SCALE,), SCALE, default=1.0)
    named = tuple(
        StructureKind(name, f"{letter} = {formula}", {"init": name}, (scale,))
        for name, formula in second_layer.FORMULAS.items()
    )
    values = KindField("values", "numbers", ("init",), f"{letter}, {size} numbers", start=[])
    return (*named, StructureKind("given numbers", f"{letter} of each neuron", {}, (values,)))


def _schedule_kind(name: str, formula: str) -> StructureKind:
    about, example = f"u(t) = {formula}", schedule.EXAMPLES.get(name)
    if example is None:
        return StructureKind(name, about, name)
    if not isinstance(example, Mapping):
        rows = KindField(name, "rows", (name,), "t and u, on each line", start=example)
        return StructureKind(name, about, {}, (rows,))
    numbers = tuple(
        KindField(number, "number", (name, number), number, start=start) for number, start in example.items()
    )
    return StructureKind(name, about, {name: {}}, numbers)


def list_kinded_structures() -> tuple[KindedStructure, ...]:
    """Return the structured parameters that have kinds, with the kinds that are registered now."""
    return (KindedStructure("init", "Initial condition", tuple(map(_init_kind, INITS.values()))), *_OTHERS)


_OTHERS = (
    KindedStructure("teacher", "Teacher", _TEACHER_KINDS),
    KindedStructure(f"teacher.{SECOND_LAYER}", "Second layer of the teacher", _second_layer_kinds("a*", "k")),
    KindedStructure(SECOND_LAYER, "Second layer of the student", _second_layer_kinds("a", "p")),
    KindedStructure(
        "schedule",
        "Learning rate schedule",
        tuple(_schedule_kind(name, formula) for name, formula in schedule.FORMULAS.items()),
    ),
)
