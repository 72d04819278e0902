"""Text objects with a digest, so that a changed bit is an error and not another text.

A spec has it in a last line, which is a comment in YAML: a stored spec can still be submitted as it is. Other
objects, which are read as JSON by people too, have it in a last field.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

_MARK = b"\n# sha256 "
_FIELD = "sha256"


def seal(content: bytes) -> bytes:
    """Append a line with the digest of the content."""
    return content + _MARK + hashlib.sha256(content).hexdigest().encode() + b"\n"


def unseal(sealed: bytes) -> bytes:
    """Return the content; raise ValueError if it does not fit its digest. Older objects have none."""
    content, mark, _ = sealed.rpartition(_MARK)
    if not mark:
        return sealed
    if seal(content) != sealed:
        raise ValueError("its checksum is wrong")
    return content


def pack_json(record: Mapping[str, Any]) -> bytes:
    """Write a record as JSON with its digest."""
    return json.dumps({**record, _FIELD: _digest(record)}).encode()


def unpack_json(content: bytes, required: bool = True) -> dict[str, Any]:
    """Read a record; raise ValueError if it does not fit its digest, which older ones lack."""
    record: dict[str, Any] = json.loads(content)
    stored = record.pop(_FIELD, None)
    if stored != _digest(record) and (required or stored is not None):
        raise ValueError("its checksum is wrong")
    return record


def _digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
