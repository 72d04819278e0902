"""Who computes, and what is waiting for them."""

from __future__ import annotations

from collections import Counter

from fastapi import APIRouter

from sweep_service.api.error_responses import responses
from sweep_service.api.models import ClusterOut, Queue, WorkerOut
from sweep_service.api.routes.sweeps import Here
from sweep_service.store.ledger import State

router = APIRouter(prefix="/v1", tags=["service"], responses=responses())
QUEUED = [name for name in Queue.model_fields if name != "bundles_under_way"]
OPEN = (State.RUNNING, State.QUEUED, State.PAUSED)


@router.get("/cluster")
def cluster(engine: Here) -> ClusterOut:
    """Workers with their threads and memory, and the sweeps that have not ended."""
    under_way = Counter(task.sweep for task in engine.executor.tasks())
    return ClusterOut(
        address=engine.address,
        threads=engine.threads,
        waiting=engine.waiting,
        refused=engine.refused,
        dashboard="/dask/status" if engine.dashboard else None,
        workers=[WorkerOut(**one) for one in engine.workers()],
        queue=[
            Queue(bundles_under_way=under_way[about["id"]], **{name: about[name] for name in QUEUED})
            for about in engine.views(states=OPEN)
        ],
    )
