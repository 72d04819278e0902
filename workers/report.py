"""Who works for a scheduler, and who had to leave and why: for `sweep doctor`."""

from __future__ import annotations

import time as clock
from typing import Any

from sweep_service.store.folder import DataFolder
from workers.cluster import Remote
from workers.executor import LOOK, DaskExecutor

PATIENCE = 60.0  # seconds in which workers import what they need, and show what they are asked for


def report(address: str, folder: DataFolder) -> dict[str, Any]:
    """Ask every worker to show that it is fit."""
    executor = DaskExecutor(Remote(address), folder)
    try:
        executor.look()
        if executor.client is None:
            return {"scheduler": executor.note(), "workers": [], "refused": []}
        end = clock.monotonic() + PATIENCE
        while executor.welcoming() and clock.monotonic() < end:
            clock.sleep(0.1)
        clock.sleep(LOOK / 2)  # those that leave need a moment
        there = sorted(executor.client.nthreads())
        return {"scheduler": address, "workers": there, "refused": executor.refused()}
    finally:
        executor.close()
