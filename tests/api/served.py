"""The application behind a real socket, in a thread of the test: real HTTP, conductor and computing."""

import json
import math
import threading
import time as clock
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn

from sweep_service.api.app import create_app
from sweep_service.api.error_responses import MEDIA_TYPE
from sweep_service.api.serve import configured
from sweep_service.api.settings import Settings
from sweep_service.execution.executors import SerialExecutor

SMALL = {
    "name": "small",
    "axes": {"d": [5, 8], "p": 4, "gamma": [0.1, 0.5], "regime": "classical_noise"},
    "fixed": {"k": 2, "noise": 1e-3},
    "init": {"kind": "informed", "shared": True},
    "seeds": {"init": 2, "repeat": 2},
    "time": {"max": 2.0, "samples": 4},
}
TINY = {
    "axes": {"d": 5, "p": 2, "gamma": 0.1, "regime": "classical_noise"},
    "fixed": {"k": 1},
    "init": {"kind": "informed"},
    "seeds": 2,
    "time": {"max": 1.0, "samples": 3},
    "observables": ["risk"],
}  # four runs
LONG = {
    "name": "long",
    "axes": {"d": 200, "p": 8, "gamma": 0.1},
    "fixed": {"k": 2, "noise": 1e-3},
    "init": {"kind": "informed"},
    "time": {"max": 30_000.0, "samples": 4},
}  # half a billion steps: minutes
JSON, YAML = {"Content-Type": "application/json"}, {"Content-Type": "application/yaml"}
ENDED = ("completed", "incomplete", "cancelled", "failed")


def another(number, **change):
    """A small spec that differs from others, and shares no runs with them."""
    return {**TINY, **change, "axes": {**TINY["axes"], "gamma": 0.1 + number / 1024}}


@dataclass
class Served:
    app: Any
    url: str
    client: httpx.Client

    def __getattr__(self, name):
        return getattr(self.client, name)

    @property
    def engine(self):
        return self.app.state.engine

    @property
    def executor(self):
        return self.engine.executor

    @property
    def folder(self):
        return self.engine.folder

    def submit(self, spec, **options):
        answer = self.client.post("/v1/sweeps", json=spec, **options)
        assert answer.status_code in (200, 202), answer.text
        return answer.json()["id"]

    def done(self, spec):
        """The id of a sweep that has ended."""
        return self.ended(self.submit(spec))["id"]

    def ended(self, sweep):
        return until(lambda: self.sweep(sweep)["state"] in ENDED and self.sweep(sweep))

    def sweep(self, sweep):
        return self.client.get(f"/v1/sweeps/{sweep}").raise_for_status().json()

    def reach(self, sweep, state):
        return until(lambda: self.sweep(sweep)["state"] == state and self.sweep(sweep))


def until(condition, seconds=60.0):
    """Wait for what another thread or process does."""
    end = clock.monotonic() + seconds
    while not (found := condition()):
        assert clock.monotonic() < end, "it never happened"
        clock.sleep(0.01)
    return found


def serial(folder, stopped):
    return SerialExecutor(stopped)


class Gated(SerialExecutor):
    """Takes tasks, and computes so many of them, only while it is let to."""

    takes, computes = True, math.inf

    def let(self, takes=True, computes=math.inf):
        self.takes, self.computes = takes, computes

    def room(self, sweep):
        return self.takes and super().room(sweep)

    def poll(self):
        if self.computes > 0 and self.waiting:
            self.computes -= 1
            return super().poll()
        self.rest(0.005)
        return []


def gated(folder, stopped):
    return Gated(stopped)


@contextmanager
def serving(data, executor=serial, headers=None, **settings):
    chosen = Settings(data=data, port=0, **settings)
    app = create_app(chosen, executor)
    server = uvicorn.Server(configured(app, chosen, port=0))
    thread = threading.Thread(target=server.run, name="service")
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive())
        assert server.started, "it did not start; the log says why"
        port = server.servers[0].sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, headers=headers, timeout=60.0) as client:
            yield Served(app, url, client)
    finally:
        app.state.engine.hush()
        server.should_exit = True
        thread.join()


@dataclass(frozen=True)
class Told:
    """A server-sent event."""

    id: int | None
    kind: str
    data: dict[str, Any]


def told(lines):
    """Events out of the lines of a stream, comments left out; a part that is not whole is no event."""
    about = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            about[name] = value
        elif "event" in about:
            number = about.get("id")
            yield Told(int(number) if number else None, about["event"], json.loads(about["data"]))
            about = {}
        else:
            about = {}


def assert_problem(answer, status, *words, field=None, without=()):
    """RFC 9457, with an id, and nothing of what was sent."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == MEDIA_TYPE
    about = answer.json()
    assert about["status"] == status
    assert about["type"] == "about:blank"
    assert about["title"]
    assert about["request_id"] == answer.headers["x-request-id"]
    if field is not None:
        assert about["field"] == field
        assert about["allowed"] in about["detail"]
    for word in words:
        assert word in about["detail"], about
    shown = answer.text.replace(about["request_id"], "")
    for word in ("Traceback", 'File \\"', *without):
        assert word not in shown
    return about
