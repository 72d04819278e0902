"""The window of an executor: how many tasks it keeps submitted to a cluster."""

from __future__ import annotations

from collections import Counter

from sweep_service.execution.task import Task

MIN_TASKS_PER_THREAD = 2  # one that runs and one that follows
# Predicted work submitted per thread if tasks are short. An adaptive cluster requests the workers that would
# finish all submitted tasks in 5 s: with 10 s of work per thread it doubles, with less it would not grow.
QUEUE_SECONDS_PER_THREAD = 10.0
MAX_TASKS_PER_THREAD = 20


class Window:
    """Sums over the submitted tasks, kept as tasks come and go.

    They are asked for before each submission, and a cluster with thousands of threads has tens of thousands
    of tasks.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.count, self.seconds = 0, 0.0
        self.count_by_sweep: Counter[str] = Counter()

    def add(self, task: Task) -> None:
        self.count += 1
        self.seconds += task.bundle.cost
        self.count_by_sweep[task.sweep_id] += 1

    def remove(self, task: Task) -> None:
        self.count -= 1
        self.seconds = self.seconds - task.bundle.cost if self.count else 0.0  # without rounding errors
        self.count_by_sweep[task.sweep_id] -= 1
        if not self.count_by_sweep[task.sweep_id]:
            del self.count_by_sweep[task.sweep_id]

    def has_room(self, sweep_id: str, threads: int) -> bool:
        """Return whether another task fits the window that all sweeps share.

        A sweep may exceed the window by as many tasks as keep all threads busy, so that it does not wait for
        a sweep that fills the window.
        """
        is_open = self.count < MIN_TASKS_PER_THREAD * threads or (
            self.count < MAX_TASKS_PER_THREAD * threads and self.seconds < QUEUE_SECONDS_PER_THREAD * threads
        )
        return is_open or self.count_by_sweep[sweep_id] < MIN_TASKS_PER_THREAD * threads
