"""The sweep that a user means: by its id, a beginning of the id, or its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from sweep_service.errors import NotFound

ID_LENGTH = len("20261116-125954-0123abcd")
MAX_LISTED_IDS = 5  # in an error
# A sweep, its id, any beginning of it that no other id has, or its name.
SweepName: TypeAlias = "str | Mapping[str, Any]"


def match_sweep(names: Mapping[str, str], text: str) -> str:
    """Return the only id that begins with a text or whose sweep has it as its name; `names` are by id."""
    matches = [
        sweep_id for sweep_id, name in names.items() if text and (sweep_id.startswith(text) or name == text)
    ]
    if len(matches) == 1:
        return matches[0]
    advice = "list the ids with: sweep list"
    if not matches:
        raise NotFound(f"no sweep begins with {text!r}, or has this name; {advice}")
    shown = ", ".join(matches[:MAX_LISTED_IDS]) + (", …" if len(matches) > MAX_LISTED_IDS else "")
    raise NotFound(f"{len(matches)} sweeps begin with {text!r}, or have this name: {shown}; {advice}")
