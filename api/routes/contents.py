"""What is in a sweep, and how far each of its points is."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from starlette.responses import Response

from sweep_service.analysis.contents import contents as found_in
from sweep_service.api.conductor_thread import Engine, long
from sweep_service.api.error_responses import Json, responses
from sweep_service.api.models import Contents, Map
from sweep_service.api.routes.figures import is_known, state_tag
from sweep_service.api.routes.sweeps import Here, Id
from sweep_service.status import Status
from sweep_service.text import json_ready

router = APIRouter(prefix="/v1/sweeps/{id}", tags=["data"], responses=responses(404))


@router.get("/contents")
@long
def contents(engine: Here, id: Id) -> Contents:
    """Axes and their values, what can be drawn, where it comes from: all that a selection can name."""
    engine.ledger.sweep(id)
    with engine.dataset(id) as dataset:
        return Contents(**json_ready(found_in(dataset)))


@router.get("/map", response_model=None, responses={200: {"model": Map}})
@long
def map(engine: Here, request: Request, id: Id) -> Response:
    """Runs of each point by status; it has an ETag, and costs little where nothing has changed."""
    under_way = sorted(
        {job.point for task in engine.executor.tasks() if task.sweep == id for job in task.bundle.jobs}
    )
    tag = state_tag(engine, id, "map", under_way)
    headers = {"ETag": f'"{tag}"', "Cache-Control": "no-cache"}
    if is_known(request, tag):
        return Response(status_code=304, headers=headers)
    return Json({**counted(engine, id), "under_way": under_way}, headers=headers)


def counted(engine: Engine, id: str) -> dict[str, Any]:
    dataset = engine.folder.dataset(id)
    grid, runs = dataset.plan.grid, dataset.plan.runs
    statuses = np.concatenate([dataset.status(kind).reshape(len(grid), -1) for kind in runs.kinds], axis=1)
    counts = {status.label: np.count_nonzero(statuses == status, axis=1) for status in Status}
    return {
        "points": len(grid),
        "dims": list(grid.dims),
        "shape": list(grid.shape),
        "runs": runs.total // len(grid),
        "counts": {label: count.tolist() for label, count in counts.items() if count.any()},
    }
