"""Where an unfinished simulation waits: bytes to keep, and a file that keeps them.

Anything with `load`, `save` and `clear` will do; a worker keeps its checkpoints beside its results.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sweep_service.errors import InvalidInput
from sweep_service.numerics.npz import arrays_in
from sweep_service.numerics.types import AnyArray

IDENTITY = "identity"


class Checkpoint(Protocol):
    def load(self) -> bytes | None:
        """What was saved last, None at first."""

    def save(self, content: bytes) -> None:
        """Keep it in place of what was there, wholly or not at all."""

    def clear(self) -> None:
        """The run is over."""


class FileCheckpoint:
    """A file, replaced atomically and synchronised, so that a crash leaves the old one or the new one."""

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
        fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}.partial")
        try:
            with open(fresh, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, self.path)
        finally:
            fresh.unlink(missing_ok=True)

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)


def checkpoint_of(value: Any) -> Checkpoint | None:
    """A path becomes a file's checkpoint; an object that can load, save and clear is one already."""
    if value is None or all(callable(getattr(value, name, None)) for name in ("load", "save", "clear")):
        return value
    if isinstance(value, (str, os.PathLike)):
        return FileCheckpoint(value)
    raise InvalidInput("checkpoint", value, "must be a path, or an object with load, save and clear")


def pack(identity: str, arrays: Mapping[str, AnyArray]) -> bytes:
    """Arrays by name as one archive, with the identity of the run that they belong to."""
    file = io.BytesIO()
    everything: dict[str, Any] = {IDENTITY: np.array(identity), **arrays}
    np.savez(file, **everything)
    return file.getvalue()


def unreadable() -> InvalidInput:
    return InvalidInput("checkpoint", None, "is not readable: remove it, or name another")


def unpack(identity: str, content: bytes) -> dict[str, AnyArray]:
    """The arrays of this very run; anything else is refused."""
    try:
        arrays = arrays_in(content)
    except Exception:  # a damaged archive fails in many ways, none of them ours
        raise unreadable() from None
    if str(arrays.pop(IDENTITY, "")) != identity:
        raise InvalidInput("checkpoint", None, "belongs to another run: remove it, or name another")
    return arrays
