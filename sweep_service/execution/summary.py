"""Summaries of a sweep as plain data: state, counts, progress and failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from sweep_service.errors import UNREADABLE_SWEEP, Damaged, reading
from sweep_service.execution.remaining import predict_remaining
from sweep_service.execution.time_left import Activity, predict_time_left
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import Ledger, State, SweepRecord
from sweep_service.store.sealed import unpack_json

FAILURE_FIELDS = {"kind", "number", "error", "trace", "runs", "command"}


def describe_sweep(
    folder: DataFolder, ledger: Ledger, sweep: SweepRecord, max_failures: int | None = None
) -> dict[str, Any]:
    """`summarise_sweep`, and the path of its dataset and its failures (at most `max_failures`)."""
    failures = list(islice(read_failures(folder, sweep.id), max_failures))
    summary = summarise_sweep(sweep, ledger.progress_totals([sweep.id])[sweep.id])
    if not sweep.fixed:  # of a ledger of an older version
        with suppress(*UNREADABLE_SWEEP):
            summary["fixed"] = folder.plan(sweep.id).grid.single_values()
    with suppress(*UNREADABLE_SWEEP):
        if rows := describe_rounds(folder, sweep.id)["rounds"]:
            summary["rounds"] = rows
    return {**summary, "path": folder.address(sweep.id), "failures": failures}


def summarise_sweep(
    sweep: SweepRecord, totals: Mapping[str, Any], threads: float = 0.0, compiling: bool = False
) -> dict[str, Any]:
    """Combine a row of the ledger with its `progress_totals`; `threads` compute the rest in `eta_seconds`.

    `compiling` says whether it waits for a kernel to be compiled now.
    """
    counts: dict[Status, int] = dict(totals["counts"])
    if pending := sweep.runs - sum(counts.values()):
        counts = {Status.PENDING: pending, **counts}
    remaining = predict_remaining(totals["work"])
    eta: tuple[float | None, ...] = (None, None, None)
    if threads and not sweep.state.has_ended:
        eta = predict_time_left(remaining, _describe_activity(sweep, totals), threads)
    return {
        **record_to_dict(sweep),
        "counts": {status.label: number for status, number in counts.items()},
        "progress": remaining.progress,
        **dict(zip(("eta_seconds", "eta_low_seconds", "eta_high_seconds"), eta, strict=True)),
        "core_seconds": totals["seconds"],
        "core_seconds_left": remaining.core_seconds,
        "bundles_left": totals["bundles_left"],
        "compiling": compiling,
    }


def _describe_activity(sweep: SweepRecord, totals: Mapping[str, Any]) -> Activity:
    """Return what is known of the bundles that are running; none if the sweep is queued or paused."""
    now = datetime.now(UTC).timestamp()
    started = datetime.fromisoformat(sweep.updated).timestamp() if sweep.state is State.RUNNING else now
    merged = datetime.fromisoformat(totals["merged"]).timestamp() if totals["merged"] else started
    return Activity(now, started, max(merged, started), totals["queue"], totals["recent"])


def describe_rounds(folder: DataFolder, sweep_id: str) -> dict[str, Any]:
    """Return the rounds of a sweep, with the points and runs that each adds, and whether all are decided."""
    rounds = folder.rounds(sweep_id)
    if rounds is None:
        return {"rounds": [], "is_complete": True}
    return {"rounds": rounds.summarise(folder.plan(sweep_id)), "is_complete": rounds.is_complete}


def record_to_dict(sweep: SweepRecord) -> dict[str, Any]:
    return {**asdict(sweep), "state": sweep.state.value, "tags": list(sweep.tags)}


def read_failures(folder: DataFolder, sweep_id: str, after: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield failure records without their trace, ordered by run; only those after a run such as sgd-12."""

    def order(name: str) -> tuple[str, int]:
        kind, _, number = Path(name).stem.partition("-")
        return kind, int(number)

    for name in sorted(folder.objects.list(f"{sweep_id}.failures/"), key=order):
        if after is not None and order(name) <= order(after):
            continue
        try:
            record = read_failure(folder, name)
        except Damaged as error:  # the other records are still of use
            kind, number = order(name)
            record = {"kind": kind, "number": number, "error": str(error), "runs": [number], "command": ""}
        yield {field: record[field] for field in record if field != "trace"}


def read_failure(folder: DataFolder, name: str) -> dict[str, Any]:
    """Read a failure record; raise Damaged if it is not as it was written."""
    content = folder.objects.get(name)
    with reading(name):
        record = unpack_json(content, required=False)
        if set(record) != FAILURE_FIELDS:  # a damaged field name, in place of the digest's
            raise ValueError("its fields are wrong")
        return record
