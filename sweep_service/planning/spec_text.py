"""The text of a spec: JSON or YAML with limits, and the lines and columns of its fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from sweep_service.errors import InvalidInput, Position

SPEC_SUFFIXES = (".yaml", ".yml", ".json")
MAX_SPEC_BYTES = 1 << 20  # a larger sweep needs an axis or a design, not a list
MAX_YAML_BYTES = 1 << 16  # smaller, because the YAML parser is slow


class _YamlLoader(yaml.SafeLoader):
    """YAML 1.1 without aliases, which could expand a few lines to billions of items."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise _located("must not contain aliases", self.peek_event().start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = set[str]()
        for key, _ in node.value:
            name = repr(self.construct_object(key, deep=True))
            if name in names:
                raise _located("has a duplicate key", key.start_mark)
            names.add(name)
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


def read_file(path: str | Path) -> bytes:
    """Read a file, up to just above the size limit of a spec."""
    try:
        with open(path, "rb") as file:
            return file.read(MAX_SPEC_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a valid path"
        raise InvalidInput("spec", str(path), f"cannot be read: {reason}") from None


def looks_like_path(name: str) -> bool:
    """Whether a name that is no file was probably meant as one, and not as the name of a preset."""
    return "/" in name or Path(name).suffix in SPEC_SUFFIXES


def parse_text(text: str | bytes, field: str = "spec") -> Any:
    """Parse JSON, or else YAML. Constants such as NaN are rejected later, where values are read."""
    if len(text) > MAX_SPEC_BYTES:
        raise InvalidInput(field, f"{len(text)} bytes", f"must be at most {MAX_SPEC_BYTES} bytes")
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
        raise _located("is neither JSON nor YAML", error.problem_mark) from None
    except Exception:  # a tag that does not fit its value may raise any exception
        raise InvalidInput("spec", None, "is neither JSON nor YAML") from None


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise InvalidInput("spec", None, "has a duplicate key")
    return mapping


def _located(allowed: str, mark: Any) -> InvalidInput:
    error = InvalidInput("spec", None, allowed)
    error.position = _position(mark) if mark is not None else None
    return error


def _position(mark: Any) -> Position:
    return Position(mark.line + 1, mark.column + 1)


@contextmanager
def locating_errors(text: Any) -> Iterator[None]:
    """Add lines and columns to the errors that the body of a `with` statement raises about a YAML text."""
    try:
        yield
    except InvalidInput as error:
        is_text = isinstance(text, (str, bytes)) and len(text) <= MAX_YAML_BYTES
        if is_text and all(item.position is None for item in error.errors):
            positions = _find_positions(text)
            for item in error.errors:
                item.position = _locate(item, positions)
        raise


Positions = dict[str, tuple[Position, Position]]  # of key and value, by path


def _find_positions(text: str | bytes) -> Positions:
    """Return the positions of the fields of a YAML text; none for JSON, which programs write."""
    positions: Positions = {}
    with suppress(Exception):  # a text that cannot be parsed has another error already
        text = text.decode("utf-8") if isinstance(text, bytes) else text
        try:
            json.loads(text)
        except json.JSONDecodeError:
            _add_positions(yaml.compose(text, Loader=_YamlLoader), "", positions)
    return positions


def _add_positions(node: Any, path: str, positions: Positions) -> None:
    if isinstance(node, yaml.MappingNode):
        entries = [(f"{path}.{key.value}" if path else str(key.value), key, item) for key, item in node.value]
    elif isinstance(node, yaml.SequenceNode):
        entries = [(f"{path}[{row}]", item, item) for row, item in enumerate(node.value)]
    else:
        return
    for name, key, item in entries:
        positions[name] = (_position(key.start_mark), _position(item.start_mark))
        _add_positions(item, name, positions)


def _locate(error: InvalidInput, positions: Positions) -> Position | None:
    """Find the field of an error in a text, or else the closest field that contains it."""
    if error.field.endswith(" (key)"):
        parent = error.field.removesuffix(" (key)")
        path = str(error.value) if parent == "spec" else f"{parent}.{error.value}"
        if path in positions:
            return positions[path][0]
        error_path = parent
    else:
        error_path = error.field
    # The error of a point names a parameter, wherever its value is given.
    for path in (error_path, f"axes.{error_path}", f"fixed.{error_path}"):
        if path in positions:
            return positions[path][1]
    while error_path:
        error_path = error_path[: max(error_path.rfind("."), error_path.rfind("["), 0)]
        if error_path in positions:
            return positions[error_path][0]
    return None
