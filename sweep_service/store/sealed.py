"""JSON objects with a digest in a last field, so that a changed bit is an error and not another text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

_FIELD = "sha256"


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
