"""Import: add the sweeps of an archive to a data folder.

Everything in the archive is checked before anything is written. The files of all its sweeps are then written
under the mark of an incomplete sweep, and their rows in the ledger last. If the process dies in between, the
sweeps without a row are removed at the next start, as those of a submission are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from zarr.core.sync import sync

from sweep_service.archives.archived_sweep import ArchivedSweep
from sweep_service.archives.contents import (
    DESCRIPTIONS,
    FIGURES,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    MAX_SWEEPS,
    SWEEPS,
    parse_manifest,
)
from sweep_service.archives.safe_zip import SafeZip, open_zip
from sweep_service.errors import Conflict, Damaged, InvalidInput, LimitExceeded, NoRoom, SweepError
from sweep_service.execution.conductor import SWEEP_ID_PATTERN, Conductor, final_state
from sweep_service.faults import fault_point
from sweep_service.planning.estimate import Limits
from sweep_service.planning.versions import engine_versions, sweep_key
from sweep_service.status import Status
from sweep_service.store.dataset import STATUS, SweepDataset
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import Ledger, SweepRecord, utc_now
from sweep_service.text import format_size
from sweep_service.version import __version__


def import_archive(conductor: Conductor, path: Path, limits: Limits | None = None) -> list[SweepRecord]:
    """Add the sweeps of an archive to the folder of a conductor; return their records."""
    with open_zip(path) as archive:
        sweeps = read_sweeps(archive, limits or Limits())
        _check_folder(conductor.folder, conductor.ledger, archive, sweeps)
        _check_chunks(sweeps)
        return _install(conductor, sweeps)


def check_archive(path: Path) -> None:
    """Raise what `import_archive` would raise, whatever the folder holds."""
    with open_zip(path) as archive:
        _check_chunks(read_sweeps(archive, Limits()))


def read_sweeps(archive: SafeZip, limits: Limits) -> list[ArchivedSweep]:
    """Return the sweeps of an archive whose names and metadata are in order; no chunk is read."""
    digests = parse_manifest(archive.read(MANIFEST, MAX_MANIFEST_BYTES))
    listed, present = set(digests), {name for name in archive.names if name != MANIFEST}
    for name in sorted(listed ^ present):
        reason = "must be listed in the manifest" if name in present else "is listed, but missing"
        raise InvalidInput("file", name, reason)
    sweep_ids = sorted(
        {name.split("/")[1].removesuffix(".json") for name in present if _is_spec(name)},
    )
    if not 1 <= len(sweep_ids) <= MAX_SWEEPS:
        raise LimitExceeded("sweeps", len(sweep_ids), f"must be 1 to {MAX_SWEEPS} in an archive")
    for name in sorted(present):
        _check_place(name, sweep_ids)
    sweeps = [ArchivedSweep(archive, digests, sweep_id, limits) for sweep_id in sweep_ids]
    if len({sweep_key(sweep.grid) for sweep in sweeps}) < len(sweeps):
        raise InvalidInput("sweeps", len(sweeps), "must have a different spec each")
    return sweeps


def _is_spec(name: str) -> bool:
    folder, _, rest = name.partition("/")
    return folder == SWEEPS and bool(SWEEP_ID_PATTERN.fullmatch(rest.removesuffix(".json")))


def _check_place(name: str, sweep_ids: Sequence[str]) -> None:
    """Accept descriptions, figures, and the spec, the notes and the dataset of a sweep."""
    folder, _, rest = name.partition("/")
    sweep_id, _, kind = rest.partition("/")[0].partition(".")
    is_known = name in DESCRIPTIONS or (
        sweep_id in sweep_ids
        and (
            (folder == FIGURES and "/" not in rest)
            or (folder == SWEEPS and kind in ("json", "notes.json") and "/" not in rest)
            or (folder == SWEEPS and kind == "zarr" and "/" in rest)
        )
    )
    if not is_known:
        raise InvalidInput("file", name, "must be a description, a figure, or a file of a sweep's dataset")


def _check_folder(
    folder: DataFolder, ledger: Ledger, archive: SafeZip, sweeps: Sequence[ArchivedSweep]
) -> None:
    """Refuse sweeps that the folder has already, and more bytes than it has room for."""
    stored = {name.partition(".")[0] for name in folder.objects.list_top()}
    for sweep in sweeps:
        if sweep.id in stored:
            raise Conflict(f"{sweep.id} is in this data folder already")
        for known in ledger.sweeps(key=sweep_key(sweep.grid)):
            raise Conflict(f"{sweep.id} is in this data folder already, as {known.id}")
    free = folder.free_dataset_bytes()
    if archive.total_bytes > free:
        allowed = f"must be at most {format_size(free)}, the free space of {folder.root}"
        raise NoRoom("bytes", format_size(archive.total_bytes), allowed)


def _check_chunks(sweeps: Sequence[ArchivedSweep]) -> None:
    for sweep in sweeps:
        for variables in sweep.variables.values():
            for variable in variables.values():
                for _ in sweep.chunks(variable):
                    pass


def _install(conductor: Conductor, sweeps: Sequence[ArchivedSweep]) -> list[SweepRecord]:
    folder, records, written = conductor.folder, [], []
    try:
        for sweep in sweeps:
            written.append(sweep.id)
            records.append(_write_files(folder, sweep))
        for sweep, (record, counts) in zip(sweeps, records, strict=True):
            conductor.ledger.add(record, [], counts)
            written.remove(sweep.id)
            fault_point("import:ledger")
            folder.mark_complete(sweep.id)
            conductor.index_writer.request(sweep.id)  # computed from the new dataset, never read
            conductor.ledger.set_stored_cost(sweep.id, *conductor.stored_cost(sweep.id))
            conductor.index_writer.request(sweep.id)
    except Exception:
        for sweep_id in written:
            with suppress(SweepError, OSError):  # otherwise it is removed at the next start
                folder.remove(sweep_id)
        raise
    return [conductor.ledger.sweep(sweep.id) for sweep in sweeps]


def _write_files(folder: DataFolder, sweep: ArchivedSweep) -> tuple[SweepRecord, Mapping[Status, int]]:
    """Write everything of a sweep but its row in the ledger; return the row, and its runs by status."""
    folder.mark_incomplete(sweep.id)
    fault_point("import:marked")
    folder.put_spec(sweep.id, sweep.spec)
    fault_point("import:spec")
    folder.put_keys(sweep.id, sweep.plan.keys)
    if sweep.notes != folder.notes(sweep.id):
        folder.put_notes(sweep.id, sweep.notes)
    fault_point("import:keys")
    dataset = folder.create_dataset(sweep.id, sweep.plan, sweep.attributes)
    fault_point("import:dataset")
    for variables in sweep.variables.values():
        for name in sorted(variables, key=lambda name: name == STATUS):  # values first, as the merger does
            with dataset.store.batch():
                for key, content in sweep.chunks(variables[name]):
                    sync(dataset.store.set(key, content))
    fault_point("import:values")
    _check_values(sweep, dataset)
    counts = dataset.counts()
    now = utc_now()
    record = SweepRecord(
        id=sweep.id,
        key=sweep_key(sweep.grid),
        name=sweep.notes.name,
        state=final_state(counts),
        created=sweep.attributes["created"],
        updated=now,
        extends=sweep.attributes.get("extends"),
        reason="",
        runs=sweep.plan.runs.total,
        reused=0,
        versions=engine_versions(sweep.grid),
        package=__version__,
        stored_bytes=folder.stored_bytes(sweep.id),
        note=sweep.notes.note,
        fixed=sweep.grid.single_values(),
        tags=sweep.notes.tags,
    )
    return record, counts


def _check_values(sweep: ArchivedSweep, dataset: SweepDataset) -> None:
    """Refuse chunks that are missing under a status, and a status without the values that it needs."""
    for kind in sweep.variables:
        for key in sweep.missing_chunks(kind):
            if not dataset.is_intact(key):
                raise Damaged(f"{sweep.name}/{key} is missing in the archive")
        statuses = dataset.status(kind)
        if np.any(statuses == Status.PENDING):
            raise Damaged(f"{sweep.name}/{kind}_{STATUS} in the archive has runs that have not ended")
        if np.any((statuses == Status.DONE) & np.isnan(dataset.initial_risk(kind))):
            raise Damaged(f"{dataset.name}: a run is done, but has no risk at t = 0")
