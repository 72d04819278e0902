"""Objects in a bucket of S3, or of a server that speaks its language.

Keys, region and endpoint come from the environment, under the names that every tool of S3 knows
(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL), or from the
machine's role. The server must know conditional writes, If-None-Match and If-Match.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
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
from sweep_service.store.objects import ROOT, MayWrite, checked_name, is_folder, nothing

if TYPE_CHECKING:
    from obstore import UpdateVersion
    from zarr.core.buffer import Buffer, BufferPrototype

_URL = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*?))?/?")
# Longer than that a call does not wait: who made it knows better what to tell people, and tries again.
CONNECT, ANSWER, PATIENCE = (timedelta(seconds=seconds) for seconds in (5, 30, 10))


@contextmanager
def answered(name: str) -> Iterator[None]:
    """What a bucket says in our words: nothing there, not allowed, or no answer."""
    try:
        yield
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error):  # all of it, not one object
            raise StoreGone(f"the object store does not answer: {_short(error)}") from None
        raise NotFound(f"no object named {name}") from None
    except (AlreadyExistsError, PreconditionError):  # what a conditional write is there for
        raise
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise StoreGone(f"the object store does not let us in: {_short(error)}") from None
    except BaseError as error:
        raise StoreGone(f"the object store does not answer: {_short(error)}") from None


def _short(error: Exception) -> str:
    """What the server said, or why nothing came: the text itself has pages of what led to it."""
    for pattern in (r"<Code>(\w+)</Code>", r"status code: (\d+[\w ]*)", r"HTTP error: ([\w ]+)"):
        if said := re.search(pattern, str(error)):
            return said[1].strip()
    return type(error).__name__


@dataclass(frozen=True)
class Found:
    content: bytes
    tag: str
    modified: datetime


class Bucket:
    """A bucket below a prefix: what objects, leases and readers stand on."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        bucket, prefix = split(self.url)
        self.store = _store(bucket, prefix, os.environ.get("AWS_ENDPOINT_URL", ""))

    def below(self, folder: str) -> Bucket:
        return Bucket(f"{self.url}/{folder}")

    def find(self, name: str) -> Found:
        with answered(name):
            found = obstore.get(self.store, name)
            meta = found.meta
            return Found(bytes(found.bytes()), meta["e_tag"] or "", meta["last_modified"])

    def exists(self, name: str) -> bool:
        try:
            with answered(name):
                obstore.head(self.store, name)
        except NotFound:
            return False
        return True

    def put(self, name: str, content: bytes, tag: str | None = None) -> str:
        """Write, only in place of what has the tag if one is given; the new tag."""
        mode: Literal["overwrite"] | UpdateVersion = "overwrite" if tag is None else {"e_tag": tag}
        with answered(name):
            return obstore.put(self.store, name, content, mode=mode, use_multipart=False)["e_tag"] or ""

    def create(self, name: str, content: bytes) -> str | None:
        """The tag of what was written, nothing if there was something of this name."""
        try:
            with answered(name):
                return (
                    obstore.put(self.store, name, content, mode="create", use_multipart=False)["e_tag"] or ""
                )
        except AlreadyExistsError:
            return None

    def delete(self, names: list[str]) -> None:
        with answered(", ".join(names[:3])):
            obstore.delete(self.store, names)

    def names(self, folder: str) -> Iterator[str]:
        """All names below a folder."""
        with answered(folder):
            for some in obstore.list(self.store, prefix=folder or None):
                yield from (one["path"] for one in some)

    def top(self, folder: str = "") -> tuple[list[str], list[str]]:
        """Names of objects and of folders right below a folder."""
        with answered(folder):
            found = obstore.list_with_delimiter(self.store, prefix=folder or None)
        return [one["path"] for one in found["objects"]], list(found["common_prefixes"])


class S3Chunks(ObjectStore[S3Store]):
    """Objects of a bucket: what is acknowledged is there."""

    def __init__(self, store: S3Store, *, read_only: bool = False, may_write: MayWrite = nothing) -> None:
        super().__init__(store, read_only=read_only)
        self.may_write = may_write

    def with_read_only(self, read_only: bool = False) -> S3Chunks:
        return type(self)(self.store, read_only=read_only, may_write=self.may_write)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: Any = None) -> Buffer | None:
        with answered(key):
            return await super().get(key, prototype, byte_range)

    async def set(self, key: str, value: Buffer) -> None:
        self.may_write()
        with answered(key):
            await super().set(key, value)

    async def delete(self, key: str) -> None:
        self.may_write()
        with answered(key):
            await super().delete(key)

    async def exists(self, key: str) -> bool:
        with answered(key):
            return await super().exists(key)

    def sync(self) -> None:
        """Nothing is left to do."""


class S3Objects:
    """Objects below a prefix of a bucket."""

    def __init__(self, url: str) -> None:
        self.bucket = Bucket(url)
        self.url = self.bucket.url
        self.may_write: MayWrite = nothing

    def prepare(self) -> None:
        """There are no folders to make."""

    def list(self, prefix: str = "") -> Iterator[str]:
        folder, _, stem = prefix.rpartition("/")
        if prefix.startswith("/") or (folder and not is_folder(folder)):
            return iter(())
        if not stem:
            found = list(self.bucket.names(folder))
        else:
            objects, folders = self.bucket.top(folder)
            found = [name for name in objects if name.startswith(prefix)]
            for one in folders:
                if one.startswith(prefix):
                    found += self.bucket.names(one)
        return iter(sorted(found))

    def get(self, name: str) -> bytes:
        return self.bucket.find(checked_name(name)).content

    def exists(self, name: str) -> bool:
        return self.bucket.exists(checked_name(name))

    def put(self, name: str, content: bytes) -> None:
        self.may_write()
        self.bucket.put(checked_name(name), content)

    def create(self, name: str, content: bytes) -> bool:
        self.may_write()
        return self.bucket.create(checked_name(name), content) is not None

    def delete(self, name: str) -> None:
        self.may_write()
        self.bucket.delete([checked_name(name)])

    def clear(self, folder: str) -> None:
        self.may_write()
        names = list(self.bucket.names(checked_name(folder)))
        root = f"{folder}/{ROOT}"
        if root in names:  # then nobody opens the rest any more
            self.bucket.delete([root])
        if names:
            self.bucket.delete(names)

    def top(self) -> set[str]:
        objects, folders = self.bucket.top()
        return {*objects, *folders}

    def sweep(self) -> int:
        """An object is there whole or not at all: nothing is left behind."""
        return 0

    def chunks(self, name: str) -> S3Chunks:
        return S3Chunks(self.bucket.below(checked_name(name)).store, may_write=lambda: self.may_write())

    @contextmanager
    def making(self, name: str) -> Iterator[S3Chunks]:
        """What there is of an earlier attempt goes first; nobody is told of it before it is complete."""
        self.clear(name)
        yield self.chunks(name)


def split(url: str) -> tuple[str, str]:
    """Bucket and prefix."""
    found = _URL.fullmatch(url)
    if found is None or (found[2] and not is_folder(found[2])):
        allowed = "must be s3://bucket or s3://bucket/folder, of letters, digits, _ . - and slashes"
        raise InvalidInput("data", url, allowed)
    return found[1], found[2] or ""


@lru_cache(maxsize=64)  # each has connections of its own
def _store(bucket: str, prefix: str, endpoint: str) -> S3Store:
    return S3Store(
        bucket,
        prefix=prefix or None,
        client_options={
            "timeout": ANSWER,
            "connect_timeout": CONNECT,
            "allow_http": endpoint.startswith("http://"),  # who writes so wants it so
        },
        retry_config={"max_retries": 5, "retry_timeout": PATIENCE},
    )
