"""`sweep serve` as a process with Dask workers: events, remote reading, actions, crashes, shutdown."""

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time as clock
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urljoin

import httpx2
import numpy as np
import psutil
import pytest
import xarray as xr
from websockets.sync.client import connect

from sweep_service.analysis.export import FORMATS
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.folder import DataFolder
from tests.api.served import parse_events, recorded, until
from tests.hold import Hold
from tests.service import ROOT, breakable_environment, start_service
from tests.specs import SMALL_SPEC, TINY_SPEC, VERY_LONG_SPEC

TOKEN = "open-sesame-4711"
# Several bundles, so that some are done and others are not when the service is killed.
MANY = {
    "axes": {"d": [100, 160], "p": [4, 8], "gamma": [0.1, 0.2], "regime": "classical_noise"},
    "fixed": {"k": 2, "noise": 1e-3},
    "init": {"kind": "informed"},
    "seeds": {"init": 1, "repeat": 3},
    "time": {"max": 20.0, "samples": 5},
    "observables": ["risk"],
}
MIXED = {**VERY_LONG_SPEC, "name": "short and long", "axes": {**VERY_LONG_SPEC["axes"], "d": [4, 200]}}
READER = """
import pickle, sys
import xarray as xr
print("ready", flush=True)
for line in sys.stdin:
    url, path = line.split()
    with xr.open_zarr(url, chunks=None) as dataset:
        pickle.dump(dataset.load(), open(path, "wb"))
    print("done", flush=True)
"""


class Real:
    """A service process and a client."""

    def __init__(self, service, headers=None):
        self.service, self.url = service, service.url
        self.client = httpx2.Client(base_url=service.url, headers=headers, timeout=60.0)

    def get(self, path, **params):
        return self.client.get(path, params=params).raise_for_status()

    def act(self, sweep_id, action, **options):
        return self.client.post(f"/v1/sweeps/{sweep_id}/{action}", **options).raise_for_status().json()

    def submit(self, spec):
        answer = self.client.post("/v1/sweeps", json=spec)
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    def sweep(self, sweep_id):
        return self.get(f"/v1/sweeps/{sweep_id}").json()

    @contextmanager
    def events(self, sweep_id, after=None):
        headers = {"Last-Event-ID": str(after)} if after is not None else {}
        with self.client.stream("GET", f"/v1/sweeps/{sweep_id}/events", headers=headers) as answer:
            assert answer.status_code == 200
            yield parse_events(answer.iter_lines())

    def followed(self, sweep_id, after=None):
        """Return all recorded events of a sweep until it ends."""
        with self.events(sweep_id, after) as events:
            return recorded(events)

    def children(self):
        return psutil.Process(self.service.process.pid).children(recursive=True)

    def load(self, seconds=1.0):
        """Return the number of cores that the workers use."""

        def used():
            return sum(sum(process.cpu_times()[:2]) for process in self.children())

        before = used()
        clock.sleep(seconds)
        return (used() - before) / seconds

    def until_busy(self, data, sweep_id):
        """Wait until a worker computes this sweep, which takes so long that this cannot be missed."""
        until(lambda: crash_markers(data, sweep_id))

    def idle_after(self):
        """Return the seconds until no worker computes."""
        began = clock.monotonic()
        until(lambda: self.load(0.5) < 0.05, 30.0)
        return clock.monotonic() - began


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("real") / "data"


@pytest.fixture(scope="module")
def real(data, faults):
    service = start_service(data, workers=2, env=breakable_environment(faults))
    result = Real(service)
    try:
        yield result
    finally:
        result.client.close()
        service.close()


@pytest.fixture(scope="module")
def small(real):
    """The id of an ended sweep, and its events."""
    sweep_id = real.submit(SMALL_SPEC)
    return sweep_id, real.followed(sweep_id)


@pytest.fixture(scope="module")
def reader():
    """A process that opens datasets by URL."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    )
    with process:
        assert process.stdout.readline() == "ready\n"

        def read(url, path):
            process.stdin.write(f"{url} {path}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"
            return pickle.loads(Path(path).read_bytes())

        yield read
        process.stdin.close()


def stored(data, sweep_id):
    with xr.open_zarr(DataFolder(data).dataset_path(sweep_id), chunks=None) as dataset:
        return dataset.load()


def crash_markers(data, sweep_id):
    """Return the crash markers of bundles that are being computed."""
    return list((data / "sweeps").glob(f"{sweep_id}.parts/*.crumb"))


def results(dataset):
    return dataset.drop_vars(["sgd_seconds", "ode_seconds"], errors="ignore").drop_attrs(deep=False)


# ---- the life of a sweep


def test_sweep_is_followed_to_its_end(real, small):
    sweep_id, events = small
    assert [event.data["state"] for event in events if event.kind == "state"] == [
        "queued",
        "running",
        "completed",
    ]
    ids = [event.id for event in events]
    assert ids == sorted(set(ids))
    assert events[-1].data["counts"] == {"done": 24}
    assert real.sweep(sweep_id)["state"] == "completed"
    assert real.get("/readyz").json() == {**real.get("/readyz").json(), "status": "ready", "threads": 2}


def test_every_export_format(real, data, small):
    sweep_id, _ = small
    for kind, export_format in FORMATS.items():
        answer = real.get(f"/v1/sweeps/{sweep_id}/data", format=kind)
        assert answer.headers["content-type"].partition(";")[0] == export_format.media_type
        assert len(answer.content) > 1000
    answer = real.get(f"/v1/sweeps/{sweep_id}/data", format="csv", variables="sgd_risk", d="5", time="2")
    assert len(answer.text.splitlines()) == 1 + stored(data, sweep_id).sgd_risk.sel(d=5).isel(time=-1).size
    assert real.get(f"/v1/sweeps/{sweep_id}/curves").json()["curves"]
    assert real.get(f"/v1/sweeps/{sweep_id}/phase-diagram", x="d", y="gamma").json()["form"] == "grid"


def test_running_sweep_is_read_by_another_process_and_cancelled(real, data, reader, tmp_path):
    sweep_id = real.submit(MIXED)
    with real.events(sweep_id) as events:
        first = next(event for event in events if event.data["counts"].get("done"))
    assert first.data["counts"] == {"done": 1, "pending": 1}
    url = f"{real.url}/v1/sweeps/{sweep_id}/zarr"
    growing = reader(url, tmp_path / "growing")
    assert real.sweep(sweep_id)["state"] == "running"
    xr.testing.assert_identical(growing, stored(data, sweep_id))
    assert growing.sgd_status.sel(d=4).item() == 1
    assert np.isfinite(growing.sgd_risk.sel(d=4)).all()
    assert growing.sgd_status.sel(d=200).item() == 0
    assert np.isnan(growing.sgd_risk.sel(d=200)).all()
    assert crash_markers(data, sweep_id)
    began = clock.monotonic()
    description = real.act(sweep_id, "cancel")
    assert description["state"] == "cancelled"
    assert description["counts"] == {"done": 1, "cancelled": 1}
    answered = clock.monotonic() - began
    assert answered + real.idle_after() < 30.0  # a busy machine; `make bench` has the seconds
    ended = reader(url, tmp_path / "ended")
    xr.testing.assert_identical(ended, stored(data, sweep_id))
    xr.testing.assert_identical(ended.sgd_risk, growing.sgd_risk)


def test_sweep_is_paused_and_resumed(real, data):
    sweep_id = real.submit({**VERY_LONG_SPEC, "seeds": [7]})
    real.until_busy(data, sweep_id)
    assert real.act(sweep_id, "pause")["state"] == "paused"
    until(lambda: not crash_markers(data, sweep_id))  # `make bench` measures the seconds
    assert real.sweep(sweep_id)["state"] == "paused"
    assert real.act(sweep_id, "resume")["state"] in ("queued", "running")
    real.until_busy(data, sweep_id)
    assert real.sweep(sweep_id)["state"] == "running"
    real.client.delete(f"/v1/sweeps/{sweep_id}").raise_for_status()
    assert real.idle_after() < 30.0  # a busy machine; `make bench` has the seconds


def test_failed_runs_are_retried(real, faults):
    (faults / "broken").touch()
    sweep_id = real.submit({**TINY_SPEC, "seeds": [13, 14]})
    assert real.followed(sweep_id)[-1].data["counts"] == {"done": 3, "failed": 1}
    (failure,) = real.get(f"/v1/sweeps/{sweep_id}/failures").json()["failures"]
    assert failure["error"] == "RuntimeError: out of order"
    last = real.followed(sweep_id)[-1].id
    (faults / "broken").unlink()
    real.act(sweep_id, "retry")
    assert real.followed(sweep_id, last)[-1].data["counts"] == {"done": 4}
    assert real.get(f"/v1/sweeps/{sweep_id}/failures").json()["failures"] == []


def test_sweep_is_extended_and_removed(real, data, small):
    sweep_id, _ = small
    more = real.act(sweep_id, "extend", json={"seeds": {"repeat": 3}})
    assert (more["extends"], more["reused"]) == (sweep_id, 24)
    assert real.followed(more["id"])[-1].data["counts"] == {"done": 32}
    old = stored(data, sweep_id)
    xr.testing.assert_equal(results(stored(data, more["id"]).sel(repeat=[0, 1])), results(old))
    assert real.client.delete(f"/v1/sweeps/{more['id']}").status_code == 204
    assert real.client.get(f"/v1/sweeps/{more['id']}").status_code == 404
    assert [path.name for path in (data / "sweeps").iterdir() if path.name.startswith(more["id"])] == []


# ---- the dashboard


def test_dashboard_needs_token(real):
    page = until(lambda: (response := real.client.get("/dask/status")).status_code == 200 and response)
    assert "Dask" in page.text
    assert len(page.headers.get_list("date")) == 1
    assert "server" not in page.headers
    parts = re.findall(r'(?:src|href)="([^"]+\.(?:js|css)\b[^"]*)"', page.text)
    assert len(parts) > 3
    for part in parts:
        answer = real.client.get(urljoin("/dask/status", part))
        assert answer.status_code == 200
        assert len(answer.content) > 100
    cached = {"If-None-Match": answer.headers["etag"]}
    assert real.client.get(urljoin("/dask/status", part), headers=cached).status_code == 304
    assert real.client.get("/dask/made-up").status_code == 404
    assert real.client.get("/dask", follow_redirects=True).text.startswith("<!DOCTYPE html>")


def test_dashboard_websocket_works(real):
    """Like the dashboard's page: open a websocket with a token from the page, and receive a document."""
    page = until(lambda: (response := real.client.get("/dask/status")).status_code == 200 and response)
    token = re.search(r'"token":"([^"]+)"', page.text)[1]
    url = real.url.replace("http", "ws", 1) + "/dask/status/ws"
    with connect(url, subprotocols=["bokeh", token], origin=real.url, max_size=None) as socket:
        assert socket.subprotocol == "bokeh"
        assert receive_type(socket) == "ACK"
        for part in ('{"msgid": "1", "msgtype": "PULL-DOC-REQ"}', "{}", "{}"):
            socket.send(part)
        message_type = receive_type(socket)
        while message_type != "PULL-DOC-REPLY":  # other changes may come first
            message_type = receive_type(socket)
    assert real.get("/healthz").json() == {"status": "ok"}


def receive_type(socket):
    """Read the next message of Bokeh (header, metadata, content, buffers) and return its type."""
    header = json.loads(socket.recv(timeout=30.0))
    for _ in range(2 + 2 * header.get("num_buffers", 0)):
        socket.recv(timeout=30.0)
    return header["msgtype"]


def test_dashboard_reaches_no_other_host(real):
    for path in (
        "//example.invalid/",
        "/..%2f..%2fv1/sweeps",
        "/%2e%2e/v1/sweeps",
        "/http://example.invalid/",
    ):
        assert real.client.get(f"/dask{path}").status_code in (404, 405), path


# ---- a second service


def test_folder_and_port_have_one_service(real, data, tmp_path):
    port = real.url.rpartition(":")[2]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ways = (["--data", data, "--port", "0"], ["--data", tmp_path / "other", "--port", port])
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "sweep_service.cli", "serve", *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=tmp_path,
        )
        for arguments in ways
    ]  # fmt: skip
    said = [process.communicate(timeout=60.0) for process in both]
    assert [process.returncode for process in both] == [2, 2], said
    for out, err in said:
        assert out == ""
        assert len(err.splitlines()) == 1, err
    assert f"in use by process {real.service.process.pid}" in said[0][1]
    assert f"a service at {real.url}" in said[0][1]
    assert "address already in use" in said[1][1]
    assert real.get("/healthz").json() == {"status": "ok"}


# ---- crashes and shutdown


def undisturbed(folder, spec):
    with Conductor(DataFolder(folder), SerialExecutor()) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(spec))
        assert conductor.run(sweep.id).state == "completed"
    return stored(folder, sweep.id)


def gone(processes, seconds):
    """Wait until all these processes have ended."""
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    assert alive == []


@pytest.fixture
def killable(tmp_path):
    """A function that starts services on one folder and one port; the test ends them all."""
    started = []

    def start(port=None, **env):
        service = start_service(tmp_path / "data", port=port, env={"SWEEP_TOKENS": TOKEN, **env})
        started.append(Real(service, {"Authorization": f"Bearer {TOKEN}"}))
        return started[-1]

    yield start
    for real in started:
        real.client.close()
        real.service.close()


def test_killed_service_resumes(killable, tmp_path):
    hold = Hold(tmp_path, "task:computed#2")  # the first bundle is merged, and the second does not end
    real = killable(**hold.environment)
    sweep_id = real.submit(MANY)
    with real.events(sweep_id) as events:
        last = next(event for event in events if event.kind == "progress")
        children = real.children()
        real.service.kill()
    hold.release()
    assert last.data["bundles_left"] > 0
    again = killable(int(real.url.rpartition(":")[2]))
    assert again.url == real.url
    # The sweep continues without a request, and the event stream resumes.
    rest = again.followed(sweep_id, last.id)
    assert min(event.id for event in rest) > last.id
    assert [event.data["state"] for event in rest if event.kind == "state"] == [
        "queued",
        "running",
        "completed",
    ]
    assert rest[-1].data["counts"] == {"done": 32}
    dataset = stored(tmp_path / "data", sweep_id)
    xr.testing.assert_identical(results(dataset), results(undisturbed(tmp_path / "alone", MANY)))
    gone(children, 30.0)  # workers notice that their scheduler is gone


def test_service_stopped_while_starting_ends(tmp_path):
    """Even in the first seconds, while it imports packages."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "sweep_service.cli", "serve", "--data", str(tmp_path / "data"), "--port", "0"],
        env=env, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        until((tmp_path / "data" / "lock").exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30.0) == 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_stopped_service_closes_open_streams(killable, tmp_path):
    real = killable()
    sweep_id = real.submit(VERY_LONG_SPEC)
    real.until_busy(tmp_path / "data", sweep_id)
    children = real.children()
    with real.events(sweep_id) as events:
        assert next(events).data["state"] == "queued"
        began = clock.monotonic()
        real.service.process.send_signal(signal.SIGTERM)
        list(events)  # until the stream ends
        assert real.service.process.wait(10.0) == 0
    gone(children, 10.0)
    assert clock.monotonic() - began < 10.0
    log = real.service.log.read_text("utf-8")
    assert TOKEN not in log
    assert "Traceback" not in log
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert {line["level"] for line in lines} == {"info"}, log
    requests = [line for line in lines if line.get("event") == "request"]
    assert requests[-1]["path"].endswith("/events")
    assert {"request_id", "method", "path", "status", "ms"} <= set(requests[-1])
    assert [line for line in lines if line.get("event") == "stopping"]
    with Conductor(DataFolder(tmp_path / "data"), SerialExecutor()) as conductor:  # undamaged and unlocked
        assert conductor.ledger.sweep(sweep_id).state == "queued"
