"""States in which a loss of power may leave the files of a folder.

What a file or a folder had gained since its last completed fsync may be lost. A file may have any of its
writes, each whole, torn at any byte, or as zeros of the right length. A folder may have any of its changes:
a file system with a journal keeps a prefix of them in order, others may keep any. A rename is atomic. Nothing
is assumed that POSIX does not promise: an fsync of a new file does not store its name, and a rename does not
store the content of the file.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.chaos.system_calls import ROOT, SHARED_MEMORY, Change, Mark, Record, Sync, Truncate, Write

ALL, NONE, TORN, ZEROS = range(4)  # what is kept: a torn write ends early, or continues with zeros
Tree = dict[str, bytes | None]  # content of files by path; None for folders


@dataclass(frozen=True)
class Loss:
    """How much is kept of what was not flushed: of changes of folders, and of content, by index."""

    changes: Callable[[int], bool]
    content: Callable[[int], int]


def _prefix(rng: np.random.Generator, cut: int) -> Callable[[int], bool]:
    # Often close to the cut, where the changes are that are not flushed.
    end = cut - int(min(cut, rng.geometric(0.05)))
    return lambda index: index < end


def _keep_prefix(is_kept: Callable[[int], bool]) -> Loss:
    return Loss(is_kept, lambda index: ALL if is_kept(index) else NONE)


# Flushed operations are always kept. Of the others:
LOSSES: dict[str, Callable[[np.random.Generator, int], Loss]] = {
    "killed": lambda rng, cut: Loss(lambda _: True, lambda _: ALL),
    "nothing": lambda rng, cut: Loss(lambda _: False, lambda _: NONE),
    "names": lambda rng, cut: Loss(lambda _: True, lambda _: NONE),
    "content": lambda rng, cut: Loss(lambda _: False, lambda _: ALL),
    "zeros": lambda rng, cut: Loss(lambda _: True, lambda _: ZEROS),
    "torn": lambda rng, cut: Loss(lambda _: True, lambda _: TORN),
    "earlier": lambda rng, cut: _keep_prefix(_prefix(rng, cut)),
    "journal": lambda rng, cut: Loss(_prefix(rng, cut), lambda _: int(rng.integers(4))),
    "any": lambda rng, cut: Loss(lambda _: bool(rng.integers(2)), lambda _: int(rng.integers(4))),
}


@dataclass(frozen=True)
class Cut:
    """A loss of power after the first `length` operations."""

    length: int
    loss: str

    def rng(self) -> np.random.Generator:
        return np.random.default_rng([self.length, zlib.crc32(self.loss.encode())])


def rebuild(record: Record, cut: Cut) -> Tree:
    """Return the files as they may be after the cut."""
    rng = cut.rng()
    loss = LOSSES[cut.loss](rng, cut.length)
    done, covered = record.operations[: cut.length], dict[int, int]()
    for operation in done:
        if isinstance(operation, Sync):
            covered[operation.inode] = max(covered.get(operation.inode, 0), operation.covered)
    contents: dict[int, bytearray] = {}
    folders: dict[int, dict[str, int]] = {ROOT: {}}
    for index, operation in enumerate(done):
        if isinstance(operation, (Sync, Mark)):
            continue
        is_flushed = index < covered.get(operation.inode, 0)
        if isinstance(operation, Change):
            if is_flushed or loss.changes(index):
                _apply(folders.setdefault(operation.inode, {}), operation)
        else:
            kept = ALL if is_flushed else loss.content(index)
            _write(contents.setdefault(operation.inode, bytearray()), operation, kept, rng)
    return _collect(ROOT, "", folders, contents, record.folders)


def _apply(entries: dict[str, int], change: Change) -> None:
    for name, inode in change.entries.items():
        if inode is None:
            entries.pop(name, None)
        else:
            entries[name] = inode


def _write(content: bytearray, operation: Write | Truncate, kept: int, rng: np.random.Generator) -> None:
    if kept == NONE:
        return
    if isinstance(operation, Truncate):
        _resize(content, operation.size)
        return
    data = operation.data
    if kept != ALL:
        begin = data[: rng.integers(len(data) + 1)]
        data = begin if kept == TORN else begin.ljust(len(data), b"\0")
    _resize(content, max(len(content), operation.offset + len(data)))
    content[operation.offset : operation.offset + len(data)] = data


def _resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


def _collect(inode: int, path: str, folders: dict, contents: dict, known: set[int]) -> Tree:
    tree: Tree = {}
    for name, entry in folders.get(inode, {}).items():
        if entry in known:
            tree[path + name] = None
            tree |= _collect(entry, f"{path}{name}/", folders, contents, known)
        else:
            tree[path + name] = bytes(contents.get(entry, b""))
    return tree


def write_tree(tree: Tree, root: Path) -> None:
    root.mkdir(parents=True)
    for name, content in sorted(tree.items()):
        if content is None:
            (root / name).mkdir()
        else:
            (root / name).write_bytes(content)


def read_tree(root: Path) -> Tree:
    """Return the files of a folder, without those that SQLite makes anew."""
    paths = [path for path in root.rglob("*") if not path.name.endswith(SHARED_MEMORY)]
    return {str(path.relative_to(root)): None if path.is_dir() else path.read_bytes() for path in paths}


def marks_before(record: Record, cut: Cut) -> list[str]:
    return [operation.text for operation in record.operations[: cut.length] if isinstance(operation, Mark)]
