"""Where tasks run. Nothing that an executor holds is needed after a crash."""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from sweep_service.errors import Stopped
from sweep_service.execution.task import Task, run_task


@dataclass(frozen=True)
class Receipt:
    """That a task has ended: its part is there, or why not. One that was `lost` is not to blame."""

    sweep: str
    bundle: str
    error: str = ""
    lost: bool = False

    @property
    def result(self) -> str:
        return "lost" if self.lost else "failed" if self.error else "done"


class Executor(Protocol):
    """Where tasks run, and what the service tells of that. Its properties are read from any thread."""

    @property
    def threads(self) -> int:
        """Threads that compute."""

    @property
    def worker_count(self) -> int:
        """Workers, as they were known last."""

    @property
    def refusals(self) -> list[dict[str, Any]]:
        """Workers that had to leave: `worker` and `why`."""

    @property
    def address(self) -> str:
        """Of the scheduler; "" without one."""

    @property
    def dashboard(self) -> str:
        """The URL where the scheduler shows what it does; "" if it does not."""

    def workers(self) -> list[dict[str, Any]]:
        """Workers and what each does, from any thread."""

    def room(self, sweep: str) -> bool:
        """Would it like to have one more task of this sweep?"""

    def submit(self, task: Task, priority: int) -> None:
        """Among tasks that wait, a higher priority goes first."""

    def poll(self) -> list[Receipt]:
        """What has ended since the last time; may work or wait for a moment."""

    def tasks(self) -> list[Task]:
        """What it has now, from any thread."""

    def cancel(self, sweep: str) -> None:
        """Drop what it has of a sweep."""

    def note(self) -> str:
        """What keeps it from working, if something does."""

    def wake(self) -> None:
        """From another thread: end the wait of a poll."""

    def rest(self, seconds: float) -> None:
        """Wait a while, or end with `Stopped`."""

    def close(self) -> None:
        """Drop everything, and let go of what it holds."""


class SerialExecutor:
    """One task at a time, here."""

    threads = worker_count = 1
    address = dashboard = ""

    def __init__(self, stopped: Callable[[], bool] | None = None) -> None:
        self.stopped, self.waiting = stopped, list[Task]()
        self.refusals: list[dict[str, Any]] = []

    def workers(self) -> list[dict[str, Any]]:
        return []

    def room(self, sweep: str) -> bool:
        return len(self.waiting) < 2

    def submit(self, task: Task, priority: int) -> None:
        self.waiting.append(task)

    def poll(self) -> list[Receipt]:
        if not self.waiting:
            return []
        task, error = self.waiting[0], ""
        try:
            run_task(task, self.stopped)
        except (Stopped, OSError):  # a full disk is no fault of the bundle
            raise
        except Exception as problem:  # a bundle that breaks its task is tried again, then given up
            error = f"{type(problem).__name__}: {problem}"
        self.waiting.pop(0)
        return [Receipt(task.sweep, task.bundle.key, error)]

    def tasks(self) -> list[Task]:
        return list(self.waiting)

    def cancel(self, sweep: str) -> None:
        self.waiting = [task for task in self.waiting if task.sweep != sweep]

    def note(self) -> str:
        return ""

    def wake(self) -> None:
        """It never waits."""

    def rest(self, seconds: float) -> None:
        if self.stopped is not None and self.stopped():
            raise Stopped("asked to stop")
        clock.sleep(seconds)

    def close(self) -> None:
        self.waiting.clear()
