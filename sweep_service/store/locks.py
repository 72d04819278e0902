"""One process at a time changes a folder: a lock that the operating system frees when its holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sweep_service.errors import InUse, StoreGone


@contextmanager
def file_lock(path: Path, about: str) -> Iterator[Callable[[], None]]:
    """What it gives is called to ask whether the folder is still there."""
    with open(path, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            pid, _, url = file.read().strip().partition(" ")
            raise in_use(str(path.parent), f"process {pid or 'unknown'}", url) from None
        file.truncate(0)
        file.write(f"{os.getpid()} {about}".rstrip())
        file.flush()

        def require() -> None:
            try:
                there = os.path.samestat(os.stat(path), os.fstat(file.fileno()))
            except OSError:
                there = False
            if not there:  # a disk that was taken away, or another one in its place
                raise StoreGone(f"{path.parent} is not there")

        yield require


def in_use(where: str, holder: str, url: str) -> InUse:
    service = f", a service: add --url {url}" if url else ""
    return InUse(f"{where} is in use by {holder}{service}")
