"""Zarr stores that check what they read: a damaged chunk is an error that names it, never a number.

A missing chunk is legal Zarr and reads as fill values. It is an error here if a run in it has ended with
values, because the merger writes values before statuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from zarr import AsyncArray
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import FsspecStore, StorePath

from sweep_service.planning.runs import KINDS
from sweep_service.status import Status
from sweep_service.store.metadata import CHUNKS, DatasetMetadata, StoredArray, damage, seal_metadata
from sweep_service.store.objects import ROOT

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer, BufferPrototype

    from sweep_service.numerics.types import AnyArray

MISSING = "it is missing"


class CheckedReads:
    """Mixin of Zarr stores. It raises Damaged or TooNew for objects that cannot be used."""

    _metadata: DatasetMetadata | None = None

    @property
    def dataset_name(self) -> str:
        """The name of the dataset in messages, `<id>.zarr`."""
        raise NotImplementedError

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: Any = None
    ) -> Buffer | None:
        """Return the checked content of an object, or None if it may be missing."""
        content = await self._get(key, prototype, byte_range)
        if key == ROOT and content is not None:
            DatasetMetadata(content.to_bytes(), self.dataset_name)
        name, _, rest = key.partition("/")
        if rest.split("/")[0] != CHUNKS or byte_range is not None:
            return content
        metadata = await self._load_metadata()
        if metadata is None or name not in metadata.arrays:
            return content
        array = metadata.arrays[name]
        if content is None:
            return await self._get_missing(metadata, array, key, prototype)
        problem = await array.find_problem(content)
        if problem:
            raise damage(self.dataset_name, key, problem)
        return content

    async def _get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: Any = None
    ) -> Buffer | None:
        return await super().get(key, prototype or default_buffer_prototype(), byte_range)  # type: ignore[misc]

    async def _load_metadata(self) -> DatasetMetadata | None:
        """Return the metadata, or None while the dataset is being created."""
        if self._metadata is None:
            content = await self._get(ROOT)
            metadata = None if content is None else DatasetMetadata(content.to_bytes(), self.dataset_name)
            self._metadata = metadata if metadata is not None and metadata.is_complete else None
        return self._metadata

    async def _get_missing(
        self, metadata: DatasetMetadata, array: StoredArray, key: str, prototype: BufferPrototype | None
    ) -> Buffer | None:
        """Return None for a chunk that no run was written to, and raise Damaged otherwise."""
        kind, _, variable = array.name.partition("_")
        if kind not in KINDS or variable == "status":  # labels and statuses are written with the dataset
            if array.is_checked:
                raise damage(self.dataset_name, key, MISSING)
            return None
        if not array.is_checked and variable != "risk":  # older versions left out chunks of fill values
            return None
        statuses = await self._read_statuses(metadata, f"{kind}_status", array.region(key))
        required = (Status.DONE, Status.DIVERGED) if array.is_checked else (Status.DONE,)
        if not np.isin(statuses, required).any():
            return None
        content = await self._get(key, prototype)  # it may have been written since
        if content is None:
            raise damage(self.dataset_name, key, MISSING)
        return content

    async def _read_statuses(
        self, metadata: DatasetMetadata, name: str, region: tuple[slice, ...]
    ) -> AnyArray:
        stored: Any = metadata.arrays[name].metadata
        status: Any = AsyncArray(metadata=stored, store_path=StorePath(self, name))  # type: ignore[arg-type]
        return np.asarray(await status.getitem(region[: status.ndim]))


def seal_root(key: str, value: Buffer) -> Buffer:
    """Add the digest to root metadata that is about to be written; other objects are returned as they are."""
    return type(value).from_bytes(seal_metadata(value.to_bytes())) if key == ROOT else value


class HttpChunks(CheckedReads, FsspecStore):
    """The Zarr store of a sweep that a service serves."""

    @property
    def dataset_name(self) -> str:
        sweep_id = self.path.removesuffix("/zarr").rpartition("/")[2]
        return f"{sweep_id}.zarr"
