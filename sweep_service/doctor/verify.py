"""`sweep doctor --verify`: reads all that is stored of a sweep, and finds what is damaged or missing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field

import numpy as np
from zarr.core.sync import sync

from sweep_service.doctor.checks.verdict import Check, ok, warning, wrong
from sweep_service.errors import (
    UNREADABLE_SWEEP,
    Damaged,
    InvalidInput,
    NotFound,
    SweepError,
    TooNew,
)
from sweep_service.execution.conductor import SWEEP_ID_PATTERN
from sweep_service.execution.merger import PART_SUFFIX
from sweep_service.execution.repair import RepairRequest
from sweep_service.execution.summary import read_failure
from sweep_service.numerics.npz import read_arrays
from sweep_service.planning.grids import Grid
from sweep_service.planning.growth.rounds import Rounds
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import KINDS
from sweep_service.status import Status
from sweep_service.store.dataset import SweepDataset
from sweep_service.store.folder import CONTINUED_SUFFIX, INDEX_SUFFIX, ROUNDS_SUFFIX, DataFolder
from sweep_service.store.kept_states import STATES_SUFFIX
from sweep_service.store.ledger import Ledger, State
from sweep_service.store.metadata import StoredArray
from sweep_service.store.notes import NOTES_SUFFIX, Notes
from sweep_service.store.objects import Chunks
from sweep_service.store.parts import Part
from sweep_service.store.sealed import unpack_json

CHECKPOINT_SUFFIX = ".checkpoint"
CHUNKS_AT_ONCE = 16


@dataclass
class Findings:
    """What is wrong with one sweep, and what a repair needs to know."""

    sweep_id: str
    problems: list[str] = field(default_factory=list)
    request: RepairRequest = field(default_factory=RepairRequest)
    has_checksums: bool = True
    is_repairable: bool = True

    def add(self, name: str, error: Exception | str) -> None:
        text = str(error).partition("; sweep doctor")[0]
        self.problems.append(text if name in text else f"{name}: {text}")


def stored_ids(folder: DataFolder) -> list[str]:
    """Return the ids of all sweeps that are stored or in the ledger."""
    names = {name.partition(".")[0] for name in folder.objects.list_top()}
    if folder.has_ledger():
        with suppress(SweepError), closing(folder.ledger()) as ledger:  # reported by `verify`
            names |= {sweep.id for sweep in ledger.sweeps()}
    return sorted(name for name in names if SWEEP_ID_PATTERN.fullmatch(name))


def verify(folder: DataFolder, sweep_ids: Iterable[str]) -> tuple[list[Check], list[Findings]]:
    """Read everything of these sweeps; return one check for each problem, and the findings by sweep."""
    checks = list(_verify_ledger(folder))
    findings = [verify_sweep(folder, sweep_id) for sweep_id in sweep_ids]
    for sweep in findings:
        checks += _make_checks(sweep)
    return checks, findings


def _make_checks(findings: Findings) -> Iterator[Check]:
    for problem in findings.problems:
        yield wrong("damage", problem, "")
    if not findings.has_checksums:
        text = f"{findings.sweep_id} has no checksums: an older version wrote it, and only sizes were checked"
        yield warning("checksums", text, "a sweep that is computed now has them; keep a copy of this one")
    if not findings.problems:
        yield ok("sweep", f"{findings.sweep_id} is intact")


def _verify_ledger(folder: DataFolder) -> Iterator[Check]:
    if not folder.has_ledger():
        return
    try:
        with closing(folder.ledger()) as ledger:
            problems = ledger.find_damage()
            ledger.all_totals([sweep.id for sweep in ledger.sweeps()])
    except SweepError as error:
        problems = [str(error)]
    if problems:
        advice = "no results are lost: move it away, then run sweep doctor --rebuild"
        yield wrong("ledger", problems[0], advice)


def verify_sweep(folder: DataFolder, sweep_id: str) -> Findings:
    """Read everything of one sweep."""
    findings = Findings(sweep_id)
    try:
        spec = folder.spec(sweep_id)
    except (Damaged, NotFound, InvalidInput) as error:
        findings.add(f"{sweep_id}.json", error)
        spec = None
    name = f"{sweep_id}.zarr"
    try:
        plan = SweepPlan(Grid.of(spec or folder.spec_of_dataset(sweep_id), validate=False))
        dataset = SweepDataset(folder.objects, name, plan)
    except UNREADABLE_SWEEP as error:
        findings.is_repairable = spec is not None and not isinstance(error, TooNew)
        findings.add(name, error)
        return findings
    findings.has_checksums = dataset.metadata.has_checksums
    _verify_keys(folder, dataset, findings)
    _verify_notes(folder, findings)
    _verify_index(folder, findings)
    _verify_arrays(folder, dataset, findings)
    _verify_objects(folder, dataset, findings)
    if not findings.problems:
        _verify_values(dataset, findings)
        _verify_counts(folder, dataset, findings)
    return findings


def _verify_keys(folder: DataFolder, dataset: SweepDataset, findings: Findings) -> None:
    try:
        keys = folder.keys(findings.sweep_id)
        if any(len(keys[kind]) != dataset.plan.runs.count(kind) for kind in KINDS):
            raise Damaged(f"{findings.sweep_id}.keys has the keys of another sweep")
    except (Damaged, NotFound) as error:
        findings.add(f"{findings.sweep_id}.keys", error)


def _verify_notes(folder: DataFolder, findings: Findings) -> None:
    try:
        Notes.load(folder.objects, findings.sweep_id)
    except NotFound:  # they were never changed
        return
    except Damaged as error:
        findings.add(f"{findings.sweep_id}{NOTES_SUFFIX}", error)


def _verify_index(folder: DataFolder, findings: Findings) -> None:
    """Check the index against its own digest; one of another state of the dataset is not damaged."""
    from sweep_service.store.run_index.files import check_seal

    name = f"{findings.sweep_id}{INDEX_SUFFIX}"
    with suppress(NotFound):
        content = folder.objects.get(name)
        try:
            check_seal(content)
        except ValueError as error:
            findings.add(name, str(error))


def _verify_arrays(folder: DataFolder, dataset: SweepDataset, findings: Findings) -> None:
    arrays = dataset.metadata.arrays
    for array in arrays.values():
        if not array.is_stored(folder.objects, dataset.name):
            findings.add(f"{dataset.name}/{array.name}/zarr.json", "differs from the metadata of the dataset")
    for array in arrays.values():
        for key, error in _find_damaged_chunks(dataset.store, array):
            findings.add(f"{dataset.name}/{key}", error)
            if array.name.startswith(tuple(f"{kind}_" for kind in KINDS)):
                findings.request.chunks.append(key)


def _find_damaged_chunks(store: Chunks, array: StoredArray) -> Iterator[tuple[str, Damaged]]:
    async def read(keys: Sequence[str]) -> list[object]:
        return await asyncio.gather(*(store.get(key) for key in keys), return_exceptions=True)

    keys = list(array.chunk_keys())
    for start in range(0, len(keys), CHUNKS_AT_ONCE):
        block = keys[start : start + CHUNKS_AT_ONCE]
        for key, answer in zip(block, sync(read(block)), strict=True):
            if isinstance(answer, Damaged):
                yield key, answer
            elif isinstance(answer, BaseException):
                raise answer


def _verify_objects(folder: DataFolder, dataset: SweepDataset, findings: Findings) -> None:
    """Read parts, checkpoints, failure records and states; a service may remove some meanwhile."""
    objects, sweep_id = folder.objects, findings.sweep_id
    prefixes = (".parts/", ".failures/", f"{STATES_SUFFIX}/", CONTINUED_SUFFIX, ROUNDS_SUFFIX)
    for name in [name for prefix in prefixes for name in objects.list(f"{sweep_id}{prefix}")]:
        try:
            if name.startswith(f"{sweep_id}.parts/") and name.endswith(PART_SUFFIX):
                Part.unpack(objects.get(name), dataset.plan)
            elif name.endswith((CHECKPOINT_SUFFIX, CONTINUED_SUFFIX)) or f"{STATES_SUFFIX}/" in name:
                read_arrays(objects.get(name))
            elif name.endswith(ROUNDS_SUFFIX):
                Rounds.from_json(unpack_json(objects.get(name)))
            elif name.startswith(f"{sweep_id}.failures/"):
                read_failure(folder, name)
        except NotFound:
            continue
        except Exception as error:  # damaged bytes may raise any exception
            findings.add(name, error)
            findings.request.objects.append(name)


def _verify_values(dataset: SweepDataset, findings: Findings) -> None:
    """Check that statuses are known, and that each done run has a risk at t = 0."""
    for kind in dataset.plan.runs.kinds:
        statuses = dataset.status(kind)
        if not np.isin(statuses, list(Status)).all():
            findings.add(f"{dataset.name}/{kind}_status", "has unknown statuses")
            findings.request.runs[kind] = np.flatnonzero(~np.isin(statuses, list(Status))).tolist()
            continue
        without = np.flatnonzero((statuses == Status.DONE) & np.isnan(dataset.initial_risk(kind)))
        if len(without):
            findings.add(f"{dataset.name}/{kind}_risk", f"{len(without)} done runs have no value at t = 0")
            findings.request.runs[kind] = without.tolist()


def _verify_counts(folder: DataFolder, dataset: SweepDataset, findings: Findings) -> None:
    """Compare the ledger with the statuses, unless a process is changing them or parts are not merged."""
    if not folder.has_ledger() or any(folder.objects.list(f"{findings.sweep_id}.parts/")):
        return
    try:
        with folder.lock(), closing(folder.ledger()) as ledger:
            _compare_counts(ledger, dataset, findings)
    except SweepError:  # in use, not in the ledger, or the ledger is damaged
        return


def _compare_counts(ledger: Ledger, dataset: SweepDataset, findings: Findings) -> None:
    sweep, counts = ledger.sweep(findings.sweep_id), dataset.counts()
    known = ledger.totals(findings.sweep_id)["counts"]
    pending = counts.pop(Status.PENDING, 0)
    if dict(counts) != known or sweep.runs != dataset.plan.runs.total:
        findings.add(findings.sweep_id, "the ledger counts other runs than the dataset has")
    elif pending and sweep.state in (State.COMPLETED, State.INCOMPLETE):
        findings.add(findings.sweep_id, f"it is {sweep.state} in the ledger, but {pending} runs are pending")
