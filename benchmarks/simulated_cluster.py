"""An executor whose workers exist only as a queue of times, and whose parts are random numbers.

The parts are real: they have the size, the versions and the files that a task gives them. A worker takes the
waiting task with the highest priority, as with Dask.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from benchmarks.store import make_part
from sweep_service.execution.executors import Receipt
from sweep_service.execution.task import Task, part_name
from sweep_service.planning.versions import job_versions
from sweep_service.store.folder import DataFolder
from sweep_service.store.parts import Part
from sweep_service.workers.window import Window

POLL_SECONDS = 0.2  # that a poll waits for a task to end


class Waiting(NamedTuple):
    """A waiting task, ordered by priority and age."""

    rank: int
    number: int
    task: Task


class Running(NamedTuple):
    """A task on a worker, ordered by its end."""

    end: float
    number: int
    task: Task


class SimulatedClock:
    """The time of a simulated cluster: processor time of this process, and waits that are skipped.

    It stands still while parts are written, which real workers do on their own machines, and it depends
    little on what else this machine does. Waits for the disk do not count.
    """

    def __init__(self) -> None:
        self.excluded, self.skipped = 0.0, 0.0

    def __call__(self) -> float:
        return time.process_time() - self.excluded + self.skipped

    def skip(self, seconds: float) -> None:
        """Wait, in no time."""
        self.skipped += max(seconds, 0.0)

    @property
    def busy(self) -> float:
        """Processor seconds so far, without those of the workers."""
        return self() - self.skipped

    @contextmanager
    def stopped(self) -> Iterator[None]:
        began = time.process_time()
        try:
            yield
        finally:
            self.excluded += time.process_time() - began


class SimulatedExecutor:
    """Workers with one thread each, which need `task_seconds` for every bundle."""

    address = dashboard = ""

    def __init__(self, folder: DataFolder, workers: int, task_seconds: float) -> None:
        self.folder, self.task_seconds, self.clock = folder, task_seconds, SimulatedClock()
        self.threads = self.worker_count = workers
        self.refusals: list[dict[str, Any]] = []
        self.window, self.numbers = Window(), count()
        self.waiting: list[Waiting] = []
        self.running: list[Running] = []
        self.rng = np.random.default_rng(0)
        self.ended_tasks, self.largest_window = 0, 0

    def workers(self) -> list[dict[str, Any]]:
        return []

    def has_room(self, sweep_id: str) -> bool:
        return self.window.has_room(sweep_id, self.threads)

    def submit(self, task: Task, priority: int) -> None:
        self.window.add(task)
        heapq.heappush(self.waiting, Waiting(-priority, next(self.numbers), task))
        self.largest_window = max(self.largest_window, self.window.count)

    def poll(self) -> list[Receipt]:
        self._assign(self.clock())
        if self.running:
            self.clock.skip(min(POLL_SECONDS, self.running[0].end - self.clock()))
        now, receipts = self.clock(), list[Receipt]()
        while self.running and self.running[0].end <= now:
            running = heapq.heappop(self.running)
            self._assign(running.end)
            self.window.remove(running.task)
            with self.clock.stopped():
                self._write_part(running.task)
            receipts.append(Receipt(running.task.sweep_id, running.task.bundle.key))
        self.ended_tasks += len(receipts)
        return receipts

    def _assign(self, now: float) -> None:
        """Let free workers take waiting tasks."""
        while self.waiting and len(self.running) < self.threads:
            waiting = heapq.heappop(self.waiting)
            heapq.heappush(self.running, Running(now + self.task_seconds, waiting.number, waiting.task))

    def _write_part(self, task: Task) -> None:
        plan, jobs = self.folder.plan(task.sweep_id), task.bundle.jobs
        numbers = np.concatenate([job.numbers(plan.runs) for job in jobs])
        kind = jobs[0].kind
        random = make_part(plan, kind, numbers, self.rng)
        part = Part(random.numbers, random.values, (), job_versions(plan.grid, jobs), self.task_seconds)
        self.folder.objects.put(part_name(task.sweep_id, task.bundle.key), part.pack())

    def tasks(self) -> list[Task]:
        return [entry.task for entry in (*self.running, *self.waiting)]

    def cancel(self, sweep_id: str) -> None:
        for task in self.tasks():
            if task.sweep_id == sweep_id:
                self.window.remove(task)
        self.waiting = [entry for entry in self.waiting if entry.task.sweep_id != sweep_id]
        self.running = [entry for entry in self.running if entry.task.sweep_id != sweep_id]
        heapq.heapify(self.waiting)
        heapq.heapify(self.running)

    def describe_problem(self) -> str:
        return ""

    def wake(self) -> None:
        """Do nothing: `poll` waits for a moment only."""

    def sleep(self, seconds: float) -> None:
        self.clock.skip(seconds)

    def close(self) -> None:
        self.window.clear()
        self.waiting.clear()
        self.running.clear()
