"""A submission: finds reusable runs, estimates the cost, and writes the files of a new sweep.

The files are written before the row of the ledger. A sweep without a row was never acknowledged.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from sweep_service.abandonment import check_abandoned
from sweep_service.errors import UNREADABLE_SWEEP, LimitExceeded, SweepError
from sweep_service.execution.continuation import find_shorter_runs
from sweep_service.execution.merger import Merger
from sweep_service.faults import fault_point
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.bundles import BundleLimits, make_bundles
from sweep_service.planning.estimate import Estimate, Limits, estimate
from sweep_service.planning.grids import Grid
from sweep_service.planning.growth.kept_state import ContinuedRuns
from sweep_service.planning.growth.rounds import Rounds
from sweep_service.planning.keys import CopyGroups, match_keys
from sweep_service.planning.notes import check_steps, collect_notes
from sweep_service.planning.outline import Outline, SpecSource
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind
from sweep_service.planning.spec import SweepSpec
from sweep_service.planning.spec_text import locating_errors
from sweep_service.planning.versions import engine_versions, sweep_key
from sweep_service.status import Status, count_statuses
from sweep_service.store.dataset import SweepDataset
from sweep_service.store.folder import KEYS_DIGEST, DataFolder, digest_keys
from sweep_service.store.key_index import key_prefixes
from sweep_service.store.ledger import Ledger, State, SweepRecord, utc_now
from sweep_service.store.provenance import collect_provenance
from sweep_service.version import __version__

log = logging.getLogger(__name__)

# Statuses of runs that need not be computed again.
REUSABLE_STATUSES = (Status.DONE, Status.DIVERGED, Status.SKIPPED)
ANEW_REASON = "the sweep that holds their first part has not kept their states (keep_state)"
Runs = Mapping[Kind, AnyArray]  # numbers by kind
SharedRuns = dict[Kind, tuple[AnyArray, AnyArray]]  # run numbers in an earlier sweep, and in this one


class Submission:
    """A spec that is to become a sweep; nothing is written before `create_sweep`.

    `owner` is the name of who submits it, if known.
    """

    def __init__(
        self, spec: SweepSpec | Outline, limits: Limits | None = None, owner: str | None = None
    ) -> None:
        """Expand a spec, unless it is larger than the limits."""
        outline = spec if isinstance(spec, Outline) else Outline.of(spec)
        (limits or Limits()).check_outline(outline)
        self.spec, self.grid, self.owner = outline.spec, Grid.expand(outline), owner
        check_steps(self.grid)
        self.plan = SweepPlan(self.grid)
        self.reuse: list[tuple[str, SharedRuns]] | None = None
        self.continued: ContinuedRuns | None = None
        self.anew = 0  # runs whose shorter run is stored, but not its state

    @classmethod
    def read(cls, source: SpecSource, limits: Limits | None = None, owner: str | None = None) -> Submission:
        """Read a mapping, or JSON or YAML, whose errors then have lines and columns."""
        with locating_errors(source):
            return cls(Outline.read(source), limits, owner)

    def find_existing(self, ledger: Ledger) -> SweepRecord | None:
        """Return the sweep with the same canonical spec and the same versions, if there is one."""
        return next(iter(ledger.sweeps(key=sweep_key(self.grid))), None)

    def is_up_to_date(self, ledger: Ledger) -> bool:
        """Return whether it is prepared, and all sweeps whose runs it reuses still exist."""
        if self.reuse is None:
            return False
        sweep_ids = {sweep.id for sweep in ledger.sweeps()}
        sources = {source for source, _ in self.reuse}
        if self.continued is not None:
            sources.update(self.continued.sources)
        return sources <= sweep_ids

    def prepare(self, folder: DataFolder, ledger: Ledger | None, limits: Limits) -> Estimate:
        """Find reusable runs and estimate the cost of the others; raise LimitExceeded if it is too large."""
        result = self._estimate(folder, ledger, limits)
        result.check_limits(limits, folder.free_dataset_bytes())
        return result

    def _estimate(self, folder: DataFolder, ledger: Ledger | None, limits: Limits) -> Estimate:
        self.left = {kind: CopyGroups(self.plan.keys[kind]).first_runs() for kind in self.plan.runs.kinds}
        never = self._leave_out_theories() if self.grid.has_rounds else 0
        distinct = sum(map(len, self.left.values()))
        self.reuse, self.continued, self.anew = [], None, 0
        if ledger is not None:
            self.reuse = self._find_reusable(folder, ledger)
            self._find_continued(folder, ledger)
        expected = estimate(self.plan, self.left, distinct, folder.calibration(), self.continued)
        return replace(expected, copies=expected.copies - never)

    def _leave_out_theories(self) -> int:
        """Leave out theories of seeds beyond the pilot, which are never computed; return their number."""
        if "ode" not in self.left:
            return 0
        is_chosen = Rounds.first(self.grid).is_chosen(self.plan, "ode")
        self.left["ode"] = self.left["ode"][is_chosen[self.left["ode"]]]
        return int(np.count_nonzero(~is_chosen))

    def summarise_cost(self, folder: DataFolder, ledger: Ledger | None, limits: Limits) -> dict[str, Any]:
        """Return the estimate as plain data; `refused` names the limit that it exceeds, or is None."""
        result = self._estimate(folder, ledger, limits)
        refused = None
        try:
            result.check_limits(limits, folder.free_dataset_bytes())
        except LimitExceeded as error:
            refused = f"{error.field}: {error.allowed}"  # the amount is in the estimate
        notes = collect_notes(self.spec, self.grid)
        if self.anew:
            notes = (*notes, f"{self.anew} SGD runs are computed anew from t = 0: {ANEW_REASON}")
        if self.grid.target is not None:
            most = f"{self.grid.pilot} to {len(self.grid.seeds)} seeds"
            notes = (*notes, f"each point has {most}, as its scatter requires: the cost is that of the most")
        return {**result.to_dict(), "notes": list(notes), "refused": refused}

    def _find_reusable(self, folder: DataFolder, ledger: Ledger) -> list[tuple[str, SharedRuns]]:
        """Find earlier sweeps that hold some of the runs, and remove these runs from `left`."""
        sources = []
        for sweep_id in self._find_candidates(folder, ledger, self.plan.keys):
            if not any(len(numbers) for numbers in self.left.values()):
                break
            check_abandoned()
            reusable: SharedRuns = {}
            try:
                shared = self._match_keys(folder.keys(sweep_id))
                if not shared:
                    continue
                dataset = folder.dataset(sweep_id)
                for kind, (theirs, ours) in shared.items():
                    if self._required_variables() <= set(dataset.plan.schema.variables.get(kind, {})):
                        is_final = find_final(folder, dataset, kind, theirs)
                        if np.any(is_final):
                            reusable[kind] = (theirs[is_final], ours[is_final])
            except UNREADABLE_SWEEP as error:
                log.warning("%s cannot be reused: %s", sweep_id, error)
                continue
            for kind, (_, ours) in reusable.items():
                self.left[kind] = np.setdiff1d(self.left[kind], ours)
            if reusable:
                sources.append((sweep_id, reusable))
        return sources

    def _find_continued(self, folder: DataFolder, ledger: Ledger) -> None:
        """Find shorter runs that runs in `left` continue. One that diverged has ended, and is reused."""
        shorter = find_shorter_runs(
            folder, self.plan, self.left.get("sgd", np.empty(0, np.int64)), self._required_variables(),
            lambda keys, numbers: self._find_candidates(folder, ledger, {"sgd": keys}, {"sgd": numbers}),
        )  # fmt: skip
        self.continued, self.anew = shorter.continued, shorter.without_state
        for source, theirs, ours in shorter.diverged:
            self.reuse = [*(self.reuse or ()), (source, {"sgd": (theirs, ours)})]
            self.left["sgd"] = np.setdiff1d(self.left["sgd"], ours)

    def _find_candidates(
        self, folder: DataFolder, ledger: Ledger, keys: Mapping[Kind, AnyArray], left: Runs | None = None
    ) -> list[str]:
        """Return the sweeps that may hold runs in `left` with these keys, newest first.

        Reading the files of a sweep is slow, and there may be thousands, so this uses the index of run keys,
        and the counts of the ledger.
        """
        left = self.left if left is None else left
        prefixes = key_prefixes({kind: keys[kind][numbers] for kind, numbers in left.items()})
        candidates = []
        for sweep in ledger.sweeps():
            try:
                if folder.key_index.may_share(sweep.id, prefixes):
                    candidates.append(sweep.id)
            except UNREADABLE_SWEEP as error:
                log.warning("%s cannot be reused: %s", sweep.id, error)
        totals = ledger.all_totals(candidates)
        return [
            sweep_id
            for sweep_id in candidates
            if any(status in totals[sweep_id]["counts"] for status in REUSABLE_STATUSES)
        ]

    def _match_keys(self, keys: Mapping[Kind, AnyArray]) -> SharedRuns:
        """Return the runs in `left` whose keys are among those of another sweep."""
        shared: SharedRuns = {}
        for kind, numbers in self.left.items():
            ours, theirs = match_keys(self.plan.keys[kind][numbers], keys[kind])
            if len(ours):
                shared[kind] = (theirs, numbers[ours])
        return shared

    def _required_variables(self) -> set[str]:
        """Return the variables that a reused run must have. Overlaps other than M depend on the regime."""
        return {*self.grid.observables, *(["overlap_student_teacher"] if self.grid.overlaps else [])}

    def create_sweep(
        self, merger: Merger, extends: str | None, priority: int, bundle_limits: BundleLimits
    ) -> SweepRecord:
        """Write the files of the sweep, then its row in the ledger.

        If the process dies in between, the sweep was never acknowledged, and is removed at the next start.
        """
        sweep_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{sweep_key(self.grid)[:8]}"
        try:
            sweep = self._write_sweep(sweep_id, merger, extends, priority, bundle_limits)
        except Exception:
            with suppress(SweepError, OSError):  # otherwise it is removed at the next start
                merger.folder.remove(sweep_id)
            raise
        finally:
            merger.forget(sweep_id)
        fault_point("submit:ledger")
        merger.folder.mark_complete(sweep_id)
        return sweep

    def _write_sweep(
        self, sweep_id: str, merger: Merger, extends: str | None, priority: int, bundle_limits: BundleLimits
    ) -> SweepRecord:
        folder = merger.folder
        folder.mark_incomplete(sweep_id)
        fault_point("submit:disown")
        folder.put_spec(sweep_id, self.spec)
        fault_point("submit:spec")
        folder.put_keys(sweep_id, self.plan.keys)
        fault_point("submit:keys")
        rounds = Rounds.first(self.grid) if self.grid.has_rounds else None
        if rounds is not None:
            folder.put_rounds(sweep_id, rounds)
        if self.continued is not None:
            folder.put_continued(sweep_id, self.continued)
            fault_point("extend:continued")
        attributes = collect_provenance(self.spec, self.grid, extends)
        attributes[KEYS_DIGEST] = digest_keys(self.plan.keys)
        dataset = folder.create_dataset(sweep_id, self.plan, attributes)
        fault_point("submit:dataset")
        reused, counts = 0, Counter[Status]()
        for source, shared in self.reuse or ():
            for kind, numbers, values in self._read_reused(merger, source, shared):
                rows, targets = merger.write_runs(dataset, sweep_id, kind, numbers, values)
                counts += count_statuses(values["status"][rows])
                reused += len(targets)
        fault_point("submit:reuse")
        left = self.left if rounds is None else rounds.restrict(self.plan, self.left)
        bundles = make_bundles(self.plan, left, folder.calibration(), bundle_limits, self.continued)
        now = utc_now()
        sweep = SweepRecord(
            id=sweep_id,
            key=sweep_key(self.grid),
            name=self.spec.name,
            state=State.QUEUED if bundles or rounds is not None else State.COMPLETED,
            created=now,
            updated=now,
            extends=extends,
            reason="",
            runs=self.plan.runs.total,
            reused=reused,
            priority=priority,
            versions=engine_versions(self.grid),
            package=__version__,
            owner=self.owner,
            stored_bytes=folder.stored_bytes(sweep_id),
            fixed=self.grid.single_values(),
        )
        merger.ledger.add(sweep, bundles, counts)
        return sweep

    def _read_reused(
        self, merger: Merger, source: str, shared: SharedRuns
    ) -> Iterator[tuple[Kind, AnyArray, dict[str, AnyArray]]]:
        """Yield numbers and values of runs of an earlier sweep; runs that cannot be read return to `left`."""
        for kind, (theirs, ours) in shared.items():
            block_size = max(1, merger.max_merge_bytes // self.plan.schema.run_bytes(kind))
            for start in range(0, len(ours), block_size):
                block = slice(start, start + block_size)
                try:
                    dataset = merger.folder.dataset(source)
                    values = dataset.read(kind, theirs[block], self.plan.schema.variables[kind])
                except UNREADABLE_SWEEP as error:
                    log.warning("%s cannot be reused: %s", source, error)
                    self.left[kind] = np.union1d(self.left[kind], ours[block])
                else:
                    yield kind, ours[block], values


def find_final(folder: DataFolder, dataset: SweepDataset, kind: Kind, numbers: AnyArray) -> AnyArray:
    """Return which runs of a sweep need not be computed again: not those that no round of it has chosen."""
    status = dataset.status(kind)[numbers]
    is_final = np.isin(status, REUSABLE_STATUSES)
    rounds = folder.rounds(dataset.name.removesuffix(".zarr"))
    if rounds is not None:
        is_final &= (status != Status.SKIPPED) | rounds.is_chosen(dataset.plan, kind)[numbers]
    return np.asarray(is_final)
