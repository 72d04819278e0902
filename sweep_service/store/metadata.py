"""The root metadata of a dataset, `zarr.json`: its digest, its layout version and the chunks of its arrays.

Each chunk of an array ends with a checksum, by Zarr's codec `crc32c`, which other readers know as well. The
metadata itself has a digest in the attribute `metadata_sha256`. Datasets of older versions have neither; of
their chunks only the length is checked.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.buffer import default_buffer_prototype

from sweep_service.errors import Damaged, NotFound, TooNew, reading
from sweep_service.planning.schema import LAYOUT_VERSION
from sweep_service.store.objects import ROOT, Objects

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer

DIGEST = "metadata_sha256"
COMPRESSORS = (ZstdCodec(), Crc32cCodec())  # of every array of a new dataset
CHUNKS = "c"  # the folder of the chunks of an array
WRONG_CHECKSUM = "its checksum is wrong"
_SPEC: Any = SimpleNamespace(prototype=default_buffer_prototype())  # all that these codecs need to decode


@dataclass(frozen=True)
class StoredArray:
    """The metadata of one array."""

    name: str
    metadata: Mapping[str, Any]

    @cached_property
    def codecs(self) -> list[str]:
        return [codec["name"] for codec in self.metadata["codecs"]]

    @property
    def is_checked(self) -> bool:
        """Whether the chunks have checksums; then chunks are stored even if they hold only fill values."""
        return self.codecs[-1:] == ["crc32c"]

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(self.metadata["dimension_names"])

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.metadata["shape"])

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        return tuple(self.metadata["chunk_grid"]["configuration"]["chunk_shape"])

    def chunk_keys(self) -> Iterator[str]:
        """Iterate over the keys of all chunks."""
        counts = (math.ceil(size / chunk) for size, chunk in zip(self.shape, self.chunk_shape, strict=True))
        for index in product(*map(range, counts)):
            yield "/".join((self.name, CHUNKS, *map(str, index)))

    def region(self, key: str) -> tuple[slice, ...]:
        """Return the part of the array that the chunk with this key holds."""
        indices = [int(index) for index in key.split("/")[2:]]
        return tuple(
            slice(index * chunk, min((index + 1) * chunk, size))
            for index, chunk, size in zip(indices, self.chunk_shape, self.shape, strict=True)
        )

    def is_stored(self, objects: Objects, dataset: str) -> bool:
        """Whether the array's own metadata, for readers of single arrays, is the same."""
        try:
            content = json.loads(objects.get(f"{dataset}/{self.name}/{ROOT}"))
        except (ValueError, NotFound):
            return False
        return content == self.metadata

    async def find_problem(self, content: Buffer) -> str:
        """Return what is wrong with the stored bytes of a chunk, or ""."""
        if self.is_checked:
            try:
                await Crc32cCodec().decode([(content, _SPEC)])
            except ValueError:
                return WRONG_CHECKSUM
            return ""
        if self.codecs != ["bytes", "zstd"]:
            return ""
        try:
            (decoded,) = await ZstdCodec().decode([(content, _SPEC)])
        except (RuntimeError, ValueError):
            return "it cannot be decompressed"
        expected = math.prod(self.chunk_shape) * np.dtype(self.metadata["data_type"]).itemsize
        return "" if decoded is not None and len(decoded) == expected else "it has another size"


class DatasetMetadata:
    """The parsed root metadata of the dataset `name`; raises Damaged or TooNew if it cannot be used."""

    def __init__(self, content: bytes, name: str) -> None:
        self.name = name
        with reading(f"{name}/{ROOT}"):
            root = json.loads(content)
            self.attributes: dict[str, Any] = root.get("attributes") or {}
            arrays = (root.get("consolidated_metadata") or {}).get("metadata", {})
            self.arrays = {key: StoredArray(key, entry) for key, entry in arrays.items() if "shape" in entry}
            version = int(str(self.attributes.get("layout_version", LAYOUT_VERSION)))
        if version > LAYOUT_VERSION:
            raise TooNew(
                f"{name} has layout {version}, but this version reads only {LAYOUT_VERSION} and older: "
                "upgrade sweep_service"
            )
        has_checksums = any(array.is_checked for array in self.arrays.values())
        if self.attributes.get(DIGEST, None if has_checksums else digest(root)) != digest(root):
            raise damage(name, ROOT, WRONG_CHECKSUM)

    @property
    def is_complete(self) -> bool:
        """Whether it lists the arrays, which it does not while the dataset is being created."""
        return bool(self.arrays)

    @property
    def has_checksums(self) -> bool:
        return all(array.is_checked for array in self.arrays.values())


def seal_metadata(content: bytes) -> bytes:
    """Return the root metadata of a group with its digest among the attributes."""
    root = json.loads(content)
    attributes = {name: value for name, value in root.get("attributes", {}).items() if name != DIGEST}
    root["attributes"] = {**attributes, DIGEST: digest(root)}
    return json.dumps(root, indent=2).encode()


def digest(root: Mapping[str, Any]) -> str:
    """Digest the root metadata without its own digest."""
    attributes = {name: value for name, value in root.get("attributes", {}).items() if name != DIGEST}
    text = json.dumps({**root, "attributes": attributes}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def damage(dataset: str, key: str, reason: str) -> Damaged:
    """Make the error for a damaged object of a dataset."""
    sweep_id = dataset.partition(".")[0]
    advice = f"sweep doctor --verify {sweep_id} lists all damage, and --repair has it computed again"
    return Damaged(f"{dataset}/{key} cannot be read: {reason}; {advice}")
