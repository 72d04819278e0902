"""Reading of named arrays from one object, in no more memory than the object has bytes."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np

from sweep_service.numerics.types import AnyArray

_END = struct.Struct("<4s4H2LH")  # the last record of an archive without a comment


def read_arrays(content: bytes) -> dict[str, AnyArray]:
    """Read the arrays that `np.savez` wrote; anything else raises ValueError or an error of zipfile or NumPy.

    Compressed or overlapping members are refused, because they could expand to more than `content` has
    bytes. Each member is read to its end, so that its CRC is checked before its header is believed. A
    member that is shorter than its header claims fails before memory is used. Nothing is unpickled.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("the archive is compressed; only uncompressed archives are accepted")
        if sum(member.file_size for member in members) > len(content):
            raise ValueError("the members of the archive claim more bytes than it has")
        if _count_members(content) != len(members):
            raise ValueError("a member of the archive is lost")
        return {member.filename.removesuffix(".npy"): _read_array(archive.read(member)) for member in members}


def _count_members(content: bytes) -> int:
    """Return the number of members that the end of the archive states; zipfile does not compare it."""
    signature, *_, count, _size, _offset, _comment = _END.unpack(content[-_END.size :])
    return int(count) if signature == b"PK\x05\x06" else -1


def _read_array(content: bytes) -> AnyArray:
    """Read one array; memory is allocated only for bytes that exist."""
    file = io.BytesIO(content)
    array = np.lib.format.read_array(file, allow_pickle=False)
    if file.tell() != len(content):
        raise ValueError("an array is shorter than its member of the archive")
    return array
