"""What is sent to workers. It travels as code, not as a name, so that a scheduler needs no package of ours
and a worker with none, or with another version, can still say so: nothing of ours is imported above.
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

UNFIT = "sweep-unfit"  # the topic under which workers that leave say why
ASK = 1.0  # seconds between two looks for a store that is away
Passport = dict[str, Any]

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Unfit(Exception):
    """This worker may not compute for the data folder that sent a task."""


def unfit(passport: Passport) -> str:
    """Why this process may not compute, if it may not. OSError if that may pass: a store may be away."""
    try:
        from sweep_service.workers.worker_check import problem
    except Exception as error:
        return f"sweep_service cannot be imported: {type(error).__name__}: {error}"
    return problem(passport)


def still_unfit(passport: Passport, given_up: Callable[[], bool]) -> str:
    """The same, when what may pass has passed, or there is no more patience with it."""
    end = time.monotonic() + passport.get("patience", 0.0)
    while True:
        try:
            return unfit(passport)
        except OSError as error:
            if given_up() or time.monotonic() >= end:
                return str(error)
        time.sleep(ASK)


class Welcome(WorkerPlugin):
    """A worker that joins proves that it is fit, and warms its kernels; else it says why, and leaves."""

    name = "sweep-service"

    def __init__(self, passport: Passport) -> None:
        self.passport = passport
        self.replaced = False
        self.asking: asyncio.Task[None] | None = None

    async def setup(self, worker: Worker) -> None:
        # In a thread: imports and kernels take seconds, in which the worker would not answer.
        try:
            await self._settle(worker, await asyncio.to_thread(unfit, self.passport))
        except OSError:
            # Not here: until this returns, a worker that joins is not heard of.
            self.asking = asyncio.create_task(self._ask_again(worker))

    def teardown(self, worker: Worker) -> None:
        self.replaced = True  # or the worker ends

    async def _ask_again(self, worker: Worker) -> None:
        why = await asyncio.to_thread(still_unfit, self.passport, lambda: self.replaced)
        if not self.replaced:
            await self._settle(worker, why)

    async def _settle(self, worker: Worker, why: str) -> None:
        if why:
            logging.getLogger("distributed.worker").error("leaving: %s", why)
            worker.log_event(UNFIT, {"worker": worker.address, "why": why})
            # An error raised here would be logged, and the worker would go on to take tasks.
            worker.loop.add_callback(worker.close, nanny=True, reason=why)
            return
        await asyncio.to_thread(warm)


def warm() -> None:
    from sweep_service.workers.worker_check import warm

    warm()


def run_bundle(passport: Passport, sweep: str, jobs: str) -> None:
    """Compute a bundle; its part is in the store when this returns."""
    stopped = _cancelled()
    why = still_unfit(passport, stopped)
    if why:
        raise Unfit(why)
    from sweep_service.execution.task import Task, run_task
    from sweep_service.planning.bundles import Bundle

    run_task(Task(passport["root"], sweep, Bundle.of(jobs)), stopped)


def _cancelled() -> Callable[[], bool]:
    """Is this task no longer wanted, or its worker about to leave? Dask stops no thread by itself."""
    worker = get_worker()
    key = worker.get_current_task()

    def ask() -> bool:
        mine = worker.state.tasks.get(key)
        leaving = worker.status not in (Status.running, Status.paused)
        return leaving or mine is None or mine.state not in ("executing", "long-running")

    return ask


def installed(packages: Iterable[str]) -> dict[str, str]:
    """Versions, none of what is not there."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


def now() -> float:
    return time.time()


def unhurried(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for what takes a worker seconds, in which it goes on answering."""

    async def asked(*arguments: Any) -> Any:
        return await asyncio.to_thread(function, *arguments)

    return asked


def shipped(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that pickles as code wherever it is in a graph, where a plain one would go by its name."""
    return lambda *arguments: function(*arguments)
