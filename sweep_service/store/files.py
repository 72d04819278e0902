"""Folders and files that survive a loss of power."""

from __future__ import annotations

import os
from pathlib import Path


def make_folder(path: Path) -> None:
    """A folder and those above it, on the disk."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def sync(path: str | os.PathLike[str]) -> None:
    """Bring a file's content, or a folder's entries, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
