"""Metrics: they are consistent, available during failures, and clients cannot create series."""

import threading

import numpy as np
import pytest
import sqlalchemy as sa
import xarray as xr
from prometheus_client.parser import text_string_to_metric_families

from sweep_service.api.status_cache import StatusCache
from sweep_service.execution import executors
from sweep_service.execution.merger import Merger
from sweep_service.simulators.selection import SIMULATORS
from sweep_service.store.ledger import State
from tests.api.served import until
from tests.specs import distinct_spec


def numbers(service):
    """Return samples by name and labels."""
    answer = service.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def seen(route, method="GET", status="200"):
    return "sweep_http_requests_total", (("method", method), ("route", route), ("status", status))


@pytest.fixture
def since(held):
    """A function that returns the increase of a metric since the test began."""
    before = numbers(held)

    def grown(name, **labels):
        key = name, tuple(sorted(labels.items()))
        return numbers(held)[key] - before[key]

    return grown


def test_metrics_are_prometheus_text(held):
    queued = held.submit(distinct_spec(1))
    metrics = numbers(held)
    for state in State:
        listed = held.get("/v1/sweeps", params={"state": state.value, "limit": 500}).json()["sweeps"]
        assert metrics["sweep_sweeps", (("state", state.value),)] == len(listed)
    assert metrics["sweep_sweeps", (("state", "queued"),)] >= 1
    assert (
        metrics["sweep_threads", ()] == metrics["sweep_workers", ()] == metrics["sweep_conducting", ()] == 1
    )
    assert metrics["sweep_waiting", ()] == metrics["sweep_merge_lag_seconds", ()] == 0
    assert metrics["sweep_free_bytes", ()] > 0
    assert metrics["process_resident_memory_bytes", ()] > 1e7
    assert metrics["process_open_fds", ()] > 3
    before = metrics.get(seen("/v1/sweeps/{id}"), 0)
    for _ in range(3):
        held.sweep(queued)
    assert numbers(held)[seen("/v1/sweeps/{id}")] == before + 3


def test_clients_cannot_create_series(service):
    """Otherwise a client could fill the memory of the service and of Prometheus."""
    for number in range(5):
        service.get(f"/made-up-{number}")
        service.get(f"/v1/sweeps/20260101-00000{number}-00000000/zarr/{number}")
        service.request("PROPFIND", "/healthz")
        service.get("/healthz", headers={"Host": f"evil-{number}.example"})
    text = service.get("/metrics").text
    for word in ("made-up", "20260101", "PROPFIND", "evil"):
        assert word not in text
    assert 'route="/v1/sweeps/{id}/zarr/{path:path}"' in text
    assert 'method="other"' in text


def test_sweep_is_counted_in_every_state(held, since):
    sweep_id = held.submit(distinct_spec(20))
    assert since("sweep_runs", status="pending") == 4
    bundles = since("sweep_bundles", progress="pending")
    assert bundles > 0
    assert since("sweep_queue_seconds") > 0
    assert since("sweep_bundles", progress="merged") == 0
    held.executor.let(computes=0)
    until(lambda: since("sweep_tasks") == min(2, bundles))
    held.executor.let()
    held.wait_until_ended(sweep_id)
    assert since("sweep_runs", status="pending") == since("sweep_bundles", progress="pending") == 0
    assert since("sweep_runs", status="done") == 4
    assert since("sweep_queue_seconds") == pytest.approx(0.0, abs=1e-9)
    assert since("sweep_bundles", progress="merged") == since("sweep_bundles_ended_total", result="done")
    assert since("sweep_bundles_ended_total", result="done") == since("sweep_merged_parts_total") == bundles
    assert since("sweep_merged_bytes_total") > 1000
    assert since("sweep_merge_seconds_count") >= 1
    assert since("sweep_merge_seconds_sum") > 0


def test_steps_and_seconds_equal_those_of_dataset(held, since):
    held.executor.let()
    sweep_id = held.complete(distinct_spec(21))
    with xr.open_zarr(held.folder.dataset_path(sweep_id), chunks=None) as stored:
        steps, busy = int(stored.sgd_steps.sum()), float(stored.sgd_seconds.sum())
        theory = float(stored.ode_seconds.sum())
    taken = {name: since("sweep_steps_total", engine=name) for name in SIMULATORS}
    (engine,) = [name for name, number in taken.items() if number]
    assert taken[engine] == steps > 0
    assert since("sweep_busy_seconds_total", engine=engine) == pytest.approx(busy)
    assert since("sweep_computed_runs_total", engine=engine) == 2
    assert since("sweep_busy_seconds_total", engine="classical_noise") == pytest.approx(theory)
    assert since("sweep_computed_runs_total", engine="classical_noise") == 2
    assert since("sweep_computed_runs_total", engine="classical") == 0


def test_unmerged_parts_are_counted_while_conductor_is_busy(held, since, monkeypatch):
    entered, release, merge = threading.Event(), threading.Event(), Merger.merge

    def slow(self, *arguments):
        entered.set()
        assert release.wait(60.0)
        return merge(self, *arguments)

    monkeypatch.setattr(Merger, "merge", slow)
    sweep_id = held.submit(distinct_spec(22))
    held.executor.let()
    assert entered.wait(60.0)
    try:
        assert since("sweep_parts_waiting") >= 1
        first = since("sweep_merge_lag_seconds")
        assert until(lambda: since("sweep_merge_lag_seconds") > first > 0)
    finally:
        release.set()
    held.wait_until_ended(sweep_id)
    assert since("sweep_parts_waiting") == since("sweep_merge_lag_seconds") == 0


def test_failed_bundles_are_counted(held, since, monkeypatch):
    def broken(*_):
        raise RuntimeError("out of order")

    monkeypatch.setattr(executors, "run_task", broken)
    held.executor.let()
    bundles = held.wait_until_ended(held.submit(distinct_spec(23))) and since(
        "sweep_bundles", progress="merged"
    )
    assert since("sweep_bundles_ended_total", result="failed") == 3 * bundles
    assert since("sweep_runs", status="failed") == 4
    assert since("sweep_bundles_ended_total", result="done") == since("sweep_parts_waiting") == 0


def test_event_streams_are_counted(held, since):
    sweep_id = held.submit(distinct_spec(24))
    with held.stream("GET", f"/v1/sweeps/{sweep_id}/events") as answer:
        lines = answer.iter_lines()
        next(lines)
        assert since("sweep_event_streams") == 1
    until(lambda: since("sweep_event_streams") == 0)


def test_metrics_without_ledger_and_disk(held, monkeypatch):
    def broken(*_, **__):
        raise sa.exc.OperationalError("disk I/O error", None, Exception())

    def gone(_):
        raise OSError("gone")

    monkeypatch.setattr(StatusCache, "query", broken)
    monkeypatch.setattr(type(held.folder), "free_bytes", gone)
    metrics = numbers(held)
    assert ("sweep_runs", (("status", "done"),)) not in metrics
    assert ("sweep_free_bytes", ()) not in metrics
    assert metrics["sweep_conducting", ()] == 1
    assert np.isfinite(metrics["sweep_merge_lag_seconds", ()])
