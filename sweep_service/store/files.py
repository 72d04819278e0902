"""Writes of folders and files that survive a power failure."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

SYNC_THREADS = 16


def make_folder(path: Path) -> None:
    """Create a folder and its parents durably."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def make_private_folder(path: Path) -> None:
    """Create a folder, with its parents, that only its owner may enter. An existing one stays as it is."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
        sync(path.parent)


def create_private_file(path: Path) -> None:
    """Create an empty file that only its owner may read, unless it exists.

    In a folder to which a group may write, which someone has set up for sharing, the group may use the file
    as far as the umask permits.
    """
    is_shared = bool(path.parent.stat().st_mode & stat.S_IWGRP)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o660 if is_shared else 0o600))


def sync_all(paths: Collection[str | os.PathLike[str]]) -> None:
    """Flush files and folders to disk, several at once: the file system commits them together."""
    if paths:
        with ThreadPoolExecutor(min(len(paths), SYNC_THREADS)) as pool:
            list(pool.map(sync, paths))


def sync(path: str | os.PathLike[str]) -> None:
    """Flush the content of a file, or the entries of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
