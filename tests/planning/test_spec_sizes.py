"""Specs that are too large, too deep or too slow to parse."""

import json
import time
import tracemalloc
from contextlib import contextmanager, suppress
from itertools import pairwise

import pytest

from sweep_service.errors import InvalidInput
from sweep_service.planning.grids import Grid
from sweep_service.planning.spec import SweepSpec
from sweep_service.planning.spec_text import MAX_SPEC_BYTES
from tests.planning.base_spec import BASE, make_grid
from tests.planning.test_bad_specs import SCALING


@contextmanager
def little_memory(megabytes=60):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes << 20
    finally:
        tracemalloc.stop()


THOUSAND = {"d": list(range(5, 1005)), "p": list(range(1, 1001)), "gamma": {"log": [0.1, 1, 1000]}}


SPACED = {"lin": [0.0, 0.5, 1000]}


@pytest.mark.parametrize(
    "change",
    [
        {"axes": THOUSAND},
        {"axes": THOUSAND, "zip": [["d", "p"]], "fixed": {}, "name": "k"},
        {"axes": THOUSAND, "zip": [["d"]]},
        {**SCALING, "axes": {"d": THOUSAND["d"], "kappa": SPACED, "delta": SPACED}},
    ],
    ids=["product", "zip of two", "zip", "scaling"],
)
def test_too_many_points_are_rejected_before_expansion(change):
    if change.get("name") == "k":  # a million pairs, times a thousand values of k
        change = {**change, "axes": {**THOUSAND, "k": {"lin": [1, 1000, 1000]}}}
    with little_memory(), pytest.raises(InvalidInput) as info:
        make_grid(**change)
    assert "at most" in info.value.allowed


def test_too_many_triangle_points_are_rejected_before_expansion():
    with little_memory(4), pytest.raises(InvalidInput) as info:
        make_grid(triangle={"delta_t": 1e-6, "resolution": 400}, axes={"noise": {"lin": [0, 1, 100]}})
    assert "at most" in info.value.allowed


@pytest.mark.parametrize("body", [b"x" * 10**8, "x" * 10**8, b"\xff" * 10**8], ids=["bytes", "text", "bad"])
def test_hundred_megabytes_are_rejected_without_parsing(body):
    begin = time.monotonic()
    with pytest.raises(InvalidInput, match=f"at most {MAX_SPEC_BYTES} bytes"):
        SweepSpec.read(body)
    assert time.monotonic() - begin < 0.5  # parsing them would take minutes


def test_large_file_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "spec.json"
    with open(path, "wb") as file:
        file.truncate(10**8)
    with little_memory(10), pytest.raises(InvalidInput, match="at most"):
        SweepSpec.load(path)


YAML = "axes: {d: [5], p: 4, gamma: 0.1}\nfixed: {k: 2}\ntime: {max: 1.0}\n"


@pytest.mark.parametrize(
    "text",
    [f"{YAML}name: 1{':1' * 500_000}\n", f"{YAML}observables: {{{'a,' * 500_000}}}\n"],
    ids=["digits in base sixty", "half a million keys"],
)
@pytest.mark.timeout(6)
def test_megabyte_of_yaml_is_rejected_in_seconds(text):
    with suppress(InvalidInput):
        SweepSpec.read(text[: MAX_SPEC_BYTES - 1])


@pytest.mark.parametrize("depth", [500, 900, 10**5])
@pytest.mark.parametrize(("opens", "closes"), ["[]", ('{"a":', "}"), ("{a: ", "}"), ("- ", "")])
def test_deep_nesting_is_invalid_input(opens, closes, depth):
    with pytest.raises(InvalidInput):
        SweepSpec.read(opens * depth + "1" + closes * depth)


def nested(depth):
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("field", [*SweepSpec.model_fields, "axes.d", "axes.d.lin", "init.kind", "fixed.k"])
def test_deep_values_are_invalid_input_in_every_field(field):
    value = nested(3000)
    for name in reversed(field.split(".")):
        value = {name: value}
    with pytest.raises(InvalidInput):
        make_grid(**value)


def test_yaml_bomb_is_rejected():
    bomb = "a: &a [x, x]\n" + "".join(f"{n}: &{n} [*{m}, *{m}]\n" for m, n in pairwise("abcdefghi"))
    with pytest.raises(InvalidInput, match="must not contain aliases"):
        SweepSpec.read(bomb)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        bytes(range(256)) * 10,
        json.dumps(BASE).encode("utf-16"),
        "null",
        "[]",
        "3",
        "a: b: c",
        "{",
        "--- {}\n--- {}",
        "\t- x",
        "NaN",
    ],
)
def test_non_mappings_are_rejected(body):
    with pytest.raises(InvalidInput) as info:
        SweepSpec.read(body)
    assert info.value.field == "spec"


@pytest.mark.parametrize(
    "tagged",
    [
        '!!int ""',
        '!!int "-"',
        '!!float ""',
        "!!bool maybe",
        "!!timestamp soon",
        "!!binary '@'",
        "!!set {a}",
        "!!python/name:os.system x",
        "!!python/object/apply:os.getcwd []",
        "!unknown x",
        "2020-13-45",
        "2020-01-01",
        ".nan",
        ".inf",
        "-.inf",
        "1e999",
        "0x" + "f" * 5000,
        "yes",
        "~",
    ],
)
@pytest.mark.parametrize("entry", ["gamma: 0.1", "max: 1.0", "fixed: {k: 2}"])
def test_non_numeric_yaml_values_are_rejected(entry, tagged):
    text = YAML.replace(entry, f"{entry.split(':')[0]}: {tagged}")
    with pytest.raises(InvalidInput):
        Grid.of(SweepSpec.read(text))


def test_yaml_integer_with_thousands_of_digits_is_rejected():
    with pytest.raises(InvalidInput):
        Grid.of(SweepSpec.read(f"{YAML}init: {{kind: 0x{'f' * 5000}}}\n"))


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["gamma", "noise", "max"])
def test_non_finite_json_constants_are_rejected(constant, field):
    spec = {**BASE, "axes": {"d": 6, "p": 4, "gamma": 1.25}, "fixed": {"k": 2, "noise": 2.25}}
    text = json.dumps({**spec, "time": {"max": 3.25}})
    spoilt = text.replace({"gamma": "1.25", "noise": "2.25", "max": "3.25"}[field], constant)
    with pytest.raises(InvalidInput) as info:
        Grid.of(SweepSpec.read(spoilt))
    assert info.value.field.endswith(field)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "1e999"])
@pytest.mark.parametrize(
    ("key", "path"),
    [
        ('"init": {"kind": %s}', "init.kind"),
        ('"schedule": {"steps": [[1.0, %s]]}', "schedule.steps[0][1]"),
        ('"regime_options": {"qmc_points": %s}', "regime_options.qmc_points"),
    ],
)
def test_non_finite_constants_in_mappings_are_rejected_when_read(constant, key, path):
    """JSON cannot write them back."""
    with pytest.raises(InvalidInput, match="must be a finite number") as info:
        SweepSpec.read('{"axes": {"d": 6, "p": 4, "gamma": 1}, "time": {"max": 1}, %s}' % (key % constant))
    assert info.value.field == path


@pytest.mark.parametrize("text", [f"{YAML}time: {{max: 2.0}}\n", '{"axes": {}, "axes": {"d": 6}}'])
def test_duplicate_keys_are_rejected(text):
    with pytest.raises(InvalidInput):
        SweepSpec.read(text)
