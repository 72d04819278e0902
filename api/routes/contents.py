"""Routes for the contents of a dataset and the progress of each point."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from starlette.responses import Response

from sweep_service.analysis.contents import describe_contents
from sweep_service.api.conductor_thread import ConductorThread, limited_concurrency
from sweep_service.api.error_responses import SafeJsonResponse, responses
from sweep_service.api.models import Contents, Map
from sweep_service.api.routes.figures import compute_etag, matches_etag
from sweep_service.api.routes.sweeps import Id, Service
from sweep_service.status import DivergedQuantity, Status
from sweep_service.text import replace_nonfinite

router = APIRouter(prefix="/v1/sweeps/{id}", tags=["data"], responses=responses(404))


@router.get("/contents", operation_id="get_contents")
@limited_concurrency
def contents(service: Service, id: Id) -> Contents:
    """Describe a dataset: axes and their values, what can be plotted, and its provenance."""
    service.ledger.sweep(id)
    with service.open_dataset(id) as dataset:
        return Contents(**replace_nonfinite(describe_contents(dataset)))


@router.get("/map", operation_id="get_map", response_model=None, responses={200: {"model": Map}})
@limited_concurrency
def map(service: Service, request: Request, id: Id) -> Response:
    """Count the runs of each point by status. An ETag makes polling cheap while nothing changes."""
    under_way = sorted(
        {job.point for task in service.executor.tasks() if task.sweep_id == id for job in task.bundle.jobs}
    )
    tag = compute_etag(service, id, "map", under_way)
    headers = {"ETag": f'"{tag}"', "Cache-Control": "no-cache"}
    if matches_etag(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return SafeJsonResponse({**count_runs(service, id), "under_way": under_way}, headers=headers)


def count_runs(service: ConductorThread, id: str) -> dict[str, Any]:
    """Count the runs of each point by status, and the diverged ones by the quantity that diverged."""
    dataset = service.folder.dataset(id)
    grid, runs = dataset.plan.grid, dataset.plan.runs
    statuses = np.concatenate([dataset.status(kind).reshape(len(grid), -1) for kind in runs.kinds], axis=1)
    counts = {status.label: np.count_nonzero(statuses == status, axis=1) for status in Status}
    quantities = np.zeros_like(statuses)
    if counts[Status.DIVERGED.label].any():
        columns = [dataset.diverged_quantity(kind).reshape(len(grid), -1) for kind in runs.kinds]
        quantities = np.concatenate(columns, axis=1)
    diverged = {
        quantity.label: np.count_nonzero(quantities == quantity, axis=1)
        for quantity in DivergedQuantity
        if quantity is not DivergedQuantity.NONE
    }
    return {
        "points": len(grid),
        "dims": list(grid.dims),
        "shape": list(grid.shape),
        "runs": runs.total // len(grid),
        "counts": {label: count.tolist() for label, count in counts.items() if count.any()},
        "diverged": {label: count.tolist() for label, count in diverged.items() if count.any()},
    }
