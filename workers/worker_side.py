"""The code that is sent to workers.

It is pickled by value, so a scheduler does not need this package, and a worker without it, or with another
version, can still report that. Therefore nothing of this package is imported at module level.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import sys
import time
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import cloudpickle
from distributed import Status, Worker, WorkerPlugin, get_worker

REFUSAL_TOPIC = "sweep-unfit"  # of the events in which refused workers say why
COMPILING_TOPIC = "sweep-compiling"  # of the events in which workers say that they compile a kernel
LOOK_INTERVAL_SECONDS = 0.01  # between two looks at the state of a task
STORE_RETRY_SECONDS = 1.0  # between two attempts to read a store that is away
WorkerRequirements = dict[str, Any]

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class WorkerCheckFailed(Exception):
    """This worker may not compute tasks of the data folder."""


def check_worker(requirements: WorkerRequirements) -> str:
    """Return why this process fails the worker check, or "". Raise OSError if the reason may be temporary."""
    try:
        from sweep_service.workers.worker_check import problem
    except Exception as error:
        return f"sweep_service cannot be imported: {type(error).__name__}: {error}"
    return problem(requirements)


def check_worker_with_retries(
    requirements: WorkerRequirements, give_up: Callable[[], bool], retry_seconds: float = STORE_RETRY_SECONDS
) -> str:
    """Repeat the check while its failure may be temporary, for at most `store_wait_seconds`."""
    deadline = time.monotonic() + requirements.get("store_wait_seconds", 0.0)
    while True:
        try:
            return check_worker(requirements)
        except OSError as error:
            if give_up() or time.monotonic() >= deadline:
                return str(error)
        time.sleep(retry_seconds)


class WorkerCheckPlugin(WorkerPlugin):
    """Checks a worker that joins. If it passes, its kernels are loaded; otherwise it says why and closes."""

    name = "sweep-service"

    def __init__(self, requirements: WorkerRequirements, retry_seconds: float = STORE_RETRY_SECONDS) -> None:
        self.requirements, self.retry_seconds = requirements, retry_seconds
        self.replaced = False
        self.retrying: asyncio.Task[None] | None = None

    async def setup(self, worker: Worker) -> None:
        # In a thread: imports and kernels take seconds, during which the worker must respond.
        try:
            await self._finish(worker, await asyncio.to_thread(check_worker, self.requirements))
        except OSError:
            # Retry in the background: the scheduler learns of a worker only after setup returns.
            self.retrying = asyncio.create_task(self._retry(worker))

    def teardown(self, worker: Worker) -> None:
        self.replaced = True  # by a newer plugin, or the worker is closing

    async def _retry(self, worker: Worker) -> None:
        reason = await asyncio.to_thread(
            check_worker_with_retries, self.requirements, lambda: self.replaced, self.retry_seconds
        )
        if not self.replaced:
            await self._finish(worker, reason)

    async def _finish(self, worker: Worker, reason: str) -> None:
        if reason:
            logging.getLogger("distributed.worker").error("closing: %s", reason)
            worker.log_event(REFUSAL_TOPIC, {"worker": worker.address, "why": reason})
            # An error raised here would only be logged, and the worker would accept tasks.
            worker.loop.add_callback(worker.close, nanny=True, reason=reason)
            return
        await asyncio.to_thread(load_kernels)


def load_kernels() -> None:
    from sweep_service.workers.worker_check import load_kernels

    load_kernels()


def run_bundle(requirements: WorkerRequirements, sweep_id: str, jobs: str) -> None:
    """Compute a bundle; its part is in the store when this returns."""
    stopped = _stop_check()
    reason = check_worker_with_retries(requirements, stopped)
    if reason:
        raise WorkerCheckFailed(reason)
    from sweep_service.execution.task import Task, run_task
    from sweep_service.numerics.kernel_cache import following_compilation
    from sweep_service.planning.bundles import Bundle

    with following_compilation(_compilation_report()):
        run_task(Task(requirements["root"], sweep_id, Bundle.from_json(jobs)), stopped)


def _compilation_report() -> Callable[[bool], None]:
    """Return a function that tells the service whether this task waits for a kernel to be compiled."""
    worker = get_worker()
    key = worker.get_current_task()

    def report(is_compiling: bool) -> None:
        worker.log_event(COMPILING_TOPIC, {"task": key, "compiling": is_compiling})

    return report


def _stop_check() -> Callable[[], bool]:
    """Return a function that says whether this task was cancelled or its worker is closing.

    Dask does not stop threads, so the task must call it.
    """
    worker = get_worker()
    key = worker.get_current_task()
    next_look = 0.0

    def should_stop() -> bool:
        nonlocal next_look
        now = time.monotonic()  # a right-hand side of an ODE asks every few microseconds
        if now < next_look:
            return False
        next_look = now + LOOK_INTERVAL_SECONDS
        return is_cancelled()

    def is_cancelled() -> bool:
        task = worker.state.tasks.get(key)
        is_closing = worker.status not in (Status.running, Status.paused)
        return is_closing or task is None or task.state not in ("executing", "long-running")

    return should_stop


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python and these packages, "" for those that are not installed."""
    versions = {"python": platform.python_version()}
    for name in packages:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = ""
    return versions


def read_clock() -> float:
    return time.time()


def run_in_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a slow function so that a worker runs it in a thread and stays responsive."""

    async def run(*arguments: Any) -> Any:
        return await asyncio.to_thread(function, *arguments)

    return run


def pickle_by_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that it is pickled as code anywhere in a graph; a plain one is sent by name."""
    return lambda *arguments: function(*arguments)
