"""Executes bundles as Dask tasks.

A future only says that its task has ended: the result is in the store. So tasks that Dask forgets, with a
worker, a scheduler or a connection, are submitted again, and nothing is lost.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time as clock
from collections.abc import Callable, Set
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from math import inf
from queue import Empty, SimpleQueue
from typing import Any

import distributed
from distributed import Client

from sweep_service.by_value import pack_entries
from sweep_service.errors import Stopped, is_temporary
from sweep_service.execution.executors import Receipt
from sweep_service.execution.task import Task, excuse_interruption
from sweep_service.store.folder import DataFolder
from sweep_service.workers.cluster import CONNECT_TIMEOUT_SECONDS, Cluster, explain_failure
from sweep_service.workers.connection import SchedulerTimeout
from sweep_service.workers.window import Window
from sweep_service.workers.worker_check import worker_requirements
from sweep_service.workers.worker_side import (
    COMPILING_TOPIC,
    REFUSAL_TOPIC,
    WorkerCheckPlugin,
    WorkerRequirements,
    pickle_by_value,
    run_bundle,
)

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2  # that a poll waits for a task to end
CLUSTER_CHECK_INTERVAL_SECONDS = 2.0
# How long a worker waits for a store that it cannot read, because of an outage or a missing mount, before it
# leaves. Embedded workers wait without limit, because they would not be started again.
STORE_WAIT_SECONDS = 60.0
SCHEDULER_TIMEOUT_SECONDS = 5.0  # for an answer of the scheduler, during which the conductor is blocked
# Errors for which a bundle is not to blame: its worker is leaving, or should not have got the task.
WORKER_ERRORS = ("Stopped", "WorkerCheckFailed")


@dataclass(frozen=True)
class InFlight:
    """A submitted task."""

    task: Task
    future: distributed.Future[None]


class DaskExecutor:
    """Keeps a window of tasks submitted to a cluster, and reconnects when the connection is lost."""

    def __init__(
        self,
        cluster: Cluster,
        folder: DataFolder,
        stopped: Callable[[], bool] = lambda: False,
        connect_wait_seconds: float | None = None,
    ) -> None:
        """`connect_wait_seconds` limits each wait for a connection; None waits until it succeeds or fails."""
        self.cluster, self.folder, self.stopped = cluster, folder, stopped
        self.connect_wait_seconds = connect_wait_seconds
        self.connecting: Future[Client] | None = None
        self.connect_started = 0.0
        self.client: Client | None = None
        self.requirements: WorkerRequirements | None = None
        self.in_flight: dict[str, InFlight] = {}
        self.window = Window()  # of the tasks in flight
        self.ended: SimpleQueue[str] = SimpleQueue()
        self.submission_numbers = count()  # Dask needs a new key for a task that is submitted again
        self.run = pickle_by_value(run_bundle)
        self.threads, self.last_check, self.problem = 0, -CLUSTER_CHECK_INTERVAL_SECONDS, ""
        self.dashboard = ""  # URL of the scheduler's dashboard
        self.refusals: list[dict[str, Any]] = []  # workers that failed the check, and why
        self.worker_addresses: set[str] = set()
        self.receipts: list[Receipt] = []
        self.temporary_error: OSError | None = None
        self.interrupted: list[Task] = []  # dropped because the process stops
        self.compiling_tasks: set[str] = set()  # keys of tasks whose workers compile a kernel for them
        self.reported_compiling: Set[str] = frozenset()
        self.on_compiling: Callable[[], None] = lambda: None

    @property
    def address(self) -> str:
        return self.cluster.address

    @property
    def worker_count(self) -> int:
        return len(self.worker_addresses)

    @property
    def compiling(self) -> Set[str]:
        in_flight = self.in_flight
        entries = [in_flight.get(key) for key in list(self.compiling_tasks)]
        return frozenset(entry.task.sweep_id for entry in entries if entry is not None)

    def has_room(self, sweep_id: str) -> bool:
        """Whether another task fits the window of the cluster."""
        self.refresh()
        # An adaptive cluster starts workers only when there are tasks.
        return self.client is not None and self.window.has_room(sweep_id, max(1, self.threads))

    def submit(self, task: Task, priority: int) -> None:
        assert self.client is not None
        key = f"{dashboard_label(task)}-{task.bundle.key}-{next(self.submission_numbers)}"
        arguments = (self.requirements, task.sweep_id, task.bundle.jobs_json)
        try:
            future = self.client.submit(self.run, *arguments, key=key, pure=False, priority=priority)
        except (OSError, RuntimeError) as error:  # the scheduler has just gone
            log.debug("not submitted: %s", error)
            self.receipts.append(Receipt(task.sweep_id, task.bundle.key, lost=True))
            self._disconnect()
            return
        self.in_flight[key] = InFlight(task, future)
        self.window.add(task)
        future.add_done_callback(lambda _: self.ended.put(key))

    def poll(self) -> list[Receipt]:
        if self.stopped():
            raise Stopped("asked to stop")
        if self.temporary_error is not None:
            error, self.temporary_error = self.temporary_error, None
            raise error
        self.refresh()
        for key in self._ended_keys():
            if key in self.in_flight:  # it may have been cancelled, or lost with the connection
                self._finish(key)
        if self.compiling != self.reported_compiling:
            self.reported_compiling = self.compiling
            self.on_compiling()
        receipts, self.receipts = self.receipts, []
        return receipts

    def tasks(self) -> list[Task]:
        return [entry.task for entry in list(self.in_flight.values())]

    def workers(self) -> list[dict[str, Any]]:
        """Return the workers and their load; callable from any thread."""
        client = self.client
        if client is None:
            return []
        try:
            workers = self._ask(client, "identity", n_workers=-1)["workers"]
        except (OSError, RuntimeError, TimeoutError, Stopped) as error:  # the scheduler has just gone
            log.debug("no scheduler: %s", error)
            return []
        return [_describe_worker(info) for info in workers.values()]

    def cancel(self, sweep_id: str) -> None:
        keys = [key for key, entry in self.in_flight.items() if entry.task.sweep_id == sweep_id]
        dropped = [self._remove(key) for key in keys]
        futures = [entry.future for entry in dropped]
        if self.stopped():
            self.interrupted += [entry.task for entry in dropped]
        if self.client is not None and futures:
            with suppress(Exception):  # without a scheduler nothing runs
                self.client.cancel(futures, force=True)

    def describe_problem(self) -> str:
        return self.problem

    def wake(self) -> None:
        self.ended.put("")  # not the key of any task

    def sleep(self, seconds: float) -> None:
        if self.stopped():
            raise Stopped("asked to stop")
        clock.sleep(seconds)

    def close(self) -> None:
        for sweep_id in {task.sweep_id for task in self.tasks()}:
            self.cancel(sweep_id)
        if self.connecting is not None:
            self.connecting.add_done_callback(_close_client)
        self._disconnect(lost=False)
        self.cluster.close()
        if self.cluster.is_embedded:
            with suppress(OSError):  # the store is away
                for task in self.interrupted:  # workers that did not end in time were killed
                    excuse_interruption(self.folder.objects, task)

    def read_refusals(self) -> list[dict[str, Any]]:
        """Return the workers that failed the worker check, and why."""
        if self.client is None:
            return []
        return [content for _, content in self._ask(self.client, "events", topic=REFUSAL_TOPIC)]

    def _ended_keys(self) -> list[str]:
        """Return the keys of ended tasks; wait a moment for the first."""
        keys: list[str] = []
        with suppress(Empty):
            keys.append(self.ended.get(timeout=POLL_SECONDS))
            while True:
                keys.append(self.ended.get_nowait())
        return keys

    def _remove(self, key: str) -> InFlight:
        entry = self.in_flight.pop(key)
        self.window.remove(entry.task)
        self.compiling_tasks.discard(key)
        return entry

    def _finish(self, key: str) -> None:
        """Make the receipt of an ended task.

        A task that Dask calls lost has ended too: only the answer is lost, with its worker. The merger sees
        whether the part exists.
        """
        entry = self._remove(key)
        task, status = entry.task, entry.future.status
        if status not in (
            "finished",
            "error",
            "lost",
        ):  # cancelled: scheduler or client
            self.receipts.append(Receipt(task.sweep_id, task.bundle.key, lost=True))
            if self.client is not None and self.client.status != "running":
                self._disconnect()
            return
        error = entry.future.exception() if status == "error" else None
        temporary = isinstance(error, OSError) and is_temporary(error)
        if temporary:  # the disk is full, or the store is away
            self.temporary_error = error
        text = "" if error is None else f"{type(error).__name__}: {error}"
        lost = temporary or type(error).__name__ in WORKER_ERRORS
        self.receipts.append(Receipt(task.sweep_id, task.bundle.key, text, lost))

    def refresh(self) -> None:
        """Check the connection and the workers, if the last check was long enough ago."""
        if clock.monotonic() - self.last_check < CLUSTER_CHECK_INTERVAL_SECONDS:
            return
        try:
            if self.client is not None and self.client.status != "running":
                self._disconnect()
            if self.client is None and not self._connect():
                return
            assert self.client is not None
            threads = self._ask(self.client, "ncores", workers=None)
            self.threads = sum(threads.values())
            self._update_workers(set(threads), self.read_refusals())
            self.problem = "" if self.threads else self._describe_missing_workers()
        except SchedulerTimeout:  # busy or cut off: tasks are lost only when the connection is
            self.problem = f"waiting for the scheduler at {self.cluster.address}, which does not answer"
        except (OSError, RuntimeError, TimeoutError) as error:  # the scheduler has just gone
            log.debug("no scheduler: %s", error)
            self._disconnect()
            self.problem = f"waiting for the scheduler at {self.cluster.address}{explain_failure(error)}"
        self.last_check = clock.monotonic()

    def _update_workers(self, addresses: set[str], refusals: list[dict[str, Any]]) -> None:
        """Store the workers and the refused ones, and log what has changed."""
        for address in sorted(addresses - self.worker_addresses):
            log.info("worker %s joined", address, extra={"event": "worker_joined", "worker": address})
        for address in sorted(self.worker_addresses - addresses):
            log.warning("worker %s is gone", address, extra={"event": "worker_lost", "worker": address})
        for refusal in refusals:
            if refusal not in self.refusals:
                worker, reason = refusal["worker"], refusal["why"]
                extra = {"event": "worker_refused", "worker": worker, "reason": reason}
                log.warning("worker %s was refused: %s", worker, reason, extra=extra)
        self.worker_addresses, self.refusals = addresses, refusals

    def _describe_missing_workers(self) -> str:
        last = self.refusals[-1:]
        reason = "".join(f" ({refusal['worker']} was refused: {refusal['why']})" for refusal in last)
        return f"waiting for workers at {self.cluster.address}{reason}"

    def _connect(self) -> bool:
        """Connect in a thread, because a cluster takes seconds to start; return whether it is done."""
        if self.requirements is None:  # not in __init__: the folder must be locked first
            wait_seconds = inf if self.cluster.is_embedded else STORE_WAIT_SECONDS
            self.requirements = {**worker_requirements(self.folder), "store_wait_seconds": wait_seconds}
            if self.cluster.is_embedded and (entries := pack_entries()) is not None:
                self.requirements["entries"] = entries  # never for workers that others have started
        if self.connecting is None:
            self.connecting, self.connect_started = Future(), clock.monotonic()
            target = (self.connecting, self.cluster.connect)
            threading.Thread(target=_resolve, args=target, daemon=True).start()
        if not self._wait_for_connection(self.connecting):
            return False
        connecting, self.connecting = self.connecting, None
        client = self.client = connecting.result()
        client.subscribe_topic(COMPILING_TOPIC, self._update_compiling)
        extra = {"event": "scheduler_found", "scheduler": self.cluster.address}
        log.info("connected to the scheduler at %s", self.cluster.address, extra=extra)
        # In a thread, because it returns only when the slowest worker has set up the plugin.
        threading.Thread(target=_register_plugin, args=(client, self.requirements), daemon=True).start()
        self.dashboard = self.cluster.dashboard_url(self._ask(client, "identity", n_workers=0))
        return True

    def _update_compiling(self, event: tuple[float, dict[str, Any]]) -> None:
        """Note that the worker of a task begins or ends to compile; called in the thread of the client."""
        _, message = event
        change = self.compiling_tasks.add if message["compiling"] else self.compiling_tasks.discard
        change(message["task"])
        self.wake()

    def _wait_for_connection(self, connecting: Future[Client]) -> bool:
        timeout = POLL_SECONDS if self.connect_wait_seconds is None else self.connect_wait_seconds
        while not wait([connecting], timeout).done:
            if self.stopped():
                raise Stopped("asked to stop")
            if self.connect_wait_seconds is not None:
                elapsed = clock.monotonic() - self.connect_started
                if not self.cluster.is_embedded and elapsed > CONNECT_TIMEOUT_SECONDS:
                    raise SchedulerTimeout
                return False
        return True

    def _ask(self, client: Client, method: str, **arguments: Any) -> Any:
        """Call a method of the scheduler, with a timeout: one that is suspended or cut off never answers."""
        if client.scheduler is None:
            raise OSError("the connection is closed")
        call = getattr(client.scheduler, method)(**arguments)
        loop: Any = client.loop
        answer = asyncio.run_coroutine_threadsafe(call, loop.asyncio_loop)
        deadline = clock.monotonic() + SCHEDULER_TIMEOUT_SECONDS
        while not wait([answer], POLL_SECONDS).done:
            if self.stopped() or clock.monotonic() > deadline:
                answer.cancel()
                raise Stopped("asked to stop") if self.stopped() else SchedulerTimeout
        return answer.result()

    def _disconnect(self, lost: bool = True) -> None:
        if self.client is not None and lost:
            address = self.cluster.address
            extra = {"event": "scheduler_lost", "scheduler": address, "bundles": len(self.in_flight)}
            log.warning("lost the scheduler at %s", address, extra=extra)
        for task in self.tasks():
            self.receipts.append(Receipt(task.sweep_id, task.bundle.key, lost=True))
        self.in_flight.clear()
        self.compiling_tasks.clear()
        self.window.clear()
        if self.client is not None:
            with suppress(Exception):
                self.client.close()
        self.client, self.threads, self.dashboard, self.worker_addresses = None, 0, "", set()


def _resolve(future: Future[Client], connect: Callable[[], Client]) -> None:
    try:
        future.set_result(connect())
    except BaseException as error:
        future.set_exception(error)


def _close_client(connecting: Future[Client]) -> None:
    with suppress(Exception):  # the connection failed
        connecting.result().close()


def _register_plugin(client: Client, requirements: WorkerRequirements) -> None:
    with suppress(Exception):  # the connection was lost; the next one registers it again
        client.register_plugin(WorkerCheckPlugin(requirements))


def _describe_worker(info: dict[str, Any]) -> dict[str, Any]:
    metrics = info.get("metrics", {})
    return {
        "name": str(info.get("name", "")),
        "host": info.get("host", ""),
        "threads": info.get("nthreads", 0),
        "cpu_percent": metrics.get("cpu", 0.0),
        "memory_bytes": metrics.get("memory", 0),
        "memory_limit_bytes": info.get("memory_limit") or None,
        "tasks": sum(metrics.get("task_counts", {}).values()),
    }


def dashboard_label(task: Task) -> str:
    """Return the name of a task on the dashboard: one name, and so one colour, per sweep and engine.

    The engine comes first, because progress bars show only 12 characters.
    """
    kind, _, engine = task.bundle.work_class.partition("/")
    words = (engine if kind == "sgd" else kind.upper(), task.sweep_name[:30], task.sweep_id[-8:])
    return re.sub(r"[\W_]+", "_", "_".join(words)).strip("_")
