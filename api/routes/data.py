"""Stored data over HTTP: the Zarr store itself, and exports of a selection."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from fastapi import APIRouter, Query, Request
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from sweep_service.analysis.export import FORMATS, export, export_bytes
from sweep_service.analysis.selection import select, select_variables
from sweep_service.api.conductor_thread import limited_concurrency
from sweep_service.api.error_responses import responses
from sweep_service.api.routes.figures import SELECTION_HELP, matches_etag, query_options
from sweep_service.api.routes.sweeps import Id, Service
from sweep_service.api.schemas.selection_words import document_selection
from sweep_service.errors import LimitExceeded, NotFound, SweepError
from sweep_service.store.metadata import DatasetMetadata
from sweep_service.store.objects import ROOT

if TYPE_CHECKING:
    from sweep_service.store.s3 import BucketObject

router = APIRouter(prefix="/v1/sweeps/{id}", tags=["data"], responses=responses(404))

PATH_SEGMENT = re.compile(r"(?!\.\.?$)[A-Za-z0-9_.-]{1,200}")
MAX_PATH_SEGMENTS = 20
BLOCK_BYTES = 1 << 20  # larger responses are sent in blocks of this size
FILE = {"type": "string", "format": "binary"}
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


@router.api_route("/zarr/{path:path}", methods=["GET", "HEAD"], response_model=None, include_in_schema=False)
def zarr(service: Service, request: Request, id: Id, path: str) -> Response:
    """The Zarr store, read-only: xr.open_zarr can open this URL, even while the sweep runs.

    Chunks are served as they are stored, and the reader checks their checksums. Metadata that is damaged, or
    has a newer layout, is refused.
    """
    service.status_cache.read(id)
    segments = path.split("/")
    if len(segments) > MAX_PATH_SEGMENTS or not all(PATH_SEGMENT.fullmatch(name) for name in segments):
        raise NotFound("no such object")
    root = service.folder.dataset_path(id)
    if isinstance(root, str):
        from sweep_service.store.s3 import Bucket

        source: Source = BucketSource(Bucket(root).fetch(path))
    else:
        source = _open_file(root, segments)
    if path == ROOT:
        _check_metadata(source, f"{id}.zarr")
    return _respond(source, request)


def _check_metadata(source: Source, name: str) -> None:
    """Raise Damaged or TooNew, and close the source, if this root metadata cannot be used."""
    try:
        DatasetMetadata(source.read(0, source.size), name)
    except SweepError:
        source.close()
        raise


class Source(Protocol):
    """An object as it was when opened; it may be replaced in the store at any moment."""

    size: int
    tag: str
    modified: float

    def read(self, first: int, length: int) -> bytes: ...

    def close(self) -> None: ...


class FileSource:
    """An open file; size and tag are of this handle, not of the path."""

    def __init__(self, handle: int, stats: os.stat_result) -> None:
        self.handle, self.size, self.modified = handle, stats.st_size, stats.st_mtime
        self.tag = f'"{stats.st_ino:x}-{stats.st_mtime_ns:x}-{stats.st_size:x}"'

    def read(self, first: int, length: int) -> bytes:
        return os.pread(self.handle, length, first)

    def close(self) -> None:
        os.close(self.handle)


class BucketSource:
    """An object of a bucket, read at once to be consistent; chunks have a few megabytes."""

    def __init__(self, stored: BucketObject) -> None:
        self.content, self.size = stored.content, len(stored.content)
        self.tag, self.modified = stored.tag, stored.modified.timestamp()

    def read(self, first: int, length: int) -> bytes:
        return self.content[first : first + length]

    def close(self) -> None:
        """Nothing to close: the content is in memory."""


def _open_file(root: Path, segments: list[str]) -> FileSource:
    path = root.joinpath(*segments)
    try:
        if path.parent.resolve() != root.resolve().joinpath(*segments[:-1]):  # through a symbolic link
            raise NotFound("no such object")
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        raise NotFound("no such object") from None
    stats = os.fstat(handle)
    if not stat.S_ISREG(stats.st_mode):
        os.close(handle)
        raise NotFound("no such object")
    return FileSource(handle, stats)


def _respond(source: Source, request: Request) -> Response:
    """Return the source, or the requested range of it; closes the source now or after sending."""
    with ExitStack() as stack:
        stack.callback(source.close)
        size, tag, request_headers = source.size, source.tag, request.headers
        headers = {
            "ETag": tag, "Cache-Control": "no-cache", "Accept-Ranges": "bytes",
            "Last-Modified": formatdate(source.modified, usegmt=True),
        }  # fmt: skip
        if matches_etag(request, tag):
            return Response(status_code=304, headers=headers)
        first, last, status = 0, size - 1, 200
        allows_range = request.method == "GET" and request_headers.get("if-range", tag) == tag
        byte_range = _RANGE.fullmatch(request_headers.get("range", "")) if allows_range else None
        if byte_range is not None and _is_valid_range(byte_range[1], byte_range[2]):
            first, last = _range_bounds(byte_range[1], byte_range[2], size)
            if first > last:
                raise HTTPException(416, "the range is beyond the end", {"Content-Range": f"bytes */{size}"})
            status, headers["Content-Range"] = 206, f"bytes {first}-{last}/{size}"
        length = last - first + 1
        headers["Content-Length"] = str(length)
        media_type = "application/octet-stream"
        if request.method == "HEAD" or length <= BLOCK_BYTES:
            content = b"" if request.method == "HEAD" else source.read(first, length)
            return Response(content, status, headers, media_type)
        stack.pop_all()
        return SourceResponse(source, first, last, status, headers, media_type)


def _is_valid_range(begin: str, end: str) -> bool:
    """Whether a range is valid; an invalid one is ignored, not an error (RFC 9110, 14.2)."""
    return int(begin) <= int(end) if begin and end else bool(begin or end)


def _range_bounds(begin: str, end: str, size: int) -> tuple[int, int]:
    """Return the first and last byte of a range; without `begin`, of the last `end` bytes."""
    if not begin:
        return max(0, size - int(end)), size - 1
    return int(begin), min(int(end), size - 1) if end else size - 1


class SourceResponse(StreamingResponse):
    """Streams a range of a source, and closes it even if the client disconnects before the first block."""

    def __init__(self, source: Source, first: int, last: int, *rest: Any) -> None:
        super().__init__(_blocks(source, first, last), *rest)
        self.source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.source.close()


def _blocks(source: Source, first: int, last: int) -> Iterator[bytes]:
    while first <= last:
        block = source.read(first, min(BLOCK_BYTES, last - first + 1))
        if not block:
            return
        first += len(block)
        yield block


def _selection(request: Request) -> dict[str, str]:
    """Return the query parameters that select along dimensions of the dataset."""
    return {
        name: value for name, value in query_options(request).items() if name not in ("format", "variables")
    }


@router.get(
    "/data",
    operation_id="export_data",
    description=f"Export a selection as one file. {SELECTION_HELP}",
    response_model=None,
    openapi_extra=document_selection(),
    responses={
        200: {
            "description": "A file",
            "content": {
                entry.media_type: {"schema": FILE if name != "json" else {"type": "object"}}
                for name, entry in FORMATS.items()
            },
        }
    },
)
@limited_concurrency
def data(
    service: Service,
    request: Request,
    id: Id,
    format: Annotated[Literal[tuple(FORMATS)], Query()] = "netcdf",  # type: ignore[valid-type]
    names: Annotated[
        str | None, Query(alias="variables", max_length=2000, description="Names, separated by commas")
    ] = None,
) -> Response:
    service.ledger.sweep(id)
    with service.open_dataset(id) as stored:
        chosen = select(stored, _selection(request))
        if names is not None:
            chosen = select_variables(chosen, names)
        size, max_bytes = export_bytes(chosen), service.settings.max_export_bytes
        if size > max_bytes:
            raise LimitExceeded(
                "selection",
                f"{size} bytes",
                f"must be at most {max_bytes} bytes: select less, or use xr.open_zarr",
            )
        folder = tempfile.TemporaryDirectory(prefix="sweep-")
        try:
            file = Path(folder.name) / f"{id}{FORMATS[format].suffix}"
            export(chosen, file, format)
        except BaseException:
            folder.cleanup()
            raise
    return FileResponse(
        file,
        media_type=FORMATS[format].media_type,
        filename=file.name,
        background=BackgroundTask(folder.cleanup),
    )
