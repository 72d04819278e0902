"""Named bytes that survive a crash: the small interface that every backend must fulfil.

Names are relative paths with slashes. `put` and `create` are atomic and durable: after a crash an
object is there wholly or not at all, and what was acknowledged is there.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from sweep_service.errors import InvalidInput, NotFound, StoreGone

if TYPE_CHECKING:
    from sweep_service.store.chunks import Chunks, LocalChunks

PARTIAL = ".partial"
ROOT = "zarr.json"  # of a dataset: without it there is none
ABANDONED = 86400.0  # seconds after which a half-written file of another machine is nobody's
LONGEST = 200  # of a part of a name: file systems allow 255, and a fresh file has a longer name
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

MayWrite: TypeAlias = Callable[[], None]


def nothing() -> None:
    """Who holds no lock may write what only it can."""


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
        try:
            return self._path(name).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            self._require()
            raise NotFound(f"no object named {name}") from None

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
        from sweep_service.store.chunks import LocalChunks

        return LocalChunks(self._path(name), may_write=lambda: self.may_write())

    @contextmanager
    def making(self, name: str) -> Iterator[LocalChunks]:
        from sweep_service.store.chunks import LocalChunks

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
