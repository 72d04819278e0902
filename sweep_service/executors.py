"""Where tasks run. Nothing that an executor holds is needed after a crash."""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from typing import Protocol

from sweep_service.errors import Stopped
from sweep_service.task import Receipt, Task, run_task


class Executor(Protocol):
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
        except Exception as error:  # a bundle that breaks its task is tried again, then given up
            receipt = Receipt(task.sweep, task.bundle.key, error=f"{type(error).__name__}: {error}")
        self.waiting.pop(0)
        return [receipt]

    def cancel(self, sweep: str) -> None:
        self.waiting = [task for task in self.waiting if task.sweep != sweep]

    def rest(self, seconds: float) -> None:
        if self.stopped is not None and self.stopped():
            raise Stopped("asked to stop")
        clock.sleep(seconds)
