"""Repair of damaged sweeps: what was lost is restored or marked pending, and so computed again.

`sweep doctor --repair` writes a request `<id>.repair` beside the sweep. The conductor, the only writer of
datasets, carries it out when it starts or within a minute. The request is removed last, so that a repair that
is interrupted is done again.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Protocol

import numpy as np

from sweep_service.errors import Damaged, NotFound, reading
from sweep_service.execution.merger import Merger
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.runs import KINDS, Kind
from sweep_service.status import Status
from sweep_service.store.dataset import STATUS, SweepDataset
from sweep_service.store.folder import INDEX_SUFFIX, KEYS_DIGEST, REPAIR_SUFFIX, DataFolder, digest_keys
from sweep_service.store.ledger import Ledger, State, SweepRecord
from sweep_service.store.metadata import DatasetMetadata
from sweep_service.store.notes import Notes
from sweep_service.store.objects import ROOT
from sweep_service.store.provenance import collect_provenance
from sweep_service.store.sealed import pack_json, unpack_json

log = logging.getLogger(__name__)


class Conductor(Protocol):
    """The parts of a conductor that a repair uses."""

    folder: DataFolder
    ledger: Ledger
    merger: Merger

    def counts(self, sweep_id: str) -> Counter[Status]: ...

    def _withdraw(self, sweep_id: str) -> None: ...

    def _recount(self, sweep_id: str) -> None: ...

    def _requeue(self, sweep_id: str) -> None: ...

    def _finish(self, sweep_id: str) -> None: ...


@dataclass
class RepairRequest:
    """What was found to be damaged. The repair itself checks spec, keys, labels and metadata again."""

    chunks: list[str] = field(default_factory=list)  # keys of damaged or missing chunks of variables
    runs: dict[Kind, list[int]] = field(default_factory=dict)  # without values although they are done
    objects: list[str] = field(default_factory=list)  # parts, checkpoints and failure records

    def save(self, folder: DataFolder, sweep_id: str) -> None:
        folder.objects.put(f"{sweep_id}{REPAIR_SUFFIX}", pack_json(asdict(self)))

    @classmethod
    def load(cls, folder: DataFolder, sweep_id: str) -> RepairRequest:
        name = f"{sweep_id}{REPAIR_SUFFIX}"
        content = folder.objects.get(name)
        with reading(name):
            return cls(**unpack_json(content))


def carry_out_requests(conductor: Conductor) -> None:
    """Repair all sweeps for which there is a request."""
    folder = conductor.folder
    names = [name for name in folder.objects.list_top() if name.endswith(REPAIR_SUFFIX)]
    known = {sweep.id for sweep in conductor.ledger.sweeps()} if names else set()
    for name in sorted(names):
        sweep_id = name.removesuffix(REPAIR_SUFFIX)
        if sweep_id in known:
            try:
                repair(conductor, sweep_id, RepairRequest.load(folder, sweep_id))
            except (Damaged, NotFound) as error:  # nothing is left to restore it from
                log.warning("%s cannot be repaired: %s", sweep_id, error)
                conductor.ledger.set_state(sweep_id, State.FAILED, str(error))
            folder.objects.delete(name)


def repair(conductor: Conductor, sweep_id: str, request: RepairRequest) -> None:
    """Restore the files of a sweep, mark damaged runs pending, and queue them."""
    folder, sweep = conductor.folder, conductor.ledger.sweep(sweep_id)
    conductor._withdraw(sweep_id)
    folder.objects.delete(f"{sweep_id}{INDEX_SUFFIX}")  # derived data: it is made anew when the sweep ends
    _restore_spec(folder, sweep_id)
    _restore_notes(folder, sweep)
    _restore_metadata(folder, sweep)
    dataset = folder.dataset(sweep_id)
    dataset.restore_labels()
    _restore_keys(dataset, folder, sweep_id)
    reset = {kind: np.zeros(dataset.plan.runs.count(kind), dtype=bool) for kind in dataset.plan.runs.kinds}
    for name in request.objects:
        _remove_object(conductor, sweep_id, name, reset)
    lost = [key for key in request.chunks if not dataset.is_intact(key)]
    for key in lost:
        _mark_chunk(dataset, key, reset)
    for kind, numbers in request.runs.items():
        reset[kind][np.array(numbers, dtype=np.int64)] = True
    mark_pending(dataset, reset)
    for key in lost:  # only now, because a missing chunk under a status is damage
        if not key.startswith(tuple(f"{kind}_{STATUS}/" for kind in KINDS)):
            folder.objects.delete(f"{sweep_id}.zarr/{key}")
    conductor.merger.merge(sweep_id)
    conductor._recount(sweep_id)
    pending = conductor.counts(sweep_id)[Status.PENDING]
    if pending:
        conductor._requeue(sweep_id)
    if sweep.state is State.PAUSED:
        conductor.ledger.set_state(sweep_id, State.PAUSED, sweep.reason)
    elif not pending:
        conductor._finish(sweep_id)
    extra = {"event": "sweep_repaired", "sweep": sweep_id, "pending": pending}
    log.warning("sweep %s is repaired: %d runs are pending", sweep_id, pending, extra=extra)


def _mark_chunk(dataset: SweepDataset, key: str, reset: Mapping[Kind, AnyArray]) -> None:
    """Mark the runs of a lost chunk that have values, or all of them if their statuses are lost."""
    kind = next(kind for kind in dataset.plan.runs.kinds if key.startswith(f"{kind}_"))
    inside = dataset.runs_in_chunk(kind, key)
    if key.startswith(f"{kind}_{STATUS}/"):
        reset[kind][inside] = True
    else:
        reset[kind][inside] |= np.isin(dataset.status(kind)[inside], (Status.DONE, Status.DIVERGED))


def mark_pending(dataset: SweepDataset, reset: Mapping[Kind, AnyArray]) -> None:
    """Set the status of runs to pending."""
    for kind, chosen in reset.items():
        numbers = np.flatnonzero(chosen)
        if len(numbers):
            dataset.write(kind, numbers, {STATUS: np.full(len(numbers), Status.PENDING, dtype=np.int8)})


def _restore_spec(folder: DataFolder, sweep_id: str) -> None:
    """Restore a damaged spec from the copy in the attributes of the dataset."""
    try:
        folder.spec(sweep_id)
    except (Damaged, NotFound):
        folder.put_spec(sweep_id, folder.spec_of_dataset(sweep_id))


def _restore_notes(folder: DataFolder, sweep: SweepRecord) -> None:
    """Restore damaged notes from the ledger."""
    try:
        folder.notes(sweep.id)
    except Damaged:
        folder.put_notes(sweep.id, Notes(sweep.name, sweep.note, sweep.tags))


def _restore_metadata(folder: DataFolder, sweep: SweepRecord) -> None:
    """Make metadata of arrays equal to the root metadata; without that, make the dataset anew, empty."""
    objects, sweep_id, name = folder.objects, sweep.id, f"{sweep.id}.zarr"
    try:
        metadata = DatasetMetadata(objects.get(f"{name}/{ROOT}"), name)
    except (Damaged, NotFound):
        plan, spec = folder.plan(sweep_id), folder.spec(sweep_id)
        attributes = {**collect_provenance(spec, plan.grid, sweep.extends), "created": sweep.created}
        objects.clear(name)
        folder.create_dataset(sweep_id, plan, {**attributes, KEYS_DIGEST: digest_keys(plan.keys)})
        folder.put_keys(sweep_id, plan.keys)
        return
    for array in metadata.arrays.values():
        if not array.is_stored(objects, name):
            objects.put(f"{name}/{array.name}/{ROOT}", json.dumps(array.metadata).encode())


def _restore_keys(dataset: SweepDataset, folder: DataFolder, sweep_id: str) -> None:
    """Restore damaged run keys; if they were others (of another version), all runs are computed again."""
    try:
        folder.keys(sweep_id)
    except (Damaged, NotFound):
        plan = dataset.plan
        if dataset.attributes.get(KEYS_DIGEST) != digest_keys(plan.keys):
            mark_pending(dataset, {kind: np.ones(plan.runs.count(kind), bool) for kind in plan.runs.kinds})
        folder.put_keys(sweep_id, plan.keys)


def _remove_object(conductor: Conductor, sweep_id: str, name: str, reset: Mapping[Kind, AnyArray]) -> None:
    """Remove a damaged part, checkpoint or failure record; a run without its record is computed again."""
    if name.startswith(f"{sweep_id}.failures/"):
        kind, _, number = PurePath(name).stem.partition("-")
        copies = conductor.merger.copies(sweep_id)
        for known in reset:
            if kind == known:
                reset[known][copies[known].expand(np.array([int(number)]))[1]] = True
    conductor.folder.objects.delete(name)
