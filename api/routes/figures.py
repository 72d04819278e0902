"""What can be looked at in a sweep, by HTTP: numbers as JSON, figures as files. A URL is a permalink."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal

import xarray as xr
from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from sweep_service.analysis.plots.save import caption, save
from sweep_service.analysis.views import VIEWS, as_json
from sweep_service.api.conductor_thread import Engine
from sweep_service.api.error_responses import responses
from sweep_service.api.routes.sweeps import Id
from sweep_service.errors import unknown_name
from sweep_service.text import json_ready
from sweep_service.version import __version__

router = APIRouter(prefix="/v1/sweeps/{id}", tags=["figures"], responses=responses(404))

TYPES = {
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
}
ROOM = 64 << 20  # bytes of answers that are kept
MOST_WAITING = 50
CHOICE = (
    "Further parameters choose: `d=100`, `gamma=0.1,0.2`, `gamma=0.01:1` (from, to), `time=10` (the nearest)."
)
BUSY = {"Retry-After": "5"}


class Painter:
    """Makes answers one after the other in a thread of its own, as matplotlib draws one at a time anyway."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._thread = ThreadPoolExecutor(1, "painter")
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._waiting = 0

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def answer(self, request: Request, id: str, view: str) -> Response:
        """A file, or that it has not changed; the same query of the same data is the same bytes."""
        options = options_of(request)
        format = options.pop("format", "json")
        tag = await run_in_threadpool(state_tag, self.engine, id, view, format, sorted(options.items()))
        headers = {"ETag": f'"{tag}"', "Cache-Control": "no-cache"}
        if is_known(request, tag):
            return Response(status_code=304, headers=headers)
        found = self._kept.get(tag)
        if found is None:
            if self._waiting >= MOST_WAITING:
                raise HTTPException(503, "too many figures are asked for at once", BUSY)
            self._waiting += 1
            try:
                loop = asyncio.get_running_loop()
                found = await loop.run_in_executor(self._thread, self._made, tag, id, view, format, options)
            finally:
                self._waiting -= 1
        if format != "json":
            headers["Content-Disposition"] = f'inline; filename="{id}-{view}.{format}"'
        return Response(found, headers=headers, media_type=TYPES[format])

    def _made(self, tag: str, id: str, view: str, format: str, options: Mapping[str, str]) -> bytes:
        with self._lock:
            if tag in self._kept:  # who asked before has waited for it
                self._kept.move_to_end(tag)
                return self._kept[tag]
        with self.engine.dataset(id) as dataset:
            content = _rendered(dataset, id, view, format, options)
        with self._lock:
            self._kept[tag] = content
            self._size += len(content)
            while self._size > ROOM and self._kept:
                self._size -= len(self._kept.popitem(last=False)[1])
        return content


def state_tag(engine: Engine, id: str, *asked: Any) -> str:
    """Of what is asked and of how far the sweep is; read before the data, which may only be newer."""
    sweep, totals = engine.board.read(id)
    state = [sweep.id, sweep.updated, totals["counts"], totals["seconds"], __version__]
    return hashlib.sha256(json.dumps([state, *asked], default=str).encode()).hexdigest()[:32]


def _rendered(dataset: xr.Dataset, id: str, view: str, format: str, options: Mapping[str, str]) -> bytes:
    looked = VIEWS[view]
    found = looked.find(dataset, **options)
    if format == "json":
        return json.dumps(json_ready(as_json(view, found)), allow_nan=False, default=str).encode()
    file = io.BytesIO()
    save(looked.draw(found), file, format, dataset, caption(dataset, id), id)
    return file.getvalue()


def options_of(request: Request) -> dict[str, str]:
    """The words of a query; one that comes again adds to the first."""
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def is_known(request: Request, tag: str) -> bool:
    seen = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
    return f'"{tag}"' in seen or "*" in seen


def painter_of(request: Request) -> Painter:
    return request.app.state.painter


Here = Annotated[Painter, Depends(painter_of)]
Format = Annotated[Literal["json", "png", "svg", "pdf"], Query()]
Word = Annotated[str | None, Query(max_length=200)]
Name = Annotated[str, Path(json_schema_extra={"enum": [*VIEWS]})]  # whose error names the nearest one
FILES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Numbers, or a figure",
        "content": {
            kind: {"schema": {"type": "object"} if name == "json" else {"type": "string", "format": "binary"}}
            for name, kind in TYPES.items()
        },
    }
}


@router.get("/curves", response_model=None, responses=FILES, description=(
    f"An observable against time: SGD with bands over seeds, and the theories. {CHOICE}"
))  # fmt: skip
async def curves(
    painter: Here, request: Request, id: Id, observable: Word = None, format: Format = "json"
) -> Response:
    return await painter.answer(request, id, "curves")


@router.get("/phase-diagram", response_model=None, responses=FILES, description=(
    "One value on two axes, the rest chosen or averaged over seeds; `x=triangle` for the triangle of limits. "
    f"{CHOICE}"
))  # fmt: skip
async def phase_diagram(
    painter: Here, request: Request, id: Id, x: Word = None, y: Word = None, value: Word = None,
    format: Format = "json",
) -> Response:  # fmt: skip
    return await painter.answer(request, id, "phase-diagram")


@router.get("/figures/{view}", response_model=None, responses=FILES, description=(
    f"Any view of the catalogue, with its words. {CHOICE}"
))  # fmt: skip
async def figure(painter: Here, request: Request, id: Id, view: Name, format: Format = "json") -> Response:
    if view not in VIEWS:
        raise unknown_name("view", view, VIEWS)
    return await painter.answer(request, id, view)
