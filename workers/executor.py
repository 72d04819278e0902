"""Bundles as Dask tasks.

A future only tells that its task has ended: what was computed is in the store. So whatever Dask forgets,
with a worker, a scheduler or a connection, is asked for again, and nothing is lost.
"""

from __future__ import annotations

import logging
import re
import threading
import time as clock
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from math import inf
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import distributed
from distributed import Client

from sweep_service.errors import Stopped, is_passing
from sweep_service.execution.executors import Receipt
from sweep_service.execution.task import Task
from sweep_service.store.folder import DataFolder
from sweep_service.workers.cluster import CONNECT, Cluster, refusal
from sweep_service.workers.connection import Silent
from sweep_service.workers.worker_check import passport
from sweep_service.workers.worker_side import UNFIT, Welcome, run_bundle, shipped

log = logging.getLogger(__name__)

LEAST = 2  # tasks for each thread: one that runs, one that follows
# Predicted seconds of work for each thread, where tasks are short. An adaptive cluster asks for the workers
# that end in 5 s what is submitted: with less it would stay as small as it is, with this it doubles.
AHEAD = 10.0
MOST = 20  # tasks for each thread
PATIENCE = 0.2  # seconds that a poll waits for something to end
LOOK = 2.0  # seconds between two looks at who is there
# Seconds that a worker asks for the store before it leaves: it may be away, or not mounted there. One of ours
# stays, as nobody would start it again.
UNREAD = 60.0
ANSWER = 5.0  # seconds that a scheduler has for an answer, in which nothing else can be done
NOT_TO_BLAME = ("Stopped", "Unfit")  # of a worker that leaves, or that should not have got the task


@dataclass(frozen=True)
class Flight:
    task: Task
    future: distributed.Future[None]


class DaskExecutor:
    """Holds a window of tasks on a cluster; connects again when it is lost."""

    def __init__(
        self,
        cluster: Cluster,
        folder: DataFolder,
        stopped: Callable[[], bool] = lambda: False,
        patience: float | None = None,
    ) -> None:
        """`patience` in seconds is for a connection; without it, until it is there or fails."""
        self.cluster, self.folder, self.stopped, self.patience = cluster, folder, stopped, patience
        self.coming: Future[Client] | None = None
        self.asked = 0.0  # when it was asked to come
        self.client: Client | None = None
        self.passport: dict[str, Any] | None = None
        self.flights: dict[str, Flight] = {}
        self.ended: SimpleQueue[str] = SimpleQueue()
        self.numbers = count()  # a task that is sent again is another one to Dask
        self.run = shipped(run_bundle)
        self.threads, self.looked, self.trouble = 0, -LOOK, ""
        self.dashboard = ""  # where the scheduler shows what it does
        self.refusals: list[dict[str, Any]] = []  # workers that had to leave, and why
        self.there: set[str] = set()  # addresses of workers
        self.receipts: list[Receipt] = []
        self.passing: OSError | None = None

    @property
    def address(self) -> str:
        return self.cluster.address

    @property
    def worker_count(self) -> int:
        return len(self.there)

    def room(self, sweep: str) -> bool:
        """In a window over all sweeps; beyond it each may have the least that keeps threads busy."""
        self.look()
        if self.client is None:
            return False
        flights, threads = len(self.flights), max(1, self.threads)  # an adaptive cluster waits for tasks
        ahead = sum(flight.task.bundle.cost for flight in self.flights.values())
        mine = sum(flight.task.sweep == sweep for flight in self.flights.values())
        is_open = flights < LEAST * threads or (flights < MOST * threads and ahead < AHEAD * threads)
        return is_open or mine < LEAST * threads  # none waits for room while another has all of it

    def submit(self, task: Task, priority: int) -> None:
        assert self.client is not None
        key = f"{label(task)}-{task.bundle.key}-{next(self.numbers)}"
        try:
            future = self.client.submit(
                self.run, self.passport, task.sweep, task.bundle.text, key=key, pure=False, priority=priority
            )
        except (OSError, RuntimeError) as error:  # the scheduler has just gone
            log.debug("not submitted: %s", error)
            self.receipts.append(Receipt(task.sweep, task.bundle.key, lost=True))
            self._disconnect()
            return
        self.flights[key] = Flight(task, future)
        future.add_done_callback(lambda _: self.ended.put(key))

    def poll(self) -> list[Receipt]:
        if self.stopped():
            raise Stopped("asked to stop")
        if self.passing is not None:
            problem, self.passing = self.passing, None
            raise problem
        self.look()
        for key in self._ended():
            if key in self.flights:  # and not lost with another one
                self._land(key)
        found, self.receipts = self.receipts, []
        return found

    def tasks(self) -> list[Task]:
        return [flight.task for flight in list(self.flights.values())]

    def workers(self) -> list[dict[str, Any]]:
        """Who is there, and what each does; from any thread."""
        client = self.client
        if client is None:
            return []
        try:
            found = _asked(client, "identity", n_workers=-1)["workers"]
        except (OSError, RuntimeError, TimeoutError) as error:  # a scheduler that goes away while it is asked
            log.debug("no scheduler: %s", error)
            return []
        return [_worker(one) for one in found.values()]

    def cancel(self, sweep: str) -> None:
        mine = [key for key, flight in self.flights.items() if flight.task.sweep == sweep]
        futures = [self.flights.pop(key).future for key in mine]
        if self.client is not None and futures:
            with suppress(Exception):  # a scheduler that is gone runs nothing
                self.client.cancel(futures, force=True)

    def note(self) -> str:
        return self.trouble

    def wake(self) -> None:
        self.ended.put("")  # no task of ours has this name

    def rest(self, seconds: float) -> None:
        if self.stopped():
            raise Stopped("asked to stop")
        clock.sleep(seconds)

    def close(self) -> None:
        for sweep in {flight.task.sweep for flight in self.flights.values()}:
            self.cancel(sweep)
        if self.coming is not None:
            if self.cluster.is_ours:  # what has half begun cannot be closed
                wait([self.coming])
            self.coming.add_done_callback(_let_go)
        self._disconnect(lost=False)
        self.cluster.close()

    def refused(self) -> list[dict[str, Any]]:
        """Workers that had to leave, and why."""
        if self.client is None:
            return []
        return [content for _, content in _asked(self.client, "events", topic=UNFIT)]

    def _ended(self) -> list[str]:
        """Keys of tasks that have ended; waits a moment for the first."""
        found: list[str] = []
        with suppress(Empty):
            found.append(self.ended.get(timeout=PATIENCE))
            while True:
                found.append(self.ended.get_nowait())
        return found

    def _land(self, key: str) -> None:
        """How a task ended. One that Dask calls lost has ended too: what is lost is the answer, with its
        worker. Who merges sees whether the part is there.
        """
        flight = self.flights.pop(key)
        task, status = flight.task, flight.future.status
        if status not in ("finished", "error", "lost"):  # with the scheduler, or somebody cancelled it there
            self.receipts.append(Receipt(task.sweep, task.bundle.key, lost=True))
            if self.client is not None and self.client.status != "running":
                self._disconnect()
            return
        error = flight.future.exception() if status == "error" else None
        passing = isinstance(error, OSError) and is_passing(error)
        if passing:  # a full disk, or none
            self.passing = error
        text = "" if error is None else f"{type(error).__name__}: {error}"
        lost = passing or type(error).__name__ in NOT_TO_BLAME
        self.receipts.append(Receipt(task.sweep, task.bundle.key, text, lost))

    def look(self) -> None:
        """Now and then: is the scheduler there, and who works for it?"""
        if clock.monotonic() - self.looked < LOOK:
            return
        try:
            if self.client is not None and self.client.status != "running":
                self._disconnect()
            if self.client is None and not self._connect():
                return
            assert self.client is not None
            there = _asked(self.client, "ncores", workers=None)
            self.threads = sum(there.values())
            self._count(set(there), self.refused())
            self.trouble = "" if self.threads else self._why_nobody()
        except Silent:  # it may be busy, or cut off: what is lost with it is known when the connection is
            self.trouble = f"waiting for the scheduler at {self.cluster.address}, which does not answer"
        except (OSError, RuntimeError, TimeoutError) as error:  # a scheduler that goes away while it is asked
            log.debug("no scheduler: %s", error)
            self._disconnect()
            self.trouble = f"waiting for the scheduler at {self.cluster.address}{refusal(error)}"
        self.looked = clock.monotonic()

    def _count(self, there: set[str], refusals: list[dict[str, Any]]) -> None:
        """Who came, who has gone and who had to leave, also in the log."""
        for one in sorted(there - self.there):
            log.info("worker %s joined", one, extra={"event": "worker_joined", "worker": one})
        for one in sorted(self.there - there):
            log.warning("worker %s is gone", one, extra={"event": "worker_lost", "worker": one})
        for told in refusals:
            if told not in self.refusals:
                about = {"event": "worker_refused", "worker": told["worker"], "reason": told["why"]}
                log.warning("worker %s had to leave: %s", told["worker"], told["why"], extra=about)
        self.there, self.refusals = there, refusals

    def _why_nobody(self) -> str:
        last = self.refusals[-1:]
        why = "".join(f" ({one['worker']} had to leave: {one['why']})" for one in last)
        return f"waiting for workers at {self.cluster.address}{why}"

    def _connect(self) -> bool:
        """In a thread: a cluster needs seconds to start, in which the service has other things to do."""
        if self.passport is None:  # not before there is something to do, and the folder is locked
            self.passport = {**passport(self.folder), "patience": inf if self.cluster.is_ours else UNREAD}
        if self.coming is None:
            self.coming, self.asked = Future(), clock.monotonic()
            threading.Thread(target=_settle, args=(self.coming, self.cluster.connect), daemon=True).start()
        if not self._has_come(self.coming):
            return False
        coming, self.coming = self.coming, None
        client = self.client = coming.result()
        about = {"event": "scheduler_found", "scheduler": self.cluster.address}
        log.info("connected to the scheduler at %s", self.cluster.address, extra=about)
        # Returns when all workers have done what a plugin asks of them, which few need wait for.
        threading.Thread(target=_welcome, args=(client, self.passport), daemon=True).start()
        self.dashboard = _dashboard(_asked(client, "identity", n_workers=0))
        return True

    def _has_come(self, coming: Future[Client]) -> bool:
        while not wait([coming], PATIENCE if self.patience is None else self.patience).done:
            if self.stopped():
                raise Stopped("asked to stop")
            if self.patience is not None:
                if not self.cluster.is_ours and clock.monotonic() - self.asked > CONNECT:
                    raise Silent
                return False
        return True

    def _disconnect(self, lost: bool = True) -> None:
        if self.client is not None and lost:
            about = {"scheduler": self.cluster.address, "bundles": len(self.flights)}
            told = "lost the scheduler at %s"
            log.warning(told, self.cluster.address, extra={"event": "scheduler_lost", **about})
        for flight in self.flights.values():
            self.receipts.append(Receipt(flight.task.sweep, flight.task.bundle.key, lost=True))
        self.flights.clear()
        if self.client is not None:
            with suppress(Exception):
                self.client.close()
        self.client, self.threads, self.dashboard, self.there = None, 0, "", set()


def _asked(client: Client, question: str, **words: Any) -> Any:
    """What a scheduler answers: one that is stopped, or cut off without a word, would never do so."""
    if client.scheduler is None:
        raise OSError("the connection is closed")
    try:
        return client.sync(getattr(client.scheduler, question), callback_timeout=ANSWER, **words)
    except TimeoutError as error:
        raise Silent(str(error)) from None


def _settle(answer: Future[Client], connect: Callable[[], Client]) -> None:
    try:
        answer.set_result(connect())
    except BaseException as error:
        answer.set_exception(error)


def _let_go(coming: Future[Client]) -> None:
    with suppress(Exception):  # it did not come
        coming.result().close()


def _welcome(client: Client, shown: dict[str, Any]) -> None:
    with suppress(Exception):  # the connection was lost: the next one does it again
        client.register_plugin(Welcome(shown))


def _worker(about: dict[str, Any]) -> dict[str, Any]:
    metrics = about.get("metrics", {})
    return {
        "name": str(about.get("name", "")),
        "host": about.get("host", ""),
        "threads": about.get("nthreads", 0),
        "cpu_percent": metrics.get("cpu", 0.0),
        "memory_bytes": metrics.get("memory", 0),
        "memory_limit_bytes": about.get("memory_limit") or None,
        "tasks": sum(metrics.get("task_counts", {}).values()),
    }


def _dashboard(scheduler: dict[str, Any]) -> str:
    port = scheduler.get("services", {}).get("dashboard")
    host = urlsplit(scheduler.get("address", "")).hostname
    return f"http://{f'[{host}]' if ':' in host else host}:{port}" if port and host else ""


def label(task: Task) -> str:
    """What a task is called on the dashboard: one name, and so one colour, per sweep and engine.

    The engine goes first, as bars of progress show 12 letters.
    """
    kind, _, engine = task.bundle.work.partition("/")
    words = (engine if kind == "sgd" else kind.upper(), task.name[:30], task.sweep[-8:])
    return re.sub(r"[\W_]+", "_", "_".join(words)).strip("_")
