"""Plugins: modules of the operator that add activations, starts, observables and values on import.

A plugin is named by an installed distribution (entry points of the group `sweep_service.plugins`) or by the
environment (`SWEEP_PLUGINS=module,…`), never by a spec or a request. The command line, services, workers and
notebooks load the plugins of their own machine. The digest of a plugin's files is part of the keys of all
runs that use one of its entries, and of the worker check.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sweep_service.errors import InvalidInput, SweepError
from sweep_service.registries import (
    REGISTRIES,
    EntryKey,
    added_entries,
    affects_runs,
    entry_type,
    has_built_in,
    restore_entries,
)

GROUP, VARIABLE = "sweep_service.plugins", "SWEEP_PLUGINS"
KINDS = ("activation", "init", "observable", "value")  # that a plugin may add


@dataclass(frozen=True)
class Plugin:
    """A loaded plugin: the name of its module, the SHA-256 of its files, and its entries."""

    name: str
    digest: str
    entries: Mapping[EntryKey, Any]


_loaded: dict[str, Plugin] = {}
_lock = threading.RLock()
_is_loading = False


def load_plugins() -> Mapping[str, Plugin]:
    """Load the configured plugins that are not loaded yet, and return all of them by name."""
    global _is_loading
    with _lock:
        if not _is_loading:  # a plugin may use this package while it is imported
            _is_loading = True
            try:
                for name in dict.fromkeys(_configured_modules()):
                    if name not in _loaded:
                        _loaded[name] = _load(name)
            finally:
                _is_loading = False
    return _loaded


def find_plugin(kind: str, name: str) -> Plugin | None:
    """Return the plugin that has registered the present entry of this name."""
    entry = REGISTRIES[kind].get(name)
    plugins = (plugin for plugin in _loaded.values() if plugin.entries.get((kind, name)) is entry)
    return next(plugins, None) if entry is not None else None


def local_entries() -> dict[EntryKey, Any]:
    """Return the entries of runs that were registered in this process, and belong to no plugin."""
    added = added_entries().items()
    return {key: entry for key, entry in added if affects_runs(key[0]) and find_plugin(*key) is None}


def _configured_modules() -> Iterator[str]:
    # Sorted, because the order of distributions differs between machines.
    yield from sorted(entry.module for entry in entry_points(group=GROUP))
    yield from filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(",")))


def _load(name: str) -> Plugin:
    """Import a plugin and check what it has added; the registries stay as they were if it is refused."""
    before, modules = added_entries(), set(sys.modules)
    try:
        digest = digest_files(name)
        import_module(name)
        added = {key: entry for key, entry in added_entries().items() if before.get(key) is not entry}
        for (kind, entry_name), entry in added.items():
            _check_entry(name, kind, entry_name, entry, (kind, entry_name) in before)
    except BaseException as error:
        restore_entries(before)
        for module in set(sys.modules) - modules:  # so that another attempt imports them again
            if module.partition(".")[0] == name.partition(".")[0]:
                del sys.modules[module]
        if isinstance(error, SweepError) or not isinstance(error, Exception):
            raise
        raise _refuse(name, f"cannot be imported: {type(error).__name__}: {error}") from error
    if not added:
        raise _refuse(name, f"must add an entry to a registry when it is imported: {', '.join(KINDS)}")
    return Plugin(name, digest, dict(sorted(added.items())))


def _check_entry(plugin: str, kind: str, name: str, entry: Any, is_taken: bool) -> None:
    described = f"{kind} {name!r}"
    if kind not in KINDS:
        raise _refuse(plugin, f"adds the {described}; a plugin may add only {', '.join(KINDS)}")
    if has_built_in(kind, name) or is_taken:
        raise _refuse(plugin, f"replaces the {described}: choose another name")
    if not isinstance(entry, entry_type(kind)):
        raise _refuse(plugin, f"registers the {described}, which must be a {entry_type(kind).__name__}")
    if not name.isidentifier() or getattr(entry, "name", name) != name:
        raise _refuse(
            plugin, f"registers the {described}: the name must be an identifier, and the entry's own"
        )
    if getattr(entry, "default", False):  # the default observables are part of the keys of all sweeps
        raise _refuse(plugin, f"adds the {described} with default=True: it must be False")


def digest_files(name: str) -> str:
    """Return the SHA-256 of all Python files of the top-level package, or of the module, of a plugin."""
    top = name.partition(".")[0]
    spec = find_spec(top)
    if spec is None:
        raise _refuse(name, "is not installed, or not on PYTHONPATH")
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    files = {str(path.relative_to(folder)): path for folder in folders for path in folder.rglob("*.py")}
    if not folders and spec.origin is not None:
        files = {Path(spec.origin).name: Path(spec.origin)}
    if not files or not all(path.suffix == ".py" and path.is_file() for path in files.values()):
        raise _refuse(name, "must consist of Python source files")
    digest = hashlib.sha256()
    for relative, path in sorted(files.items()):
        content = path.read_bytes()
        digest.update(f"{relative}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _refuse(name: str, allowed: str) -> InvalidInput:
    return InvalidInput("plugin", name, allowed)


def describe_plugins() -> list[dict[str, Any]]:
    """Return the name, the digest and the entries of each loaded plugin as plain data."""
    return [
        {
            "name": plugin.name,
            "digest": plugin.digest,
            "entries": [f"{kind} {name}" for kind, name in plugin.entries],
        }
        for plugin in load_plugins().values()
    ]
