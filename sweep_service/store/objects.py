"""Named bytes that survive a crash: the small interface that every backend must fulfil.

Names are relative paths with slashes. `put` and `create` are atomic and durable: after a crash an
object is there wholly or not at all, and what was acknowledged is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from sweep_service.errors import InvalidInput

PARTIAL = ".partial"
ROOT = "zarr.json"  # of a dataset: without it there is none
LONGEST = 200  # of a part of a name: file systems allow 255, and a fresh file has a longer name
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

MayWrite: TypeAlias = Callable[[], None]


def nothing() -> None:
    """Who holds no lock may write what only it can."""


# A store of zarr (zarr.abc.store.Store) with a method `sync`, which brings everything written to the disk.
Chunks: TypeAlias = Any


class Objects(Protocol):
    may_write: MayWrite  # raises if the lock of who writes is not what it was

    def prepare(self) -> None:
        """Make the place, if it is new. Nothing else does: what is gone must not be begun anew."""

    def list(self, prefix: str = "") -> Iterator[str]:
        """Names that begin with the prefix, in order."""

    def get(self, name: str) -> bytes:
        """The content; NotFound if there is none."""

    def exists(self, name: str) -> bool: ...

    def put(self, name: str, content: bytes) -> None:
        """Write, in place of whatever was there."""

    def create(self, name: str, content: bytes) -> bool:
        """Write if there is nothing of this name; of many who try, one gets true."""

    def delete(self, name: str) -> None:
        """Remove; nothing happens if it is not there."""

    def clear(self, folder: str) -> None:
        """Remove all below it; a dataset vanishes at once for who opens it then."""

    def top(self) -> set[str]:
        """Names of objects and of folders that are in no other folder."""

    def sweep(self) -> int:
        """Remove what writers that died left behind; how many there were."""

    def chunks(self, name: str) -> Chunks:
        """For zarr, the folder of a dataset."""

    def making(self, name: str) -> AbstractContextManager[Chunks]:
        """The folder of a new dataset, under another name until it is complete, where that can be."""


def checked_name(name: str) -> str:
    """A name that stays below its root, on any file system."""
    parts = name.split("/") if isinstance(name, str) and len(name) <= 500 else [""]
    if not all(
        _NAME.fullmatch(part) and len(part) <= LONGEST and not part.endswith(PARTIAL) for part in parts
    ):
        allowed = f"must be parts of letters, digits, _ . - (at most {LONGEST}) joined by slashes"
        raise InvalidInput("name", name, allowed)
    return name


def is_folder(name: str) -> bool:
    """Parts of names, joined by slashes."""
    return all(_NAME.fullmatch(part) for part in name.split("/"))
