"""The application, built from its settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from sweep_service.api import error_responses
from sweep_service.api.conductor_thread import Engine, MakeExecutor
from sweep_service.api.error_responses import Json, Problem
from sweep_service.api.metrics import Metrics
from sweep_service.api.routes import (
    catalogue,
    cluster,
    contents,
    dashboard,
    data,
    figures,
    pages,
    service,
    sweeps,
)
from sweep_service.api.security import Door, Keys
from sweep_service.api.settings import Settings
from sweep_service.planning.spec import SweepSpec
from sweep_service.version import __version__

ABOUT = """Sweeps over the parameters of SGD in two-layer networks, simulations beside limiting theories.

Submit a spec to `POST /v1/sweeps`, follow `…/events`, and open `…/zarr` with `xr.open_zarr`. Errors are
problem details (RFC 9457), times are UTC, and a number that is not finite is null."""


def create_app(settings: Settings | None = None, executor: MakeExecutor | None = None) -> FastAPI:
    """An application for one start. By default its executor is Dask's, as the settings say."""
    settings = settings or Settings()
    settings.require_door()
    engine = Engine(settings, executor)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(engine.start)
        try:
            async with httpx.AsyncClient(timeout=10.0) as app.state.http:
                yield
        finally:
            app.state.painter.close()
            await to_thread.run_sync(engine.close, limiter=CapacityLimiter(1))  # whoever else has a thread

    app = FastAPI(
        title="sweep service", version=__version__, description=ABOUT, lifespan=lifespan,
        default_response_class=Json, docs_url=None, redoc_url=None,
    )  # fmt: skip
    app.state.engine, app.state.keys = engine, Keys(settings.secrets)
    app.state.metrics, app.state.painter = Metrics(engine), figures.Painter(engine)
    error_responses.install(app)
    for part in (service, sweeps, contents, data, figures, catalogue, cluster, dashboard):
        app.include_router(part.router)
    pages.install(app)
    app.add_middleware(Door, settings=settings, keys=app.state.keys, metrics=app.state.metrics)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """With the schemas of what our own readers read, and the lock on the door."""
    if app.openapi_schema is None:
        schema = FastAPI.openapi(app)
        spec = SweepSpec.model_json_schema(ref_template="#/components/schemas/{model}")
        parts = spec.pop("$defs", {})
        known = schema["components"]["schemas"]
        known |= {**parts, "SweepSpec": spec, "Problem": Problem.model_json_schema()}
        known["Change"] = {
            "type": "object",
            "title": "Change",
            "additionalProperties": False,
            "properties": {name: spec["properties"][name] for name in ("name", "axes", "points", "seeds")},
        }
        known["Token"] = {
            "type": "object", "title": "Token", "properties": {"token": {"type": "string"}},
            "required": ["token"],
        }  # fmt: skip
        if app.state.keys.tokens:
            schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{"token": []}]
    return app.openapi_schema  # type: ignore[return-value]
