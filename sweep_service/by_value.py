"""Versions of registered entries, and the way of those of this process to its workers: by value.

A function of a notebook is in no file, so cloudpickle pickles its code. The digest of the pickled form is
part of the keys of runs. Where the pickled form does not determine what the function does, because it is not
the same twice or because it imports code that is not pickled with it, the digest is a random number: runs of
another process are then computed anew.

Entries are unpickled only by workers that this process has started.
"""

from __future__ import annotations

import dis
import hashlib
import io
import pickle
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from sweep_service.errors import InvalidInput
from sweep_service.extras import explain_missing_package
from sweep_service.plugins import find_plugin, local_entries
from sweep_service.registries import REGISTRIES, EntryKey, is_built_in

# Packages whose behaviour is taken as fixed, as it is for the entries of this package.
TRUSTED = {*sys.stdlib_module_names, "cloudpickle", "numba", "numpy", "scipy", "sweep_service"}
MAX_ROUNDS = 10  # of modules that refer to further modules

_random_digests: dict[int, tuple[Any, str]] = {}  # by id of the entry, which is kept
_received: dict[EntryKey, tuple[Any, str]] = {}  # entries and digests that this worker was sent
_received_packs: set[str] = set()


def entry_version(kind: str, name: str) -> str:
    """Return a digest of what decides the results of an entry: "" if it came with this package."""
    if is_built_in(kind, name):
        return ""
    plugin = find_plugin(kind, name)
    return _digest_entry(kind, name) if plugin is None else plugin.digest


def _digest_entry(kind: str, name: str) -> str:
    """Return the digest of an entry of this process, or a random one if its pickled form is in doubt."""
    entry = REGISTRIES[kind][name]
    received = _received.get((kind, name))
    if received is not None and received[0] is entry:  # pickled again, it might differ
        return received[1]
    try:
        pickled = _pickle(entry)
        if pickled.is_certain and _pickle(entry).without_places == pickled.without_places:
            return hashlib.sha256(pickled.without_places).hexdigest()
    except Exception:  # of any kind, from a __reduce__ or because cloudpickle is not installed
        pass
    return _random_digests.setdefault(id(entry), (entry, uuid.uuid4().hex))[1]


def pack_entries() -> bytes | None:
    """Return the local entries for the workers that this process starts; None if there are none."""
    entries = local_entries()
    if not entries:
        return None
    try:
        packed = {key: (entry, _digest_entry(*key)) for key, entry in entries.items()}
        return _pickle(packed).content
    except Exception as error:
        names = ", ".join(f"{kind} {name}" for kind, name in entries)
        allowed = f"cannot be sent to worker processes ({error}): use workers=0, or make it a plugin"
        raise InvalidInput("registered", names, allowed) from error


def install_entries(packed: bytes | None) -> None:
    """Register the entries that the process which has started this worker has sent."""
    if packed is None or (digest := hashlib.sha256(packed).hexdigest()) in _received_packs:
        return
    entries = pickle.loads(packed)  # noqa: S301 (from our own process; Dask's messages are pickled too)
    for (kind, name), (entry, entry_digest) in entries.items():
        REGISTRIES[kind][name] = entry
        _received[kind, name] = (entry, entry_digest)
    _received_packs.clear()  # an older pack may be installed again
    _received_packs.add(digest)


class _Pickled(NamedTuple):
    """A pickled form, the same without file names and lines, and whether it has all that decides results."""

    content: bytes
    without_places: bytes
    is_certain: bool


def _pickle(entry: Any) -> _Pickled:
    """Pickle with the code of all modules that are not trusted."""
    with explain_missing_package("sending an entry to workers"):
        import cloudpickle

    by_value: set[str] = set()
    for _ in range(MAX_ROUNDS):
        with _pickled_by_value(by_value):
            content = cloudpickle.dumps(entry)
            reader = _ReferenceReader(io.BytesIO(content))
            without_places = cloudpickle.dumps(reader.load())
        untrusted = {name for name in reader.modules if not _is_trusted(name)}
        if untrusted <= by_value or not untrusted.issubset(sys.modules):
            is_certain = not untrusted and all(map(_is_trusted, reader.imports))
            return _Pickled(content, without_places, is_certain)
        by_value |= untrusted
    return _Pickled(content, without_places, False)


def _is_trusted(module: str) -> bool:
    return module.partition(".")[0] in TRUSTED


@contextmanager
def _pickled_by_value(names: Iterable[str]) -> Iterator[None]:
    """Have cloudpickle pickle functions and classes of these modules as code."""
    import cloudpickle

    modules: list[ModuleType] = [sys.modules[name] for name in names]
    added = [
        module for module in modules if module.__name__ not in cloudpickle.list_registry_pickle_by_value()
    ]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)


class _ReferenceReader(pickle.Unpickler):
    """Unpickles what this process has pickled, with code that has no file name and no lines.

    It records the modules that are named, and those that functions import when they run.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.modules: set[str] = set()
        self.imports: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.modules.add(module)
        item = super().find_class(module, name)
        if name == "subimport":  # of a module that is a global of a function
            return self._record_module(item)
        if name == "_builtin_type":  # by which cloudpickle names the type of code
            return lambda type_name: self._make_code if type_name == "CodeType" else item(type_name)
        return self._make_code if item is CodeType else item

    def _record_module(self, subimport: Any) -> Any:
        def record(name: str) -> Any:
            self.modules.add(name)
            return subimport(name)

        return record

    def _make_code(self, *arguments: Any) -> CodeType:
        code = CodeType(*arguments)
        instructions = dis.get_instructions(code)
        self.imports |= {str(step.argval) for step in instructions if step.opname == "IMPORT_NAME"}
        # A kernel of Jupyter names files after its process.
        return code.replace(co_filename="", co_firstlineno=1, co_linetable=b"")
