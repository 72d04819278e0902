"""The FastAPI application, built from its settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from sweep_service.api import error_responses
from sweep_service.api.atlas_cache import AtlasCache
from sweep_service.api.conductor_thread import ConductorThread, MakeExecutor
from sweep_service.api.error_responses import Problem, SafeJsonResponse
from sweep_service.api.metrics import Metrics
from sweep_service.api.middleware.head import HeadMiddleware
from sweep_service.api.rate_limit import ClientLimits
from sweep_service.api.routes import (
    atlas,
    catalogue,
    cluster,
    compare,
    contents,
    dashboard,
    data,
    figures,
    pages,
    service,
    sweeps,
)
from sweep_service.api.security import Authenticator, SecurityMiddleware
from sweep_service.api.settings import Settings
from sweep_service.execution.extension import CHANGE_FIELDS
from sweep_service.planning.spec import MAX_NAME_LENGTH, SweepSpec
from sweep_service.plugins import load_plugins
from sweep_service.store.notes import MAX_NOTE_LENGTH, MAX_TAG_LENGTH, MAX_TAGS, TAG_PATTERN
from sweep_service.version import __version__

DESCRIPTION = """Parameter sweeps of SGD in two-layer networks: simulations and their limiting theories.

Submit a spec to `POST /v1/sweeps`, follow `…/events`, and open `…/zarr` with `xr.open_zarr`. Errors are
problem details (RFC 9457), times are in UTC, and non-finite numbers are null."""


def create_app(
    settings: Settings | None = None,
    executor: MakeExecutor | None = None,
    client_limits: ClientLimits | None = None,
) -> FastAPI:
    """Create an application, which can be started once. By default it runs tasks on Dask."""
    settings = settings or Settings()
    settings.require_tokens()
    load_plugins()
    conductor_thread = ConductorThread(settings, executor)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(conductor_thread.start)
        try:
            # For the dashboard, which is reached directly, whatever HTTP_PROXY says.
            async with httpx2.AsyncClient(timeout=10.0, trust_env=False) as app.state.http:
                yield
        finally:
            app.state.figure_renderer.close()
            # Its own limiter, because all threads of the shared one may be busy.
            await to_thread.run_sync(conductor_thread.close, limiter=CapacityLimiter(1))

    app = FastAPI(
        title="sweep service", version=__version__, description=DESCRIPTION, lifespan=lifespan,
        default_response_class=SafeJsonResponse, docs_url=None, redoc_url=None,
        generate_unique_id_function=lambda route: route.name,  # short names for generated clients
    )  # fmt: skip
    app.state.conductor_thread = conductor_thread
    app.state.authenticator = Authenticator(settings.secrets)
    app.state.metrics = Metrics(conductor_thread)
    app.state.figure_renderer = figures.FigureRenderer(conductor_thread)
    app.state.atlas_cache = AtlasCache(conductor_thread)
    error_responses.install(app)
    for module in (service, sweeps, contents, data, figures, atlas, compare, catalogue, cluster, dashboard):
        app.include_router(module.router)
    pages.install(app)
    app.add_middleware(HeadMiddleware)
    app.add_middleware(
        SecurityMiddleware,
        settings=settings,
        authenticator=app.state.authenticator,
        metrics=app.state.metrics,
        client_limits=client_limits or ClientLimits(),
    )
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with the schemas of bodies that FastAPI does not parse, and the token."""
    if app.openapi_schema is None:
        schema = FastAPI.openapi(app)
        spec = SweepSpec.model_json_schema(ref_template="#/components/schemas/{model}")
        definitions = spec.pop("$defs", {})
        for field in spec["properties"].values():
            if isinstance(field.get("default"), dict):  # generated clients would send it as a text
                del field["default"]
        schemas = schema["components"]["schemas"]
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= {**definitions, **problem.pop("$defs", {}), "SweepSpec": spec, "Problem": problem}
        schemas["Change"] = {
            "type": "object",
            "title": "Change",
            "additionalProperties": False,
            "properties": {name: spec["properties"][name] for name in CHANGE_FIELDS},
        }
        schemas["Notes"] = _notes_schema()
        schemas["Token"] = {
            "type": "object", "title": "Token", "properties": {"token": {"type": "string"}},
            "required": ["token"],
        }  # fmt: skip
        if app.state.authenticator.tokens:
            schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{"token": []}]
    return app.openapi_schema  # type: ignore[return-value]


def _notes_schema() -> dict[str, Any]:
    name = {"type": "string", "maxLength": MAX_NAME_LENGTH}
    note = {"type": ["string", "null"], "maxLength": MAX_NOTE_LENGTH}
    tag = {"type": "string", "maxLength": MAX_TAG_LENGTH, "pattern": f"^{TAG_PATTERN.pattern}$"}
    return {
        "type": "object",
        "title": "Notes",
        "additionalProperties": False,
        "properties": {
            "name": name,
            "note": note,
            "tags": {"type": "array", "items": tag, "maxItems": MAX_TAGS},
        },
    }
