"""Objects and chunks as files below a folder."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from zarr.core.buffer import Buffer
from zarr.storage import LocalStore, MemoryStore

from sweep_service.errors import InvalidInput, NotFound, StoreGone
from sweep_service.store.checked import CheckedReads, seal_root
from sweep_service.store.files import make_folder, sync, sync_all
from sweep_service.store.objects import PARTIAL, WriteGuard, check_name, is_folder_name, no_guard

MAX_PARTIAL_AGE_SECONDS = 86400.0  # after which a partial file of another machine is removed


class LocalChunks(CheckedReads, LocalStore):
    """A local zarr store that records what was written, because zarr renames files but never syncs them.

    A file that is renamed before it is synced may be empty after a power failure, also where it replaced a
    file with older values. So changes of a stored dataset are made in a `batch`.
    """

    def __init__(self, root: Path, *, read_only: bool = False, write_guard: WriteGuard = no_guard) -> None:
        super().__init__(root, read_only=read_only)
        self.write_guard = write_guard
        self.written: dict[str, str] = {}  # names of files by key; temporary ones in a batch
        self.folders: set[Path] = set()  # in which names were added or removed
        self.is_batch = False

    @property
    def dataset_name(self) -> str:
        return self.root.name.removesuffix(PARTIAL)

    async def set(self, key: str, value: Any) -> None:
        self.write_guard()  # if the disk is gone, zarr would create all folders again
        name = f"{key}{PARTIAL}" if self.is_batch else key
        await super().set(name, seal_root(key, value))
        self.written[key] = name
        self._record_folders(key)

    async def delete(self, key: str) -> None:
        """Delete a chunk; zarr does so if it contains only fill values."""
        self.write_guard()
        self._discard(key)
        await super().delete(key)
        self._record_folders(key)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Write under temporary names; at the end sync all content, then rename it, then sync the names.

        Reads return the old content until then. If a write fails, the old content stays.
        """
        self.is_batch = True
        try:
            yield
            self.sync()
        finally:
            self.is_batch = False
            for key in list(self.written):
                self._discard(key)

    def sync(self) -> None:
        """Flush everything written since the last call to disk."""
        sync_all([self.root / name for name in self.written.values()])
        for key, name in self.written.items():
            if name != key:
                os.replace(self.root / name, self.root / key)
        self.written.clear()
        sync_all(
            [folder for folder in self.folders if folder.is_dir()]
        )  # zarr deletes chunks that never existed
        self.folders.clear()

    def _discard(self, key: str) -> None:
        """Forget what was written for a key, and remove its temporary file."""
        name = self.written.pop(key, key)
        if name != key:
            (self.root / name).unlink(missing_ok=True)

    def _record_folders(self, key: str) -> None:
        self.folders.update((self.root / key).parents[: len(Path(key).parts)])


def _with_folders(root: Path, names: Iterable[str]) -> set[Path]:
    """Return the paths of files below a root, and of all folders up to the root that contain them."""
    paths: set[Path] = set()
    for name in names:
        path = root / name
        paths.update((path, *path.parents[: len(Path(name).parts)]))
    return paths


class LocalObjects:
    """Objects as files below a folder."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self.write_guard: WriteGuard = no_guard

    def prepare(self) -> None:
        make_folder(self.root)
        for folder in (self.root, self.root.parent):  # an earlier process may have died before it synced them
            sync(folder)

    def list(self, prefix: str = "") -> Iterator[str]:
        folder, _, stem = prefix.rpartition(
            "/"
        )  # do not scan other folders: a dataset may have a million chunks
        if prefix.startswith("/") or (folder and not is_folder_name(folder)):
            return iter(())
        names: list[str] = []
        try:
            matches = [path for path in (self.root / folder).iterdir() if path.name.startswith(stem)]
        except (FileNotFoundError, NotADirectoryError):
            matches = []
        for path in matches:
            files = path.rglob("*") if path.is_dir() else [path]
            names += [file.relative_to(self.root).as_posix() for file in files if file.is_file()]
        return iter(sorted(name for name in names if not name.endswith(PARTIAL)))

    def size(self, folder: str) -> int:
        total = 0
        for parent, _, names in os.walk(self._path(folder)):
            for name in names:
                with suppress(FileNotFoundError):  # replaced or removed meanwhile
                    total += os.stat(os.path.join(parent, name)).st_size
        return total

    def get(self, name: str) -> bytes:
        path = self._path(name)
        for _ in range(2):  # a folder that was away may come back between the two checks
            try:
                return path.read_bytes()
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                self._check_root()
        raise NotFound(f"no object named {name}")

    def exists(self, name: str) -> bool:
        return self._path(name).is_file()

    def put(self, name: str, content: bytes) -> None:
        path, partial = self._write_partial(name, content)
        try:
            with _rejecting_folders(name):
                os.replace(partial, path)
            sync(path.parent)
        finally:
            partial.unlink(missing_ok=True)

    def create(self, name: str, content: bytes) -> bool:
        path, partial = self._write_partial(name, content)
        try:
            os.link(partial, path)  # fails if the object exists; a rename would replace it
            sync(path.parent)
            return True
        except FileExistsError:
            if path.is_dir():
                raise _name_taken_error(name) from None
            return False
        finally:
            partial.unlink(missing_ok=True)

    def delete(self, *names: str) -> None:
        folders: set[Path] = set()
        for path in map(self._path, names):
            if not path.is_dir():
                with suppress(FileNotFoundError, NotADirectoryError):
                    path.unlink()
                    folders.add(path.parent)
        for folder in folders:
            with suppress(FileNotFoundError):  # removed by `clear` meanwhile
                sync(folder)

    def clear(self, folder: str) -> None:
        path = self._path(folder)
        removed = path.with_name(f"{path.name}.removed{PARTIAL}")
        if path.exists():
            if removed.exists():  # left by an interrupted call
                shutil.rmtree(removed, ignore_errors=True)
            os.replace(path, removed)
            sync(path.parent)
        shutil.rmtree(removed, ignore_errors=True)

    def list_top(self) -> set[str]:
        return {path.name for path in self.root.iterdir()}

    def remove_partial_files(self) -> int:
        """Remove partial files and datasets left behind by writers that died; return their number."""
        orphans = [path for path in self.root.rglob(f"*{PARTIAL}") if path.is_file() and not _is_alive(path)]
        for orphan in orphans:
            orphan.unlink(missing_ok=True)
        datasets = [path for path in self.root.glob(f"*{PARTIAL}") if path.is_dir()]
        for path in datasets:
            shutil.rmtree(path, ignore_errors=True)
        return len(orphans) + len(datasets)

    def chunks(self, name: str) -> LocalChunks:
        return LocalChunks(self._path(name), write_guard=lambda: self.write_guard())

    @contextmanager
    def creating_dataset(self, name: str) -> Iterator[MemoryStore]:
        """Collect the files of a new dataset, which are few and small, and write them all at once."""
        self._check_root()
        files: dict[str, Buffer] = {}
        yield MemoryStore(files)
        self.write_guard()
        path = self._path(name)
        partial = path.with_name(path.name + PARTIAL)
        try:
            for file, content in files.items():
                (partial / file).parent.mkdir(parents=True, exist_ok=True)
                (partial / file).write_bytes(seal_root(file, content).to_bytes())
            sync_all(_with_folders(partial, files))
            os.replace(partial, path)
        except OSError:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        sync(path.parent)

    def _check_root(self) -> None:
        if not self.root.is_dir():
            raise StoreGone(f"{self.root} is not available")

    def _path(self, name: str) -> Path:
        return self.root / check_name(name)

    def _write_partial(self, name: str, content: bytes) -> tuple[Path, Path]:
        """Write the content durably to a partial file; return the final path and that of the partial file."""
        path = self._path(name)
        self._check_root()
        with _rejecting_folders(name):
            make_folder(path.parent)
        partial = path.with_name(f"{path.name}.{_HOST}-{os.getpid()}-{uuid.uuid4().hex[:8]}{PARTIAL}")
        try:
            with open(partial, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        return path, partial


# A short digest that identifies this machine.
_HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
_PARTIAL_NAME = re.compile(rf".*\.([0-9a-f]{{8}})-(\d{{1,9}})-[0-9a-f]{{8}}{re.escape(PARTIAL)}")


def _is_alive(path: Path) -> bool:
    """Return whether another process may still be writing this file; workers can outlive their service."""
    writer = _PARTIAL_NAME.fullmatch(path.name)
    # Our own process has not written yet, so a file with its id comes from an earlier one.
    if writer is None or int(writer[2]) == os.getpid():
        return False
    if writer[1] == _HOST:
        return _is_running(int(writer[2]))
    try:
        return time.time() - path.stat().st_mtime < MAX_PARTIAL_AGE_SECONDS
    except FileNotFoundError:
        return False


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # a process of another user
        return True
    return True


@contextmanager
def _rejecting_folders(name: str) -> Iterator[None]:
    """Raise InvalidInput for an object where a folder is, or below an object."""
    try:
        yield
    except (IsADirectoryError, NotADirectoryError, FileExistsError):
        raise _name_taken_error(name) from None


def _name_taken_error(name: str) -> InvalidInput:
    return InvalidInput("name", name, "is a folder, or lies below an object")
