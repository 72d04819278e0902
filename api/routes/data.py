"""What is stored, by HTTP: the Zarr store itself, and exports of a selection."""

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
from sweep_service.analysis.selection import select, variables
from sweep_service.api.conductor_thread import long
from sweep_service.api.error_responses import responses
from sweep_service.api.routes.figures import CHOICE, options_of
from sweep_service.api.routes.sweeps import Here, Id
from sweep_service.errors import LimitExceeded, NotFound

if TYPE_CHECKING:
    from sweep_service.store.s3 import Found

router = APIRouter(prefix="/v1/sweeps/{id}", tags=["data"], responses=responses(404))

PART = re.compile(r"(?!\.\.?$)[A-Za-z0-9_.-]{1,200}")
LONGEST = 20  # parts of a path
BLOCK = 1 << 20  # bytes of a file at once
FILE = {"type": "string", "format": "binary"}
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


@router.api_route("/zarr/{path:path}", methods=["GET", "HEAD"], response_model=None, include_in_schema=False)
def zarr(engine: Here, request: Request, id: Id, path: str) -> Response:
    """The store, read-only: xr.open_zarr opens it here, also while it grows."""
    engine.board.read(id)
    parts = path.split("/")
    if len(parts) > LONGEST or not all(PART.fullmatch(part) for part in parts):
        raise NotFound("no such object")
    root = engine.folder.dataset_path(id)
    if isinstance(root, str):
        from sweep_service.store.s3 import Bucket

        return _answer(InBucket(Bucket(root).find(path)), request)
    return _answer(_opened(root, parts), request)


class Source(Protocol):
    """An object as it was when it was opened: it may be replaced at any moment."""

    size: int
    tag: str
    modified: float

    def read(self, first: int, length: int) -> bytes: ...

    def close(self) -> None: ...


class InFile:
    """All that is said is of what was opened."""

    def __init__(self, handle: int, about: os.stat_result) -> None:
        self.handle, self.size, self.modified = handle, about.st_size, about.st_mtime
        self.tag = f'"{about.st_ino:x}-{about.st_mtime_ns:x}-{about.st_size:x}"'

    def read(self, first: int, length: int) -> bytes:
        return os.pread(self.handle, length, first)

    def close(self) -> None:
        os.close(self.handle)


class InBucket:
    """A chunk is some megabytes: read whole, it is of one moment."""

    def __init__(self, found: Found) -> None:
        self.content, self.size = found.content, len(found.content)
        self.tag, self.modified = found.tag, found.modified.timestamp()

    def read(self, first: int, length: int) -> bytes:
        return self.content[first : first + length]

    def close(self) -> None:
        """It is in memory."""


def _opened(root: Path, parts: list[str]) -> InFile:
    place = root.joinpath(*parts)
    try:
        if place.parent.resolve() != root.resolve().joinpath(*parts[:-1]):  # a link leads elsewhere
            raise NotFound("no such object")
        handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        raise NotFound("no such object") from None
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode):
        os.close(handle)
        raise NotFound("no such object")
    return InFile(handle, about)


def _answer(source: Source, request: Request) -> Response:
    """Closes the source, now or when all was sent."""
    with ExitStack() as stack:
        stack.callback(source.close)
        size, tag, asked = source.size, source.tag, request.headers
        headers = {
            "ETag": tag, "Cache-Control": "no-cache", "Accept-Ranges": "bytes",
            "Last-Modified": formatdate(source.modified, usegmt=True),
        }  # fmt: skip
        seen = [one.strip().removeprefix("W/") for one in asked.get("if-none-match", "").split(",")]
        if tag in seen or "*" in seen:
            return Response(status_code=304, headers=headers)
        first, last, status = 0, size - 1, 200
        ranged = request.method == "GET" and asked.get("if-range", tag) == tag
        wanted = _RANGE.fullmatch(asked.get("range", "")) if ranged else None
        if wanted is not None and _is_range(wanted[1], wanted[2]):
            first, last = _bounds(wanted[1], wanted[2], size)
            if first > last:
                raise HTTPException(416, "beyond the end", {"Content-Range": f"bytes */{size}"})
            status, headers["Content-Range"] = 206, f"bytes {first}-{last}/{size}"
        length = last - first + 1
        headers["Content-Length"] = str(length)
        kind = "application/octet-stream"
        if request.method == "HEAD" or length <= BLOCK:
            content = b"" if request.method == "HEAD" else source.read(first, length)
            return Response(content, status, headers, kind)
        stack.pop_all()
        return Blocks(source, first, last, status, headers, kind)


def _is_range(begin: str, end: str) -> bool:
    """What is none is not to be obeyed, and no error either (RFC 9110, 14.2)."""
    return int(begin) <= int(end) if begin and end else bool(begin or end)


def _bounds(begin: str, end: str, size: int) -> tuple[int, int]:
    """The first and the last byte of a range; without a beginning, so many at the end."""
    if not begin:
        return max(0, size - int(end)), size - 1
    return int(begin), min(int(end), size - 1) if end else size - 1


class Blocks(StreamingResponse):
    """Part of what is open, which is closed also if who asked has gone before the first block."""

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
        block = source.read(first, min(BLOCK, last - first + 1))
        if not block:
            return
        first += len(block)
        yield block


def _where(request: Request) -> dict[str, str]:
    """What is chosen along dimensions of the sweep."""
    return {name: value for name, value in options_of(request).items() if name not in ("format", "variables")}


@router.get(
    "/data",
    description=f"A selection as one file. {CHOICE}",
    response_model=None,
    responses={
        200: {
            "description": "A file",
            "content": {
                kind.media_type: {"schema": FILE if name != "json" else {"type": "object"}}
                for name, kind in FORMATS.items()
            },
        }
    },
)
@long
def data(
    engine: Here,
    request: Request,
    id: Id,
    format: Annotated[Literal[tuple(FORMATS)], Query()] = "netcdf",  # type: ignore[valid-type]
    names: Annotated[
        str | None, Query(alias="variables", max_length=2000, description="Names, by commas")
    ] = None,
) -> Response:
    engine.ledger.sweep(id)
    with engine.dataset(id) as stored:
        chosen = select(stored, _where(request))
        if names is not None:
            chosen = variables(chosen, names)
        size, most = export_bytes(chosen), engine.settings.max_export_bytes
        if size > most:
            raise LimitExceeded(
                "selection", f"{size} bytes", f"must be at most {most} bytes: choose less, or xr.open_zarr"
            )
        kind = FORMATS[format]
        room = tempfile.TemporaryDirectory(prefix="sweep-")
        try:
            file = Path(room.name) / f"{id}{kind.suffix}"
            export(chosen, file, format)
        except BaseException:
            room.cleanup()
            raise
    return FileResponse(
        file, media_type=kind.media_type, filename=file.name, background=BackgroundTask(room.cleanup)
    )
