"""The one loop that moves sweeps forward: dispatch, merge, retry, cancel.

All that it knows it can learn again from the data folder, so it may die at any moment. What a crash
leaves is in one of four states, each with one way on: a sweep that nobody was told of (forgotten), a
bundle without a part (computed again), a part that is not merged (merged), a part that is merged but
still there (merged again, to the same values).
"""

from __future__ import annotations

import errno
import logging
import re
import time as clock
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

import numpy as np
import sqlalchemy as sa

from sweep_service.errors import NO_ROOM, UNREADABLE, StoreGone, is_passing
from sweep_service.execution.executors import Executor, Receipt
from sweep_service.execution.hooks import Meter
from sweep_service.execution.merger import Merger
from sweep_service.execution.submission import FINAL, Submission
from sweep_service.execution.task import Task, part_name
from sweep_service.faults import fault
from sweep_service.planning.bundles import Bundle, bundles
from sweep_service.planning.estimate import Limits
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.folder import UNOWNED, DataFolder
from sweep_service.store.ledger import Request, State, Sweep, utc_now
from sweep_service.store.parts import Part

IS_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{8}")
log = logging.getLogger(__name__)

MOST_ATTEMPTS = 3  # at a bundle whose task dies
LEAST_ROOM = 4 << 20  # bytes: with less, nothing new is begun
AT_ONCE = 16  # bundles that are looked up to be submitted
MERGE_EVERY = 2.0  # seconds
TIDY_EVERY = 60.0  # seconds
WHOLE = (State.COMPLETED, State.INCOMPLETE, State.CANCELLED)  # nothing is to come
MOST_SWEEPS = 1_000_000  # and more than the bundles of a sweep that are ever submitted at once


class Conductor:
    """Holds the lock of a data folder while it is open."""

    def __init__(
        self,
        folder: DataFolder,
        executor: Executor,
        limits: Limits | None = None,
        about: str = "",
        meter: Meter | None = None,
    ) -> None:
        self.folder, self.executor, self.limits = folder, executor, limits or Limits()
        self.meter = meter or Meter()
        self.about = about  # for who finds the folder locked
        # Bundles by sweep: on their way, and ended but not merged.
        self.submitted: defaultdict[str, set[str]] = defaultdict(set)
        self.ended: dict[str, set[str]] = {}
        self.receipts: list[Receipt] = []  # that the executor has forgotten
        self.merged = self.tidied = clock.monotonic()
        self.waiting = ""

    def __enter__(self) -> Conductor:
        with ExitStack() as stack:
            stack.enter_context(self.folder.lock(self.about))
            self.ledger = self.folder.ledger()
            stack.callback(self.ledger.close)
            self.merger = Merger(self.folder, self.ledger, self.meter)
            self.recover()
            stack.callback(self.executor.close)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *problem: object) -> None:
        self._open.close()

    def recover(self) -> None:
        """After a start: forget what was never acknowledged, merge what is there, go on with the rest."""
        self.folder.objects.sweep()
        self._tidy()
        for name in self.strangers():
            if self.folder.is_owned(name):
                log.warning("%s is not in the ledger: sweep doctor --rebuild adopts it", name)
            else:
                self.folder.remove(name)
        there = self.folder.objects.top()  # looking for each alone would take long where a store is far away
        for sweep in self.ledger.sweeps():
            if f"{sweep.id}{UNOWNED}" in there:
                self.folder.own(sweep.id)
            with self._blaming(sweep.id):
                if sweep.state not in WHOLE:
                    self.merger.merge(sweep.id)
                if sweep.state is State.RUNNING:
                    self.ledger.set_state(sweep.id, State.QUEUED)
                elif sweep.state.ended and f"{sweep.id}.parts" in there:
                    self.folder.clear_parts(sweep.id)

    def _tidy(self) -> None:
        """Remove parts that came late: a worker that was cut off goes on when its sweep has ended or gone."""
        states = {sweep.id: sweep.state for sweep in self.ledger.sweeps()}
        for name in self.folder.with_parts():
            gone = name not in states and not self.folder.has_spec(name)
            if IS_ID.fullmatch(name) and (gone or states.get(name) in WHOLE):
                self.folder.clear_parts(name)
        self.tidied = clock.monotonic()

    @contextmanager
    def _blaming(self, sweep: str) -> Iterator[None]:
        """What is wrong with the files of one sweep ends that sweep, and no other."""
        try:
            yield
        except UNREADABLE as error:
            self.folder.require()  # of a disk that is gone nothing can be found, and nobody is to blame
            log.warning("%s cannot go on: %s", sweep, error)
            self._withdraw(sweep)
            self.ledger.set_state(sweep, State.FAILED, str(error))

    def strangers(self) -> list[str]:
        """Sweeps on the disk that the ledger does not know."""
        known = {sweep.id for sweep in self.ledger.sweeps()}
        there = {name.partition(".")[0] for name in self.folder.objects.top()}
        found = sorted(name for name in there - known if IS_ID.fullmatch(name))
        return [name for name in found if any(self.folder.objects.list(f"{name}."))]  # not folders of nothing

    def rebuild(self) -> list[str]:
        """Adopt the sweeps that the ledger does not know: what they have is merged, the rest is pending."""
        adopted = []
        for name in self.strangers():
            with suppress(*UNREADABLE):  # what cannot be read stays where it is
                adopted.append(self._adopt(name))
        return adopted

    def _adopt(self, name: str) -> str:
        plan, about = self.folder.plan(name), self.folder.dataset(name).attributes
        sweep = Sweep(
            name, plan.grid.key.digest, self.folder.spec(name).name, State.PAUSED,
            about.get("created", utc_now()), utc_now(), about.get("extends"), "adopted", plan.runs.total, 0,
        )  # fmt: skip
        self.ledger.add(sweep, [])
        self.merger.merge(name)
        self._recount(name)
        self._requeue(name)
        self._finish(name)
        return name

    def submit(
        self,
        spec: SweepSpec | Submission,
        extends: str | None = None,
        priority: int = 0,
        request: Request | None = None,
    ) -> tuple[Sweep, bool]:
        """A new sweep, or the one there is with the same canonical spec; true if it is new.

        A `request` that was answered before is answered alike, and does nothing.
        """
        if request is None:
            return self._submit(spec, extends, priority)
        answer = self.ledger.answer_to(request)
        if answer is None:
            answer = self._submit(spec, extends, priority)
            self.ledger.remember(request, answer[0].id, answer[1])
        return answer

    def _submit(self, spec: SweepSpec | Submission, extends: str | None, priority: int) -> tuple[Sweep, bool]:
        submission = spec if isinstance(spec, Submission) else Submission(spec)
        old = submission.existing(self.ledger)
        if old is not None:
            return old, False
        self.limits.require_place(sum(not one.state.ended for one in self.ledger.sweeps()))
        if not submission.is_fresh(self.ledger):
            submission.look(self.folder, self.ledger, self.limits)
        return submission.accept(self.merger, extends, priority), True

    def tick(self, only: str | None = None) -> bool:
        """Dispatch, collect, merge once; false when there is nothing to do, with all sweeps or only one."""
        self._merge()
        running = self.ledger.sweeps(states=[State.RUNNING, State.QUEUED])[::-1]
        running = [sweep for sweep in running if only in (None, sweep.id)]
        self._dispatch(running)
        self.receipts += self.executor.poll()
        while self.receipts:  # one that cannot be taken in now, for want of room, is not forgotten
            receipt = self.receipts[0]
            with self._blaming(receipt.sweep):
                self._receive(receipt)
            if receipt in self.receipts:
                self.receipts.remove(receipt)
        self._merge()
        for sweep in running:
            if not self.submitted[sweep.id]:
                with self._blaming(sweep.id):
                    self._finish(sweep.id)
        if clock.monotonic() - self.tidied > TIDY_EVERY:
            self._tidy()
        return bool(running)

    def _merge(self) -> None:
        """Many parts at once, every two seconds, or when no more are on their way."""
        is_time = clock.monotonic() - self.merged > MERGE_EVERY
        for sweep in list(self.ended):
            if is_time or not self.submitted[sweep]:
                with self._blaming(sweep):
                    self.merger.merge(sweep)
                self.meter.settled(sweep)
                self.ended.pop(sweep, None)  # not before: a full disk may keep them from being merged
                self.merged = clock.monotonic()

    def run(self, sweep: str, watch: Callable[[Sweep], None] = lambda _: None) -> Sweep:
        """Tick until a sweep has ended, without the others."""
        now = self.ledger.sweep(sweep)
        while not now.state.ended and now.state is not State.PAUSED:
            self.step(sweep)
            now = self.ledger.sweep(sweep)
            watch(replace(now, reason=self.waiting or now.reason))
        return now

    def step(self, only: str | None = None) -> bool:
        """A tick; while the disk is full or gone, a rest in place of it. `waiting` says what it waits for."""
        try:
            self.folder.require()
            if self.folder.free_bytes() < LEAST_ROOM:
                raise OSError(errno.ENOSPC, "no room")
            found = self.tick(only)
            self.waiting = self.executor.note()
            return found
        except (OSError, sa.exc.OperationalError) as error:
            self.waiting = self._hindrance(error)
            if not self.waiting:
                raise
            self.executor.rest(1.0)
            return True

    def _dispatch(self, running: Sequence[Sweep]) -> None:
        """Keep a few bundles submitted: an executor never holds a whole sweep.

        Of the sweeps with the highest priority the one with the fewest bundles there is next, and its
        bundle overtakes those that wait there: a small sweep does not stand behind a large one. Of equals
        the newest goes first.
        """
        hungry, age = {sweep.id: sweep for sweep in running}, [sweep.id for sweep in running]
        ready: dict[str, list[Bundle]] = {}
        while hungry:
            sweep = min(hungry.values(), key=lambda one: (-one.priority, len(self.submitted[one.id])))
            mine, room = self.submitted[sweep.id], self.executor.room(sweep.id)
            if room and not ready.get(sweep.id):
                here = mine | self.ended.get(sweep.id, set())
                ready[sweep.id] = self.ledger.pending(sweep.id, AT_ONCE, here)
            if not room or not ready[sweep.id]:
                del hungry[sweep.id]
                continue
            bundle = ready[sweep.id].pop(0)
            if sweep.state is State.QUEUED:
                self.ledger.set_state(sweep.id, State.RUNNING)
                hungry[sweep.id] = replace(sweep, state=State.RUNNING)
            task = Task(self.folder.where, sweep.id, bundle, sweep.name)
            turn = sweep.priority * MOST_SWEEPS - len(mine)
            self.executor.submit(task, turn * MOST_SWEEPS + age.index(sweep.id))
            mine.add(bundle.key)

    def _receive(self, receipt: Receipt) -> None:
        self.submitted[receipt.sweep].discard(receipt.bundle)
        self.meter.ended(receipt.sweep, receipt.result)
        if receipt.lost:
            return
        if not receipt.error:
            self.ended.setdefault(receipt.sweep, set()).add(receipt.bundle)
            return
        attempts = self.ledger.tried(receipt.sweep, receipt.bundle, receipt.error)
        about = {"sweep": receipt.sweep, "bundle": receipt.bundle, "attempts": attempts}
        told = "bundle %s failed (%d): %s"
        log.warning(told, receipt.bundle, attempts, receipt.error, extra={"event": "bundle_failed", **about})
        if attempts >= MOST_ATTEMPTS:  # it becomes a part whose runs have all failed
            bundle = self.ledger.bundle(receipt.sweep, receipt.bundle)
            part = Part.failed(self.folder.plan(receipt.sweep), bundle.jobs, receipt.error)
            # not in place of one that a worker wrote that was thought dead
            self.folder.objects.create(part_name(receipt.sweep, bundle.key), part.pack())
            self.ended.setdefault(receipt.sweep, set()).add(receipt.bundle)

    def _finish(self, sweep: str) -> None:
        if self.ledger.totals(sweep)["bundles_left"]:
            return
        counts = self.counts(sweep)
        if Status.PENDING in counts:  # bundles were lost on the way, by a crash
            self._requeue(sweep)
            return
        self.merger.keep_learned()
        fault("finish:state")
        ends = ((Status.CANCELLED, State.CANCELLED), (Status.FAILED, State.INCOMPLETE))
        state = next((state for status, state in ends if status in counts), State.COMPLETED)
        self.ledger.set_state(sweep, state)
        self.folder.clear_parts(sweep)
        self.merger.forget(sweep)

    def counts(self, sweep: str) -> Counter[Status]:
        """Runs by status, as stored."""
        return self.folder.dataset(sweep).counts()

    def _recount(self, sweep: str) -> None:
        """Let the ledger know what is stored, where bundles alone do not say it."""
        counts = self.counts(sweep)
        counts.pop(Status.PENDING, None)
        self.ledger.recount(sweep, counts)

    def cancel(self, sweep: str) -> Sweep:
        """Give up what is not computed yet."""
        if not self.ledger.sweep(sweep).state.ended:
            self._withdraw(sweep)
            self.merger.merge(sweep)
            self._mark(sweep, Status.PENDING, Status.CANCELLED)
            fault("cancel:status")
            self.ledger.drop(sweep)
            self._recount(sweep)
            fault("cancel:counts")
            self.ledger.set_state(sweep, State.CANCELLED)  # last: who follows it is told this, and goes
            self.folder.clear_parts(sweep)
            self.merger.forget(sweep)
        return self.ledger.sweep(sweep)

    def pause(self, sweep: str) -> Sweep:
        if self.ledger.sweep(sweep).state in (State.QUEUED, State.RUNNING):
            self._withdraw(sweep)
            self.ledger.set_state(sweep, State.PAUSED)
        return self.ledger.sweep(sweep)

    def resume(self, sweep: str) -> Sweep:
        if self.ledger.sweep(sweep).state is State.PAUSED:
            self.ended.setdefault(sweep, set())  # what came before it rested, or since, is merged
            self.ledger.set_state(sweep, State.QUEUED)
        return self.ledger.sweep(sweep)

    def retry(self, sweep: str) -> Sweep:
        """Compute failed and cancelled runs again."""
        state = self.ledger.sweep(sweep).state
        is_whole = state is State.COMPLETED and set(self.counts(sweep)) <= set(FINAL)
        if state.ended and not is_whole:
            for old in (Status.FAILED, Status.CANCELLED):
                self._mark(sweep, old, Status.PENDING)
            for name in list(self.folder.objects.list(f"{sweep}.failures/")):
                self.folder.objects.delete(name)
            fault("retry:status")
            self._recount(sweep)
            self._requeue(sweep)
        return self.ledger.sweep(sweep)

    def remove(self, sweep: str) -> None:
        """Leave nothing of it, whatever state it is in."""
        self.ledger.sweep(sweep)
        self._withdraw(sweep)
        self.folder.disown(sweep)
        fault("remove:disown")
        self.ledger.remove(sweep)
        fault("remove:ledger")
        self.folder.remove(sweep)

    def _withdraw(self, sweep: str) -> None:
        self.executor.cancel(sweep)
        self.submitted.pop(sweep, None)
        self.receipts = [one for one in self.receipts if one.sweep != sweep]
        self.ended.pop(sweep, None)
        self.meter.settled(sweep)
        self.merger.forget(sweep)

    def _requeue(self, sweep: str) -> None:
        """Bundles for all runs that are pending."""
        dataset, copies = self.folder.dataset(sweep), self.merger.copies(sweep)
        left = {
            kind: np.intersect1d(
                np.flatnonzero(dataset.status(kind) == Status.PENDING), copies[kind].unique()
            )
            for kind in dataset.plan.runs.kinds
        }
        self.ledger.add_bundles(sweep, bundles(dataset.plan, left, self.folder.calibration()))
        self.ledger.set_state(sweep, State.QUEUED)

    def _hindrance(self, error: Exception) -> str:
        """What there is to wait for, if waiting ends this; SQLite has words of its own for it."""
        try:
            self.folder.require()
        except StoreGone as gone:
            return f"waiting for {self.folder.root}: {gone}"
        text = str(error)
        full = getattr(error, "errno", None) in NO_ROOM or "disk is full" in text
        if full or ("disk I/O error" in text and self.folder.free_bytes() < LEAST_ROOM):
            return f"waiting for room on the disk of {self.folder.root}"
        return f"waiting for {self.folder.root}: {text}" if is_passing(error) else ""

    def _mark(self, sweep: str, old: Status, new: Status) -> None:
        dataset = self.folder.dataset(sweep)
        for kind in dataset.plan.runs.kinds:
            numbers = np.flatnonzero(dataset.status(kind) == old)
            if len(numbers):
                dataset.write(kind, numbers, {"status": np.full(len(numbers), new, dtype=np.int8)})
