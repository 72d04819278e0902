"""Metrics for Prometheus: events are counted as they happen, other values are read when scraped.

Clients cannot create series: no label is a name of theirs (owners are names of tokens, which the operator
chooses), and sweeps have no series of their own. A scrape does not call the conductor or the scheduler, so it
succeeds while both are busy.
"""

from __future__ import annotations

import threading
import time as clock
from collections import Counter as Tally
from collections.abc import Iterator, Mapping
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
from sweep_service.execution.hooks import ExecutionHooks
from sweep_service.simulators.selection import SIMULATORS
from sweep_service.status import Status
from sweep_service.store.ledger import Progress, State
from sweep_service.version import __version__

if TYPE_CHECKING:
    from sweep_service.api.conductor_thread import ConductorThread

BUCKETS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0)
MERGE_BUCKETS = (0.05, 0.2, 1.0, 5.0, 20.0, 60.0)
METHODS = ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS")
RESULTS = ("done", "failed", "lost")


class Metrics(ExecutionHooks):
    """The metrics of a service, which also receive the hooks of its conductor."""

    def __init__(self, service: ConductorThread) -> None:
        self.service, service.hooks = service, self
        disable_created_metrics()  # otherwise every counter has a second series with its creation time
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "sweep_http_requests", "HTTP requests", ["method", "route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "sweep_http_seconds", "Duration of HTTP requests", ["route"], buckets=BUCKETS, registry=registry
        )
        self.steps = Counter("sweep_steps", "SGD steps of merged runs", ["engine"], registry=registry)
        self.computed_runs = Counter("sweep_computed_runs", "Merged runs", ["engine"], registry=registry)
        self.busy = Counter(
            "sweep_busy_seconds", "Processor time of merged runs", ["engine"], registry=registry
        )
        self.results = Counter(
            "sweep_bundles_ended", "Ended bundles by result", ["result"], registry=registry
        )
        self.merges = Histogram(
            "sweep_merge_seconds", "Duration of merges", buckets=MERGE_BUCKETS, registry=registry
        )
        self.parts = Counter("sweep_merged_parts", "Merged parts", registry=registry)
        self.bytes = Counter("sweep_merged_bytes", "Bytes of merged parts", registry=registry)
        for name in SIMULATORS:  # create all series with value 0, so that the first increase counts in rates
            self.steps.labels(name)
        for name in (*SIMULATORS, *REGIMES, "auto"):
            self.computed_runs.labels(name), self.busy.labels(name)
        for result in RESULTS:
            self.results.labels(result)
        # The unmerged parts of each sweep: time of the oldest, and their number.
        self._unmerged: dict[str, tuple[float, int]] = {}
        self._lock = threading.Lock()
        registry.register(self)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)

    def record_request(self, method: str, route: str, status: int, seconds: float) -> None:
        label = method if method in METHODS else "other"  # clients may send any method
        self.requests.labels(label, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def on_computed(self, engine: str, runs: int, steps: int, seconds: float) -> None:
        self.computed_runs.labels(engine).inc(runs)
        self.busy.labels(engine).inc(seconds)
        if engine in SIMULATORS:
            self.steps.labels(engine).inc(steps)

    def on_merged(self, parts: int, size: int, seconds: float) -> None:
        self.merges.observe(seconds)
        self.parts.inc(parts)
        self.bytes.inc(size)

    def on_bundle_ended(self, sweep_id: str, result: str) -> None:
        self.results.labels(result).inc()
        if result == "done":
            with self._lock:
                since, number = self._unmerged.get(sweep_id, (clock.monotonic(), 0))
                self._unmerged[sweep_id] = since, number + 1

    def on_all_merged(self, sweep_id: str) -> None:
        with self._lock:
            self._unmerged.pop(sweep_id, None)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def describe(self) -> list[Metric]:
        return []  # so that registering does not collect: the ledger is not open yet

    def collect(self) -> Iterator[Metric]:
        service = self.service
        refused_count = len(service.refused_workers)
        stream_count = service.notifier.subscriber_count
        yield _labelled_gauge("sweep_build_info", "Version of the service", "version", {__version__: 1})
        yield GaugeMetricFamily("sweep_conducting", "1 while the conductor runs", service.is_alive)
        yield GaugeMetricFamily("sweep_waiting", "1 while no sweep can progress", bool(service.wait_reason))
        yield GaugeMetricFamily("sweep_threads", "Worker threads", service.threads)
        yield GaugeMetricFamily("sweep_workers", "Workers", service.worker_count)
        yield GaugeMetricFamily("sweep_workers_refused", "Workers that failed the check", refused_count)
        yield GaugeMetricFamily("sweep_tasks", "Submitted bundles", len(service.executor.tasks()))
        yield GaugeMetricFamily("sweep_event_streams", "Open event streams", stream_count)
        with self._lock:
            unmerged = list(self._unmerged.values())
        lag = clock.monotonic() - min(since for since, _ in unmerged) if unmerged else 0.0
        yield GaugeMetricFamily("sweep_merge_lag_seconds", "Age of the oldest unmerged part", lag)
        parts = sum(count for _, count in unmerged)
        yield GaugeMetricFamily("sweep_parts_waiting", "Unmerged parts", parts)
        yield from self._collect_disk()
        try:
            yield from self._collect_ledger()
        except sa.exc.SQLAlchemyError:  # the other metrics still help while the ledger is unreadable
            return

    def _collect_disk(self) -> Iterator[Metric]:
        try:
            free = self.service.folder.free_bytes()
            yield GaugeMetricFamily("sweep_free_bytes", "Free bytes on the disk", free)
        except OSError:
            return

    def _collect_ledger(self) -> Iterator[Metric]:
        states, runs, bundles, left = Tally[str](), Tally[Status](), Tally[str](), 0.0
        owned, sizes = Tally[str](), Tally[str]()  # by owner
        for sweep, totals in self.service.status_cache.query():
            states[sweep.state.value] += 1
            owned[sweep.owner or ""] += 1
            sizes[sweep.owner or ""] += sweep.stored_bytes or 0
            runs.update(totals["counts"])
            runs[Status.PENDING] += sweep.runs - sum(totals["counts"].values())
            bundles.update(totals["bundles"])
            left += totals["cost_left"] if not sweep.state.has_ended else 0.0
        by_state = {state.value: states[state.value] for state in State}
        by_status = {status.label: runs[status] for status in Status}
        by_progress = {name: bundles[name] for name in (progress.name.lower() for progress in Progress)}
        yield _labelled_gauge("sweep_sweeps", "Sweeps by state", "state", by_state)
        yield _labelled_gauge("sweep_runs", "Runs by status", "status", by_status)
        yield _labelled_gauge("sweep_bundles", "Bundles by progress", "progress", by_progress)
        yield _labelled_gauge("sweep_owned_sweeps", "Sweeps by owner", "owner", owned or {"": 0})
        yield _labelled_gauge("sweep_stored_bytes", "Size of datasets by owner", "owner", sizes or {"": 0})
        yield GaugeMetricFamily("sweep_queue_seconds", "Predicted processor time of unfinished sweeps", left)


def _labelled_gauge(name: str, description: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, description, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family
