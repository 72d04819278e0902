"""Numbers for Prometheus: what happens is counted as it does, the rest is looked up when it is asked for.

No label is anybody's to make up: sweeps have no series of their own. Nothing here asks the conductor or
the scheduler, so numbers come also while both have other things to do.
"""

from __future__ import annotations

import threading
import time as clock
from collections import Counter as Tally
from collections.abc import Iterator
from typing import TYPE_CHECKING

import sqlalchemy as sa
from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric

from sweep_service.dynamics.regimes import REGIMES
from sweep_service.execution.hooks import Meter
from sweep_service.simulators.selection import SIMULATORS
from sweep_service.status import Status
from sweep_service.store.ledger import Progress, State
from sweep_service.version import __version__

if TYPE_CHECKING:
    from sweep_service.api.conductor_thread import Engine

BUCKETS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0)
MERGE_BUCKETS = (0.05, 0.2, 1.0, 5.0, 20.0, 60.0)
METHODS = ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS")
RESULTS = ("done", "failed", "lost")


class Metrics(Meter):
    def __init__(self, engine: Engine) -> None:
        self.engine, engine.meter = engine, self
        disable_created_metrics()  # a series beside each, of when it began, which nobody asks for
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "sweep_http_requests", "Requests", ["method", "route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "sweep_http_seconds", "Time of requests", ["route"], buckets=BUCKETS, registry=registry
        )
        self.steps = Counter("sweep_steps", "SGD steps, merged", ["engine"], registry=registry)
        self.computed_runs = Counter("sweep_computed_runs", "Runs, merged", ["engine"], registry=registry)
        self.busy = Counter(
            "sweep_busy_seconds", "Processor time of merged runs", ["engine"], registry=registry
        )
        self.results = Counter("sweep_bundles_ended", "Bundles that came back", ["result"], registry=registry)
        self.merges = Histogram(
            "sweep_merge_seconds", "Time of merges", buckets=MERGE_BUCKETS, registry=registry
        )
        self.parts = Counter("sweep_merged_parts", "Parts in datasets", registry=registry)
        self.bytes = Counter("sweep_merged_bytes", "Of parts in datasets", registry=registry)
        for name in SIMULATORS:  # a rate needs a zero to begin at
            self.steps.labels(name)
        for name in (*SIMULATORS, *REGIMES, "auto"):
            self.computed_runs.labels(name), self.busy.labels(name)
        for result in RESULTS:
            self.results.labels(result)
        self._waiting: dict[str, tuple[float, int]] = {}  # by sweep: since when, and how many
        self._lock = threading.Lock()
        registry.register(self)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)

    def seen(self, method: str, route: str, status: int, seconds: float) -> None:
        known = method if method in METHODS else "other"  # anybody can make up more
        self.requests.labels(known, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def computed(self, engine: str, runs: int, steps: int, seconds: float) -> None:
        self.computed_runs.labels(engine).inc(runs)
        self.busy.labels(engine).inc(seconds)
        if engine in SIMULATORS:
            self.steps.labels(engine).inc(steps)

    def merged(self, parts: int, size: int, seconds: float) -> None:
        self.merges.observe(seconds)
        self.parts.inc(parts)
        self.bytes.inc(size)

    def ended(self, sweep: str, result: str) -> None:
        self.results.labels(result).inc()
        if result == "done":
            with self._lock:
                since, number = self._waiting.get(sweep, (clock.monotonic(), 0))
                self._waiting[sweep] = since, number + 1

    def settled(self, sweep: str) -> None:
        with self._lock:
            self._waiting.pop(sweep, None)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def describe(self) -> list[Metric]:
        return []  # nothing is read before the engine is there

    def collect(self) -> Iterator[Metric]:
        engine = self.engine
        yield _labelled("sweep_build_info", "Its version", "version", {__version__: 1})
        yield GaugeMetricFamily("sweep_conducting", "1 while sweeps are looked after", engine.is_alive)
        yield GaugeMetricFamily("sweep_waiting", "1 while nothing can go on", bool(engine.waiting))
        yield GaugeMetricFamily("sweep_threads", "Threads that compute", engine.threads)
        yield GaugeMetricFamily("sweep_workers", "Workers", engine.workers_there)
        yield GaugeMetricFamily("sweep_workers_refused", "Workers that had to leave", len(engine.refused))
        yield GaugeMetricFamily("sweep_tasks", "Bundles that are submitted", len(engine.executor.tasks()))
        yield GaugeMetricFamily("sweep_event_streams", "Readers of events", engine.bell.listeners)
        with self._lock:
            waiting = list(self._waiting.values())
        lag = clock.monotonic() - min(since for since, _ in waiting) if waiting else 0.0
        yield GaugeMetricFamily("sweep_merge_lag_seconds", "Age of the oldest unmerged part", lag)
        parts = sum(number for _, number in waiting)
        yield GaugeMetricFamily("sweep_parts_waiting", "Parts to be merged", parts)
        yield from self._room()
        try:
            yield from self._ledger()
        except sa.exc.SQLAlchemyError:  # the others are worth more while something is wrong
            return

    def _room(self) -> Iterator[Metric]:
        try:
            yield GaugeMetricFamily("sweep_free_bytes", "Room on the disk", self.engine.folder.free_bytes())
        except OSError:
            return

    def _ledger(self) -> Iterator[Metric]:
        states, runs, bundles, left = Tally[str](), Tally[Status](), Tally[str](), 0.0
        for sweep, totals in self.engine.board.page():
            states[sweep.state.value] += 1
            runs.update(totals["counts"])
            runs[Status.PENDING] += sweep.runs - sum(totals["counts"].values())
            bundles.update(totals["bundles"])
            left += totals["cost_left"] if not sweep.state.ended else 0.0
        yield _labelled("sweep_sweeps", "Sweeps", "state", {one.value: states[one.value] for one in State})
        yield _labelled("sweep_runs", "Runs", "status", {one.label: runs[one] for one in Status})
        names = [one.name.lower() for one in Progress]
        yield _labelled("sweep_bundles", "Bundles", "progress", {name: bundles[name] for name in names})
        yield GaugeMetricFamily("sweep_queue_seconds", "Processor time that is left, as predicted", left)


def _labelled(name: str, about: str, label: str, values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(name, about, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family
