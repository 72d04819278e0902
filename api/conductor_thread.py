"""The conductor in a thread of its own: requests ask it to act, and read the ledger by themselves."""

from __future__ import annotations

import asyncio
import logging
import threading
import time as clock
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import partial, wraps
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, TypeVarTuple

import xarray as xr
from anyio import CapacityLimiter, to_thread

from sweep_service.api.settings import Settings
from sweep_service.api.status_cache import Board, Totals
from sweep_service.errors import InUse, NotFound, Stopped
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import Executor
from sweep_service.execution.hooks import Meter
from sweep_service.execution.summary import view
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State, Sweep

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Given = TypeVarTuple("Given")
MakeExecutor = Callable[[DataFolder, Callable[[], bool]], Executor]

IDLE = 0.5  # seconds between two looks at nothing
LASTING = 5.0  # seconds of waiting that are worth a line
SEATS = 16  # long answers at once, of the 40 threads that answer
PATIENCE = 120.0  # seconds that a request waits for the conductor, which may be merging


class Bell:
    """Wakes what waits, in the event loop, for news of a sweep."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    @contextmanager
    def listening(self, sweep: str) -> Iterator[asyncio.Event]:
        self.loop = asyncio.get_running_loop()
        news = asyncio.Event()
        self.waiting[sweep].add(news)
        try:
            yield news
        finally:
            self.waiting[sweep].discard(news)
            if not self.waiting[sweep]:
                del self.waiting[sweep]

    @property
    def listeners(self) -> int:
        return sum(map(len, list(self.waiting.values())))

    def ring(self, sweeps: Iterable[str] | None = None) -> None:
        """From any thread; without names, for all."""
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._ring, None if sweeps is None else list(sweeps))

    def _ring(self, sweeps: list[str] | None) -> None:
        for sweep in list(self.waiting) if sweeps is None else sweeps:
            for news in self.waiting.get(sweep, ()):
                news.set()


def long(answer: Callable[..., Result]) -> Callable[..., Awaitable[Result]]:
    """Of what may take long only a few are made at once, that others are answered meanwhile."""

    @wraps(answer)
    async def seated(engine: Engine, **given: Any) -> Result:
        return await to_thread.run_sync(partial(answer, engine=engine, **given), limiter=engine.seats)

    return seated


class Engine:
    def __init__(self, settings: Settings, executor: MakeExecutor | None = None) -> None:
        self.settings = settings
        self.folder = DataFolder(settings.data, settings.state)
        self.executor = (executor or _on_dask(settings))(self.folder, lambda: self.stopping)
        self.bell = Bell()
        self.seats = CapacityLimiter(SEATS)
        self.meter = Meter()
        self.stopping = self.failed = False  # told to end; ended by itself, and with it the service
        self.trouble = ""  # an error that the conductor met and lived through
        self._waiting, self._told, self._went = "", "", clock.monotonic()  # for what, and since when not
        self._asked: SimpleQueue[tuple[Callable[[Conductor], Any], Future[Any]]] = SimpleQueue()
        self._begun: Future[None] = Future()
        self._thread = threading.Thread(target=self._conduct, name="conductor", daemon=True)

    def start(self) -> None:
        """Returns when what an earlier service left is merged; raises why it cannot."""
        self._thread.start()
        self._begun.result()

    def close(self) -> None:
        self.hush()
        self._thread.join()
        self.ledger.close()

    def hush(self) -> None:
        """Let everything that waits come to its end."""
        self.stopping = True
        self.executor.wake()
        self.bell.ring()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self.stopping

    def ask(self, action: Callable[[Conductor, *Given], Result], *given: *Given) -> Result:
        """Let the conductor do something between two of its steps: a method of it, and what that is given."""
        answer: Future[Result] = Future()
        self._asked.put((lambda conductor: action(conductor, *given), answer))
        self.executor.wake()
        end = clock.monotonic() + PATIENCE
        while not wait([answer], 1.0).done and clock.monotonic() < end:
            if not self._thread.is_alive():
                raise Stopped("the service is stopping")
        return answer.result(timeout=0.0)

    def view(self, sweep: str) -> dict[str, Any]:
        return self._told_of(*self.board.read(sweep))

    def known(self, sweep: str) -> dict[str, Any] | None:
        """The same, if that needs no look into the ledger."""
        found = self.board.known(sweep) if self.board.is_counted else None
        return self._told_of(*found) if found is not None else None

    def views(self, **query: Any) -> list[dict[str, Any]]:
        """Of all that a query to the ledger finds."""
        return [self._told_of(*found) for found in self.board.page(**query)]

    def _told_of(self, sweep: Sweep, totals: Totals) -> dict[str, Any]:
        """A sweep as people and programs are told of it; one that waits says what for."""
        about = view(sweep, totals, self.threads / max(1, self.board.active))
        if sweep.state in (State.RUNNING, State.QUEUED):
            about["reason"] = self.waiting or sweep.reason
        return about

    @contextmanager
    def dataset(self, sweep: str) -> Iterator[xr.Dataset]:
        """What is stored of a sweep, as it is now; values are read when they are asked for.

        What was read while the sweep was removed is not what was stored: a chunk that is not there reads
        as one that was never written. So whether it is still there is asked last.
        """
        try:
            with self.folder.opened(sweep) as dataset:
                yield dataset
        except Exception:
            if self.folder.has_dataset(sweep):
                raise
        if not self.folder.has_dataset(sweep):
            raise NotFound(f"the dataset of {sweep} is not there")

    @property
    def threads(self) -> int:
        return self.executor.threads

    @property
    def dashboard(self) -> str:
        return self.executor.dashboard

    @property
    def address(self) -> str:
        """Where the scheduler is, as people are told."""
        return self.executor.address

    def workers(self) -> list[dict[str, Any]]:
        return self.executor.workers()

    @property
    def workers_there(self) -> int:
        """As the conductor saw them last, without a question to the scheduler."""
        return self.executor.worker_count

    @property
    def refused(self) -> list[str]:
        """Workers that had to leave, and why."""
        return [f"{one['worker']}: {one['why']}" for one in self.executor.refusals]

    @property
    def waiting(self) -> str:
        """What keeps all sweeps from going on, if something does."""
        return self.trouble or self._waiting

    def _conduct(self) -> None:
        try:
            conductor = Conductor(
                self.folder, self.executor, self.settings.limits, self.settings.url, self.meter
            )
            with conductor:
                self.ledger = self.folder.ledger()
                self.board = Board(self.ledger)
                conductor.ledger.changed = self._changed
                self._begun.set_result(None)
                self._go_on(conductor)
        except BaseException as error:
            if not self._begun.done():
                self._begun.set_exception(error)
            else:
                log.exception("the conductor has ended")
                self.failed = True
        finally:
            self._refuse()

    def _go_on(self, conductor: Conductor) -> None:
        busy = True
        while not self.stopping:
            self._tell()
            try:
                self._obey(conductor, 0.0 if busy else IDLE)
                busy = conductor.step()
                self.trouble, self._waiting = "", conductor.waiting
            except Stopped:
                return
            except InUse:  # somebody else has the data now
                raise
            except Exception as error:  # the others must not stand still because of a fault of ours
                log.exception("a step of the conductor failed")
                self.trouble = f"the service met an error and tries again: {type(error).__name__}"
                busy = False

    def _tell(self) -> None:
        """The log, of waiting that lasts and of its end."""
        why, now = self.waiting, clock.monotonic()
        if not why:
            if self._told:
                log.info("sweeps go on", extra={"event": "going_on", "reason": self._told})
            self._went, self._told = now, ""
        elif why != self._told and now - self._went > LASTING:
            log.warning("%s", why, extra={"event": "waiting", "reason": why})
            self._told = why

    def _obey(self, conductor: Conductor, patience: float) -> None:
        """Do what was asked; when there is nothing else to do, wait for it a while."""
        try:
            while True:
                action, answer = self._asked.get(timeout=patience) if patience else self._asked.get_nowait()
                patience = 0.0
                try:
                    answer.set_result(action(conductor))
                except Exception as error:
                    answer.set_exception(error)
        except Empty:
            return

    def _changed(self, sweep: str) -> None:
        self.board.wipe(sweep)
        self.bell.ring([sweep])

    def _refuse(self) -> None:
        while not self._asked.empty():
            self._asked.get()[1].set_exception(Stopped("the service is stopping"))


def _on_dask(settings: Settings) -> MakeExecutor:
    def made(folder: DataFolder, stopped: Callable[[], bool]) -> Executor:
        from sweep_service.workers.cluster import Embedded, Remote
        from sweep_service.workers.executor import DaskExecutor

        cluster = Remote(settings.scheduler) if settings.scheduler else Embedded(settings.workers)
        return DaskExecutor(cluster, folder, stopped, patience=0.0)

    return made
