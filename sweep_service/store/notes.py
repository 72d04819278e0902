"""Notes of a sweep: what people change about it after it was submitted.

They are kept in `<id>.notes.json` beside the dataset, which is not rewritten, and in the row of the ledger,
which can be rebuilt from them. A sweep has this object only once its notes have been changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from sweep_service.errors import ErrorCollector, InvalidInput, reading
from sweep_service.planning.spec import MAX_NAME_LENGTH, check_name
from sweep_service.store.objects import Objects
from sweep_service.store.sealed import pack_json, unpack_json
from sweep_service.validation import reject_unknown_keys

NOTES_SUFFIX = ".notes.json"
MAX_NOTE_LENGTH = 4000


@dataclass(frozen=True)
class Notes:
    """The current name of a sweep, and a text of any number of lines about it, or None."""

    name: str
    note: str | None = None

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
            return cls(**{field.name: record[field.name] for field in fields(cls)})


def read_change(change: Any) -> dict[str, Any]:
    """Read a change of notes: `name`, `note` or both; a note that is null or blank is removed."""
    readers = {"name": _read_name, "note": _read_note}
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
