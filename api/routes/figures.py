"""Views of a sweep over HTTP: numbers as JSON, figures as files. The URL is a permalink."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Any, Literal

import xarray as xr
from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from sweep_service.analysis.curves import TIME_AXES
from sweep_service.analysis.plots.options import SCALES, SWITCHES
from sweep_service.analysis.plots.save import caption, save
from sweep_service.analysis.views import VIEWS, view_to_json
from sweep_service.api.conductor_thread import ConductorThread
from sweep_service.api.error_responses import responses
from sweep_service.api.routes.sweeps import Id
from sweep_service.api.schemas.selection_words import document_selection
from sweep_service.api.schemas.view_models import Arrays, Curves, PhaseDiagram, SeedCurves, TriangleOut
from sweep_service.errors import unknown_name
from sweep_service.text import replace_nonfinite
from sweep_service.version import __version__

router = APIRouter(prefix="/v1/sweeps/{id}", tags=["figures"], responses=responses(404))

MEDIA_TYPES = {
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
}
SELECTION_HELP = (
    "Other parameters select: `d=100`, `gamma=0.1,0.2`, `gamma=0.01:1` (a range), `time=10` (the nearest)."
)
DRAWING_HELP = "`scale`, `time_scale`, `levels`, `limits`, `cmap` and `ratio_lines` change the figure only."
RETRY_HEADERS = {"Retry-After": "5"}


class FigureRenderer:
    """Renders views in a single thread, as matplotlib draws one figure at a time, and caches the results.

    `cache_bytes` bounds the cache, `max_queued` the number of requests that wait.
    """

    def __init__(self, service: ConductorThread, cache_bytes: int = 64 << 20, max_queued: int = 50) -> None:
        self.service, self.cache_bytes, self.max_queued = service, cache_bytes, max_queued
        self._thread = ThreadPoolExecutor(1, "figure-renderer")
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._cached_bytes = 0
        self._lock = threading.Lock()
        self._queued = 0

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def respond(self, request: Request, id: str, view: str) -> Response:
        """Return a rendered view of a sweep, or 304; equal queries of equal data give equal bytes."""
        options = query_options(request)
        format = options.pop("format", "json")
        tag = await run_in_threadpool(compute_etag, self.service, id, view, format, sorted(options.items()))
        render = partial(self.render, id, view, format, options)
        return await self.respond_with(request, tag, format, f"{id}-{view}", render)

    def render(self, id: str, view: str, format: str, options: Mapping[str, str]) -> bytes:
        """Compute a view of a sweep as JSON, or draw it."""
        with self.service.open_dataset(id) as dataset:
            return _render(dataset, id, view, format, options)

    async def respond_with(
        self, request: Request, tag: str, format: str, name: str, render: Callable[[], bytes]
    ) -> Response:
        """Return what `render` makes, or 304; `tag` stands for its content, `name` is that of the file."""
        headers = {"ETag": f'"{tag}"', "Cache-Control": "no-cache"}
        if matches_etag(request, headers["ETag"]):
            return Response(status_code=304, headers=headers)
        content = self._cache.get(tag)
        if content is None:
            if self._queued >= self.max_queued:
                raise HTTPException(503, "too many figures requested at once; try again", RETRY_HEADERS)
            self._queued += 1
            try:
                loop = asyncio.get_running_loop()
                content = await loop.run_in_executor(self._thread, self._render_cached, tag, render)
            finally:
                self._queued -= 1
        if format != "json":
            headers["Content-Disposition"] = f'inline; filename="{name}.{format}"'
        return Response(content, headers=headers, media_type=MEDIA_TYPES[format])

    def _render_cached(self, tag: str, render: Callable[[], bytes]) -> bytes:
        with self._lock:
            if tag in self._cache:  # rendered for an earlier request while this one was queued
                self._cache.move_to_end(tag)
                return self._cache[tag]
        content = render()
        with self._lock:
            self._cache[tag] = content
            self._cached_bytes += len(content)
            while self._cached_bytes > self.cache_bytes and self._cache:
                self._cached_bytes -= len(self._cache.popitem(last=False)[1])
        return content


def compute_etag(service: ConductorThread, id: str, *query: Any) -> str:
    """Digest a query and the progress of a sweep; call it before reading data, which may only be newer."""
    sweep, totals = service.status_cache.read(id)
    state = [sweep.id, sweep.updated, totals["counts"], totals["seconds"], __version__]
    return hashlib.sha256(json.dumps([state, *query], default=str).encode()).hexdigest()[:32]


def _render(dataset: xr.Dataset, id: str, view: str, format: str, options: Mapping[str, str]) -> bytes:
    entry = VIEWS[view]
    options, drawing = entry.split_options(options)
    numbers = entry.compute(dataset, **options)
    if format == "json":
        return json.dumps(
            replace_nonfinite(view_to_json(view, numbers)), allow_nan=False, default=str
        ).encode()
    file = io.BytesIO()
    save(entry.draw(numbers, **drawing), file, format, dataset, caption(dataset, id), id)
    return file.getvalue()


def query_options(request: Request) -> dict[str, str]:
    """Return the query parameters; repeated ones are joined by commas."""
    options: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        options[name] = f"{options[name]},{value}" if name in options else value
    return options


def matches_etag(request: Request, etag: str) -> bool:
    """Whether the client has this version already; `etag` includes the quotes."""
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    return etag in known or "*" in known


def get_renderer(request: Request) -> FigureRenderer:
    return request.app.state.figure_renderer


Renderer = Annotated[FigureRenderer, Depends(get_renderer)]
Format = Annotated[Literal["json", "png", "svg", "pdf"], Query()]
OptionValue = Annotated[str | None, Query(max_length=200)]
ScaleName = Annotated[str | None, Query(json_schema_extra={"enum": [*SCALES]}, max_length=200)]
TimeAxisName = Annotated[
    str | None, Query(description=f"{', '.join(TIME_AXES)}, or a selection of times", max_length=200)
]
LevelList = Annotated[
    str | None, Query(description="Contour lines: `5` for about five, or values `0.01,0.1`", max_length=400)
]
LimitPair = Annotated[str | None, Query(description="Ends of the colours, such as `0.001,1`", max_length=200)]
ColormapName = Annotated[str | None, Query(description="A colour map of matplotlib", max_length=200)]
Switch = Annotated[str | None, Query(json_schema_extra={"enum": [*SWITCHES]}, max_length=200)]
AnyView = Curves | SeedCurves | PhaseDiagram | TriangleOut | Arrays
# Not validated by FastAPI, because our own error suggests the nearest name.
ViewName = Annotated[str, Path(json_schema_extra={"enum": [*VIEWS]})]
IMAGES = {
    media_type: {"schema": {"type": "string", "format": "binary"}}
    for name, media_type in MEDIA_TYPES.items()
    if name != "json"
}


FILES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Numbers, or a figure",
        "content": {"application/json": {"schema": {"type": "object"}}, **IMAGES},
    }
}


def numbers_or_figure(model: Any) -> dict[int | str, dict[str, Any]]:
    """Document the response of a view, whose numbers have this model."""
    return {200: {"description": "Numbers, or a figure", "model": model, "content": dict(IMAGES)}}


@router.get(
    "/curves",
    operation_id="get_curves",
    response_model=None,
    responses=numbers_or_figure(Curves),
    openapi_extra=document_selection(("time",)),
    description=(
        "An observable against time: SGD with bands over seeds, and the regimes. In `time=steps` or "
        f"`samples/d`, each curve has its own `x`. {DRAWING_HELP} {SELECTION_HELP}"
    ),
)
async def curves(
    renderer: Renderer,
    request: Request,
    id: Id,
    observable: OptionValue = None,
    time: TimeAxisName = None,
    scale: ScaleName = None,
    time_scale: ScaleName = None,
    cmap: ColormapName = None,
    format: Format = "json",
) -> Response:
    return await renderer.respond(request, id, "curves")


@router.get(
    "/seeds",
    operation_id="count_seeds",
    response_model=None,
    responses=numbers_or_figure(SeedCurves),
    openapi_extra=document_selection(),
    description=(
        "How many seeds make the standard error of a mean a given share of it, over time: predicted from "
        f"stored fluctuations, and measured from the runs with 95 % intervals. {SELECTION_HELP}"
    ),
)
async def seeds(
    renderer: Renderer,
    request: Request,
    id: Id,
    value: Annotated[
        str | None, Query(max_length=200, description="risk, final_risk, or another observable of SGD")
    ] = None,
    relative_error: Annotated[
        str | None, Query(max_length=40, description="Standard error over the mean, such as 0.05")
    ] = None,
    scale: ScaleName = None,
    time_scale: ScaleName = None,
    cmap: ColormapName = None,
    format: Format = "json",
) -> Response:
    return await renderer.respond(request, id, "seeds")


@router.get(
    "/phase-diagram",
    operation_id="get_phase_diagram",
    response_model=None,
    responses=numbers_or_figure(PhaseDiagram | TriangleOut),
    openapi_extra=document_selection(),
    description=(
        "A value on two axes, averaged over seeds; select along others. `x=triangle`: the triangle of "
        f"limits. {DRAWING_HELP} {SELECTION_HELP}"
    ),
)
async def phase_diagram(
    renderer: Renderer,
    request: Request,
    id: Id,
    x: OptionValue = None,
    y: OptionValue = None,
    value: OptionValue = None,
    scale: ScaleName = None,
    levels: LevelList = None,
    cmap: ColormapName = None,
    limits: LimitPair = None,
    ratio_lines: Switch = None,
    format: Format = "json",
) -> Response:
    return await renderer.respond(request, id, "phase-diagram")


@router.get(
    "/figures/{view}",
    operation_id="get_figure",
    response_model=None,
    responses=numbers_or_figure(AnyView),
    openapi_extra=document_selection(views=True),
    description=f"Any view of the catalogue, with its options. {SELECTION_HELP}",
)
async def figure(
    renderer: Renderer, request: Request, id: Id, view: ViewName, format: Format = "json"
) -> Response:
    if view not in VIEWS:
        raise unknown_name("view", view, VIEWS)
    return await renderer.respond(request, id, view)
