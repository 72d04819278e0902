"""Notes of a sweep: what people change about it after it was submitted.

They are kept in `<id>.notes.json` beside the dataset, which is not rewritten, and in the row of the ledger,
which can be rebuilt from them. A sweep has this object only once its notes have been changed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from sweep_service.errors import ErrorCollector, InvalidInput, reading
from sweep_service.planning.spec import MAX_NAME_LENGTH, check_name
from sweep_service.store.objects import Objects
from sweep_service.store.sealed import pack_json, unpack_json
from sweep_service.validation import reject_unknown_keys

NOTES_SUFFIX = ".notes.json"
MAX_NOTE_LENGTH = 4000
MAX_TAG_LENGTH = 40
MAX_TAGS = 20
TAG_PATTERN = re.compile(r"\w[\w .:+-]*")  # no comma, which separates tags in texts


@dataclass(frozen=True)
class Notes:
    """The current name of a sweep, a text of any number of lines about it or None, and its tags, sorted."""

    name: str
    note: str | None = None
    tags: tuple[str, ...] = ()

    def change(self, change: Mapping[str, Any]) -> Notes:
        """Return the notes with the fields of `change`, which `read_change` has checked."""
        return replace(self, **change)

    def save(self, objects: Objects, sweep_id: str) -> None:
        objects.put(f"{sweep_id}{NOTES_SUFFIX}", pack_json(asdict(self)))

    @classmethod
    def load(cls, objects: Objects, sweep_id: str) -> Notes:
        """Read the notes; raise NotFound if they were never changed, Damaged if they are not as written."""
        name = f"{sweep_id}{NOTES_SUFFIX}"
        content = objects.get(name)
        with reading(name):
            record = unpack_json(content)
            values = {field.name: record[field.name] for field in fields(cls) if field.name != "tags"}
            # Objects of earlier versions have no tags.
            return cls(**values, tags=tuple(str(tag) for tag in record.get("tags", ())))


def read_change(change: Any) -> dict[str, Any]:
    """Read a change of notes: `name`, `note`, `tags` or some of them.

    A note that is null or blank is removed. `tags` replaces all tags.
    """
    readers: dict[str, Callable[[Any], Any]] = {"name": _read_name, "note": _read_note, "tags": read_tags}
    if not isinstance(change, Mapping):
        raise InvalidInput("change", change, f"must be a mapping with keys from {', '.join(readers)}")
    errors, result = ErrorCollector(), {}
    with errors.catch():
        reject_unknown_keys(change, readers, "change")
    for field in readers.keys() & change.keys():
        with errors.catch():
            result[field] = readers[field](change[field])
    errors.raise_errors()
    return result


def read_tags(tags: Any, field: str = "tags") -> tuple[str, ...]:
    """Read a list of tags: normalised, in lower case, without duplicates, and sorted."""
    if not isinstance(tags, (list, tuple)):
        raise InvalidInput(field, tags, f"must be a list of at most {MAX_TAGS} tags")
    errors, result = ErrorCollector(), set()
    for index, tag in enumerate(tags):
        with errors.catch():
            result.add(read_tag(tag, f"{field}[{index}]"))
    errors.raise_errors()
    if len(result) > MAX_TAGS:
        raise InvalidInput(field, len(result), f"must be a list of at most {MAX_TAGS} tags")
    return tuple(sorted(result))


def read_tag(tag: Any, field: str = "tag") -> str:
    """Read a tag. Tags are compared in lower case, so that `COLT` and `colt` are the same one."""
    text = unicodedata.normalize("NFC", tag).strip().lower() if isinstance(tag, str) else ""
    if len(text) > MAX_TAG_LENGTH or not TAG_PATTERN.fullmatch(text):
        allowed = f"must be 1 to {MAX_TAG_LENGTH} letters, digits, spaces or any of _ . : + -"
        raise InvalidInput(field, tag, f"{allowed}, and begin with a letter, a digit or _")
    return text


def add_and_remove_tags(tags: Iterable[str], added: Iterable[str], removed: Iterable[str]) -> list[str]:
    """Return tags after some are added and some removed, for a change of notes."""
    return sorted({*tags, *read_tags(list(added))} - {*read_tags(list(removed), "removed")})


def _read_name(value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_NAME_LENGTH:
        raise InvalidInput("name", value, f"must be a text of at most {MAX_NAME_LENGTH} characters")
    return check_name(value)


def _read_note(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > MAX_NOTE_LENGTH:
        raise InvalidInput("note", value, f"must be null or a text of at most {MAX_NOTE_LENGTH} characters")
    text = value.replace("\r\n", "\n").strip()
    if not all(line.isprintable() for line in text.split("\n")):
        raise InvalidInput("note", value, "must have only printable characters and line breaks")
    return text or None
