"""Where zarr keeps the chunks of a dataset: below a folder, or in a bucket.

Before each write `may_write` has its say, and raises if there should be none.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from zarr.storage import LocalStore, ObjectStore

from sweep_service.store.objects import MayWrite, nothing, sync

if TYPE_CHECKING:
    from obstore.store import S3Store
    from zarr.core.buffer import Buffer, BufferPrototype


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


class S3Chunks(ObjectStore["S3Store"]):
    """Objects of a bucket: what is acknowledged is there."""

    def __init__(self, store: S3Store, *, read_only: bool = False, may_write: MayWrite = nothing) -> None:
        super().__init__(store, read_only=read_only)
        self.may_write = may_write

    def with_read_only(self, read_only: bool = False) -> S3Chunks:
        return type(self)(self.store, read_only=read_only, may_write=self.may_write)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: Any = None) -> Buffer | None:
        from sweep_service.store.s3 import answered

        with answered(key):
            return await super().get(key, prototype, byte_range)

    async def set(self, key: str, value: Buffer) -> None:
        from sweep_service.store.s3 import answered

        self.may_write()
        with answered(key):
            await super().set(key, value)

    async def delete(self, key: str) -> None:
        from sweep_service.store.s3 import answered

        self.may_write()
        with answered(key):
            await super().delete(key)

    async def exists(self, key: str) -> bool:
        from sweep_service.store.s3 import answered

        with answered(key):
            return await super().exists(key)

    def sync(self) -> None:
        """Nothing is left to do."""


Chunks: TypeAlias = LocalChunks | S3Chunks
