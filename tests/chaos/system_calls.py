"""A record of all calls by which this process changes files below a folder, made by strace.

It sees every writer: Python, zarr and SQLite. An unknown way of writing raises, so that nothing is missed.
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

CALLS = (
    "open,openat,creat,lseek,write,pwrite64,writev,pwritev,pwritev2,sendfile,copy_file_range,mmap,"
    "ftruncate,truncate,fallocate,fsync,fdatasync,sync,syncfs,sync_file_range,"
    "rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir,mkdir,mkdirat"
)
MISSING = "strace is not installed: apt-get install strace"
PR_SET_PTRACER, PR_SET_PTRACER_ANY = 0x59616D61, ctypes.c_ulong(-1)
MAX_BYTES = 1 << 24  # of one write; longer ones would be shortened
SHARED_MEMORY = "-shm"  # files of SQLite that hold no data and are made anew after a crash
ROOT = 0  # the inode of the recorded folder

_LINE = re.compile(r"(\d+) +(.*)")
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\w+)(.*)", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)", re.DOTALL)
_ARGUMENT = re.compile(r'"((?:\\x..)*)"|(\w+)<((?:\\x..)*)>(?:\(deleted\))?|([^\s,"<>][^,"<>]*)')


@dataclass(frozen=True)
class Write:
    inode: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Truncate:
    inode: int
    size: int


@dataclass(frozen=True)
class Change:
    """An atomic change of the entries of a folder: an inode for each name, or None if it is removed."""

    inode: int
    entries: dict[str, int | None]


@dataclass(frozen=True)
class Sync:
    """A flush of a file or folder: of its first `covered` operations, those that ended before it began."""

    inode: int
    covered: int


@dataclass(frozen=True)
class Mark:
    """What the program told the outside world at this moment."""

    text: str


@dataclass(frozen=True)
class Record:
    operations: list
    folders: set[int]  # inodes that are folders; the others are files


class Recorder:
    """Records operations on the folder `root`, which must be empty, while it is entered."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root.resolve(), root.parent.resolve()
        self.trace, self.marks = self.folder / "trace", self.folder / "marks"

    def __enter__(self) -> "Recorder":
        if shutil.which("strace") is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(MISSING)
        # Where only parents may trace their children, allow it; elsewhere this call has no effect.
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)
        command = ["strace", "-f", "-y", "-xx", "-s", str(MAX_BYTES), "-e", f"trace={CALLS}"]
        command += ["-o", str(self.trace), "-p", str(os.getpid())]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        answer = self.process.stderr.readline()
        if "attached" not in answer:
            self._end()
            pytest.skip(f"tracing is not permitted here: {answer.strip()}")
        self.marks_file = os.open(self.marks, os.O_WRONLY | os.O_CREAT)
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self.marks_file)
        self._end()

    def _end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()

    def mark(self, text: str) -> None:
        os.write(self.marks_file, text.encode())

    def read(self) -> Record:
        """Return the operations, after the recording."""
        reader = _Reader(str(self.root), str(self.marks))
        with open(self.trace, encoding="ascii") as lines:
            for line in lines:
                reader.read(line.rstrip("\n"))
        return Record(reader.operations, set(reader.entries))


@dataclass
class _Reader:
    """Turns lines of strace into operations on inodes."""

    root: str
    marks: str
    operations: list = field(default_factory=list)
    entries: dict = field(default_factory=lambda: {ROOT: {}})  # by folder, as the running program sees them
    sizes: dict = field(default_factory=dict)  # of files
    positions: dict = field(default_factory=dict)  # by open file: inode and offset, None if it appends
    unfinished: dict = field(default_factory=dict)  # by thread: begun call, and operations before it
    inodes: int = 0

    def read(self, line: str) -> None:
        thread, text = _LINE.fullmatch(line).groups()
        began = len(self.operations)
        if text.endswith("<unfinished ...>"):
            self.unfinished[thread] = (text.removesuffix("<unfinished ...>"), began)
            return
        if resumed := _RESUMED.fullmatch(text):
            first, began = self.unfinished.pop(thread)
            text = first + resumed[1]
        call = _CALL.fullmatch(text)
        if call is None or call[3].startswith("-") or call[3] == "?":  # not a call, or one that failed
            return
        handler = getattr(self, f"_{call[1]}", None)
        arguments = [_Argument.of(match) for match in _ARGUMENT.finditer(call[2])]
        paths = [argument.path for argument in arguments if argument.path]
        joined = _join_names(arguments) if call[1].endswith("at") else []
        if any(map(self._is_inside, [*paths, *joined])):
            if handler is None:
                raise NotImplementedError(f"{call[1]} of {paths}")
            handler(arguments, int(call[3], 0), began)
        elif paths and paths[0] == self.marks and call[1] == "write":
            self.operations.append(Mark(arguments[1].data.decode()))

    def _is_inside(self, path: str) -> bool:
        inside = path == self.root or path.startswith(f"{self.root}/")
        return inside and not path.endswith(SHARED_MEMORY)

    def _resolve(self, path: str) -> int | None:
        inode = ROOT
        for name in path.removeprefix(self.root).strip("/").split("/"):
            inode = inode if name == "" else self.entries[inode].get(name)
            if inode is None:
                return None
        return inode

    def _split(self, path: str) -> tuple[int, str]:
        folder, _, name = path.rpartition("/")
        return self._resolve(folder), name

    def _change(self, folder: int, entries: dict[str, int | None]) -> None:
        for name, inode in entries.items():
            if inode is None:
                self.entries[folder].pop(name)
            else:
                self.entries[folder][name] = inode
        self.operations.append(Change(folder, entries))

    def _new(self, path: str, is_folder: bool) -> int:
        self.inodes += 1
        if is_folder:
            self.entries[self.inodes] = {}
        else:
            self.sizes[self.inodes] = 0
        folder, name = self._split(path)
        self._change(folder, {name: self.inodes})
        return self.inodes

    def _store(self, inode: int, offset: int, data: bytes, length: int) -> None:
        assert length <= MAX_BYTES
        data = data[:length]
        self.operations.append(Write(inode, offset, data))
        self.sizes[inode] = max(self.sizes[inode], offset + len(data))

    def _cut(self, inode: int, size: int) -> None:
        self.operations.append(Truncate(inode, size))
        self.sizes[inode] = size

    # The calls, each with its arguments, its result and the number of operations before it began.

    def _openat(self, arguments: list, result: int, began: int) -> None:
        path, flags = _at(arguments[0], arguments[1]), arguments[2].word
        inode = self._resolve(path)
        if inode is None:
            assert "O_CREAT" in flags, path
            inode = self._new(path, is_folder=False)
        elif "O_TRUNC" in flags and self.sizes[inode]:
            self._cut(inode, 0)
        self.positions[result] = (inode, None if "O_APPEND" in flags else 0)

    def _lseek(self, arguments: list, result: int, began: int) -> None:
        inode, position = self.positions.get(int(arguments[0].word), (ROOT, None))
        if inode in self.sizes and position is not None:  # not a folder that is listed
            self.positions[int(arguments[0].word)] = (inode, result)

    def _write(self, arguments: list, result: int, began: int) -> None:
        inode, position = self.positions[int(arguments[0].word)]
        self._store(inode, self.sizes[inode] if position is None else position, arguments[1].data, result)
        if position is not None:
            self.positions[int(arguments[0].word)] = (inode, position + result)

    def _pwrite64(self, arguments: list, result: int, began: int) -> None:
        inode, _ = self.positions[int(arguments[0].word)]
        self._store(inode, int(arguments[3].word), arguments[1].data, result)

    def _ftruncate(self, arguments: list, result: int, began: int) -> None:
        inode, _ = self.positions[int(arguments[0].word)]
        self._cut(inode, int(arguments[1].word))

    def _fsync(self, arguments: list, result: int, began: int) -> None:
        inode, _ = self.positions[int(arguments[0].word)]
        self.operations.append(Sync(inode, began))

    _fdatasync = _fsync

    def _mmap(self, arguments: list, result: int, began: int) -> None:
        flags = {argument.word for argument in arguments}
        if "MAP_SHARED" in flags and any("PROT_WRITE" in flag for flag in flags):
            raise NotImplementedError(f"writing to memory of {arguments[4].path}")

    def _mkdir(self, arguments: list, result: int, began: int) -> None:
        self._new(arguments[0].name, is_folder=True)

    def _rename(self, arguments: list, result: int, began: int) -> None:
        (folder, old), (target, new) = (self._split(argument.name) for argument in arguments[:2])
        assert folder == target, "a rename from one folder to another"
        self._change(folder, {new: self.entries[folder][old], old: None})

    def _link(self, arguments: list, result: int, began: int) -> None:
        folder, name = self._split(arguments[1].name)
        self._change(folder, {name: self._resolve(arguments[0].name)})

    def _unlink(self, arguments: list, result: int, began: int) -> None:
        folder, name = self._split(arguments[0].name)
        self._change(folder, {name: None})

    _rmdir = _unlink

    def _unlinkat(self, arguments: list, result: int, began: int) -> None:
        folder, name = self._split(_at(arguments[0], arguments[1]))
        self._change(folder, {name: None})


@dataclass(frozen=True)
class _Argument:
    data: bytes | None  # of a quoted text, which may be a name
    word: str
    path: str  # of an open file; of a quoted text that is an absolute path

    @classmethod
    def of(cls, match: re.Match) -> "_Argument":
        text, handle, path, word = match.groups()
        if text is not None:
            data = _decode(text)
            return cls(data, "", os.fsdecode(data) if data.startswith(b"/") else "")
        return cls(None, handle or word.strip(), os.fsdecode(_decode(path)) if handle else "")

    @property
    def name(self) -> str:
        return os.fsdecode(self.data) if self.data is not None else ""


def _decode(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _at(folder: _Argument, name: _Argument) -> str:
    return name.name if name.name.startswith("/") else f"{folder.path}/{name.name}"


def _join_names(arguments: list[_Argument]) -> list[str]:
    """Return paths that are given by an open folder and a name in it."""
    pairs = [(first.path, second.name) for first, second in pairwise(arguments)]
    return [f"{path}/{name}" for path, name in pairs if path and name and not name.startswith("/")]
