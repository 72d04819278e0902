"""The page: HTML around the REST API, and the files it is made of. It knows nothing that REST does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from sweep_service.api.routes.sweeps import Here
from sweep_service.errors import NotFound
from sweep_service.execution.conductor import IS_ID
from sweep_service.model.initial import INITS
from sweep_service.model.labels import COORDINATES, INIT, label_of
from sweep_service.model.parameters import PARAMETERS
from sweep_service.version import __version__

HERE = Path(__file__).parents[1]  # the package, with its templates and scripts
STATIC = "/static"
# Nothing from elsewhere; styles in attributes are what the plotting library writes.
POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin", "Cache-Control": "no-cache"}
ROOMS = {  # of a sweep: the last part of its URL, and what the tab is called
    "": "Overview",
    "curves": "Curves",
    "phase-diagram": "Phase diagram",
    "triangle": "Triangle",
    "figures": "Figures",
    "data": "Data",
}

router = APIRouter(include_in_schema=False)
_templates = Environment(
    loader=FileSystemLoader(HERE / "templates"), autoescape=select_autoescape(), undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip


class Files(StaticFiles):
    """Asked for again each time, which costs little as they have an ETag: an upgrade shows at once."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.setdefault("Cache-Control", "no-cache")
        return response


def install(app: FastAPI) -> None:
    app.include_router(router)
    app.mount(STATIC, Files(directory=HERE / "static"), name="static")


def page(name: str, status: int = 200, **content: Any) -> HTMLResponse:
    given = {"version": __version__, "room": name, "labels": _labels(), **content}
    text = _templates.get_template(f"{name}.html").render(given)
    return HTMLResponse(text, status, HEADERS)


def _labels() -> dict[str, dict[str, str]]:
    """What parameters and axes are called, for the scripts of every page."""
    numbers = {f"{INIT}{name}" for kind in INITS.values() for name in kind.parameters}
    found = {name: label_of(name) for name in (*PARAMETERS, *COORDINATES, *sorted(numbers))}
    return {
        name: {"symbol": label.symbol or name, "long_name": label.long_name}
        for name, label in found.items()
        if label is not None
    }


@router.get("/")
def sweeps() -> Response:
    return page("sweeps")


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
def sweep(engine: Here, id: str, tab: str = "") -> Response:
    if tab not in ROOMS or not IS_ID.fullmatch(id):
        return page("missing", 404, why="No such page")
    try:
        about = engine.view(id)
    except NotFound:
        return page("missing", 404, why=f"There is no sweep {id}")
    try:
        has_triangle = engine.folder.spec(id).triangle is not None
    except NotFound:  # its files are damaged: what the ledger knows is shown
        has_triangle = False
    tabs = {part: title for part, title in ROOMS.items() if part != "triangle" or has_triangle}
    return page("sweep", sweep=about, tab=tab, tabs=tabs, title=ROOMS[tab])
