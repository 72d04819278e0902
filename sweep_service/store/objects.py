"""The interface of object stores: named bytes that survive a crash.

Names are relative paths with slashes. Changes are atomic and durable: after a crash or a power failure an
object exists completely or not at all, and a write or a removal that returned is never undone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from sweep_service.errors import InvalidInput

PARTIAL = ".partial"
ROOT = "zarr.json"  # root metadata of a dataset, without which it cannot be opened
MAX_COMPONENT_CHARACTERS = 200  # file systems allow 255, and partial files have longer names
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

WriteGuard: TypeAlias = Callable[[], None]


def no_guard() -> None:
    """No-op guard, the default when no lock is held."""


# A zarr store (zarr.abc.store.Store) with a method `sync`, which flushes everything written to disk, and a
# context manager `batch`, which makes all changes durable at its end and never leaves a chunk torn.
Chunks: TypeAlias = Any


class Objects(Protocol):
    """An object store."""

    write_guard: WriteGuard  # called before writes; raises if the lock is lost

    def prepare(self) -> None:
        """Create the root if it is new. No other method does, so that a store that disappeared stays gone."""

    def list(self, prefix: str = "") -> Iterator[str]:
        """Iterate over the names that begin with the prefix, in order."""

    def size(self, folder: str) -> int:
        """Return the total bytes of everything below a folder."""

    def get(self, name: str) -> bytes:
        """Return the content; raise NotFound if the object does not exist."""

    def exists(self, name: str) -> bool: ...

    def put(self, name: str, content: bytes) -> None:
        """Write an object, replacing any existing one."""

    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless it exists; of several concurrent callers, exactly one gets True."""

    def delete(self, *names: str) -> None:
        """Remove those of these objects that exist."""

    def clear(self, folder: str) -> None:
        """Remove everything below a folder. A dataset becomes unreadable at once, before its chunks go."""

    def list_top(self) -> set[str]:
        """Return the names of objects and folders at the top level."""

    def remove_partial_files(self) -> int:
        """Remove files left behind by writers that died; return their number."""

    def chunks(self, name: str) -> Chunks:
        """Return the zarr store of a dataset."""

    def creating_dataset(self, name: str) -> AbstractContextManager[Chunks]:
        """Yield the zarr store of a new dataset, under a temporary name until complete if the backend can."""


def check_name(name: str) -> str:
    """Return the name if it stays below the root on any file system; raise InvalidInput if not."""
    components = name.split("/") if isinstance(name, str) and len(name) <= 500 else [""]
    if not all(
        _NAME.fullmatch(component)
        and len(component) <= MAX_COMPONENT_CHARACTERS
        and not component.endswith(PARTIAL)
        for component in components
    ):
        allowed = (
            f"must be components of letters, digits, _ . - (at most {MAX_COMPONENT_CHARACTERS} each), "
            "joined by slashes"
        )
        raise InvalidInput("name", name, allowed)
    return name


def is_folder_name(name: str) -> bool:
    """Return whether this is a valid relative path of a folder."""
    return all(_NAME.fullmatch(component) for component in name.split("/"))
