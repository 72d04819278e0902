"""`sweep serve` as a process with Dask workers: followed, read from elsewhere, steered, killed, ended."""

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

import httpx
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
from tests.api.served import LONG, SMALL, TINY, told, until
from tests.service import ROOT, breakable, start_service

TOKEN = "open-sesame-4711"
# Some seconds of work in a dozen bundles: time to be killed in.
MANY = {
    "axes": {"d": [100, 160], "p": [4, 8], "gamma": [0.1, 0.2], "regime": "classical_noise"},
    "fixed": {"k": 2, "noise": 1e-3},
    "init": {"kind": "informed"},
    "seeds": {"init": 1, "repeat": 3},
    "time": {"max": 60.0, "samples": 5},
    "observables": ["risk"],
}
MIXED = {**LONG, "name": "short and long", "axes": {**LONG["axes"], "d": [4, 200]}}
READER = """
import pickle, sys
import xarray as xr
print("ready", flush=True)
for line in sys.stdin:
    url, path = line.split()
    with xr.open_zarr(url, chunks=None) as found:
        pickle.dump(found.load(), open(path, "wb"))
    print("done", flush=True)
"""


class Real:
    """A service and a client of it."""

    def __init__(self, service, headers=None):
        self.service, self.url = service, service.url
        self.client = httpx.Client(base_url=service.url, headers=headers, timeout=60.0)

    def get(self, path, **params):
        return self.client.get(path, params=params).raise_for_status()

    def act(self, sweep, action, **options):
        return self.client.post(f"/v1/sweeps/{sweep}/{action}", **options).raise_for_status().json()

    def submit(self, spec):
        answer = self.client.post("/v1/sweeps", json=spec)
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    def sweep(self, sweep):
        return self.get(f"/v1/sweeps/{sweep}").json()

    @contextmanager
    def events(self, sweep, after=None):
        headers = {"Last-Event-ID": str(after)} if after is not None else {}
        with self.client.stream("GET", f"/v1/sweeps/{sweep}/events", headers=headers) as answer:
            assert answer.status_code == 200
            yield told(answer.iter_lines())

    def followed(self, sweep, after=None):
        """All its events, to its end."""
        with self.events(sweep, after) as found:
            return list(found)

    def children(self):
        return psutil.Process(self.service.process.pid).children(recursive=True)

    def load(self, seconds=1.0):
        """Cores that its workers are using."""

        def used():
            return sum(sum(one.cpu_times()[:2]) for one in self.children())

        before = used()
        clock.sleep(seconds)
        return (used() - before) / seconds

    def until_busy(self):
        """Though others use the machine too, and workers step back for them."""
        until(lambda: self.load() > 0.1)

    def idle_after(self):
        """Seconds until no worker computes any more."""
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
    service = start_service(data, workers=2, env=breakable(faults))
    found = Real(service)
    try:
        yield found
    finally:
        found.client.close()
        service.close()


@pytest.fixture(scope="module")
def small(real):
    """A sweep that has ended, and all that was told of it."""
    sweep = real.submit(SMALL)
    return sweep, real.followed(sweep)


@pytest.fixture(scope="module")
def reader():
    """Opens datasets by URL in a process of its own."""
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


def stored(data, sweep):
    with xr.open_zarr(DataFolder(data).dataset_path(sweep), chunks=None) as found:
        return found.load()


def results(dataset):
    return dataset.drop_vars(["sgd_seconds", "ode_seconds"], errors="ignore").drop_attrs(deep=False)


# ---- a sweep from its beginning to its end


def test_a_sweep_is_followed_to_its_end(real, small):
    sweep, found = small
    assert [one.data["state"] for one in found if one.kind == "state"] == ["queued", "running", "completed"]
    ids = [one.id for one in found]
    assert ids == sorted(set(ids))
    assert found[-1].data["counts"] == {"done": 24}
    assert real.sweep(sweep)["state"] == "completed"
    assert real.get("/readyz").json() == {**real.get("/readyz").json(), "status": "ready", "threads": 2}


def test_every_export(real, data, small):
    sweep, _ = small
    for kind, about in FORMATS.items():
        answer = real.get(f"/v1/sweeps/{sweep}/data", format=kind)
        assert answer.headers["content-type"].partition(";")[0] == about.media_type
        assert len(answer.content) > 1000
    answer = real.get(f"/v1/sweeps/{sweep}/data", format="csv", variables="sgd_risk", d="5", time="2")
    assert len(answer.text.splitlines()) == 1 + stored(data, sweep).sgd_risk.sel(d=5).isel(time=-1).size
    assert real.get(f"/v1/sweeps/{sweep}/curves").json()["curves"]
    assert real.get(f"/v1/sweeps/{sweep}/phase-diagram", x="d", y="gamma").json()["form"] == "grid"


def test_a_growing_sweep_is_read_elsewhere_and_cancelled(real, data, reader, tmp_path):
    sweep = real.submit(MIXED)
    with real.events(sweep) as events:
        first = next(one for one in events if one.data["counts"].get("done"))
    assert first.data["counts"] == {"done": 1, "pending": 1}
    url = f"{real.url}/v1/sweeps/{sweep}/zarr"
    growing = reader(url, tmp_path / "growing")
    assert real.sweep(sweep)["state"] == "running"
    xr.testing.assert_identical(growing, stored(data, sweep))
    assert growing.sgd_status.sel(d=4).item() == 1
    assert np.isfinite(growing.sgd_risk.sel(d=4)).all()
    assert growing.sgd_status.sel(d=200).item() == 0
    assert np.isnan(growing.sgd_risk.sel(d=200)).all()
    assert real.load() > 0.1
    began = clock.monotonic()
    about = real.act(sweep, "cancel")
    assert about["state"] == "cancelled"
    assert about["counts"] == {"done": 1, "cancelled": 1}
    answered = clock.monotonic() - began
    assert answered + real.idle_after() < 30.0  # a busy machine; `make bench` has the seconds
    ended = reader(url, tmp_path / "ended")
    xr.testing.assert_identical(ended, stored(data, sweep))
    xr.testing.assert_identical(ended.sgd_risk, growing.sgd_risk)


def test_a_sweep_rests_and_goes_on(real):
    sweep = real.submit({**LONG, "seeds": [7]})
    real.until_busy()
    assert real.act(sweep, "pause")["state"] == "paused"
    assert real.idle_after() < 30.0  # a busy machine; `make bench` has the seconds
    assert real.sweep(sweep)["state"] == "paused"
    assert real.act(sweep, "resume")["state"] in ("queued", "running")
    real.until_busy()
    assert real.sweep(sweep)["state"] == "running"
    real.client.delete(f"/v1/sweeps/{sweep}").raise_for_status()
    assert real.idle_after() < 30.0  # a busy machine; `make bench` has the seconds


def test_failed_runs_are_computed_again(real, faults):
    (faults / "broken").touch()
    sweep = real.submit({**TINY, "seeds": [13, 14]})
    assert real.followed(sweep)[-1].data["counts"] == {"done": 3, "failed": 1}
    (one,) = real.get(f"/v1/sweeps/{sweep}/failures").json()["failures"]
    assert one["error"] == "RuntimeError: out of order"
    last = real.followed(sweep)[-1].id
    (faults / "broken").unlink()
    real.act(sweep, "retry")
    assert real.followed(sweep, last)[-1].data["counts"] == {"done": 4}
    assert real.get(f"/v1/sweeps/{sweep}/failures").json()["failures"] == []


def test_a_sweep_is_extended_and_removed(real, data, small):
    sweep, _ = small
    more = real.act(sweep, "extend", json={"seeds": {"repeat": 3}})
    assert (more["extends"], more["reused"]) == (sweep, 24)
    assert real.followed(more["id"])[-1].data["counts"] == {"done": 32}
    old = stored(data, sweep)
    xr.testing.assert_equal(results(stored(data, more["id"]).sel(repeat=[0, 1])), results(old))
    assert real.client.delete(f"/v1/sweeps/{more['id']}").status_code == 204
    assert real.client.get(f"/v1/sweeps/{more['id']}").status_code == 404
    assert [path.name for path in (data / "sweeps").iterdir() if path.name.startswith(more["id"])] == []


# ---- the dashboard


def test_the_dashboard_is_behind_the_same_door(real):
    page = until(lambda: (found := real.client.get("/dask/status")).status_code == 200 and found)
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


def test_the_dashboard_lives(real):
    """As its page does it: a websocket with a token from the page, by which documents come."""
    page = until(lambda: (found := real.client.get("/dask/status")).status_code == 200 and found)
    token = re.search(r'"token":"([^"]+)"', page.text)[1]
    url = real.url.replace("http", "ws", 1) + "/dask/status/ws"
    with connect(url, subprotocols=["bokeh", token], origin=real.url, max_size=None) as socket:
        assert socket.subprotocol == "bokeh"
        assert kind(socket) == "ACK"
        for part in ('{"msgid": "1", "msgtype": "PULL-DOC-REQ"}', "{}", "{}"):
            socket.send(part)
        found = kind(socket)
        while found != "PULL-DOC-REPLY":  # what has changed meanwhile comes in between
            found = kind(socket)
    assert real.get("/healthz").json() == {"status": "ok"}


def kind(socket):
    """Of the next message of Bokeh, all of which is read: header, metadata, content, buffers."""
    header = json.loads(socket.recv(timeout=30.0))
    for _ in range(2 + 2 * header.get("num_buffers", 0)):
        socket.recv(timeout=30.0)
    return header["msgtype"]


def test_the_dashboard_is_no_way_to_other_places(real):
    for path in (
        "//example.invalid/",
        "/..%2f..%2fv1/sweeps",
        "/%2e%2e/v1/sweeps",
        "/http://example.invalid/",
    ):
        assert real.client.get(f"/dask{path}").status_code in (404, 405), path


# ---- a second one


def test_one_service_for_a_folder_and_one_for_a_port(real, data, tmp_path):
    port = real.url.rpartition(":")[2]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ways = (["--data", data, "--port", "0"], ["--data", tmp_path / "other", "--port", port])
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "sweep_service.cli", "serve", *map(str, words)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=tmp_path,
        )
        for words in ways
    ]  # fmt: skip
    said = [process.communicate(timeout=60.0) for process in both]
    assert [process.returncode for process in both] == [2, 2], said
    for out, err in said:
        assert out == ""
        assert len(err.splitlines()) == 1, err
    assert f"in use by process {real.service.process.pid}" in said[0][1]
    assert f"--url {real.url}" in said[0][1]
    assert "address already in use" in said[1][1]
    assert real.get("/healthz").json() == {"status": "ok"}


# ---- crashes and ends


def undisturbed(folder, spec):
    with Conductor(DataFolder(folder), SerialExecutor()) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(spec))
        assert conductor.run(sweep.id).state == "completed"
    return stored(folder, sweep.id)


def gone(processes, seconds):
    """Wait until none of them is there any more."""
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    assert alive == []


@pytest.fixture
def killable(tmp_path):
    """Starts services on one folder and one port; all end with the test."""
    there = []

    def start(port=None):
        service = start_service(tmp_path / "data", port=port, env={"SWEEP_TOKENS": TOKEN})
        there.append(Real(service, {"Authorization": f"Bearer {TOKEN}"}))
        return there[-1]

    yield start
    for one in there:
        one.client.close()
        one.service.close()


def test_a_killed_service_goes_on(killable, tmp_path):
    real = killable()
    sweep = real.submit(MANY)
    with real.events(sweep) as events:
        last = next(one for one in events if one.kind == "progress")
        children = real.children()
        real.service.kill()
    assert last.data["bundles_left"] > 0
    again = killable(int(real.url.rpartition(":")[2]))
    assert again.url == real.url
    # Nobody asks for it: it goes on by itself, and a reader goes on where it was.
    rest = again.followed(sweep, last.id)
    assert min(one.id for one in rest) > last.id
    assert [one.data["state"] for one in rest if one.kind == "state"] == ["queued", "running", "completed"]
    assert rest[-1].data["counts"] == {"done": 32}
    found = stored(tmp_path / "data", sweep)
    xr.testing.assert_identical(results(found), results(undisturbed(tmp_path / "alone", MANY)))
    gone(children, 30.0)  # workers notice that nobody conducts them


def test_a_service_that_is_stopped_while_it_starts_ends(tmp_path):
    """From the first seconds on, in which it imports what it needs."""
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


def test_a_stopped_service_ends_with_all_that_is_open(killable, tmp_path):
    real = killable()
    sweep = real.submit(LONG)
    real.until_busy()
    children = real.children()
    with real.events(sweep) as events:
        assert next(events).data["state"] == "queued"
        began = clock.monotonic()
        real.service.process.send_signal(signal.SIGTERM)
        list(events)  # to its end
        assert real.service.process.wait(10.0) == 0
    gone(children, 10.0)
    assert clock.monotonic() - began < 10.0
    log = real.service.log.read_text("utf-8")
    assert TOKEN not in log
    assert "Traceback" not in log
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert {line["level"] for line in lines} == {"info"}, log
    assert {"request_id", "method", "path", "status", "ms"} <= set(lines[-1])
    with Conductor(DataFolder(tmp_path / "data"), SerialExecutor()) as conductor:  # whole, and free
        assert conductor.ledger.sweep(sweep).state == "queued"
