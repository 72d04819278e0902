"""Numbers for Prometheus: requests as they pass, sweeps and workers when they are asked for."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from sweep_service.store.ledger import State

if TYPE_CHECKING:
    from api.engine import Engine

BUCKETS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0)
METHODS = ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS")


class Metrics:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "sweep_http_requests", "Requests", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "sweep_http_seconds", "Time of requests", ["route"], buckets=BUCKETS, registry=self.registry
        )
        self.registry.register(self)

    def seen(self, method: str, route: str, status: int, seconds: float) -> None:
        known = method if method in METHODS else "other"  # anybody can make up more
        self.requests.labels(known, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def describe(self) -> list[Metric]:
        return []  # nothing is read before the engine is there

    def collect(self) -> Iterator[Metric]:
        sweeps = GaugeMetricFamily("sweep_sweeps", "Sweeps by state", labels=["state"])
        there = Tally(sweep.state for sweep in self.engine.ledger.sweeps())
        for state in State:
            sweeps.add_metric([state.value], there[state])
        yield sweeps
        yield GaugeMetricFamily("sweep_threads", "Threads that compute", self.engine.threads)
        tasks = len(self.engine.executor.tasks())
        yield GaugeMetricFamily("sweep_tasks", "Bundles that are submitted", tasks)
        yield GaugeMetricFamily("sweep_free_bytes", "Room on the disk", self.engine.folder.free_bytes())
        yield GaugeMetricFamily("sweep_waiting", "1 while nothing can go on", bool(self.engine.waiting))
