"""The route of the cluster: workers and unfinished sweeps."""

from __future__ import annotations

from collections import Counter

from fastapi import APIRouter

from sweep_service.api.error_responses import responses
from sweep_service.api.models import ClusterOut, Queue, WorkerOut
from sweep_service.api.routes.sweeps import Service
from sweep_service.store.ledger import State

router = APIRouter(prefix="/v1", tags=["service"], responses=responses())
SWEEP_FIELDS = [name for name in Queue.model_fields if name != "bundles_under_way"]
UNFINISHED = (State.RUNNING, State.QUEUED, State.PAUSED)


@router.get("/cluster", operation_id="get_cluster")
def cluster(service: Service) -> ClusterOut:
    """Show the workers with their threads and memory, and the unfinished sweeps."""
    under_way = Counter(task.sweep_id for task in service.executor.tasks())
    return ClusterOut(
        address=service.address,
        threads=service.threads,
        waiting=service.wait_reason,
        refused=service.refused_workers,
        dashboard="/dask/status" if service.dashboard else None,
        workers=[WorkerOut(**worker) for worker in service.workers()],
        queue=[
            Queue(bundles_under_way=under_way[sweep["id"]], **{name: sweep[name] for name in SWEEP_FIELDS})
            for sweep in service.describe_all(states=UNFINISHED)
        ],
    )
