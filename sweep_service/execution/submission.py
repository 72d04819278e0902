"""A new sweep: what of it is there already, what it will cost, and its files before its ledger row."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from sweep_service.errors import UNREADABLE, LimitExceeded, SweepError
from sweep_service.execution.merger import MERGE_BYTES, Merger
from sweep_service.faults import fault
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.bundles import bundles
from sweep_service.planning.estimate import Estimate, Limits, estimate
from sweep_service.planning.grids import Grid
from sweep_service.planning.keys import Copies
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status, count_statuses
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import Ledger, State, Sweep, utc_now
from sweep_service.store.provenance import provenance

log = logging.getLogger(__name__)

# What a run that need not be computed again may have ended with.
FINAL = (Status.DONE, Status.DIVERGED, Status.SKIPPED)
Found = dict[Kind, tuple[AnyArray, AnyArray]]  # numbers there, numbers here


class Submission:
    """A spec on its way to a sweep; nothing is written before `accept`."""

    def __init__(self, spec: SweepSpec) -> None:
        self.spec, self.grid = spec, Grid.of(spec)
        self.plan = SweepPlan(self.grid)
        self.reuse: list[tuple[str, Found]] | None = None

    def existing(self, ledger: Ledger) -> Sweep | None:
        """The sweep that there is with the same canonical spec."""
        return next(iter(ledger.sweeps(key=self.grid.key.digest)), None)

    def is_fresh(self, ledger: Ledger) -> bool:
        """Was it looked at, and is all that it found still there?"""
        there = {sweep.id for sweep in ledger.sweeps()}
        return self.reuse is not None and all(source in there for source, _ in self.reuse)

    def look(self, folder: DataFolder, ledger: Ledger | None, limits: Limits) -> Estimate:
        """Find what of it is stored, say what the rest will cost, and refuse what is beyond the limits."""
        limits.require(len(self.grid), self.plan.runs.total)
        self.left = {kind: Copies(self.plan.keys[kind]).unique() for kind in self.plan.runs.kinds}
        distinct = sum(map(len, self.left.values()))
        self.reuse = self._reusable(folder, ledger) if ledger is not None else []
        found = estimate(self.plan, self.left, distinct, folder.calibration())
        found.require(limits, folder.room())
        return found

    def price(self, folder: DataFolder, ledger: Ledger | None, limits: Limits) -> dict[str, Any]:
        """What it will cost as plain data, also of one that is too dear: `refused` says so."""
        found = self.look(folder, ledger, replace(limits, core_hours=math.inf, bytes=2**62))
        refused = None
        try:
            found.require(limits, folder.room())
        except LimitExceeded as error:
            refused = f"{error.field}: {error.allowed}"  # what it would need is in the content
        return {**found.content(), "refused": refused}

    def _reusable(self, folder: DataFolder, ledger: Ledger) -> list[tuple[str, Found]]:
        """Earlier sweeps that hold some of the runs; `left` loses them."""
        found = []
        for sweep in ledger.sweeps():
            if not any(len(numbers) for numbers in self.left.values()):
                break
            here: Found = {}
            try:
                shared = self._shared(folder.keys(sweep.id))
                if not shared:  # opening a dataset takes long, and there may be many
                    continue
                dataset = folder.dataset(sweep.id)
                for kind, (theirs, ours) in shared.items():
                    if self._needed() <= set(dataset.plan.schema.variables.get(kind, {})):
                        done = np.isin(dataset.status(kind)[theirs], FINAL)
                        if np.any(done):
                            here[kind] = (theirs[done], ours[done])
            except UNREADABLE as error:
                log.warning("%s cannot be reused: %s", sweep.id, error)
                continue
            for kind, (_, ours) in here.items():
                self.left[kind] = np.setdiff1d(self.left[kind], ours)
            if here:
                found.append((sweep.id, here))
        return found

    def _shared(self, keys: Mapping[Kind, AnyArray]) -> Found:
        """Runs that are left and that another sweep has too."""
        found: Found = {}
        for kind, numbers in self.left.items():
            _, ours, theirs = np.intersect1d(self.plan.keys[kind][numbers], keys[kind], return_indices=True)
            if len(ours):
                found[kind] = (theirs, numbers[ours])
        return found

    def _needed(self) -> set[str]:
        """What must be stored of a run to copy it; which overlaps it has beside M depends on its regime."""
        return {*self.grid.observables, *(["overlap_student_teacher"] if self.grid.overlaps else [])}

    def accept(self, merger: Merger, extends: str | None, priority: int = 0) -> Sweep:
        """Files first, the ledger last: what dies in between was never acknowledged, and is forgotten."""
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{self.grid.key.digest[:8]}"
        try:
            sweep = self._enter(name, merger, extends, priority)
        except Exception:
            with suppress(SweepError, OSError):  # or it goes at the next start
                merger.folder.remove(name)
            raise
        finally:
            merger.forget(name)
        fault("submit:ledger")
        merger.folder.own(name)
        return sweep

    def _enter(self, name: str, merger: Merger, extends: str | None, priority: int) -> Sweep:
        folder = merger.folder
        folder.disown(name)
        fault("submit:disown")
        folder.objects.put(f"{name}.json", self.spec.model_dump_json().encode())
        fault("submit:spec")
        folder.put_keys(name, self.plan.keys)
        fault("submit:keys")
        about = provenance(self.spec, self.grid, extends)
        dataset = folder.create_dataset(name, self.plan, about)
        fault("submit:dataset")
        reused, counts = 0, Counter[Status]()
        for source, found in self.reuse or ():
            for kind, numbers, values in self._copied(folder, source, found):
                rows, targets = merger.write(dataset, name, kind, numbers, values)
                counts += count_statuses(values["status"][rows])
                reused += len(targets)
        fault("submit:reuse")
        some = bundles(self.plan, self.left, folder.calibration())
        runs = self.plan.runs.total
        state, now = State.QUEUED if some else State.COMPLETED, utc_now()
        sweep = Sweep(
            name, self.grid.key.digest, self.spec.name, state, now, now, extends, "", runs, reused, priority
        )
        merger.ledger.add(sweep, some, counts)
        return sweep

    def _copied(
        self, folder: DataFolder, source: str, found: Found
    ) -> Iterator[tuple[Kind, AnyArray, dict[str, AnyArray]]]:
        """Numbers and values of runs of an earlier sweep; what cannot be read after all is left to do."""
        for kind, (theirs, ours) in found.items():
            block = max(1, MERGE_BYTES // self.plan.schema.run_bytes(kind))
            for at in range(0, len(ours), block):
                few = slice(at, at + block)
                try:
                    values = folder.dataset(source).read(kind, theirs[few], self.plan.schema.variables[kind])
                except UNREADABLE as error:
                    log.warning("%s cannot be reused: %s", source, error)
                    self.left[kind] = np.union1d(self.left[kind], ours[few])
                else:
                    yield kind, ours[few], values
