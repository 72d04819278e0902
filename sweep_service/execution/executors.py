"""Executors, which decide where tasks run. Nothing that an executor holds is needed after a crash."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from sweep_service.errors import Stopped
from sweep_service.execution.task import Task, run_task
from sweep_service.numerics.kernel_cache import following_compilation

UNIX_SCHEME = "http+unix"  # of a dashboard's URL that is the path of a Unix socket


@dataclass(frozen=True)
class Receipt:
    """The message that a task has ended. A `lost` task is not counted as a failed attempt."""

    sweep_id: str
    bundle: str
    error: str = ""
    lost: bool = False

    @property
    def result(self) -> str:
        return "lost" if self.lost else "failed" if self.error else "done"


class Executor(Protocol):
    """Runs tasks and reports on its workers. Properties may be read from any thread."""

    on_compiling: Callable[[], None]  # called by `poll` when `compiling` has changed

    @property
    def compiling(self) -> Set[str]:
        """Ids of the sweeps that wait for a kernel to be compiled."""

    @property
    def threads(self) -> int:
        """Number of threads that compute."""

    @property
    def worker_count(self) -> int:
        """Number of workers at the last check."""

    @property
    def refusals(self) -> list[dict[str, Any]]:
        """Workers that failed the worker check, each with `worker` and `why`."""

    @property
    def address(self) -> str:
        """Address of the scheduler; "" without one."""

    @property
    def dashboard(self) -> str:
        """URL of the dashboard of the scheduler; "" without one."""

    def workers(self) -> list[dict[str, Any]]:
        """Describe the workers; may be called from any thread."""

    def has_room(self, sweep_id: str) -> bool:
        """Return whether it accepts one more task of this sweep."""

    def submit(self, task: Task, priority: int) -> None:
        """Submit a task. Among waiting tasks, a higher priority goes first."""

    def poll(self) -> list[Receipt]:
        """Return receipts of tasks that ended since the last call; may compute or wait for a moment."""

    def tasks(self) -> list[Task]:
        """Return the submitted tasks; may be called from any thread."""

    def cancel(self, sweep_id: str) -> None:
        """Drop all tasks of a sweep."""

    def describe_problem(self) -> str:
        """Return what keeps it from working, or ""."""

    def wake(self) -> None:
        """End the wait of a `poll` in another thread."""

    def sleep(self, seconds: float) -> None:
        """Sleep, or raise `Stopped` if the process is stopping."""

    def close(self) -> None:
        """Drop all tasks and release resources."""


def describe_awaited(executor: Executor) -> str:
    """Say what the end of this executor waits for."""
    workers = executor.worker_count
    if not workers:
        return "the cluster to close"
    action = "save unfinished runs" if executor.tasks() else "end"
    return f"{workers} worker{'s' * (workers > 1)} to {action}"


class SerialExecutor:
    """Runs one task at a time in this process."""

    threads = worker_count = 1
    address = dashboard = ""

    def __init__(self, stopped: Callable[[], bool] | None = None) -> None:
        self.stopped, self.queue = stopped, list[Task]()
        self.refusals: list[dict[str, Any]] = []
        self.compiling: Set[str] = frozenset()
        self.on_compiling: Callable[[], None] = lambda: None

    def workers(self) -> list[dict[str, Any]]:
        return []

    def has_room(self, sweep_id: str) -> bool:
        return len(self.queue) < 2

    def submit(self, task: Task, priority: int) -> None:
        self.queue.append(task)

    def poll(self) -> list[Receipt]:
        if not self.queue:
            return []
        task, error = self.queue[0], ""
        try:
            with following_compilation(partial(self._report_compiling, task.sweep_id)):
                run_task(task, self.stopped)
        except (Stopped, OSError):  # a full disk is not the fault of the bundle
            raise
        except Exception as exception:  # the conductor tries the bundle again, then gives it up
            error = f"{type(exception).__name__}: {exception}"
        self.queue.pop(0)
        return [Receipt(task.sweep_id, task.bundle.key, error)]

    def _report_compiling(self, sweep_id: str, is_compiling: bool) -> None:
        self.compiling = frozenset({sweep_id} if is_compiling else ())
        self.on_compiling()

    def tasks(self) -> list[Task]:
        return list(self.queue)

    def cancel(self, sweep_id: str) -> None:
        self.queue = [task for task in self.queue if task.sweep_id != sweep_id]

    def describe_problem(self) -> str:
        return ""

    def wake(self) -> None:
        """Do nothing: `poll` never waits."""

    def sleep(self, seconds: float) -> None:
        if self.stopped is not None and self.stopped():
            raise Stopped("the process is stopping")
        clock.sleep(seconds)

    def close(self) -> None:
        self.queue.clear()
