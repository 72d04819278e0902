"""The conductor: the one loop that executes sweeps. It submits, merges, retries and cancels.

Everything it knows can be read again from the data folder, so it may die at any moment. A crash leaves one
of four states, each with one way to recover: a sweep that was never acknowledged (removed), a bundle without
a part (computed again), a part that is not merged (merged), a part that is merged but not removed (merged
again, to the same values).
"""

from __future__ import annotations

import errno
import heapq
import json
import logging
import re
import time as clock
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from sweep_service.errors import DISK_FULL_ERRNOS, UNREADABLE_SWEEP, Damaged, StoreGone, TooNew, is_temporary
from sweep_service.execution.executors import Executor, Receipt
from sweep_service.execution.hooks import ExecutionHooks
from sweep_service.execution.index_writer import IndexWriter
from sweep_service.execution.merger import Merger
from sweep_service.execution.pending import PendingBundles
from sweep_service.execution.remaining import predict_remaining
from sweep_service.execution.repair import carry_out_requests
from sweep_service.execution.restart import ADVICE, find_changes, record_package, restart_sweep
from sweep_service.execution.rounds import RoundDecisions
from sweep_service.execution.submission import REUSABLE_STATUSES, Submission
from sweep_service.execution.task import Task, part_name
from sweep_service.faults import fault_point
from sweep_service.planning.bundles import DEFAULT_LIMITS, Bundle, BundleLimits, make_bundles
from sweep_service.planning.estimate import Limits
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.folder import INCOMPLETE_SUFFIX, INDEX_SUFFIX, RESTART_SUFFIX, DataFolder
from sweep_service.store.ledger import Request, State, SweepRecord, utc_now
from sweep_service.store.notes import Notes
from sweep_service.store.parts import Part
from sweep_service.version import __version__

SWEEP_ID_PATTERN = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{8}")
MAX_MEASURED_SWEEPS = 20  # ended sweeps whose sizes are measured at once
FINAL_STATES = (State.COMPLETED, State.INCOMPLETE, State.CANCELLED)  # no more parts are expected
# Larger than the number of turns, and of sweeps that run, to combine them with the priority of a sweep.
MAX_TURNS, MAX_RUNNING_SWEEPS = 100_000_000, 10_000
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ConductorSettings:
    """How a conductor divides and executes sweeps."""

    bundles: BundleLimits = DEFAULT_LIMITS
    merge_interval_seconds: float = 2.0
    tidy_interval_seconds: float = 60.0
    max_attempts: int = 3  # at a bundle whose task fails
    min_free_bytes: int = 4 << 20  # with less free space, no work is started
    index_wait_seconds: float = 30.0  # for indexes that are being written when the conductor is closed
    clock: Callable[[], float] = clock.monotonic  # seconds, from which the intervals are measured


DEFAULT_SETTINGS = ConductorSettings()


class Conductor:
    """Executes sweeps. Holds the lock of its data folder while it is open.

    `service_url` is shown to a process that fails to get the lock.
    """

    def __init__(
        self,
        folder: DataFolder,
        executor: Executor,
        limits: Limits | None = None,
        service_url: str = "",
        hooks: ExecutionHooks | None = None,
        settings: ConductorSettings | None = None,
    ) -> None:
        self.folder, self.executor, self.limits = folder, executor, limits or Limits()
        self.hooks, self.settings = hooks or ExecutionHooks(), settings or DEFAULT_SETTINGS
        self.service_url = service_url
        # Bundles by sweep id and key: those submitted, with their turns, and those that ended but are not
        # merged, with the times at which they ended.
        self.submitted: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self.unmerged: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self.receipts: list[Receipt] = []  # returned by the executor but not processed
        self.last_merge = self.last_tidy = self.settings.clock()
        self.wait_reason = ""

    def __enter__(self) -> Conductor:
        with ExitStack() as stack:
            stack.enter_context(self.folder.lock(self.service_url))
            self.ledger = self.folder.ledger()
            stack.callback(self.ledger.close)
            self.pending = PendingBundles(self.ledger)
            self.merger = Merger(self.folder, self.ledger, self.hooks)
            writer = IndexWriter(self.folder, self.settings.index_wait_seconds)
            self.index_writer = stack.enter_context(writer)
            self.decisions = RoundDecisions(self.folder)
            stack.callback(self.decisions.close)
            self.recover()
            stack.callback(lambda: self.executor.close())  # the one of that time
            self._resources = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._resources.close()

    def recover(self) -> None:
        """Recover from a crash: remove unacknowledged sweeps, merge parts, queue the rest again."""
        self.folder.objects.remove_partial_files()
        self._tidy()
        for sweep_id in self.unknown_sweeps():
            if self.folder.is_complete(sweep_id):
                log.warning("%s is not in the ledger: sweep doctor --rebuild adds it", sweep_id)
            else:
                self.folder.remove(sweep_id)
        names = self.folder.objects.list_top()  # one listing, because many single checks are slow on S3
        for sweep in self.ledger.sweeps():
            if f"{sweep.id}{INCOMPLETE_SUFFIX}" in names:
                self.folder.mark_complete(sweep.id)
            with self._failing_only(sweep.id):
                if f"{sweep.id}{RESTART_SUFFIX}" in names:
                    if sweep.state is State.PAUSED:  # the ledger is changed last
                        restart_sweep(self.merger, sweep, self.settings.bundles)
                        continue
                    self.folder.mark_restarted(sweep.id)
                if sweep.state not in FINAL_STATES:
                    self.merger.merge(sweep.id)
                if not sweep.state.has_ended:
                    self._check_versions(sweep)
                elif f"{sweep.id}.parts" in names:
                    self.folder.clear_parts(sweep.id)
        missing = [
            sweep.id
            for sweep in self.ledger.sweeps()
            if sweep.state in FINAL_STATES and f"{sweep.id}{INDEX_SUFFIX}" not in names
        ]
        self.index_writer.catch_up(missing)
        self._measure_sizes()

    def _check_versions(self, sweep: SweepRecord) -> None:
        """Queue an unfinished sweep again, or pause it if this code would compute its runs differently."""
        if changes := find_changes(self.folder, sweep):
            self._hold(sweep, changes)
            return
        if sweep.package != __version__:
            record_package(self.folder, self.ledger, sweep)
        if sweep.state is State.RUNNING:
            self.ledger.set_state(sweep.id, State.QUEUED)
        elif sweep.state is State.PAUSED and sweep.reason:  # it was held by another version of the code
            self.folder.dataset(sweep.id)  # raises if its layout is still too new
            self.ledger.set_state(sweep.id, State.PAUSED)

    def _hold(self, sweep: SweepRecord, changes: str) -> None:
        """Pause a sweep of other versions, unless all of its runs are stored: then it ends."""
        is_complete = set(self.counts(sweep.id)) <= set(REUSABLE_STATUSES)
        if is_complete and not self.ledger.totals(sweep.id)["bundles_left"]:
            self._finish(sweep.id)
            return
        reason = f"{changes}: {ADVICE}"
        if (sweep.state, sweep.reason) != (State.PAUSED, reason):
            self.ledger.set_state(sweep.id, State.PAUSED, reason)

    def _tidy(self) -> None:
        """Repair sweeps on request, and remove late parts.

        A worker that was cut off continues after its sweep has ended or is removed.
        """
        carry_out_requests(self)
        states = {sweep.id: sweep.state for sweep in self.ledger.sweeps()}
        for sweep_id in self.folder.sweeps_with_parts():
            is_removed = sweep_id not in states and not self.folder.has_spec(sweep_id)
            if SWEEP_ID_PATTERN.fullmatch(sweep_id) and (is_removed or states.get(sweep_id) in FINAL_STATES):
                self.folder.clear_parts(sweep_id)
        self.last_tidy = self.settings.clock()

    def _measure_sizes(self) -> None:
        """Measure the sizes of running sweeps, and of some from ledgers that had no sizes."""
        sweeps = self.ledger.sweeps()
        running = [sweep for sweep in sweeps if sweep.state is State.RUNNING]
        unmeasured = [sweep for sweep in sweeps if sweep.stored_bytes is None and sweep not in running]
        for sweep in running + unmeasured[:MAX_MEASURED_SWEEPS]:
            self.ledger.set_stored_bytes(sweep.id, self.folder.stored_bytes(sweep.id))

    @contextmanager
    def _failing_only(self, sweep_id: str) -> Iterator[None]:
        """Let unreadable files of a sweep fail this sweep, and no other."""
        try:
            yield
        except TooNew as error:  # the version that wrote it can go on with it
            self._withdraw(sweep_id)
            self.ledger.set_state(sweep_id, State.PAUSED, str(error))
        except UNREADABLE_SWEEP as error:
            self.folder.check_writable()  # if the whole disk is gone, this sweep is not to blame
            log.warning("%s failed: %s", sweep_id, error)
            self._withdraw(sweep_id)
            self.ledger.set_state(sweep_id, State.FAILED, str(error))

    def unknown_sweeps(self) -> list[str]:
        """Return the ids of stored sweeps that are not in the ledger."""
        known = {sweep.id for sweep in self.ledger.sweeps()}
        stored = {name.partition(".")[0] for name in self.folder.objects.list_top()}
        unknown = sorted(name for name in stored - known if SWEEP_ID_PATTERN.fullmatch(name))
        # Empty folders are left out.
        return [name for name in unknown if any(self.folder.objects.list(f"{name}."))]

    def rebuild(self) -> list[str]:
        """Add stored sweeps that are not in the ledger: merge their parts, and queue their pending runs.

        The indexes of all sweeps are written anew.
        """
        added = []
        for sweep_id in self.unknown_sweeps():
            try:
                self._adopt(sweep_id)
                added.append(sweep_id)
            except UNREADABLE_SWEEP as error:  # unreadable files stay where they are
                log.warning("%s cannot be added to the ledger: %s", sweep_id, error)
        for sweep in self.ledger.sweeps(states=FINAL_STATES):
            self.index_writer.request(sweep.id)
        return added

    def _adopt(self, sweep_id: str) -> None:
        plan, attributes = self.folder.plan(sweep_id), self.folder.dataset(sweep_id).attributes
        notes = self._stored_notes(sweep_id)
        sweep = SweepRecord(
            id=sweep_id,
            key=attributes.get("key", plan.grid.key.digest),
            name=notes.name,
            state=State.PAUSED,
            created=attributes.get("created", utc_now()),
            updated=utc_now(),
            extends=attributes.get("extends"),
            reason="adopted",
            runs=plan.runs.total,
            reused=0,
            versions=json.loads(attributes.get("versions", "{}")),
            package=attributes.get("sweep_service_version", "") if "versions" in attributes else "",
            note=notes.note,
            fixed=plan.grid.single_values(),
            tags=notes.tags,
        )
        self.ledger.add(sweep, [])
        with self._failing_only(sweep_id):
            self.merger.merge(sweep_id)
            self._recount(sweep_id)
            self.ledger.set_stored_cost(sweep_id, *self.stored_cost(sweep_id))
            self._requeue(sweep_id)
            self._finish(sweep_id)
            if not self.ledger.sweep(sweep_id).state.has_ended:
                self._check_versions(self.ledger.sweep(sweep_id))

    def _stored_notes(self, sweep_id: str) -> Notes:
        """Return the stored notes, or those of the spec if they are damaged, which is no reason to fail."""
        try:
            return self.folder.notes(sweep_id)
        except Damaged as error:
            log.warning("%s", error)
            return Notes(self.folder.spec(sweep_id).name)

    def stored_cost(self, sweep_id: str) -> tuple[float, float]:
        """Return the predicted and the measured seconds of the runs that are stored."""
        dataset, numbers = self.folder.dataset(sweep_id), self.merger.distinct_runs(sweep_id, pending=False)
        bundles = make_bundles(dataset.plan, numbers, self.folder.calibration(), self.settings.bundles)
        variables = dataset.plan.schema.variables
        measured = (
            dataset.read(kind, numbers[kind], {"seconds": variables[kind]["seconds"]})["seconds"]
            for kind in numbers
        )
        return sum(bundle.cost for bundle in bundles), sum(float(np.nansum(seconds)) for seconds in measured)

    def submit(
        self,
        spec: SweepSpec | Submission,
        extends: str | None = None,
        priority: int = 0,
        request: Request | None = None,
    ) -> tuple[SweepRecord, bool]:
        """Create a sweep, or find the one with the same canonical spec; return it and whether it is new.

        A `request` that was answered before gets the same answer and changes nothing.
        """
        if request is None:
            return self._submit(spec, extends, priority)
        answer = self.ledger.find_answer(request)
        if answer is None:
            answer = self._submit(spec, extends, priority)
            self.ledger.save_answer(request, answer[0].id, answer[1])
        return answer

    def _submit(
        self, spec: SweepSpec | Submission, extends: str | None, priority: int
    ) -> tuple[SweepRecord, bool]:
        submission = spec if isinstance(spec, Submission) else Submission(spec, self.limits)
        existing = submission.find_existing(self.ledger)
        if existing is not None:
            return existing, False
        unfinished = self.ledger.sweeps(states=[state for state in State if not state.has_ended])
        self.limits.check_active(len(unfinished))
        if not submission.is_up_to_date(self.ledger):
            submission.prepare(self.folder, self.ledger, self.limits)
        sweep = submission.create_sweep(self.merger, extends, priority, self.settings.bundles)
        if sweep.state.has_ended:  # all of its runs are reused
            self.index_writer.request(sweep.id)
        return sweep, True

    def tick(self, only: str | None = None) -> bool:
        """Dispatch, collect and merge once, for all sweeps or only one; return False if there is no work."""
        self._merge()
        running = self.ledger.sweeps(states=[State.RUNNING, State.QUEUED])[::-1]
        running = [sweep for sweep in running if only in (None, sweep.id)]
        self._dispatch(running)
        self.receipts += self.executor.poll()
        while self.receipts:  # a receipt that cannot be processed now, because the disk is full, is kept
            receipt = self.receipts[0]
            with self._failing_only(receipt.sweep_id):
                self._receive(receipt)
            if receipt in self.receipts:
                self.receipts.remove(receipt)
        self._merge()
        idle = [sweep.id for sweep in running if not self.submitted[sweep.id]]
        complete = self.ledger.without_pending(idle)
        for sweep_id in idle:
            if sweep_id in complete:
                with self._failing_only(sweep_id):
                    self._finish(sweep_id)
            else:  # it waits for its turn, or parts of it were missing or damaged
                self.pending.forget(sweep_id)
        if self.settings.clock() - self.last_tidy > self.settings.tidy_interval_seconds:
            self._tidy()
            self._measure_sizes()
        return bool(running)

    def _merge(self) -> None:
        """Merge many parts at once: at intervals, or when no bundle of a sweep is submitted."""
        is_due = self.settings.clock() - self.last_merge > self.settings.merge_interval_seconds
        for sweep_id in list(self.unmerged):
            if is_due or not self.submitted[sweep_id]:
                with self._failing_only(sweep_id):
                    merged = self.merger.merge(sweep_id, self.unmerged[sweep_id])
                    if self.unmerged[sweep_id].keys() - merged:  # missing or damaged parts are computed again
                        self.pending.forget(sweep_id)
                self.hooks.on_all_merged(sweep_id)
                self.unmerged.pop(sweep_id, None)  # only now, because a full disk may prevent the merge
                self.last_merge = self.settings.clock()

    def run(self, sweep_id: str, watch: Callable[[SweepRecord], None] = lambda _: None) -> SweepRecord:
        """Execute one sweep until it has ended or is paused."""
        sweep = self.ledger.sweep(sweep_id)
        while not sweep.state.has_ended and sweep.state is not State.PAUSED:
            self.step(sweep_id)
            sweep = self.ledger.sweep(sweep_id)
            watch(replace(sweep, reason=self.wait_reason or sweep.reason))
        return sweep

    def predict_core_seconds(self, sweep_id: str) -> float:
        """Return the processor seconds that are left."""
        return predict_remaining(self.ledger.progress_totals([sweep_id])[sweep_id]["work"]).core_seconds

    def step(self, only: str | None = None) -> bool:
        """Tick, or sleep while the disk is full or gone. `wait_reason` then says what it waits for."""
        try:
            self.folder.check_writable()
            if self.folder.free_bytes() < self.settings.min_free_bytes:
                raise OSError(errno.ENOSPC, "the disk is full")
            has_work = self.tick(only)
            self.wait_reason = self.executor.describe_problem()
            return has_work
        except (OSError, sa.exc.OperationalError) as error:
            self.wait_reason = self._describe_wait(error)
            if not self.wait_reason:
                raise
            self.executor.sleep(1.0)
            return True

    def _dispatch(self, running: Sequence[SweepRecord]) -> None:
        """Keep a few bundles of each sweep submitted; an executor never holds a whole sweep.

        Among the sweeps with the highest priority, the one with the fewest submitted bundles is next. Among
        equals, the newest goes first.
        """
        candidates = [
            (-sweep.priority, len(self.submitted[sweep.id]), age, sweep) for age, sweep in enumerate(running)
        ]
        heapq.heapify(candidates)
        while candidates:
            _, _, age, sweep = candidates[0]
            bundle = self._next_bundle(sweep.id)
            if bundle is None:
                heapq.heappop(candidates)
                continue
            if sweep.state is State.QUEUED:
                self.ledger.set_state(sweep.id, State.RUNNING)
                sweep = replace(sweep, state=State.RUNNING)
            task = Task(self.folder.location, sweep.id, bundle, sweep.name)
            turn, submitted = self._next_turn(sweep.id), self.submitted[sweep.id]
            rank = sweep.priority * MAX_TURNS - turn
            self.executor.submit(task, rank * MAX_RUNNING_SWEEPS + age)
            submitted[bundle.key] = turn
            heapq.heapreplace(candidates, (-sweep.priority, len(submitted), age, sweep))

    def _next_bundle(self, sweep_id: str) -> Bundle | None:
        """Return the next bundle of a sweep, if the executor accepts one more and there is one."""
        if not self.executor.has_room(sweep_id):
            return None
        submitted, unmerged = self.submitted[sweep_id], self.unmerged.get(sweep_id, {})
        return self.pending.next(sweep_id, lambda key: key in submitted or key in unmerged)

    def _next_turn(self, sweep_id: str) -> int:
        """Return the turn of the next bundle of a sweep: after its others, or the present one of all sweeps.

        So the bundles of a sweep keep their order, sweeps alternate, and a small sweep overtakes what waits.
        """
        if submitted := self.submitted[sweep_id]:  # turns rise in the order of submission
            return next(reversed(submitted.values())) + 1
        return min((next(iter(turns.values())) for turns in self.submitted.values() if turns), default=0)

    def _receive(self, receipt: Receipt) -> None:
        sweep_id = receipt.sweep_id
        self.submitted[sweep_id].pop(receipt.bundle, None)
        self.hooks.on_bundle_ended(sweep_id, receipt.result)
        if receipt.lost or receipt.error:  # it is submitted again, before those behind it
            self.pending.forget(sweep_id)
        if receipt.lost:
            return
        if not receipt.error:
            self.unmerged[sweep_id][receipt.bundle] = utc_now()
            return
        attempts = self.ledger.count_attempt(sweep_id, receipt.bundle, receipt.error)
        extra = {
            "event": "bundle_failed", "sweep": sweep_id, "bundle": receipt.bundle, "attempts": attempts,
        }  # fmt: skip
        log.warning("bundle %s failed (%d): %s", receipt.bundle, attempts, receipt.error, extra=extra)
        if attempts >= self.settings.max_attempts:  # store a part in which all runs failed
            bundle = self.ledger.bundle(sweep_id, receipt.bundle)
            part = Part.failed(self.folder.plan(sweep_id), bundle.jobs, receipt.error)
            # `create`, so as not to replace a part of a worker that only seemed dead.
            self.folder.objects.create(part_name(sweep_id, bundle.key), part.pack())
            self.unmerged[sweep_id][receipt.bundle] = utc_now()

    def _finish(self, sweep_id: str) -> None:
        """Set the final state if no bundle is left and no round follows."""
        if self.ledger.totals(sweep_id)["bundles_left"] or self._continue_rounds(sweep_id):
            return
        counts = self.counts(sweep_id)
        if Status.PENDING in counts:  # bundles were lost in a crash
            self._requeue(sweep_id)
            return
        self.merger.update_calibration()
        fault_point("finish:state")
        size = self.folder.stored_bytes(sweep_id)
        self.ledger.set_state(sweep_id, final_state(counts), stored_bytes=size)
        self.folder.clear_parts(sweep_id)
        self.merger.forget(sweep_id)
        self.pending.forget(sweep_id)
        self.index_writer.request(sweep_id)

    def _continue_rounds(self, sweep_id: str) -> bool:
        """Decide the next round of a sweep whose chosen runs have ended; return whether it goes on.

        The round is durable before it begins. In the end, the runs that no round has chosen are skipped.
        """
        rounds = self.folder.rounds(sweep_id)
        if rounds is None or any(map(len, self.merger.distinct_runs(sweep_id, pending=True).values())):
            return False
        if not rounds.is_complete:
            rounds = self.decisions.poll(sweep_id, rounds)
            if rounds is None:
                return True
            fault_point("round:decided")
            self.folder.put_rounds(sweep_id, rounds)
            fault_point("round:stored")
            if count := sum(map(len, self.merger.distinct_runs(sweep_id, pending=True).values())):
                number = len(rounds.rounds)
                self._requeue(sweep_id, f"round {number}: {count} runs follow from the stored results")
                return True
        self._replace_status(sweep_id, Status.PENDING, Status.SKIPPED)
        fault_point("round:skipped")
        self._recount(sweep_id)
        return False

    def counts(self, sweep_id: str) -> Counter[Status]:
        """Count the stored runs by status."""
        return self.folder.dataset(sweep_id).counts()

    def _recount(self, sweep_id: str) -> None:
        """Copy the counts of the dataset to the ledger, after a change that did not come from bundles."""
        counts = self.counts(sweep_id)
        counts.pop(Status.PENDING, None)
        self.ledger.set_counts(sweep_id, counts)

    def cancel(self, sweep_id: str) -> SweepRecord:
        """Give up the runs that are not computed yet."""
        if not self.ledger.sweep(sweep_id).state.has_ended:
            self._withdraw(sweep_id)
            self.merger.merge(sweep_id)
            self._replace_status(sweep_id, Status.PENDING, Status.CANCELLED)
            fault_point("cancel:status")
            self.ledger.drop_bundles(sweep_id)
            self._recount(sweep_id)
            fault_point("cancel:counts")
            # Last, because event streams close on this state.
            self.ledger.set_state(sweep_id, State.CANCELLED, stored_bytes=self.folder.stored_bytes(sweep_id))
            self.folder.clear_parts(sweep_id)
            self.merger.forget(sweep_id)
            self.index_writer.request(sweep_id)
        return self.ledger.sweep(sweep_id)

    def pause(self, sweep_id: str) -> SweepRecord:
        if self.ledger.sweep(sweep_id).state in (State.QUEUED, State.RUNNING):
            self._withdraw(sweep_id)
            self.ledger.set_state(sweep_id, State.PAUSED)
            self.index_writer.request(sweep_id)
        return self.ledger.sweep(sweep_id)

    def needs_restart(self, sweep_id: str) -> bool:
        """Return whether a resume would compute stored runs again, because other versions computed them."""
        sweep = self.ledger.sweep(sweep_id)
        is_paused = sweep.state is State.PAUSED
        return is_paused and (self.folder.is_restarting(sweep_id) or bool(find_changes(self.folder, sweep)))

    def resume(self, sweep_id: str) -> SweepRecord:
        """Continue a paused sweep. Runs that were computed by other versions are computed again."""
        sweep = self.ledger.sweep(sweep_id)
        if self.needs_restart(sweep_id):
            self._withdraw(sweep_id)
            restart_sweep(self.merger, sweep, self.settings.bundles)
        elif sweep.state is State.PAUSED:
            self.unmerged.setdefault(
                sweep_id, {}
            )  # to merge parts that were written before or during the pause
            self.ledger.set_state(sweep_id, State.QUEUED)
        return self.ledger.sweep(sweep_id)

    def retry(self, sweep_id: str) -> SweepRecord:
        """Compute failed and cancelled runs again; pause a sweep of other versions, so as not to mix them."""
        sweep = self.ledger.sweep(sweep_id)
        state = sweep.state
        is_complete = state is State.COMPLETED and set(self.counts(sweep_id)) <= set(REUSABLE_STATUSES)
        if state.has_ended and not is_complete:
            if changes := find_changes(self.folder, sweep):
                self.ledger.set_state(sweep_id, State.PAUSED, f"{changes}: {ADVICE}")
                return self.ledger.sweep(sweep_id)
            for status in (Status.FAILED, Status.CANCELLED):
                self._replace_status(sweep_id, status, Status.PENDING)
            self.folder.clear_failures(sweep_id)
            fault_point("retry:status")
            self._recount(sweep_id)
            self._requeue(sweep_id)
        return self.ledger.sweep(sweep_id)

    def annotate(self, sweep_id: str, change: Mapping[str, Any]) -> SweepRecord:
        """Change the name, the note or the tags of a sweep, by what `notes.read_change` returned."""
        sweep = self.ledger.sweep(sweep_id)
        notes = Notes(sweep.name, sweep.note, sweep.tags).change(change)
        # First, because the ledger can be rebuilt from it. If only this is written, the request failed.
        self.folder.put_notes(sweep_id, notes)
        self.ledger.set_notes(sweep_id, notes)
        return self.ledger.sweep(sweep_id)

    def remove(self, sweep_id: str) -> None:
        """Remove a sweep and its data in any state."""
        self.ledger.sweep(sweep_id)  # raises NotFound
        self._withdraw(sweep_id)
        self.index_writer.remove(sweep_id)
        self.folder.mark_incomplete(sweep_id)
        fault_point("remove:disown")
        self.ledger.remove(sweep_id)
        fault_point("remove:ledger")
        self.folder.remove(sweep_id)

    def _withdraw(self, sweep_id: str) -> None:
        """Drop the tasks of a sweep, and everything in memory about it."""
        self.executor.cancel(sweep_id)
        self.submitted.pop(sweep_id, None)
        self.receipts = [receipt for receipt in self.receipts if receipt.sweep_id != sweep_id]
        self.unmerged.pop(sweep_id, None)
        self.hooks.on_all_merged(sweep_id)
        self.merger.forget(sweep_id)
        self.pending.forget(sweep_id)
        self.decisions.forget(sweep_id)

    def _requeue(self, sweep_id: str, reason: str = "") -> None:
        """Make new bundles for all pending runs, of those that a round has chosen."""
        plan, left = self.folder.plan(sweep_id), self.merger.distinct_runs(sweep_id, pending=True)
        bundles = make_bundles(
            plan, left, self.folder.calibration(), self.settings.bundles, self.folder.continued(sweep_id)
        )
        self.ledger.replace_bundles(sweep_id, bundles)
        self.pending.forget(sweep_id)
        self.ledger.set_state(sweep_id, State.QUEUED, reason)

    def _describe_wait(self, error: Exception) -> str:
        """Return what to wait for if waiting can cure the error, else "". SQLite has its own error texts."""
        try:
            self.folder.check_writable()
        except StoreGone as gone:
            return f"waiting for {self.folder.root}: {gone}"
        text = str(error)
        is_full = getattr(error, "errno", None) in DISK_FULL_ERRNOS or "disk is full" in text
        if is_full or ("disk I/O error" in text and self.folder.free_bytes() < self.settings.min_free_bytes):
            return f"waiting for room on the disk of {self.folder.root}"
        return f"waiting for {self.folder.root}: {text}" if is_temporary(error) else ""

    def _replace_status(self, sweep_id: str, old: Status, new: Status) -> None:
        dataset = self.folder.dataset(sweep_id)
        for kind in dataset.plan.runs.kinds:
            # Also where it is already replaced, because a process that died may not have synced it.
            numbers = np.flatnonzero(np.isin(dataset.status(kind), (old, new)))
            if len(numbers):
                dataset.write(kind, numbers, {"status": np.full(len(numbers), new, dtype=np.int8)})


def final_state(counts: Mapping[Status, int]) -> State:
    """Return the state of a sweep of which no run is left to compute."""
    states = ((Status.CANCELLED, State.CANCELLED), (Status.FAILED, State.INCOMPLETE))
    return next((state for status, state in states if counts.get(status)), State.COMPLETED)
