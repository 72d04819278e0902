"""The kinds of structured parameters: what a form writes is accepted, and each number may be an axis."""

from contextlib import suppress

import pytest

from sweep_service.errors import InvalidInput
from sweep_service.model import schedule, second_layer
from sweep_service.model.initial import INITS
from sweep_service.model.point import Point
from sweep_service.model.structure_kinds import list_kinded_structures
from sweep_service.model.structures import number_names

POINT = {"d": 20, "p": 2, "k": 2, "gamma": 0.5}
STRUCTURES = {structure.name: structure for structure in list_kinded_structures()}
KINDS = [(structure, kind) for structure in list_kinded_structures() for kind in structure.kinds]
VALUES = {"number": 0.5, "integer": 20, "switch": True, "numbers": [1.0, 2.0], "rows": [[1.0, 0.2]]}


def insert(value, path, entry):
    if not path:
        return entry
    mapping = value if isinstance(value, dict) else {}
    return {**mapping, path[0]: insert(mapping.get(path[0]), path[1:], entry)}


def write(kind, fields):
    value = kind.template
    for field in fields:
        value = insert(value, field.path, VALUES[field.type] if field.start in (None, []) else field.start)
    return value


def parse(structure, value):
    return Point.parse(insert(POINT, structure.name.split("."), value))


@pytest.mark.parametrize(("structure", "kind"), KINDS, ids=lambda entry: entry.name)
def test_values_of_kinds_are_accepted_and_required_fields_are_required(structure, kind):
    required = [field for field in kind.fields if field.is_required]
    parse(structure, write(kind, kind.fields))
    with_required = parse(structure, write(kind, required))
    if kind is structure.kinds[0]:
        assert with_required == Point.parse(POINT)
    for field in required:  # without it, the value is refused or is of another kind
        point = None
        with suppress(InvalidInput):
            point = parse(structure, write(kind, [other for other in required if other is not field]))
        assert point != with_required


def test_kinds_are_those_of_the_registries():
    def names(structure):
        return [kind.name for kind in STRUCTURES[structure].kinds]

    assert names("init") == list(INITS)
    assert names("schedule") == list(schedule.FORMULAS)
    assert names("second_layer")[:-1] == names("teacher.second_layer")[:-1] == list(second_layer.KINDS)


def test_number_fields_are_the_numbers_that_may_be_axes():
    fields = {
        f"{structure.name}.{field.name}"
        for structure, kind in KINDS
        for field in kind.fields
        if field.type == "number"
    }
    assert fields == set(number_names())


@pytest.mark.parametrize("name", ["orthonormal", "random"])
def test_gram_matrix_may_be_a_name(name):
    written = Point.parse({**POINT, "teacher": {"gram": name, "second_layer": {"init": "gaussian"}}})
    alias = Point.parse(
        {**POINT, "init": {"kind": "gaussian", "teacher": name},
         "teacher": {"second_layer": {"init": "gaussian"}}}
    )  # fmt: skip
    assert written == alias
