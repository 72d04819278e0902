"""Objects and chunks as files below a folder."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from zarr.storage import LocalStore

from sweep_service.errors import InvalidInput, NotFound, StoreGone
from sweep_service.store.files import make_folder, sync
from sweep_service.store.objects import PARTIAL, MayWrite, checked_name, is_folder, nothing

ABANDONED = 86400.0  # seconds after which a half-written file of another machine is nobody's


class LocalChunks(LocalStore):
    """A local store that remembers what was written, for zarr renames into place but never syncs."""

    def __init__(self, root: Path, *, read_only: bool = False, may_write: MayWrite = nothing) -> None:
        super().__init__(root, read_only=read_only)
        self.may_write = may_write
        self.written: set[str] = set()

    async def set(self, key: str, value: Any) -> None:
        self.may_write()  # where the disk is gone, zarr would make all folders anew
        await super().set(key, value)
        self.written.add(key)

    async def delete(self, key: str) -> None:
        """Zarr removes a chunk that has become empty."""
        self.may_write()
        await super().delete(key)

    def sync(self) -> None:
        """Bring everything written since the last time to the disk."""
        folders: set[Path] = set()
        for key in self.written:
            path = Path(self.root) / key
            sync(path)
            folders.update(path.parents[: len(Path(key).parts)])
        for folder in folders:
            sync(folder)
        self.written.clear()


class LocalObjects:
    """Files below a folder."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self.may_write: MayWrite = nothing

    def prepare(self) -> None:
        make_folder(self.root)

    def list(self, prefix: str = "") -> Iterator[str]:
        folder, _, stem = prefix.rpartition("/")  # look nowhere else: a dataset may have a million chunks
        if prefix.startswith("/") or (folder and not is_folder(folder)):
            return iter(())
        found: list[str] = []
        try:
            inside = [path for path in (self.root / folder).iterdir() if path.name.startswith(stem)]
        except (FileNotFoundError, NotADirectoryError):
            inside = []
        for path in inside:
            files = path.rglob("*") if path.is_dir() else [path]
            found += [file.relative_to(self.root).as_posix() for file in files if file.is_file()]
        return iter(sorted(name for name in found if not name.endswith(PARTIAL)))

    def get(self, name: str) -> bytes:
        path = self._path(name)
        for _ in range(2):  # a folder that was away may come back before it is looked for
            try:
                return path.read_bytes()
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                self._require()
        raise NotFound(f"no object named {name}")

    def exists(self, name: str) -> bool:
        return self._path(name).is_file()

    def put(self, name: str, content: bytes) -> None:
        path, fresh = self._fresh(name, content)
        try:
            with _no_folder(name):
                os.replace(fresh, path)
            sync(path.parent)
        finally:
            fresh.unlink(missing_ok=True)

    def create(self, name: str, content: bytes) -> bool:
        path, fresh = self._fresh(name, content)
        try:
            os.link(fresh, path)  # fails where a rename would replace
            sync(path.parent)
            return True
        except FileExistsError:
            if path.is_dir():
                raise _taken(name) from None
            return False
        finally:
            fresh.unlink(missing_ok=True)

    def delete(self, name: str) -> None:
        path = self._path(name)
        if not path.is_dir():
            with suppress(NotADirectoryError):
                path.unlink(missing_ok=True)

    def clear(self, folder: str) -> None:
        path = self._path(folder)
        doomed = path.with_name(f"{path.name}.removed{PARTIAL}")
        if path.exists():
            if doomed.exists():  # an earlier attempt did not come to its end
                shutil.rmtree(doomed, ignore_errors=True)
            os.replace(path, doomed)
        shutil.rmtree(doomed, ignore_errors=True)

    def top(self) -> set[str]:
        return {path.name for path in self.root.iterdir()}

    def sweep(self) -> int:
        """Remove what writers that died left behind; how many files and datasets that were."""
        orphans = [path for path in self.root.rglob(f"*{PARTIAL}") if path.is_file() and not _is_alive(path)]
        for orphan in orphans:
            orphan.unlink(missing_ok=True)
        datasets = [path for path in self.root.glob(f"*{PARTIAL}") if path.is_dir()]
        for path in datasets:
            shutil.rmtree(path, ignore_errors=True)
        return len(orphans) + len(datasets)

    def chunks(self, name: str) -> LocalChunks:
        return LocalChunks(self._path(name), may_write=lambda: self.may_write())

    @contextmanager
    def making(self, name: str) -> Iterator[LocalChunks]:
        self._require()
        path = self._path(name)
        fresh = path.with_name(path.name + PARTIAL)
        store = LocalChunks(fresh, may_write=lambda: self.may_write())
        yield store
        store.sync()
        os.replace(fresh, path)
        sync(path.parent)

    def _require(self) -> None:
        if not self.root.is_dir():
            raise StoreGone(f"{self.root} is not there")

    def _path(self, name: str) -> Path:
        return self.root / checked_name(name)

    def _fresh(self, name: str, content: bytes) -> tuple[Path, Path]:
        """The content in a file of its own, on the disk."""
        path = self._path(name)
        self._require()
        with _no_folder(name):
            make_folder(path.parent)
        fresh = path.with_name(f"{path.name}.{_HOST}-{os.getpid()}-{uuid.uuid4().hex[:8]}{PARTIAL}")
        try:
            with open(fresh, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
        return path, fresh


# The machine in a few letters.
_HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
_FRESH = re.compile(rf".*\.([0-9a-f]{{8}})-(\d{{1,9}})-[0-9a-f]{{8}}{re.escape(PARTIAL)}")


def _is_alive(path: Path) -> bool:
    """May somebody else still be writing this file? Workers outlive the service that sent them."""
    written = _FRESH.fullmatch(path.name)
    if written is None or int(written[2]) == os.getpid():  # ours: from before we began
        return False
    if written[1] == _HOST:
        return _is_running(int(written[2]))
    try:
        return time.time() - path.stat().st_mtime < ABANDONED
    except FileNotFoundError:
        return False


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user
        return True
    return True


@contextmanager
def _no_folder(name: str) -> Iterator[None]:
    """File systems cannot have an object where a folder is, nor below an object."""
    try:
        yield
    except (IsADirectoryError, NotADirectoryError, FileExistsError):
        raise _taken(name) from None


def _taken(name: str) -> InvalidInput:
    return InvalidInput("name", name, "is taken by a folder, or lies below an object")
