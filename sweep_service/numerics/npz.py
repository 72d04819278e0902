"""Arrays by name as one object, read so that it never takes more memory than it has bytes."""

from __future__ import annotations

import io
import zipfile

import numpy as np

from sweep_service.numerics.types import AnyArray


def arrays_in(content: bytes) -> dict[str, AnyArray]:
    """What `np.savez` wrote; ValueError, or what its readers raise, for anything else.

    Members are stored as they are. One that is compressed, or lies over others, would be larger than it
    looks; one whose header says more than follows it ends before memory is touched. Nothing is unpickled.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
    if any(one.compress_type != zipfile.ZIP_STORED for one in members):
        raise ValueError("it is compressed, which we never do")
    if sum(one.file_size for one in members) > len(content):
        raise ValueError("it says that it holds more than it has")
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        return {name: found[name] for name in found.files}
