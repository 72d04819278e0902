"""Objects in a bucket of S3 or of a compatible server.

Credentials, region and endpoint come from the usual environment variables (AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL) or from the role of the machine. The
server must support conditional writes (If-None-Match and If-Match).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import S3Store
from zarr.storage import ObjectStore

from sweep_service.errors import InvalidInput, NotFound, StoreGone
from sweep_service.store.checked import CheckedReads, seal_root
from sweep_service.store.objects import ROOT, WriteGuard, check_name, is_folder_name, no_guard

if TYPE_CHECKING:
    from obstore import UpdateVersion
    from zarr.core.buffer import Buffer, BufferPrototype

_URL = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*?))?/?")
# Calls fail after these times, because the caller can report the problem and retry.
CONNECT_TIMEOUT = timedelta(seconds=5)
RESPONSE_TIMEOUT = timedelta(seconds=30)
RETRY_TIMEOUT = timedelta(seconds=10)


@contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """Translate errors of the bucket to NotFound or StoreGone."""
    try:
        yield
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error):  # the whole bucket is missing, not one object
            raise StoreGone(f"the object store does not answer: {_short(error)}") from None
        raise NotFound(f"no object named {name}") from None
    except (AlreadyExistsError, PreconditionError):  # the outcome of a conditional write
        raise
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise StoreGone(f"the object store denies access: {_short(error)}") from None
    except BaseError as error:
        raise StoreGone(f"the object store does not answer: {_short(error)}") from None


def _short(error: Exception) -> str:
    """Return the error code of the server or the cause of the failure, without the long context."""
    for pattern in (r"<Code>(\w+)</Code>", r"status code: (\d+[\w ]*)", r"HTTP error: ([\w ]+)"):
        if match := re.search(pattern, str(error)):
            return match[1].strip()
    return type(error).__name__


@dataclass(frozen=True)
class BucketObject:
    """The content of an object, its entity tag, and the time of its last change."""

    content: bytes
    tag: str
    modified: datetime


class Bucket:
    """The objects of a bucket below a prefix."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        bucket, prefix = split_url(self.url)
        self.store = _open_store(bucket, prefix, os.environ.get("AWS_ENDPOINT_URL", ""))

    def below(self, folder: str) -> Bucket:
        return Bucket(f"{self.url}/{folder}")

    def fetch(self, name: str) -> BucketObject:
        with translate_errors(name):
            response = obstore.get(self.store, name)
            meta = response.meta
            return BucketObject(bytes(response.bytes()), meta["e_tag"] or "", meta["last_modified"])

    def exists(self, name: str) -> bool:
        try:
            with translate_errors(name):
                obstore.head(self.store, name)
        except NotFound:
            return False
        return True

    def put(self, name: str, content: bytes, tag: str | None = None) -> str:
        """Write an object and return its new tag. With `tag`, replace only an object that has this tag."""
        mode: Literal["overwrite"] | UpdateVersion = "overwrite" if tag is None else {"e_tag": tag}
        with translate_errors(name):
            return obstore.put(self.store, name, content, mode=mode, use_multipart=False)["e_tag"] or ""

    def create(self, name: str, content: bytes) -> str | None:
        """Write an object unless it exists; return its tag, or None if it exists."""
        try:
            with translate_errors(name):
                return (
                    obstore.put(self.store, name, content, mode="create", use_multipart=False)["e_tag"] or ""
                )
        except AlreadyExistsError:
            return None

    def delete(self, names: list[str]) -> None:
        with translate_errors(", ".join(names[:3])):
            obstore.delete(self.store, names)

    def names(self, folder: str) -> Iterator[str]:
        """Iterate over all names below a folder."""
        with translate_errors(folder):
            for page in obstore.list(self.store, prefix=folder or None):
                yield from (meta["path"] for meta in page)

    def size(self, folder: str) -> int:
        """Return the total bytes of the objects below a folder."""
        with translate_errors(folder):
            return sum(meta["size"] for page in obstore.list(self.store, prefix=folder) for meta in page)

    def list_top(self, folder: str = "") -> tuple[list[str], list[str]]:
        """Return the names of objects and of folders directly below a folder."""
        with translate_errors(folder):
            listing = obstore.list_with_delimiter(self.store, prefix=folder or None)
        return [meta["path"] for meta in listing["objects"]], list(listing["common_prefixes"])


class S3Chunks(CheckedReads, ObjectStore[S3Store]):
    """A zarr store in a bucket, where a write that returned is durable."""

    def __init__(
        self, store: S3Store, *, read_only: bool = False, write_guard: WriteGuard = no_guard
    ) -> None:
        super().__init__(store, read_only=read_only)
        self.write_guard = write_guard

    def with_read_only(self, read_only: bool = False) -> S3Chunks:
        return type(self)(self.store, read_only=read_only, write_guard=self.write_guard)

    @property
    def dataset_name(self) -> str:
        return str(self.store.prefix).rpartition("/")[2]

    async def _get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: Any = None
    ) -> Buffer | None:
        with translate_errors(key):
            return await super()._get(key, prototype, byte_range)

    async def set(self, key: str, value: Buffer) -> None:
        self.write_guard()
        with translate_errors(key):
            await super().set(key, seal_root(key, value))

    async def delete(self, key: str) -> None:
        self.write_guard()
        with translate_errors(key):
            await super().delete(key)

    async def exists(self, key: str) -> bool:
        with translate_errors(key):
            return await super().exists(key)

    def sync(self) -> None:
        """Do nothing: writes are durable."""

    def batch(self) -> AbstractContextManager[None]:
        """Do nothing: writes are atomic and durable."""
        return nullcontext()


class S3Objects:
    """Objects below a prefix of a bucket."""

    def __init__(self, url: str) -> None:
        self.bucket = Bucket(url)
        self.url = self.bucket.url
        self.write_guard: WriteGuard = no_guard

    def prepare(self) -> None:
        """Do nothing: a bucket has no folders."""

    def list(self, prefix: str = "") -> Iterator[str]:
        folder, _, stem = prefix.rpartition("/")
        if prefix.startswith("/") or (folder and not is_folder_name(folder)):
            return iter(())
        if not stem:
            names = list(self.bucket.names(folder))
        else:
            objects, folders = self.bucket.list_top(folder)
            names = [name for name in objects if name.startswith(prefix)]
            for name in folders:
                if name.startswith(prefix):
                    names += self.bucket.names(name)
        return iter(sorted(names))

    def size(self, folder: str) -> int:
        return self.bucket.size(check_name(folder))

    def get(self, name: str) -> bytes:
        return self.bucket.fetch(check_name(name)).content

    def exists(self, name: str) -> bool:
        return self.bucket.exists(check_name(name))

    def put(self, name: str, content: bytes) -> None:
        self.write_guard()
        self.bucket.put(check_name(name), content)

    def create(self, name: str, content: bytes) -> bool:
        self.write_guard()
        return self.bucket.create(check_name(name), content) is not None

    def delete(self, *names: str) -> None:
        self.write_guard()
        if names:
            self.bucket.delete([check_name(name) for name in names])

    def clear(self, folder: str) -> None:
        self.write_guard()
        names = list(self.bucket.names(check_name(folder)))
        root = f"{folder}/{ROOT}"
        if root in names:  # first, because a dataset without it cannot be opened
            self.bucket.delete([root])
        if names:
            self.bucket.delete(names)

    def list_top(self) -> set[str]:
        objects, folders = self.bucket.list_top()
        return {*objects, *folders}

    def remove_partial_files(self) -> int:
        """Do nothing: writes are atomic and leave no partial objects."""
        return 0

    def chunks(self, name: str) -> S3Chunks:
        return S3Chunks(self.bucket.below(check_name(name)).store, write_guard=lambda: self.write_guard())

    @contextmanager
    def creating_dataset(self, name: str) -> Iterator[S3Chunks]:
        """Remove what an earlier attempt left; readers do not know of the dataset until it is complete."""
        self.clear(name)
        yield self.chunks(name)


def split_url(url: str) -> tuple[str, str]:
    """Return the bucket and the prefix of an s3:// URL."""
    match = _URL.fullmatch(url)
    if match is None or (match[2] and not is_folder_name(match[2])):
        allowed = "must be s3://bucket or s3://bucket/folder, of letters, digits, _ . - and slashes"
        raise InvalidInput("data", url, allowed)
    return match[1], match[2] or ""


@lru_cache(maxsize=64)  # because each store opens its own connections
def _open_store(bucket: str, prefix: str, endpoint: str) -> S3Store:
    return S3Store(
        bucket,
        prefix=prefix or None,
        client_options={
            "timeout": RESPONSE_TIMEOUT,
            "connect_timeout": CONNECT_TIMEOUT,
            "allow_http": endpoint.startswith("http://"),  # only if the endpoint explicitly says so
        },
        retry_config={"max_retries": 5, "retry_timeout": RETRY_TIMEOUT},
    )
