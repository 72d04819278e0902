"""`ss.Client` against a real service: what it asks, what it is refused, and services that go away."""

import json
import os
import threading
from concurrent.futures import Future
from types import MappingProxyType

import numpy as np
import pytest
import xarray as xr

import sweep_service as ss
from sweep_service.analysis.curves import curves
from sweep_service.analysis.export import FORMATS, export
from sweep_service.analysis.phase_diagram import as_plain, phase_diagram
from sweep_service.analysis.selection import select
from sweep_service.client import client as asking
from sweep_service.errors import (
    Conflict,
    Denied,
    InvalidInput,
    NotFound,
    SweepError,
    TooManySweeps,
)
from sweep_service.planning.spec import SweepSpec
from sweep_service.presets import PRESETS
from sweep_service.store.folder import DataFolder
from sweep_service.text import json_ready
from tests.cli.commands import until
from tests.service import breakable, free_port, start_service

TOKEN, LOOKER = "let-me-in", "let-me-look"
NOBODY = "20000101-000000-00000000"
SMALL = {
    "name": "small",
    "axes": {"d": [5, 8], "p": 4, "gamma": [0.1, 0.5], "regime": "classical_noise"},
    "fixed": {"k": 2, "noise": 1e-3},
    "init": {"kind": "informed", "shared": True},
    "seeds": {"init": 2, "repeat": 2},
    "time": {"max": 2.0, "samples": 4},
}
LONG = {  # minutes
    **SMALL, "name": "long", "axes": {"d": 200, "p": 8, "gamma": 0.1}, "init": {"kind": "informed"},
    "seeds": 50, "time": {"max": 300.0, "samples": 4},
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def service(folder):
    env = {"SWEEP_TOKENS": f"{TOKEN},{LOOKER}:read", **breakable(folder)}
    found = start_service(folder / "data", env=env)
    yield found
    assert found.stop() == 0, found.log.read_text()[-2000:]


@pytest.fixture
def client(service):
    with ss.Client(service.url, TOKEN) as found:
        yield found


@pytest.fixture(scope="module")
def known(service):
    """The id of a completed sweep, which nobody changes."""
    with ss.Client(service.url, TOKEN) as client:
        sweep = client.submit(SMALL)
        assert client.wait(sweep["id"], timeout=100)["state"] == "completed"
        return sweep["id"]


@pytest.fixture
def stored(folder, known):
    with xr.open_zarr(DataFolder(folder / "data").dataset_path(known), chunks=None) as found:
        yield found


@pytest.fixture
def busy(client):
    """The id of a sweep that is being computed."""
    found = client.submit(LONG)["id"]
    until(lambda: client.sweep(found)["state"] == "running")
    yield found
    client.remove(found)


# ---- submit and look


def test_a_sweep_is_submitted_waited_for_and_told_of(client, known):
    about = client.sweep(known)
    assert (about["name"], about["state"], about["runs"]) == ("small", "completed", 24)
    assert (about["counts"], about["progress"]) == ({"done": 24}, 1.0)
    assert all(link.startswith(client.url) for link in about["links"].values())
    assert client.wait(known, timeout=10) == about


def test_a_spec_may_come_in_many_forms(client, known, tmp_path):
    (tmp_path / "spec.json").write_text(json.dumps(SMALL))
    yaml = (
        "axes: {d: [5, 8], p: 4, gamma: [0.1, 0.5], regime: classical_noise}\nfixed: {k: 2, noise: 1e-3}\n"
        "init: {kind: informed, shared: true}\nseeds: {init: 2, repeat: 2}\ntime: {max: 2, samples: 4}\n"
    )
    numpy = {**SMALL, "axes": {**SMALL["axes"], "d": np.array([5, 8]), "gamma": (np.float64(0.1), 0.5)}}
    forms = [
        json.dumps(SMALL), yaml, yaml.encode(), tmp_path / "spec.json", SweepSpec.parse(SMALL), numpy,
        MappingProxyType(SMALL),
    ]  # fmt: skip
    assert [client.submit(form)["id"] for form in forms] == [known] * len(forms)
    with pytest.raises(InvalidInput, match="JSON"):
        client.submit({**SMALL, "init": object()})


def test_a_key_belongs_to_one_request(client, known):
    for _ in range(2):
        assert client.submit(SMALL, idempotency_key="mine")["id"] == known
    with pytest.raises(Conflict, match="Idempotency-Key"):
        client.submit({**SMALL, "seeds": 1}, idempotency_key="mine")


def test_an_estimate_costs_nothing(client, known):
    found = client.estimate({**SMALL, "seeds": {"init": 3, "repeat": 2}})
    assert (found["runs"], found["reused"], found["refused"]) == (36, 20, None)
    assert "core_hours" in client.estimate({**SMALL, "time": {"max": 1e12, "samples": 3}})["refused"]


def test_sweeps_come_page_by_page_newest_first(client, known, monkeypatch):
    other = client.submit({**SMALL, "name": "other", "seeds": 1, "simulate": False}, priority=3)
    client.wait(other["id"], timeout=60)
    monkeypatch.setattr(asking, "PAGE", 1)
    found = list(client.sweeps())
    assert [one["id"] for one in found] == sorted((one["id"] for one in found), reverse=True)
    assert {known, other["id"]} <= {one["id"] for one in found}
    assert client.sweep(other["id"]) in found
    assert known in {one["id"] for one in client.sweeps("completed")}
    assert list(client.sweeps(["queued", "running"])) == []
    with pytest.raises(InvalidInput) as error:
        list(client.sweeps("complete"))
    assert "state" in error.value.field


def test_what_was_asked_for_and_what_can_be(client, known):
    assert SweepSpec.parse(client.spec(known)) == SweepSpec.parse(SMALL)
    assert [one["name"] for one in client.presets()] == list(PRESETS)
    assert {"activations", "regimes", "observables", "inits"} <= set(client.catalogue())


# ---- results


def test_what_is_opened_by_http_is_what_is_stored(client, known, stored, folder):
    about = client.sweep(known)
    path = DataFolder(folder / "data").dataset_path(known)
    for found in (
        client.open(known), ss.open(about["links"]["self"], TOKEN), ss.open(about["links"]["zarr"], TOKEN),
        ss.open(about["links"]["zarr"] + "/", TOKEN), ss.open(path), ss.open(str(path)),
    ):  # fmt: skip
        xr.testing.assert_identical(found.load(), stored.load())


def test_opening_is_lazy_and_what_is_not_there_is_said(client, known, tmp_path, monkeypatch):
    found = client.open(known)
    assert not found.sgd_risk.variable._in_memory
    assert client.open(known, chunks={}).sgd_risk.chunks is not None
    with pytest.raises(NotFound):
        client.open(NOBODY)
    with pytest.raises(NotFound, match="no sweep is stored"):
        ss.open(tmp_path)
    with pytest.raises(InvalidInput, match="/v1/sweeps"):
        ss.open("https://example.org/data.zarr")
    with pytest.raises(Denied):
        ss.open(f"{client.url}/v1/sweeps/{known}")
    monkeypatch.setenv("SWEEP_TOKEN", LOOKER)
    assert ss.open(f"{client.url}/v1/sweeps/{known}").identical(found)


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_is_the_one_of_the_folder(client, known, stored, tmp_path, format):
    path = tmp_path / f"there{FORMATS[format].suffix}"
    assert client.export(known, path, d=5, gamma="0.2:", seed=[0, 1]) == path
    here = tmp_path / f"here{FORMATS[format].suffix}"
    export(select(stored, {"d": 5, "gamma": 0.5}), here)
    assert path.read_bytes() == here.read_bytes()
    assert sorted(tmp_path.iterdir()) == sorted([path, here])


def test_a_figure_is_drawn_by_the_service(client, known, tmp_path):
    path = client.figure(known, tmp_path / "risk.png", d=5)
    assert path.read_bytes().startswith(b"\x89PNG")
    client.figure(known, tmp_path / "map.SVG", "phase-diagram", x="gamma", y="d", value="discrepancy")
    for name, view, word in (
        ("a.gif", "curves", "format"),
        ("a.png", "odd", "view"),
        ("a.png", "../x", "Not"),
    ):
        with pytest.raises(SweepError, match=word):
            client.figure(known, tmp_path / name, view)
    assert sorted(os.listdir(tmp_path)) == ["map.SVG", "risk.png"]


def test_an_export_may_name_its_format_and_its_variables(client, known, tmp_path):
    client.export(known, tmp_path / "x", format="json", variables=["sgd_risk"])
    assert list(json.loads((tmp_path / "x").read_text())["data_vars"]) == ["sgd_risk"]


@pytest.mark.parametrize(
    ("path", "options", "word"),
    [
        ("out.xlsx", {}, "must end in"),
        ("no/such/out.csv", {}, "folder that exists"),
        (".", {"format": "csv"}, "must be a file"),
        ("out.csv", {"format": "xlsx"}, "format"),
        ("out.csv", {"d": 77}, "d: nothing is stored there"),
        ("out.csv", {"gama": 0.1}, "did you mean 'gamma'"),
    ],
)
def test_an_export_that_cannot_be_leaves_no_file(client, known, tmp_path, path, options, word):
    with pytest.raises(InvalidInput, match=word):
        client.export(known, tmp_path / path, **options)
    assert list(tmp_path.iterdir()) == []


def test_analyses_are_those_of_the_folder(client, known, stored):
    assert client.curves(known, d=5) == json_ready(curves(stored, d=5))
    assert client.curves(known, "cosine", d=[5, 8], gamma=0.5)["observable"] == "cosine"
    assert client.phase_diagram(known, "d", "gamma") == json_ready(
        as_plain(phase_diagram(stored, "d", "gamma"))
    )
    with pytest.raises(InvalidInput):
        client.phase_diagram(known, "d", "gama")


# ---- steer


def test_a_sweep_rests_and_goes_on_and_is_given_up_and_taken_up_again(client, busy):
    assert client.pause(busy)["state"] == "paused"
    assert client.resume(busy)["state"] in ("queued", "running")
    assert client.cancel(busy)["state"] == "cancelled"
    assert client.wait(busy, timeout=10)["counts"]["cancelled"] > 0
    assert client.retry(busy)["state"] in ("queued", "running")
    with pytest.raises(TimeoutError, match=rf"{busy} is (queued|running) after 0.5 s"):
        client.wait(busy, timeout=0.5)
    states = []
    for event in client.events(busy):
        states += [event.data["state"]] * (event.kind == "state" and event.data["state"] != "running")
        if states[-2:] == ["cancelled", "queued"]:
            break
    assert states == ["queued", "paused", "queued", "cancelled", "queued"]


def test_a_sweep_is_removed_even_while_it_is_waited_for(client):
    sweep = client.submit({**LONG, "name": "doomed", "seeds": 49})["id"]
    waiting = threaded(lambda: client.wait(sweep))
    until(lambda: client.sweep(sweep)["state"] == "running")
    client.remove(sweep)
    with pytest.raises(NotFound, match=r"removed|no sweep"):
        waiting.result(20)
    for ask in (client.sweep, client.remove, client.cancel, client.open, client.spec, client.wait):
        with pytest.raises(NotFound):
            ask(sweep)


def test_an_extension_is_another_sweep(client, known):
    new = client.extend(known, {"axes": {"gamma": [0.9]}})
    assert (new["extends"], new["reused"]) == (known, 24)
    assert client.wait(new["id"], timeout=60)["counts"] == {"done": 36}
    assert client.extend(known, "axes: {gamma: [0.9]}")["id"] == new["id"]
    with pytest.raises(InvalidInput, match="must be one of axes"):
        client.extend(known, {"time": {"max": 3}})


def test_failures_are_told_and_tried_again(client, folder, monkeypatch):
    (folder / "broken").touch()
    sweep = client.submit({**SMALL, "name": "broken", "seeds": [12, 13]})["id"]
    assert client.wait(sweep, timeout=60)["counts"] == {"done": 12, "failed": 4}
    assert client.sweep(sweep)["state"] == "incomplete"
    monkeypatch.setattr(asking, "PAGE", 1)
    found = list(client.failures(sweep))
    assert sum(len(one["runs"]) for one in found) == 4
    assert len(found) == 2  # one theory for both d
    for one in found:
        assert "out of order" in one["error"]
        assert one["command"].startswith(f"sweep rerun {sweep} ode-")
    (folder / "broken").unlink()
    client.retry(sweep)
    assert client.wait(sweep, timeout=60)["counts"] == {"done": 16}
    assert list(client.failures(sweep)) == []


# ---- refusals


def test_errors_are_those_of_the_package(client, known, service):
    with pytest.raises(NotFound, match=NOBODY):
        client.sweep(NOBODY)
    with pytest.raises(InvalidInput) as error:
        client.submit({**SMALL, "axes": {**SMALL["axes"], "gamma": -0.1}})
    assert (error.value.field, str(error.value)) == ("gamma", f"gamma: {error.value.allowed}")
    with pytest.raises(InvalidInput, match="did you mean"):
        client.estimate("axs: {}")
    with pytest.raises(InvalidInput, match="at most"):
        client.submit(" " * 5_000_000)
    with ss.Client(service.url) as stranger, pytest.raises(Denied, match="token"):
        stranger.sweep(known)
    with ss.Client(service.url, "guess") as stranger, pytest.raises(Denied, match="token"):
        next(stranger.events(known))
    with ss.Client(service.url, LOOKER) as looker:
        assert looker.sweep(known)["id"] == known
        with pytest.raises(Denied, match="only look"):
            looker.cancel(known)


def test_the_environment_says_where(service, known, monkeypatch):
    monkeypatch.setenv("SWEEP_URL", f"{service.url}/")
    monkeypatch.setenv("SWEEP_TOKEN", LOOKER)
    with ss.Client() as client:
        assert client.sweep(known)["id"] == known
    monkeypatch.delenv("SWEEP_URL")
    with ss.Client() as client:
        assert client.url == "http://127.0.0.1:8000"


# ---- services that are away, or none


def threaded(work):
    """What becomes of something that waits; nobody waits for it in turn when a test has failed."""
    future = Future()

    def run():
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


@pytest.mark.slow
def test_who_waits_outlives_the_service(tmp_path):
    """SIGKILL while one waits and another reads events, then a new service on the same port and data."""
    port, env = free_port(), {"SWEEP_MAX_ACTIVE": "1"}
    first = start_service(tmp_path / "data", port, env)
    try:
        with ss.Client(first.url) as client:
            some = {**LONG, "seeds": 4, "time": {"max": 100.0, "samples": 4}}
            sweep = client.submit(some)["id"]
            with pytest.raises(TooManySweeps) as error:
                client.submit(SMALL)
            assert error.value.field == "sweeps"
            seen, states = [], []

            def read():
                for event in client.events(sweep):
                    seen.append(event)

            def follow():
                for now in client.follow(sweep):
                    states.append((now["state"], now["reason"]))
                return now

            reading, following = threaded(read), threaded(follow)
            waiting = threaded(lambda: client.wait(sweep))
            until(lambda: any(event.data["state"] == "running" for event in seen))
            first.kill()
            until(lambda: any("waiting for the service" in reason for _, reason in states))
            before = len(seen)
            second = start_service(tmp_path / "data", port, env)
            try:
                assert waiting.result(90)["state"] == "completed"
                assert following.result(10)["counts"] == {"done": 4}
                reading.result(10)
            finally:
                second.stop()
            assert seen[-1].data["state"] == "completed"
            assert len(seen) > before
            numbers = [int(event.id) for event in seen]
            assert numbers == sorted(set(numbers))  # nothing twice
            assert {event.kind for event in seen} == {"state", "progress"}
    finally:
        first.close()


def test_events_go_on_where_one_was(client, known):
    found = list(client.events(known))
    assert found[0].kind == "state"
    assert found[-1].data["state"] == "completed"
    assert found[-1].data["id"] == known
    assert list(client.events(known, after=found[0].id)) == found[1:]
    assert list(client.events(known, after=found[-1].id)) == []
