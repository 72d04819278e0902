"""A service in a thread of the test, with real HTTP, a real conductor and real computation."""

import json
import math
import re
import threading
import time as clock
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import uvicorn
import xarray as xr

from sweep_service.api.app import create_app
from sweep_service.api.error_responses import MEDIA_TYPE
from sweep_service.api.serve import uvicorn_config
from sweep_service.api.settings import Settings
from sweep_service.execution import compute
from sweep_service.execution.executors import SerialExecutor
from sweep_service.store.folder import INDEX_SUFFIX

JSON, YAML = {"Content-Type": "application/json"}, {"Content-Type": "application/yaml"}
ENDED = ("completed", "incomplete", "cancelled", "failed")


@dataclass
class RunningService:
    """A running service and an HTTP client of it; unknown attributes are those of the client."""

    app: Any
    url: str
    client: httpx2.Client

    def __getattr__(self, name):
        return getattr(self.client, name)

    @property
    def conductor_thread(self):
        return self.app.state.conductor_thread

    @property
    def executor(self):
        return self.conductor_thread.executor

    @property
    def folder(self):
        return self.conductor_thread.folder

    def submit(self, spec, **options):
        """Submit a spec and return the sweep id."""
        response = self.client.post("/v1/sweeps", json=spec, **options)
        assert response.status_code in (200, 202), response.text
        return response.json()["id"]

    def complete(self, spec):
        """Submit a spec, wait until the sweep has ended, and return its id."""
        return self.wait_until_ended(self.submit(spec))["id"]

    def wait_until_ended(self, sweep_id):
        return until(lambda: self.sweep(sweep_id)["state"] in ENDED and self.sweep(sweep_id))

    def sweep(self, sweep_id):
        return self.client.get(f"/v1/sweeps/{sweep_id}").raise_for_status().json()

    def wait_for_state(self, sweep_id, state):
        return until(lambda: self.sweep(sweep_id)["state"] == state and self.sweep(sweep_id))

    def act(self, sweep_id, action):
        """Cancel, pause, resume or retry a sweep."""
        response = self.client.post(f"/v1/sweeps/{sweep_id}/{action}")
        assert response.status_code == 200, response.text
        return response.json()

    def run_steps(self, count=3):
        """Wait until the conductor has made this many steps."""
        for _ in range(count):
            self.conductor_thread.call(lambda conductor: conductor.step())

    def load_dataset(self, sweep_id):
        with xr.open_zarr(self.folder.dataset_path(sweep_id), chunks=None) as dataset:
            return dataset.load()


def until(condition, seconds=60.0):
    """Wait until a condition is true, and return its value."""
    deadline = clock.monotonic() + seconds
    while not (value := condition()):
        assert clock.monotonic() < deadline, "the condition never became true"
        clock.sleep(0.01)
    return value


def serial(folder, stopped):
    return SerialExecutor(stopped)


class Gated(SerialExecutor):
    """An executor that accepts tasks only while `takes` is set, and computes only the next `computes`."""

    takes, computes = True, math.inf

    def let(self, takes=True, computes=math.inf):
        self.takes, self.computes = takes, computes

    def has_room(self, sweep_id):
        return self.takes and super().has_room(sweep_id)

    def poll(self):
        if self.computes > 0 and self.queue:
            self.computes -= 1
            return super().poll()
        self.sleep(0.005)
        return []


def gated(folder, stopped):
    return Gated(stopped)


def snapshot_files(folder):
    """All that a service has on its disk, but for what readers of the ledger leave, and indexes."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
        and path.name not in ("ledger.sqlite-shm", "ledger.sqlite-wal")
        and not path.name.endswith(INDEX_SUFFIX)
    }


def fail_ode_runs(monkeypatch, seed=1):
    """Make the ODE runs of one seed fail."""
    original = compute.integrate_run

    def fail(point, **options):
        if options["seed"] == seed:
            raise RuntimeError("out of order")
        return original(point, **options)

    monkeypatch.setattr(compute, "integrate_run", fail)


@contextmanager
def serving(data, executor=serial, headers=None, client_limits=None, **options):
    """Serve a data folder; `options` are settings."""
    settings = Settings(data=data, port=0, **options)
    app = create_app(settings, executor, client_limits)
    server = uvicorn.Server(uvicorn_config(app, settings, port=0))
    thread = threading.Thread(target=server.run, name="service")
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive())
        assert server.started, "it did not start; see the log"
        port = server.servers[0].sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        with httpx2.Client(base_url=url, headers=headers, timeout=60.0) as client:
            yield RunningService(app, url, client)
    finally:
        app.state.conductor_thread.request_stop()
        server.should_exit = True
        thread.join()


@dataclass(frozen=True)
class ServerSentEvent:
    """A server-sent event."""

    id: int | None
    kind: str
    data: dict[str, Any]


def parse_events(lines):
    """Yield the events of a stream, without comments and without an incomplete last event."""
    fields = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "event" in fields:
            number = fields.get("id")
            event_id = int(number) if number else None
            yield ServerSentEvent(event_id, fields["event"], json.loads(fields["data"]))
            fields = {}
        else:
            fields = {}


def recorded(events):
    """Return the events that the ledger keeps: whether a sweep waits for compiled code is only shown."""
    return [event for event in events if event.kind != "compiling"]


def assert_problem(response, status, *phrases, field=None, without=()):
    """Assert that a response is a problem (RFC 9457) with these words, and repeats none of `without`."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == MEDIA_TYPE
    problem = response.json()
    assert problem["status"] == status
    assert re.fullmatch(r"urn:sweep-service:problem:[a-z]+(-[a-z]+)*", problem["type"])
    assert problem["title"]
    assert problem["request_id"] == response.headers["x-request-id"]
    if field is not None:
        assert problem["field"] == field
        assert problem["allowed"] in problem["detail"]
    for phrase in phrases:
        assert phrase in problem["detail"], problem
    shown = response.text.replace(problem["request_id"], "")
    for phrase in ("Traceback", 'File \\"', *without):
        assert phrase not in shown
    return problem
