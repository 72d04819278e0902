"""The atlas over HTTP: facets, runs, and diagrams and curves of runs of many sweeps."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, Response

from sweep_service.api.atlas_cache import AtlasCache
from sweep_service.api.conductor_thread import limited_concurrency
from sweep_service.api.error_responses import SafeJsonResponse, responses
from sweep_service.api.models import Facets, RunPage
from sweep_service.api.routes.figures import (
    DRAWING_HELP,
    FILES,
    SELECTION_HELP,
    ColormapName,
    FigureRenderer,
    Format,
    LevelList,
    LimitPair,
    OptionValue,
    Renderer,
    ScaleName,
    Switch,
    matches_etag,
    query_options,
)
from sweep_service.api.routes.sweeps import Service
from sweep_service.errors import InvalidInput, LimitExceeded
from sweep_service.text import replace_nonfinite

router = APIRouter(prefix="/v1/atlas", tags=["atlas"], responses=responses())
RUN_FORMATS = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
MAX_PAGE = 1000  # runs


def get_cache(request: Request) -> AtlasCache:
    return request.app.state.atlas_cache


Cache = Annotated[AtlasCache, Depends(get_cache)]


def select(cache: AtlasCache, request: Request, without: tuple[str, ...] = ()) -> tuple[Any, str]:
    """Return the selected atlas, and the tag of its runs."""
    current = cache.current()
    where = {name: value for name, value in query_options(request).items() if name not in without}
    return current.atlas.select(**where), current.tag


@router.get("", response_model=None, responses={200: {"model": Facets}}, description=(
    f"Count the runs of all sweeps by the values of each label. {SELECTION_HELP}"
))  # fmt: skip
@limited_concurrency
def facets(service: Service, cache: Cache, request: Request) -> Response:
    atlas, tag = select(cache, request)
    headers = {"ETag": f'"{tag}"', "Cache-Control": "no-cache"}
    if matches_etag(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return SafeJsonResponse(atlas.facets(), headers=headers)


@router.get("/runs", operation_id="get_atlas_runs", response_model=None, description=(
    f"The selected runs, page by page as JSON, or all of them as a table in CSV or Parquet. {SELECTION_HELP}"
), responses={200: {"model": RunPage, "content": {
    media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in RUN_FORMATS.values()
}}})  # fmt: skip
@limited_concurrency
def runs(
    service: Service,
    cache: Cache,
    request: Request,
    format: Annotated[Literal["json", "csv", "parquet"], Query()] = "json",
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Runs of a page")] = 100,
    cursor: Annotated[str | None, Query(max_length=40, description="`next` of the previous page")] = None,
    by_sweep: Annotated[
        bool, Query(description="In tables, a row for each sweep that contains a run")
    ] = False,
) -> Response:
    atlas, _ = select(cache, request, ("format", "limit", "cursor", "by_sweep"))
    if format == "json":
        return SafeJsonResponse(_page(atlas, limit, cursor))
    return _table_file(atlas, format, by_sweep, service.settings.max_export_bytes)


def _page(atlas: Any, limit: int, cursor: str | None) -> dict[str, Any]:
    start = 0
    if cursor is not None:
        if not (cursor.isascii() and cursor.isdigit()):
            raise InvalidInput("cursor", cursor, "must be `next` of an earlier page")
        start = int(cursor)
    end = start + limit
    records = atlas.records(start, end)
    return {"runs": records, "total": len(atlas), "next": str(end) if end < len(atlas) else None}


def _table_file(atlas: Any, format: str, by_sweep: bool, max_bytes: int) -> FileResponse:
    size = atlas.table_bytes()
    if size > max_bytes:
        allowed = f"must be at most {max_bytes} bytes: select less, or read the files *.index.parquet"
        raise LimitExceeded("selection", f"{size} bytes", allowed)
    folder = tempfile.TemporaryDirectory(prefix="sweep-")
    try:
        file = Path(folder.name) / f"atlas.{format}"
        atlas.write_table(file, format, by_sweep)
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(
        file, media_type=RUN_FORMATS[format], filename=file.name, background=BackgroundTask(folder.cleanup)
    )


async def _respond(renderer: FigureRenderer, request: Request, cache: AtlasCache, view: str) -> Response:
    """Return a view of the atlas as numbers or as a figure."""
    options = query_options(request)
    format = options.pop("format", "json")
    current = await run_in_threadpool(cache.current)
    query = json.dumps([current.tag, view, format, sorted(options.items())])
    tag = hashlib.sha256(query.encode()).hexdigest()[:32]

    def render() -> bytes:
        from sweep_service.analysis.atlas.views import draw_view, view_as_json

        if format != "json":
            return draw_view(current.atlas, view, options, format)
        content = replace_nonfinite(view_as_json(current.atlas, view, options))
        return json.dumps(content, allow_nan=False, default=str).encode()

    return await renderer.respond_with(request, tag, format, f"atlas-{view}", render)


@router.get(
    "/phase-diagram", operation_id="get_atlas_diagram", response_model=None, responses=FILES, description=(
    "A value on two labels, from the runs of all sweeps; each point averages over seeds. Another label that "
    "varies must be selected, or reduced by `mean`, `median`, `min` or `max`. "
    f"{DRAWING_HELP} {SELECTION_HELP}"
))  # fmt: skip
async def phase_diagram(
    renderer: Renderer,
    cache: Cache,
    request: Request,
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
    return await _respond(renderer, request, cache, "phase-diagram")


@router.get(
    "/triangle", operation_id="get_atlas_triangle", response_model=None, responses=FILES, description=(
    f"A value on the triangle of limits, from all sweeps over triangles with one step. {DRAWING_HELP} "
    f"{SELECTION_HELP}"
))  # fmt: skip
async def triangle(
    renderer: Renderer,
    cache: Cache,
    request: Request,
    value: OptionValue = None,
    scale: ScaleName = None,
    levels: LevelList = None,
    cmap: ColormapName = None,
    limits: LimitPair = None,
    format: Format = "json",
) -> Response:
    return await _respond(renderer, request, cache, "triangle")


@router.get(
    "/curves", operation_id="get_atlas_curves", response_model=None, responses=FILES, description=(
    "An observable against time at the selected points, each curve with the sweeps behind it. "
    f"`by_sweep=true` keeps sweeps apart, to lay them on each other. {DRAWING_HELP} {SELECTION_HELP}"
))  # fmt: skip
async def curves(
    renderer: Renderer,
    cache: Cache,
    request: Request,
    observable: OptionValue = None,
    time: OptionValue = None,
    by_sweep: Switch = None,
    scale: ScaleName = None,
    time_scale: ScaleName = None,
    cmap: ColormapName = None,
    format: Format = "json",
) -> Response:
    return await _respond(renderer, request, cache, "curves")
