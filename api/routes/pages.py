"""The web page: HTML templates and static files. All its data come from the REST API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from sweep_service.analysis.error_bars.seeds import MIN_DRAWS
from sweep_service.api.routes.sweeps import Service
from sweep_service.errors import NotFound
from sweep_service.execution.conductor import SWEEP_ID_PATTERN
from sweep_service.model.labels import COORDINATES, find_label
from sweep_service.model.parameters import PARAMETERS
from sweep_service.model.structures import number_names
from sweep_service.planning.spec import SweepSpec
from sweep_service.version import __version__

PACKAGE = Path(__file__).parents[1]  # contains templates and static files
STATIC = "/static"
DATA_PATHS = ("/v1/", "/dask/")  # whose errors are problem details, whoever asks
# Everything comes from this service; the plotting library needs inline styles.
POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin", "Cache-Control": "no-cache"}
TABS = {  # of a sweep's page: the last segment of the URL, and the title
    "": "Overview",
    "curves": "Curves",
    "phase-diagram": "Phase diagram",
    "triangle": "Triangle",
    "seeds": "Seeds",
    "figures": "Figures",
    "data": "Data",
}

router = APIRouter(include_in_schema=False)
_templates = Environment(
    loader=FileSystemLoader(PACKAGE / "templates"), autoescape=select_autoescape(), undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip


class Files(StaticFiles):
    """Static files that browsers revalidate by ETag each time, so that an upgrade shows at once."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.setdefault("Cache-Control", "no-cache")
        return response


def install(app: FastAPI) -> None:
    app.include_router(router)
    app.mount(STATIC, Files(directory=PACKAGE / "static"), name="static")
    show_problem = app.exception_handlers[HTTPException]

    async def show_missing_page(request: Request, error: HTTPException) -> Response:
        if _wants_page(request):
            return page("missing", 404, why="There is no page at this address")
        return await show_problem(request, error)  # type: ignore[misc]

    app.add_exception_handler(404, show_missing_page)  # type: ignore[arg-type]


def _wants_page(request: Request) -> bool:
    """Return whether a browser asks for a page, rather than a program for data."""
    is_data = request.url.path.startswith(DATA_PATHS)
    return not is_data and "text/html" in request.headers.get("accept", "")


def page(name: str, status: int = 200, **content: Any) -> HTMLResponse:
    """Render a template."""
    context = {"version": __version__, "room": name, "labels": _labels(), **content}
    text = _templates.get_template(f"{name}.html").render(context)
    return HTMLResponse(text, status, HEADERS)


def _labels() -> dict[str, dict[str, str]]:
    """Return the symbols and names of parameters and axes, for the scripts of every page."""
    labels = {name: find_label(name) for name in (*PARAMETERS, *COORDINATES, *sorted(number_names()))}
    return {
        name: {
            "symbol": label.symbol or name,
            "long_name": label.long_name,
            "title": label.title or label.long_name,
        }
        for name, label in labels.items()
        if label is not None
    }


@router.get("/")
def sweeps() -> Response:
    return page("sweeps")


@router.get("/atlas")
def atlas() -> Response:
    return page("atlas")


@router.get("/compare")
def compare() -> Response:
    return page("compare")


@router.get("/compose")
def compose() -> Response:
    return page("compose")


@router.get("/cluster")
def cluster() -> Response:
    return page("cluster")


@router.get("/docs")
def docs() -> Response:
    return page("docs")


@router.get("/sweeps/{id}")
@router.get("/sweeps/{id}/{tab}")
def sweep(service: Service, id: str, tab: str = "") -> Response:
    if tab not in TABS or not SWEEP_ID_PATTERN.fullmatch(id):
        return page("missing", 404, why="A sweep has no page of this name")
    try:
        description = service.describe(id)
    except NotFound:
        return page("missing", 404, why=f"There is no sweep {id}. It may have been deleted")
    try:
        hidden = _list_hidden_tabs(service.folder.spec(id))
    except NotFound:  # the files are damaged; the page still shows the data of the ledger
        hidden = {"triangle"}
    tabs = {name: title for name, title in TABS.items() if name not in hidden}
    return page("sweep", sweep=description, tab=tab, tabs=tabs, title=TABS[tab])


def _list_hidden_tabs(spec: SweepSpec) -> set[str]:
    """The tabs that the dataset of a spec has no numbers for."""
    has_scatter = spec.fluctuations or (spec.simulate and _count_draws(spec) >= MIN_DRAWS)
    return {*([] if spec.triangle else ["triangle"]), *([] if has_scatter else ["seeds"])}


def _count_draws(spec: SweepSpec) -> int:
    """The number of independent draws of SGD: seeds, or the repeats of a single one."""
    starts = len(spec.seeds.init)
    return starts if starts > 1 else len(spec.seeds.repeat)
