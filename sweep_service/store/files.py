"""Writes of folders and files that survive a power failure."""

from __future__ import annotations

import os
from pathlib import Path


def make_folder(path: Path) -> None:
    """Create a folder and its parents durably."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def sync(path: str | os.PathLike[str]) -> None:
    """Flush the content of a file, or the entries of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
