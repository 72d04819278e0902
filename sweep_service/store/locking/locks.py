"""The lock of a data folder, which the operating system releases when its holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sweep_service.errors import InUse, StoreGone


@contextmanager
def file_lock(path: Path, service_url: str) -> Iterator[Callable[[], None]]:
    """Hold a lock file. Yields a function that raises StoreGone if the folder has disappeared.

    `service_url` is shown to a process that fails to get the lock.
    """
    with open(path, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            pid, _, url = file.read().strip().partition(" ")
            raise in_use_error(str(path.parent), f"process {pid or 'unknown'}", url) from None
        file.truncate(0)
        file.write(f"{os.getpid()} {service_url}".rstrip())
        file.flush()

        def check_folder() -> None:
            try:
                is_same = os.path.samestat(os.stat(path), os.fstat(file.fileno()))
            except OSError:
                is_same = False
            if not is_same:  # the disk was unmounted, or replaced by another
                raise StoreGone(f"{path.parent} is not available")

        yield check_folder


def in_use_error(location: str, holder: str, url: str) -> InUse:
    service = f", a service at {url}" if url else ""
    return InUse(f"{location} is in use by {holder}{service}", url)
