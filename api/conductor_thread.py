"""The thread that runs the conductor. Requests queue actions for it, and read the ledger themselves."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time as clock
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import wraps
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, TypeVarTuple

import xarray as xr
from anyio import CapacityLimiter, to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from sweep_service.abandonment import abandoned_if
from sweep_service.api.rate_limit import ClientSlots
from sweep_service.api.settings import Settings
from sweep_service.api.status_cache import StatusCache, Totals
from sweep_service.errors import InUse, NotFound, Stopped
from sweep_service.execution.conductor import FINAL_STATES, Conductor, ConductorSettings
from sweep_service.execution.executors import Executor
from sweep_service.execution.hooks import ExecutionHooks
from sweep_service.execution.summary import summarise_sweep
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State, SweepRecord

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")
MakeExecutor = Callable[[DataFolder, Callable[[], bool]], Executor]

IDLE_WAIT_SECONDS = 0.5  # between two steps of the conductor when there is nothing to do
WAIT_LOG_DELAY_SECONDS = 5.0  # shorter waits are not logged
MAX_SLOW_REQUESTS = 16  # at once, out of the 40 threads that serve requests
MAX_SLOW_REQUESTS_PER_CLIENT = 4  # at once; a client is a token, or an address without one
CLIENT_CLOSED_REQUEST = 499  # seen in logs and metrics only, where it is no error of the service
# A service that stops does not wait for indexes: the next start makes those that are missing.
SETTINGS = ConductorSettings(index_wait_seconds=1.0)
INDEXED_STATES = (*FINAL_STATES, State.PAUSED)
ACTION_TIMEOUT_SECONDS = 120.0  # for an action to be executed; the conductor may be merging


class Notifier:
    """Wakes tasks of the event loop that wait for changes of a sweep."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.subscribers: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    @contextmanager
    def subscribe(self, sweep_id: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever the sweep changes."""
        self.loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        self.subscribers[sweep_id].add(changed)
        try:
            yield changed
        finally:
            self.subscribers[sweep_id].discard(changed)
            if not self.subscribers[sweep_id]:
                del self.subscribers[sweep_id]

    @property
    def subscriber_count(self) -> int:
        return sum(map(len, list(self.subscribers.values())))

    def notify(self, sweep_ids: Iterable[str] | None = None) -> None:
        """Wake the subscribers of these sweeps, by default of all; callable from any thread."""
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._notify, None if sweep_ids is None else list(sweep_ids))

    def _notify(self, sweep_ids: list[str] | None) -> None:
        for sweep_id in list(self.subscribers) if sweep_ids is None else sweep_ids:
            for changed in self.subscribers.get(sweep_id, ()):
                changed.set()


def limited_concurrency(route: Callable[..., Result]) -> Callable[..., Awaitable[Result | Response]]:
    """Run a route in a bounded thread pool so that slow requests cannot starve fast ones.

    A client has only some of the threads, so that it cannot hold up others. Computations that check whether
    they are abandoned end early once the client has closed the connection.
    """
    signature = inspect.signature(route)
    request_parameter = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)

    @wraps(route)
    async def run_in_slot(service: ConductorThread, request: Request, **arguments: Any) -> Result | Response:
        is_gone = threading.Event()
        if "request" in signature.parameters:
            arguments["request"] = request

        def call() -> Result:
            with abandoned_if(is_gone.is_set):
                return route(service=service, **arguments)

        watcher = asyncio.create_task(_wait_for_disconnect(request, is_gone))
        try:
            async with service.client_slots.slot(request.state.client):
                return await to_thread.run_sync(call, limiter=service.slow_request_slots)
        except Stopped:
            if not is_gone.is_set():
                raise
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        finally:
            watcher.cancel()

    if "request" not in signature.parameters:  # FastAPI then passes it as well
        parameters = [*signature.parameters.values(), request_parameter]
        run_in_slot.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run_in_slot


async def _wait_for_disconnect(request: Request, is_gone: threading.Event) -> None:
    """Set the event when the client closes the connection. The body must have been read."""
    with suppress(HTTPException):
        while (await request.receive())["type"] != "http.disconnect":
            pass
    is_gone.set()


class ConductorThread:
    """A conductor in its own thread, with what requests need: folder, ledger, cache, notifier.

    Routes receive it as `service`.
    """

    def __init__(self, settings: Settings, executor: MakeExecutor | None = None) -> None:
        self.settings = settings
        self.folder = DataFolder(settings.data, settings.state)
        self.executor = (executor or _dask_executor(settings))(self.folder, lambda: self.stopping)
        self.notifier = Notifier()
        self.slow_request_slots = CapacityLimiter(MAX_SLOW_REQUESTS)
        self.client_slots = ClientSlots(MAX_SLOW_REQUESTS_PER_CLIENT)
        self.hooks = ExecutionHooks()
        self.stopping = False  # a stop was requested
        self.failed = False  # the conductor ended by itself, so the service must end too
        self.step_error = ""  # the last step failed with this error and is repeated
        self._conductor_wait_reason, self._logged_reason = "", ""
        self._last_progress = clock.monotonic()  # the last time without a reason to wait
        self._actions: SimpleQueue[tuple[Callable[[Conductor], Any], Future[Any]]] = SimpleQueue()
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="conductor", daemon=True)

    def start(self) -> None:
        """Start the thread and wait until it has merged what an earlier service left; raise its error."""
        self._thread.start()
        self._started.result()

    def close(self) -> None:
        self.request_stop()
        self._thread.join()
        self.ledger.close()

    def request_stop(self) -> None:
        """Make the conductor and all event streams end."""
        self.stopping = True
        self.executor.wake()
        self.notifier.notify()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self.stopping

    def call(self, action: Callable[[Conductor, *Arguments], Result], *arguments: *Arguments) -> Result:
        """Call a method of the conductor in its thread, between two steps, and return the result."""
        result: Future[Result] = Future()
        self._actions.put((lambda conductor: action(conductor, *arguments), result))
        self.executor.wake()
        deadline = clock.monotonic() + ACTION_TIMEOUT_SECONDS
        while not wait([result], 1.0).done and clock.monotonic() < deadline:
            if not self._thread.is_alive():
                raise Stopped("the service is stopping")
        return result.result(timeout=0.0)

    def request_index(self, sweep_id: str) -> None:
        """Have the index of a sweep written, unless it is still being computed."""
        if self.ledger.sweep(sweep_id).state in INDEXED_STATES:
            self._index_writer.request(sweep_id)

    def describe(self, sweep_id: str) -> dict[str, Any]:
        """Return the public description of a sweep."""
        return self._describe(*self.status_cache.read(sweep_id))

    def describe_cached(self, sweep_id: str) -> dict[str, Any] | None:
        """Return the same, or None if the ledger would have to be read."""
        cached = self.status_cache.get_cached(sweep_id) if self.status_cache.has_active_count else None
        return self._describe(*cached) if cached is not None else None

    def describe_all(self, **query: Any) -> list[dict[str, Any]]:
        """Describe all sweeps that a query of the ledger returns."""
        return [self._describe(*entry) for entry in self.status_cache.query(**query)]

    def _describe(self, sweep: SweepRecord, totals: Totals) -> dict[str, Any]:
        threads = self.threads / max(1, self.status_cache.active_count)
        description = summarise_sweep(sweep, totals, threads, sweep.id in self.executor.compiling)
        if sweep.state in (State.RUNNING, State.QUEUED):
            description["reason"] = self.wait_reason or sweep.reason
        return description

    @contextmanager
    def open_dataset(self, sweep_id: str) -> Iterator[xr.Dataset]:
        """Open the dataset of a sweep as stored now; values are read lazily.

        A chunk that was removed reads like one that was never written. So the existence of the dataset is
        checked last: values that were read while the sweep was being removed are never returned.
        """
        try:
            with self.folder.open_dataset(sweep_id) as dataset:
                yield dataset
        except Exception:
            if self.folder.has_dataset(sweep_id):
                raise
        if not self.folder.has_dataset(sweep_id):
            raise NotFound(f"sweep {sweep_id} has no dataset")

    @property
    def threads(self) -> int:
        return self.executor.threads

    @property
    def dashboard(self) -> str:
        return self.executor.dashboard

    @property
    def address(self) -> str:
        """The scheduler's address, for display."""
        return self.executor.address

    def workers(self) -> list[dict[str, Any]]:
        return self.executor.workers()

    @property
    def worker_count(self) -> int:
        """The number of workers last seen by the conductor; does not ask the scheduler."""
        return self.executor.worker_count

    @property
    def refused_workers(self) -> list[str]:
        """Workers that failed the worker check, with the reason."""
        return [f"{refusal['worker']}: {refusal['why']}" for refusal in self.executor.refusals]

    @property
    def wait_reason(self) -> str:
        """Why no sweep can progress; empty if they can."""
        return self.step_error or self._conductor_wait_reason

    def _run(self) -> None:
        try:
            conductor = Conductor(
                self.folder, self.executor, self.settings.limits, self.settings.url, self.hooks, SETTINGS
            )
            with conductor:
                self.ledger = self.folder.ledger()
                self.status_cache = StatusCache(self.ledger)
                conductor.ledger.on_change = self._on_change
                self._index_writer = conductor.index_writer
                self.executor.on_compiling = self.notifier.notify
                self._started.set_result(None)
                self._run_steps(conductor)
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
            elif self.stopping:  # for example without the store; the next start recovers
                log.warning("the conductor did not end in order: %s", error)
            else:
                log.exception("the conductor has ended")
                self.failed = True
        finally:
            self._reject_actions()

    def _run_steps(self, conductor: Conductor) -> None:
        busy = True
        while not self.stopping:
            self._log_waiting()
            try:
                self._run_actions(conductor, 0.0 if busy else IDLE_WAIT_SECONDS)
                busy = conductor.step()
                self.step_error, self._conductor_wait_reason = "", conductor.wait_reason
            except Stopped:
                return
            except InUse:  # another process holds the data folder now
                raise
            except Exception as error:  # an error in one step must not stop all other sweeps
                log.exception("a step of the conductor failed")
                self.step_error = f"retrying after an internal error: {type(error).__name__}"
                busy = False

    def _log_waiting(self) -> None:
        """Log a wait once it has lasted a few seconds, and its end."""
        reason, now = self.wait_reason, clock.monotonic()
        if not reason:
            if self._logged_reason:
                log.info("sweeps continue", extra={"event": "going_on", "reason": self._logged_reason})
            self._last_progress, self._logged_reason = now, ""
        elif reason != self._logged_reason and now - self._last_progress > WAIT_LOG_DELAY_SECONDS:
            log.warning("%s", reason, extra={"event": "waiting", "reason": reason})
            self._logged_reason = reason

    def _run_actions(self, conductor: Conductor, timeout: float) -> None:
        """Run all queued actions; wait up to `timeout` seconds for the first."""
        try:
            while True:
                action, result = self._actions.get(timeout=timeout) if timeout else self._actions.get_nowait()
                timeout = 0.0
                try:
                    result.set_result(action(conductor))
                except Exception as error:
                    result.set_exception(error)
        except Empty:
            return

    def _on_change(self, sweep_id: str) -> None:
        self.status_cache.invalidate(sweep_id)
        self.notifier.notify([sweep_id])

    def _reject_actions(self) -> None:
        while not self._actions.empty():
            self._actions.get()[1].set_exception(Stopped("the service is stopping"))


def _dask_executor(settings: Settings) -> MakeExecutor:
    def make(folder: DataFolder, stopped: Callable[[], bool]) -> Executor:
        from sweep_service.workers.cluster import Cluster, Remote
        from sweep_service.workers.embedded import Embedded
        from sweep_service.workers.executor import DaskExecutor

        cluster: Cluster
        if settings.scheduler:
            cluster = Remote(settings.scheduler)
        else:
            cluster = Embedded(settings.workers, dashboard=True)
        return DaskExecutor(cluster, folder, stopped, connect_wait_seconds=0.0)

    return make
