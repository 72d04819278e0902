"""A zip file from an unknown source: everything about its entries is checked before one is read.

Names that leave the archive, links, repeated names, encryption, and sizes beyond the limits are refused. An
entry is never written to disk under its own name.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from sweep_service.archives.contents import MAX_DIRECTORY_BYTES, MAX_FILES, MAX_RATIO
from sweep_service.errors import Damaged, InvalidInput, LimitExceeded
from sweep_service.store.objects import check_name
from sweep_service.text import format_size

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
LOCAL_HEADER_BYTES = 30  # before the name and the content of an entry
ENCRYPTED = 0x1  # flag of an entry
DOS_FOLDER = 0x10  # external attribute of an entry
END = struct.Struct("<4s4H2LH")  # the end record of a zip file
END_64, LOCATOR_64 = struct.Struct("<4sQ2H2L4Q"), struct.Struct("<4sLQL")
END_SIGNATURE, END_64_SIGNATURE, LOCATOR_64_SIGNATURE = b"PK\5\6", b"PK\6\6", b"PK\6\7"
# What the parsers of zip and deflate raise for damaged bytes.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    struct.error,
    NotImplementedError,
    RuntimeError,
    ValueError,
)


class SafeZip:
    """The checked entries of a zip file, read by name."""

    def __init__(self, file: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo]) -> None:
        self._file, self._entries = file, entries

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._entries)

    @property
    def total_bytes(self) -> int:
        return sum(entry.file_size for entry in self._entries.values())

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def size(self, name: str) -> int:
        return self._entries[name].file_size

    def read(self, name: str, max_bytes: int) -> bytes:
        """Return the content of an entry; raise LimitExceeded if it is larger than `max_bytes`."""
        entry = self._entries.get(name)
        if entry is None:
            raise Damaged(f"the archive has no {name}")
        if entry.file_size > max_bytes:
            allowed = f"must be at most {format_size(max_bytes)}"
            raise LimitExceeded(name, format_size(entry.file_size), allowed)
        try:
            with self._file.open(entry) as stream:
                content = stream.read(max_bytes + 1)
        except DAMAGE as error:
            raise Damaged(f"{name} in the archive cannot be read: {error}") from None
        if len(content) != entry.file_size:
            raise Damaged(f"{name} in the archive cannot be read: it has another size than it says")
        return content


@contextmanager
def open_zip(path: Path) -> Iterator[SafeZip]:
    """Open a zip file and check its table of contents."""
    with open(path, "rb") as stream:
        _check_directory_size(stream, path)
        try:
            with zipfile.ZipFile(stream) as file:
                yield SafeZip(file, _check_entries(file, os.fstat(stream.fileno()).st_size))
        except zipfile.BadZipFile as error:
            raise Damaged(f"{path} is no zip file: {error}") from None


def _check_directory_size(stream: IO[bytes], path: Path) -> None:
    """Read the sizes that the end of the file declares, before Python reads the whole table into memory."""
    size = os.fstat(stream.fileno()).st_size
    tail_size = min(size, END.size + LOCATOR_64.size)
    stream.seek(size - tail_size)
    tail = stream.read(tail_size)
    if tail[-END.size : -END.size + 4] != END_SIGNATURE:
        raise Damaged(f"{path} is no zip file, is cut off, or has a comment")
    _, _, _, _, count, directory_bytes, _, _ = END.unpack(tail[-END.size :])
    if tail[: -END.size][:4] == LOCATOR_64_SIGNATURE:
        _, _, position, _ = LOCATOR_64.unpack(tail[: -END.size])
        if position > size - END_64.size:
            raise Damaged(f"{path} is no zip file: its end record lies outside")
        stream.seek(position)
        signature, _, _, _, _, _, _, count, directory_bytes, _ = END_64.unpack(stream.read(END_64.size))
        if signature != END_64_SIGNATURE:
            raise Damaged(f"{path} is no zip file: it has no end record")
    if count > MAX_FILES:
        raise LimitExceeded("files", count, f"must be at most {MAX_FILES} in an archive")
    if directory_bytes > MAX_DIRECTORY_BYTES:
        allowed = f"must be at most {format_size(MAX_DIRECTORY_BYTES)}"
        raise LimitExceeded("table of contents", format_size(directory_bytes), allowed)
    stream.seek(0)


def _check_entries(file: zipfile.ZipFile, archive_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """Return the entries by name; folders, which some programs add, are left out."""
    entries: dict[str, zipfile.ZipInfo] = {}
    spellings: set[str] = set()  # in lower case, because some file systems do not tell cases apart
    if len(file.infolist()) > MAX_FILES:
        raise LimitExceeded("files", len(file.infolist()), f"must be at most {MAX_FILES} in an archive")
    for entry in file.infolist():
        name = _check_name(entry)
        if name.lower() in spellings:
            raise InvalidInput("file", name, "must be in the archive once, also if case is ignored")
        spellings.add(name.lower())
        _check_kind(entry)
        _check_size(entry)
        if not entry.is_dir():
            entries[name] = entry
    _check_overlap(entries, archive_bytes)
    return entries


def _check_name(entry: zipfile.ZipInfo) -> str:
    """Return the name of an entry if it is a relative path of plain components."""
    # `filename` ends at a null byte and has other separators replaced; such names are not accepted.
    if entry.orig_filename != entry.filename:
        raise InvalidInput("file", entry.orig_filename, "must be a relative path with slashes")
    return check_name(entry.filename.removesuffix("/"))


def _check_kind(entry: zipfile.ZipInfo) -> None:
    """Accept files and folders: no links, no devices, nothing encrypted, only common compression."""
    mode = entry.external_attr >> 16
    kind = stat.S_IFMT(mode)
    is_folder = entry.is_dir() or bool(entry.external_attr & DOS_FOLDER)
    if kind not in (0, stat.S_IFDIR if is_folder else stat.S_IFREG):
        raise InvalidInput("file", entry.filename, "must be a plain file, and no link or device")
    if is_folder and (entry.file_size or not entry.is_dir()):
        raise InvalidInput("file", entry.filename, "is a folder and a file")
    if entry.flag_bits & ENCRYPTED:
        raise InvalidInput("file", entry.filename, "must not be encrypted")
    if entry.compress_type not in METHODS:
        raise InvalidInput("file", entry.filename, "must be stored or deflated")


def _check_size(entry: zipfile.ZipInfo) -> None:
    if entry.file_size > MAX_RATIO * max(entry.compress_size, 1):
        allowed = f"must be at most {MAX_RATIO} times as large as in the archive"
        raise LimitExceeded(entry.filename, format_size(entry.file_size), allowed)
    if entry.compress_type == zipfile.ZIP_STORED and entry.file_size != entry.compress_size:
        raise Damaged(f"{entry.filename} in the archive cannot be read: it has two sizes")


def _check_overlap(entries: Mapping[str, zipfile.ZipInfo], archive_bytes: int) -> None:
    """Refuse entries that share bytes, by which a small archive can seem to hold much."""
    end, last = 0, ""
    for entry in sorted(entries.values(), key=lambda entry: entry.header_offset):
        if entry.header_offset < end:
            raise InvalidInput("file", entry.filename, f"must not share bytes with {last}")
        end, last = entry.header_offset + LOCAL_HEADER_BYTES + entry.compress_size, entry.filename
    if end > archive_bytes:
        raise Damaged("the archive is cut off")
