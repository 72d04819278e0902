"""The registries that decide results, and which of their entries came with this package.

A registry is a dict that stays where its entries are defined. It is declared here, so that entries that a
plugin or a notebook has added can be told from those of the package, by their identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EntryKey = tuple[str, str]  # kind and name, such as ("activation", "sine")

REGISTRIES: dict[str, dict[str, Any]] = {}  # by kind of entry
_BUILT_IN: dict[str, dict[str, Any]] = {}
_OF_RUNS: set[str] = set()  # kinds on which the values of runs depend


def declare_registry(kind: str, entries: dict[str, Any], affects_runs: bool = True) -> None:
    """Note a registry with all entries of the package.

    `affects_runs=False` is for entries that only show what is stored.
    """
    REGISTRIES[kind], _BUILT_IN[kind] = entries, dict(entries)
    if affects_runs:
        _OF_RUNS.add(kind)


def is_built_in(kind: str, name: str) -> bool:
    """Return whether an entry is that of the package, and not one that was added or has replaced it."""
    return name in _BUILT_IN[kind] and REGISTRIES[kind].get(name) is _BUILT_IN[kind][name]


def affects_runs(kind: str) -> bool:
    """Return whether the values of runs depend on the entries of a registry."""
    return kind in _OF_RUNS


def has_built_in(kind: str, name: str) -> bool:
    """Return whether the package has an entry of this name, which may have been replaced since."""
    return name in _BUILT_IN[kind]


def entry_type(kind: str) -> type:
    """Return the class of the entries of a registry."""
    return type(next(iter(_BUILT_IN[kind].values())))


def added_entries() -> dict[EntryKey, Any]:
    """Return the entries that are not those of the package, in the order of the registries."""
    return {
        (kind, name): entry
        for kind, entries in REGISTRIES.items()
        for name, entry in entries.items()
        if not is_built_in(kind, name)
    }


def restore_entries(added: Mapping[EntryKey, Any]) -> None:
    """Remove what was added or replaced since `added_entries` returned this."""
    for (kind, name), entry in added_entries().items():
        earlier = added.get((kind, name), _BUILT_IN[kind].get(name))
        if earlier is None:
            del REGISTRIES[kind][name]
        elif earlier is not entry:
            REGISTRIES[kind][name] = earlier
