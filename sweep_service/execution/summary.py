"""A sweep as plain data: its state, counts, progress and failures, for programs and for text alike."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import Ledger, Sweep


def describe(folder: DataFolder, ledger: Ledger, sweep: Sweep, most: int | None = None) -> dict[str, Any]:
    """A sweep as people and programs are told of it, with all of its failures or so many."""
    found = list(islice(failures(folder, sweep.id), most))
    return {**view(sweep, ledger.totals(sweep.id)), "path": folder.address(sweep.id), "failures": found}


def view(sweep: Sweep, totals: Mapping[str, Any], threads: float = 0.0) -> dict[str, Any]:
    """A row of the ledger and its totals, with the time that so many threads need for the rest."""
    counts: dict[Status, int] = dict(totals["counts"])
    if left := sweep.runs - sum(counts.values()):
        counts = {Status.PENDING: left, **counts}
    done, rest = totals["cost_done"], totals["cost_left"]
    whole = done + rest + totals["cost_dropped"]
    speed = totals["seconds"] / done if done else 1.0  # predictions are off by a factor, which shows
    return {
        **row(sweep),
        "counts": {status.label: number for status, number in counts.items()},
        "progress": done / whole if whole else 1.0,
        "eta_seconds": rest * speed / threads if threads and not sweep.state.ended else None,
        "core_seconds": totals["seconds"],
        "core_seconds_left": rest * speed,
        "bundles_left": totals["bundles_left"],
    }


def row(sweep: Sweep) -> dict[str, Any]:
    return {**asdict(sweep), "state": sweep.state.value}


def failures(folder: DataFolder, sweep: str, after: str | None = None) -> Iterator[dict[str, Any]]:
    """Capsules by number, those after a run such as sgd-12; the trace is long, and stays in them."""

    def order(name: str) -> tuple[str, int]:
        kind, _, number = Path(name).stem.partition("-")
        return kind, int(number)

    for name in sorted(folder.objects.list(f"{sweep}.failures/"), key=order):
        if after is not None and order(name) <= order(after):
            continue
        found = json.loads(folder.objects.get(name))
        yield {part: found[part] for part in found if part != "trace"}
