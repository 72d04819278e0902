"""The one loop that moves sweeps forward: dispatch, merge, retry, cancel.

All that it knows it can learn again from the data folder, so it may die at any moment. What a crash
leaves is in one of four states, each with one way on: a sweep without a ledger row (forgotten, as
nobody was told of it), a bundle without a part (computed again), a part that is not merged (merged),
a part that is merged but still there (merged again, to the same values).
"""

from __future__ import annotations

import errno
import json
import logging
import platform
import subprocess
import time as clock
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import sqlalchemy as sa

from sweep_service.arrays import AnyArray
from sweep_service.bundles import bundles
from sweep_service.costs import Calibration, ode_seconds, ode_work, sgd_seconds, sgd_work
from sweep_service.errors import Stopped
from sweep_service.estimate import Estimate, Limits, estimate
from sweep_service.faults import fault
from sweep_service.grids import Grid
from sweep_service.runs import Kind
from sweep_service.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.dataset import SweepDataset
from sweep_service.store.folder import DataFolder
from sweep_service.store.layout import Layout
from sweep_service.store.ledger import Ledger, State, Sweep, utc_now
from sweep_service.store.parts import Part
from sweep_service.task import Receipt, Task, part_name, run_task
from sweep_service.version import __version__

log = logging.getLogger(__name__)

MOST_ATTEMPTS = 3  # at a bundle whose task dies
LEAST_ROOM = 4 << 20  # bytes: with less, nothing new is begun
MERGE_RUNS = 5000  # at once, so that a merge stays below a few hundred megabytes


class Executor(Protocol):
    """Where tasks run. Nothing it holds is needed after a crash."""

    def room(self) -> int:
        """How many more tasks it would like to have."""

    def submit(self, task: Task) -> None: ...

    def poll(self) -> list[Receipt]:
        """What has ended since the last time; may work or wait for a moment."""

    def cancel(self, sweep: str) -> None:
        """Drop what it has of a sweep."""

    def rest(self, seconds: float) -> None:
        """Wait a while, or end with `Stopped`."""


class SerialExecutor:
    """One task at a time, here."""

    def __init__(self, stopped: Callable[[], bool] | None = None) -> None:
        self.stopped, self.waiting = stopped, list[Task]()

    def room(self) -> int:
        return 2 - len(self.waiting)

    def submit(self, task: Task) -> None:
        self.waiting.append(task)

    def poll(self) -> list[Receipt]:
        if not self.waiting:
            return []
        task = self.waiting[0]
        try:
            receipt = run_task(task, self.stopped)
        except (Stopped, OSError):  # a full disk is no fault of the bundle
            raise
        except Exception as error:  # a bundle that breaks its task is retried, then given up
            receipt = Receipt(task.sweep, task.bundle.key, error=f"{type(error).__name__}: {error}")
        self.waiting.pop(0)
        return [receipt]

    def cancel(self, sweep: str) -> None:
        self.waiting = [task for task in self.waiting if task.sweep != sweep]

    def rest(self, seconds: float) -> None:
        if self.stopped is not None and self.stopped():
            raise Stopped("asked to stop")
        clock.sleep(seconds)


class Copies:
    """Runs of a sweep with equal keys: computed once, stored at each."""

    def __init__(self, keys: AnyArray) -> None:
        _, self.first, self.group = np.unique(keys, return_index=True, return_inverse=True)
        self.order = np.argsort(self.group, kind="stable")
        self.begin = np.searchsorted(self.group[self.order], np.arange(len(self.first) + 1))

    def unique(self) -> AnyArray:
        return np.sort(self.first)

    def expand(self, numbers: AnyArray) -> tuple[AnyArray, AnyArray]:
        """For runs that were computed: the rows of their values, and the numbers they belong to."""
        groups = self.group[numbers]
        counts = self.begin[groups + 1] - self.begin[groups]
        rows = np.repeat(np.arange(len(numbers)), counts)
        offset = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, self.order[self.begin[groups][rows] + offset]


class Conductor:
    """Holds the lock of a data folder while it is open."""

    def __init__(self, folder: DataFolder, executor: Executor, limits: Limits | None = None) -> None:
        self.folder, self.executor, self.limits = folder, executor, limits or Limits()
        self._lock = folder.lock()
        self._lock.__enter__()
        self.ledger: Ledger = folder.ledger()
        self.submitted: dict[str, set[str]] = {}
        self._copies: dict[str, dict[Kind, Copies]] = {}
        self.reported: dict[str, tuple[float, float]] = {}
        self.recover()

    def close(self) -> None:
        self.ledger.close()
        self._lock.__exit__(None, None, None)

    def __enter__(self) -> Conductor:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def recover(self) -> None:
        """After a start: forget what was never acknowledged, merge what is there, go on with the rest."""
        self.folder.objects.root.mkdir(parents=True, exist_ok=True)
        self.folder.objects.sweep()
        for name in self.strangers():
            if self._is_empty(name):
                self.folder.remove(name)  # a submission that died before anybody was told of it
            else:
                log.warning("%s is not in the ledger: sweep doctor --rebuild adopts it", name)
        for sweep in self.ledger.sweeps(states=[State.RUNNING]):
            self.merge(sweep.id)

    def strangers(self) -> list[str]:
        """Sweeps on the disk that the ledger does not know."""
        known = {sweep.id for sweep in self.ledger.sweeps()}
        there = {path.name.partition(".")[0] for path in self.folder.objects.root.iterdir()}
        return sorted(there - known)

    def _is_empty(self, name: str) -> bool:
        if any(self.folder.objects.list(f"{name}.parts/")):
            return False
        try:
            dataset = self.folder.dataset(name)
        except (OSError, LookupError, ValueError):
            return True
        return not any(np.any(dataset.status(kind)) for kind in dataset.layout.variables)

    def rebuild(self) -> list[str]:
        """Adopt the sweeps that the ledger does not know: what they have is merged, the rest is pending."""
        adopted = []
        for name in self.strangers():
            spec, layout = self.folder.spec(name), self.folder.layout(name)
            now, runs = utc_now(), sum(layout.runs.count(kind) for kind in layout.variables)
            row = Sweep(
                name, layout.grid.key.digest, spec.name, State.PAUSED, now, now, None, "adopted", runs, 0
            )
            self.ledger.add(row, [])
            self.merge(name)
            self._requeue(name)
            adopted.append(name)
        return adopted

    def _requeue(self, sweep: str) -> None:
        """Bundles for all runs that are pending."""
        dataset = self.folder.dataset(sweep)
        left = {
            kind: np.intersect1d(
                np.flatnonzero(dataset.status(kind) == Status.PENDING),
                self._copies_of(sweep)[kind].unique(),
            )
            for kind in dataset.layout.variables
        }
        self.ledger.add_bundles(sweep, bundles(dataset.layout, left, self.folder.calibration()))
        self.ledger.set_state(sweep, State.QUEUED)

    def counts(self, sweep: str) -> dict[str, int]:
        """Runs by status, as stored."""
        dataset = self.folder.dataset(sweep)
        found: Counter[str] = Counter()
        for kind in dataset.layout.variables:
            values, numbers = np.unique(dataset.status(kind), return_counts=True)
            found.update({Status(int(v)).label: int(n) for v, n in zip(values, numbers, strict=True)})
        return dict(found)

    # --- submission

    def submit(self, spec: SweepSpec, extends: str | None = None) -> tuple[Sweep, bool]:
        """A new sweep, or the one there is with the same canonical spec; true if it is new."""
        grid = Grid.of(spec)
        for old in self.ledger.sweeps(key=grid.key.digest):
            return old, False
        layout = Layout(grid)
        keys = layout.runs.keys
        copies = {kind: Copies(keys[kind]) for kind in layout.variables}
        wanted = {kind: found.unique() for kind, found in copies.items()}
        reuse = self._reusable(layout, wanted)
        left = dict(wanted)
        for _, found in reuse:
            for kind, (_, ours) in found.items():
                left[kind] = np.setdiff1d(left[kind], ours)
        self.estimate_of(layout, left).require(self.limits, self.folder.free_bytes())
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{grid.key.digest[:8]}"
        objects = self.folder.objects
        objects.put(f"{name}.json", spec.model_dump_json().encode())
        fault("submit:spec")
        self.folder.put_keys(name, keys)
        fault("submit:keys")
        dataset = SweepDataset.create(self.folder.dataset_path(name), layout, provenance(spec, grid))
        fault("submit:dataset")
        self._copies[name] = copies
        reused = 0
        for source, found in reuse:
            other = self.folder.dataset(source)
            for kind, (theirs, ours) in found.items():
                values = other.read(kind, theirs, layout.variables[kind])
                self._write(dataset, name, kind, ours, values)
                reused += len(ours)
        fault("submit:reuse")
        some = bundles(layout, left, self.folder.calibration())
        now = utc_now()
        runs = sum(layout.runs.count(kind) for kind in layout.variables)
        state = State.QUEUED if some else State.COMPLETED
        sweep = Sweep(name, grid.key.digest, spec.name, state, now, now, extends, "", runs, reused)
        self.ledger.add(sweep, some)
        fault("submit:ledger")
        return sweep, True

    def estimate_of(self, layout: Layout, left: dict[Kind, AnyArray]) -> Estimate:
        return estimate(layout, left, self.folder.calibration())

    def _reusable(
        self, layout: Layout, wanted: dict[Kind, AnyArray]
    ) -> list[tuple[str, dict[Kind, tuple[AnyArray, AnyArray]]]]:
        """Earlier sweeps that hold some of the wanted runs: numbers there, and numbers here."""
        found = []
        left = dict(wanted)
        for sweep in self.ledger.sweeps():
            if not any(len(numbers) for numbers in left.values()):
                break
            theirs, dataset = self.folder.keys(sweep.id), self.folder.dataset(sweep.id)
            here: dict[Kind, tuple[AnyArray, AnyArray]] = {}
            for kind, numbers in left.items():
                mine = dataset.layout.variables.get(kind, {})
                if not len(numbers) or not set(layout.variables[kind]) <= set(mine):
                    continue
                _, ours, other = np.intersect1d(
                    layout.runs.keys[kind][numbers], theirs[kind], return_indices=True
                )
                status = dataset.status(kind)[other]
                done = np.isin(status, [Status.DONE, Status.DIVERGED, Status.SKIPPED])
                if np.any(done):
                    here[kind] = (other[done], numbers[ours[done]])
                    left[kind] = np.setdiff1d(numbers, numbers[ours[done]])
            if here:
                found.append((sweep.id, here))
        return found

    # --- the loop

    def tick(self) -> bool:
        """Dispatch, collect, merge once; false when there is nothing to do."""
        running = self.ledger.sweeps(states=[State.RUNNING, State.QUEUED])[::-1]
        for sweep in running:
            if sweep.state is State.QUEUED:
                self.ledger.set_state(sweep.id, State.RUNNING)
            self._dispatch(sweep.id)
        ended = self.executor.poll()
        for receipt in ended:
            self._receive(receipt)
        for name in {receipt.sweep for receipt in ended}:
            self.merge(name)
        for sweep in running:
            self._finish(sweep.id)
        return bool(running)

    def run(self, sweep: str, watch: Callable[[Sweep], None] = lambda _: None) -> Sweep:
        """Tick until a sweep has ended; while the disk is full, wait for room."""
        now = self.ledger.sweep(sweep)
        while not now.state.ended and now.state is not State.PAUSED:
            try:
                if self.folder.free_bytes() < LEAST_ROOM:
                    raise OSError(errno.ENOSPC, "no room")
                self.tick()
                now = self.ledger.sweep(sweep)
                watch(now)
            except (OSError, sa.exc.OperationalError) as error:
                if not _is_full(error):
                    raise
                watch(replace(now, reason=f"waiting for room on the disk of {self.folder.root}"))
                self.executor.rest(1.0)
        return self.ledger.sweep(sweep)

    def _dispatch(self, sweep: str) -> None:
        """Keep a few bundles submitted: an executor never holds a whole sweep."""
        room, mine = self.executor.room(), self.submitted.setdefault(sweep, set())
        if room <= 0:
            return
        for bundle in self.ledger.pending(sweep, room, sorted(mine)):
            mine.add(bundle.key)
            self.executor.submit(Task(str(self.folder.root), sweep, bundle))

    def _receive(self, receipt: Receipt) -> None:
        self.submitted.get(receipt.sweep, set()).discard(receipt.bundle)
        if receipt.error:
            attempts = self.ledger.tried(receipt.sweep, receipt.bundle, receipt.error)
            log.warning("bundle %s failed (%d): %s", receipt.bundle, attempts, receipt.error)
            if attempts >= MOST_ATTEMPTS:
                self._give_up(receipt)

    def _give_up(self, receipt: Receipt) -> None:
        """A bundle that cannot be computed becomes a part whose runs have all failed."""
        layout = self.folder.layout(receipt.sweep)
        for bundle in self.ledger.pending(receipt.sweep, 1 << 30):
            if bundle.key == receipt.bundle:
                part = Part.failed(layout, bundle.jobs, receipt.error)
                self.folder.objects.put(part_name(receipt.sweep, bundle.key), part.pack())
        self.merge(receipt.sweep)

    def merge(self, sweep: str) -> None:
        """Bring the parts that are there into the dataset, then into the ledger, then remove them."""
        objects, prefix = self.folder.objects, f"{sweep}.parts/"
        names = [name for name in objects.list(prefix) if name.endswith(".npz")]
        dataset = self.folder.dataset(sweep) if names else None
        while names:
            taken, parts, runs = list[str](), list[Part](), 0
            while names and runs < MERGE_RUNS:
                taken.append(names.pop(0))
                parts.append(Part.unpack(objects.get(taken[-1])))
                runs += sum(map(len, parts[-1].numbers.values()))
            assert dataset is not None
            counts: Counter[str] = Counter()
            for kind in {kind for part in parts for kind in part.numbers}:
                mine = [part for part in parts if kind in part.numbers]
                numbers = np.concatenate([part.numbers[kind] for part in mine])
                values = {
                    name: np.concatenate([part.values[kind][name] for part in mine])
                    for name in mine[0].values[kind]
                }
                written = self._write(dataset, sweep, kind, numbers, values)
                counts.update(Status(int(status)).label for status in written)
            for part in parts:
                for failure in part.failures:
                    name = f"{failure.kind}-{failure.number}"
                    capsule = {
                        **asdict(failure),
                        "command": f"sweep rerun {sweep} {name} --data {self.folder.root}",
                    }
                    objects.put(f"{sweep}.failures/{name}.json", json.dumps(capsule).encode())
            fault("merge:failures")
            seconds = sum(float(v["seconds"].sum()) for part in parts for v in part.values.values())
            for part in parts:
                self._learn(dataset.layout, part)
            keys = [name.removeprefix(prefix).removesuffix(".npz") for name in taken]
            self.ledger.merged(sweep, keys, seconds, counts)
            fault("merge:ledger")
            for name in taken:
                objects.delete(name)
            fault("merge:removed")

    def _learn(self, layout: Layout, part: Part) -> None:
        """Add up what runs took and what they were predicted to take, by class of work."""
        grid, plain = layout.grid, Calibration()
        for kind, numbers in part.numbers.items():
            first, second, _ = np.unravel_index(numbers, layout.runs.shape(kind))
            seconds = part.values[kind]["seconds"]
            for index, place in {
                (int(a), int(b) if kind == "ode" else 0) for a, b in zip(first, second, strict=True)
            }:
                mine = (first == index) & ((second == place) if kind == "ode" else True)
                point, last, samples = grid.point(index), float(grid.times[-1]), len(grid.times)
                runs = int(np.sum(mine))
                if kind == "sgd":
                    work = sgd_work(point)
                    price = sgd_seconds(point, last / point.delta_t, samples, runs, plain)
                else:
                    work = ode_work(point, grid.regimes[place])
                    price = ode_seconds(point, grid.regimes[place], last, samples, plain)
                measured, predicted = self.reported.get(work, (0.0, 0.0))
                self.reported[work] = (measured + float(np.sum(seconds[mine])), predicted + price * runs)

    def _write(
        self, dataset: SweepDataset, sweep: str, kind: Kind, numbers: AnyArray, values: dict[str, AnyArray]
    ) -> AnyArray:
        """Values of runs to all runs with their keys; the statuses that were written."""
        rows, targets = self._copies_of(sweep)[kind].expand(numbers)
        spread = {name: array[rows] for name, array in values.items()}
        dataset.write(kind, targets, spread)
        return spread["status"]

    def _copies_of(self, sweep: str) -> dict[Kind, Copies]:
        if sweep not in self._copies:
            self._copies[sweep] = {kind: Copies(keys) for kind, keys in self.folder.keys(sweep).items()}
        return self._copies[sweep]

    def _finish(self, sweep: str) -> None:
        if self.ledger.totals(sweep)["pending"]:
            return
        dataset = self.folder.dataset(sweep)
        failed = any(np.any(dataset.status(kind) == Status.FAILED) for kind in dataset.layout.variables)
        self.folder.put_calibration(self.folder.calibration().learned(self.reported))
        self.reported.clear()
        fault("finish:state")
        self.ledger.set_state(sweep, State.INCOMPLETE if failed else State.COMPLETED)

    # --- what a person may ask for

    def cancel(self, sweep: str) -> Sweep:
        now = self.ledger.sweep(sweep)
        if not now.state.ended:
            self.executor.cancel(sweep)
            self.submitted.pop(sweep, None)
            self.ledger.drop(sweep)
            self._mark(sweep, Status.PENDING, Status.CANCELLED)
            self.ledger.set_state(sweep, State.CANCELLED)
        return self.ledger.sweep(sweep)

    def pause(self, sweep: str) -> Sweep:
        if self.ledger.sweep(sweep).state in (State.QUEUED, State.RUNNING):
            self.executor.cancel(sweep)
            self.submitted.pop(sweep, None)
            self.ledger.set_state(sweep, State.PAUSED)
        return self.ledger.sweep(sweep)

    def resume(self, sweep: str) -> Sweep:
        if self.ledger.sweep(sweep).state is State.PAUSED:
            self.ledger.set_state(sweep, State.QUEUED)
        return self.ledger.sweep(sweep)

    def retry(self, sweep: str) -> Sweep:
        """Compute failed and cancelled runs again."""
        if self.ledger.sweep(sweep).state.ended:
            for old in (Status.FAILED, Status.CANCELLED):
                self._mark(sweep, old, Status.PENDING)
            for name in list(self.folder.objects.list(f"{sweep}.failures/")):
                self.folder.objects.delete(name)
            self._requeue(sweep)
        return self.ledger.sweep(sweep)

    def remove(self, sweep: str) -> None:
        self.cancel(sweep)
        self.ledger.remove(sweep)
        self.folder.remove(sweep)

    def _mark(self, sweep: str, old: Status, new: Status) -> None:
        dataset = self.folder.dataset(sweep)
        for kind in dataset.layout.variables:
            numbers = np.flatnonzero(dataset.status(kind) == old)
            if len(numbers):
                dataset.write(kind, numbers, {"status": np.full(len(numbers), new, dtype=np.int8)})


def _is_full(error: Exception) -> bool:
    """No room on the disk, as the file system or as SQLite says it."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "disk is full" in str(error)


def provenance(spec: SweepSpec, grid: Grid) -> dict[str, Any]:
    """What a dataset says of itself."""
    return {
        "title": spec.name or "sweep",
        "spec": spec.model_dump_json(),
        "key": grid.key.digest,
        "sweep_service_version": __version__,
        "git": _git_state(),
        "environment": json.dumps(
            {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
        ),
        "created": utc_now(),
    }


def _git_state() -> str:
    """The commit of the code, where it is a checkout."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent, capture_output=True, text=True, timeout=5.0, check=True,
        )  # fmt: skip
        return found.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
