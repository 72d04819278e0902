"""Checkpoints: the state of an unfinished simulation as bytes, and a file that holds them.

Any object with `load`, `save` and `clear` can be a checkpoint; workers store theirs beside the parts.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sweep_service.errors import InvalidInput
from sweep_service.numerics.npz import read_arrays
from sweep_service.numerics.types import AnyArray

IDENTITY = "identity"


class Checkpoint(Protocol):
    def load(self) -> bytes | None:
        """The content saved last, or None."""

    def save(self, content: bytes) -> None:
        """Replace the saved content atomically."""

    def clear(self) -> None:
        """Remove the saved content, as the simulation has ended."""


class FileCheckpoint:
    """A file that is replaced atomically and synchronised, so that a crash leaves the old or the new one."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.is_dir() or not self.path.parent.is_dir():
            raise InvalidInput("checkpoint", str(path), "must be a file in a folder that exists")

    def load(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    def save(self, content: bytes) -> None:
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}.partial")
        try:
            with open(partial, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, self.path)
        finally:
            partial.unlink(missing_ok=True)

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)


def parse_checkpoint(value: Any) -> Checkpoint | None:
    """Turn a path into a `FileCheckpoint`; None and objects with load, save and clear are returned as is."""
    if value is None or all(callable(getattr(value, name, None)) for name in ("load", "save", "clear")):
        return value
    if isinstance(value, (str, os.PathLike)):
        return FileCheckpoint(value)
    raise InvalidInput("checkpoint", value, "must be a path, or an object with load, save and clear")


def pack(identity: str, arrays: Mapping[str, AnyArray]) -> bytes:
    """Write named arrays and the identity of their simulation into one archive."""
    file = io.BytesIO()
    members: dict[str, Any] = {IDENTITY: np.array(identity), **arrays}
    np.savez(file, **members)
    return file.getvalue()


def unreadable_checkpoint() -> InvalidInput:
    return InvalidInput("checkpoint", None, "cannot be read: remove it or use another one")


def unpack(identity: str, content: bytes) -> dict[str, AnyArray]:
    """Read the arrays of the simulation with this identity; anything else raises."""
    try:
        arrays = read_arrays(content)
    except Exception:  # a damaged archive raises errors of many types
        raise unreadable_checkpoint() from None
    if str(arrays.pop(IDENTITY, "")) != identity:
        raise InvalidInput("checkpoint", None, "belongs to another simulation: remove it or use another one")
    return arrays
