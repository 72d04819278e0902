"""`ss.Client` with a real service: requests, errors, and services that stop."""

import json
import os
import threading
from concurrent.futures import Future
from types import MappingProxyType

import numpy as np
import pytest
import xarray as xr

import sweep_service as ss
from sweep_service.analysis.curves import compute_curves
from sweep_service.analysis.error_bars.seed_curves import compute_seed_curves
from sweep_service.analysis.error_bars.spec_seeds import predict_seeds
from sweep_service.analysis.export import FORMATS, export
from sweep_service.analysis.phase_diagram import diagram_to_json, phase_diagram
from sweep_service.analysis.selection import select
from sweep_service.errors import (
    Conflict,
    Denied,
    InvalidInput,
    InvalidSpec,
    NotFound,
    SweepError,
    TooManySweeps,
)
from sweep_service.planning.costs import Calibration
from sweep_service.planning.outline import Outline
from sweep_service.planning.spec import SweepSpec
from sweep_service.presets import PRESETS
from sweep_service.store.folder import DataFolder
from sweep_service.text import replace_nonfinite
from tests.api.served import recorded
from tests.cli.commands import until
from tests.service import breakable_environment, free_port, start_service
from tests.specs import SMALL_SPEC

TOKEN, READ_TOKEN = "let-me-in", "let-me-look"
UNKNOWN_ID = "20000101-000000-00000000"
LONG_SWEEP = {  # takes minutes
    **SMALL_SPEC, "name": "long", "axes": {"d": 200, "p": 8, "gamma": 0.1}, "init": {"kind": "informed"},
    "seeds": 50, "time": {"max": 300.0, "samples": 4},
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def service(folder):
    env = {"SWEEP_TOKENS": f"{TOKEN},{READ_TOKEN}:read", **breakable_environment(folder)}
    service = start_service(folder / "data", env=env)
    yield service
    assert service.stop() == 0, service.log.read_text()[-2000:]


@pytest.fixture
def client(service):
    with ss.Client(service.url, TOKEN) as client:
        yield client


@pytest.fixture(scope="module")
def sweep_id(service):
    """The id of a completed sweep; tests do not change it."""
    with ss.Client(service.url, TOKEN) as client:
        sweep = client.submit(SMALL_SPEC)
        assert client.wait(sweep["id"], timeout=100)["state"] == "completed"
        return sweep["id"]


@pytest.fixture
def stored(folder, sweep_id):
    with xr.open_zarr(DataFolder(folder / "data").dataset_path(sweep_id), chunks=None) as dataset:
        yield dataset


@pytest.fixture
def busy_id(client):
    """The id of a running sweep."""
    busy_id = client.submit(LONG_SWEEP)["id"]
    until(lambda: client.sweep(busy_id)["state"] == "running")
    yield busy_id
    client.remove(busy_id)


# ---- submit and inspect


def test_completed_sweep_is_described(client, sweep_id):
    sweep = client.sweep(sweep_id)
    assert (sweep["name"], sweep["state"], sweep["runs"]) == ("small", "completed", 24)
    assert (sweep["counts"], sweep["progress"]) == ({"done": 24}, 1.0)
    assert all(link.startswith(client.url) for link in sweep["links"].values())
    assert client.wait(sweep_id, timeout=10) == sweep


def test_spec_is_accepted_in_many_forms(client, sweep_id, tmp_path):
    (tmp_path / "spec.json").write_text(json.dumps(SMALL_SPEC))
    yaml = (
        "axes: {d: [5, 8], p: 4, gamma: [0.1, 0.5], regime: classical_noise}\nfixed: {k: 2, noise: 1e-3}\n"
        "init: {kind: informed, shared: true}\nseeds: {init: 2, repeat: 2}\ntime: {max: 2, samples: 4}\n"
    )
    numpy = {
        **SMALL_SPEC,
        "axes": {**SMALL_SPEC["axes"], "d": np.array([5, 8]), "gamma": (np.float64(0.1), 0.5)},
    }
    forms = [
        json.dumps(SMALL_SPEC), yaml, yaml.encode(), tmp_path / "spec.json", SweepSpec.parse(SMALL_SPEC),
        numpy, MappingProxyType(SMALL_SPEC),
    ]  # fmt: skip
    assert [client.submit(form)["id"] for form in forms] == [sweep_id] * len(forms)
    with pytest.raises(InvalidInput, match="JSON"):
        client.submit({**SMALL_SPEC, "init": object()})


def test_idempotency_key_belongs_to_one_spec(client, sweep_id):
    for _ in range(2):
        assert client.submit(SMALL_SPEC, idempotency_key="mine")["id"] == sweep_id
    with pytest.raises(Conflict, match="Idempotency-Key"):
        client.submit({**SMALL_SPEC, "seeds": 1}, idempotency_key="mine")


def test_estimate_counts_runs_and_reports_a_refusal(client, sweep_id):
    estimate = client.estimate({**SMALL_SPEC, "seeds": {"init": 3, "repeat": 2}})
    assert (estimate["runs"], estimate["reused"], estimate["refused"]) == (36, 20, None)
    assert "core_hours" in client.estimate({**SMALL_SPEC, "time": {"max": 1e12, "samples": 3}})["refused"]


def test_sweeps_are_listed_newest_first_over_several_pages(client, sweep_id):
    other = client.submit({**SMALL_SPEC, "name": "other", "seeds": 1, "simulate": False}, priority=3)
    client.wait(other["id"], timeout=60)
    client.page_size = 1
    sweeps = list(client.sweeps())
    ids = [sweep["id"] for sweep in sweeps]
    assert ids == sorted(ids, reverse=True)
    assert {sweep_id, other["id"]} <= set(ids)
    assert client.sweep(other["id"]) in sweeps
    assert sweep_id in {sweep["id"] for sweep in client.sweeps("completed")}
    assert list(client.sweeps(["queued", "running"])) == []
    assert [sweep["id"] for sweep in client.sweeps(name="OTHE")] == [other["id"]]
    assert [sweep["id"] for sweep in client.sweeps("completed", name=sweep_id)] == [sweep_id]
    with pytest.raises(InvalidInput) as error:
        list(client.sweeps("complete"))
    assert "state" in error.value.field


def test_spec_presets_and_catalogue(client, sweep_id):
    assert SweepSpec.parse(client.spec(sweep_id)) == SweepSpec.parse(SMALL_SPEC)
    assert [preset["name"] for preset in client.presets()] == list(PRESETS)
    assert {"activations", "regimes", "observables", "inits"} <= set(client.catalogue())


# ---- results


def test_dataset_opened_over_http_is_the_stored_one(client, sweep_id, stored, folder):
    sweep = client.sweep(sweep_id)
    path = DataFolder(folder / "data").dataset_path(sweep_id)
    for dataset in (
        client.open(sweep_id), ss.open(sweep["links"]["self"], TOKEN), ss.open(sweep["links"]["zarr"], TOKEN),
        ss.open(sweep["links"]["zarr"] + "/", TOKEN), ss.open(path), ss.open(str(path)),
    ):  # fmt: skip
        xr.testing.assert_identical(dataset.load(), stored.load())


def test_open_is_lazy_and_rejects_unknown_locations(client, sweep_id, tmp_path, monkeypatch):
    dataset = client.open(sweep_id)
    assert not dataset.sgd_risk.variable._in_memory
    assert client.open(sweep_id, chunks={}).sgd_risk.chunks is not None
    with pytest.raises(NotFound):
        client.open(UNKNOWN_ID)
    with pytest.raises(NotFound, match="no sweep is stored"):
        ss.open(tmp_path)
    with pytest.raises(InvalidInput, match="/v1/sweeps"):
        ss.open("https://example.org/data.zarr")
    with pytest.raises(Denied):
        ss.open(f"{client.url}/v1/sweeps/{sweep_id}")
    monkeypatch.setenv("SWEEP_TOKEN", READ_TOKEN)
    assert ss.open(f"{client.url}/v1/sweeps/{sweep_id}").identical(dataset)


@pytest.mark.parametrize("format", FORMATS)
def test_export_equals_that_of_the_folder(client, sweep_id, stored, tmp_path, format):
    path = tmp_path / f"remote{FORMATS[format].suffix}"
    assert client.export(sweep_id, path, d=5, gamma="0.2:", seed=[0, 1]) == path
    local = tmp_path / f"local{FORMATS[format].suffix}"
    export(select(stored, {"d": 5, "gamma": 0.5}), local)
    assert path.read_bytes() == local.read_bytes()
    assert sorted(tmp_path.iterdir()) == sorted([path, local])


def test_figure_is_drawn_by_the_service(client, sweep_id, tmp_path):
    path = client.figure(sweep_id, tmp_path / "risk.png", d=5)
    assert path.read_bytes().startswith(b"\x89PNG")
    client.figure(sweep_id, tmp_path / "map.SVG", "phase-diagram", x="gamma", y="d", value="discrepancy")
    for name, view, word in (
        ("a.gif", "curves", "format"),
        ("a.png", "odd", "view"),
        ("a.png", "../x", "Not"),
    ):
        with pytest.raises(SweepError, match=word):
            client.figure(sweep_id, tmp_path / name, view)
    assert sorted(os.listdir(tmp_path)) == ["map.SVG", "risk.png"]


def test_export_with_format_and_variables(client, sweep_id, tmp_path):
    client.export(sweep_id, tmp_path / "x", format="json", variables=["sgd_risk"])
    assert list(json.loads((tmp_path / "x").read_text())["data_vars"]) == ["sgd_risk"]


@pytest.mark.parametrize(
    ("path", "options", "word"),
    [
        ("out.xlsx", {}, "must end in"),
        ("no/such/out.csv", {}, "folder that exists"),
        (".", {"format": "csv"}, "must be a file"),
        ("out.csv", {"format": "xlsx"}, "format"),
        ("out.csv", {"d": 77}, "d: is not stored; available"),
        ("out.csv", {"gama": 0.1}, "did you mean 'gamma'"),
    ],
)
def test_refused_export_leaves_no_file(client, sweep_id, tmp_path, path, options, word):
    with pytest.raises(InvalidInput, match=word):
        client.export(sweep_id, tmp_path / path, **options)
    assert list(tmp_path.iterdir()) == []


def test_views_equal_those_of_the_folder(client, sweep_id, stored):
    assert client.curves(sweep_id, d=5) == replace_nonfinite(compute_curves(stored, d=5))
    seeds = compute_seed_curves(stored, "risk", 0.1, d=5)
    assert client.seeds(sweep_id, relative_error=0.1, d=[5]) == replace_nonfinite(seeds)
    prediction = client.predict_seeds(SMALL_SPEC, 0.1)
    assert prediction == replace_nonfinite(predict_seeds(Outline.read(SMALL_SPEC), Calibration(), 0.1))
    assert client.curves(sweep_id, "cosine", d=[5, 8], gamma=0.5)["observable"] == "cosine"
    assert client.phase_diagram(sweep_id, "d", "gamma") == replace_nonfinite(
        diagram_to_json(phase_diagram(stored, "d", "gamma"))
    )
    with pytest.raises(InvalidInput):
        client.phase_diagram(sweep_id, "d", "gama")


# ---- control


def test_pause_resume_cancel_and_retry(client, busy_id):
    assert client.pause(busy_id)["state"] == "paused"
    assert client.resume(busy_id)["state"] in ("queued", "running")
    assert client.cancel(busy_id)["state"] == "cancelled"
    assert client.wait(busy_id, timeout=10)["counts"]["cancelled"] > 0
    assert client.retry(busy_id)["state"] in ("queued", "running")
    with pytest.raises(TimeoutError, match=rf"{busy_id} is (queued|running) after 0.5 s"):
        client.wait(busy_id, timeout=0.5)
    states = []
    for event in client.events(busy_id):
        states += [event.data["state"]] * (event.kind == "state" and event.data["state"] != "running")
        if states[-2:] == ["cancelled", "queued"]:
            break
    assert states == ["queued", "paused", "queued", "cancelled", "queued"]


def test_sweep_is_removed_while_it_is_waited_for(client):
    removed_id = client.submit({**LONG_SWEEP, "name": "removed", "seeds": 49})["id"]
    waiting = run_in_thread(lambda: client.wait(removed_id))
    until(lambda: client.sweep(removed_id)["state"] == "running")
    client.remove(removed_id)
    with pytest.raises(NotFound, match=r"removed|no sweep"):
        waiting.result(20)
    for method in (client.sweep, client.remove, client.cancel, client.open, client.spec, client.wait):
        with pytest.raises(NotFound):
            method(removed_id)


def test_extension_is_a_new_sweep(client, sweep_id):
    new = client.extend(sweep_id, {"axes": {"gamma": [0.9]}})
    assert (new["extends"], new["reused"]) == (sweep_id, 24)
    assert client.wait(new["id"], timeout=60)["counts"] == {"done": 36}
    assert client.extend(sweep_id, "axes: {gamma: [0.9]}")["id"] == new["id"]
    estimate = client.estimate_extension(sweep_id, {"axes": {"gamma": [0.2]}})
    assert (estimate["runs"], estimate["reused"]) == (36, 20)  # 4 of the 24 stored runs are copies
    renamed = client.extend(sweep_id, "axes: {gamma: [0.2]}", name="finer")
    assert (renamed["name"], renamed["extends"]) == ("finer", sweep_id)
    with pytest.raises(InvalidInput, match="must be one of axes"):
        client.extend(sweep_id, {"fixed": {"k": 3}})


def test_failures_are_listed_and_retried(client, folder):
    (folder / "broken").touch()
    failed_id = client.submit({**SMALL_SPEC, "name": "broken", "seeds": [12, 13]})["id"]
    assert client.wait(failed_id, timeout=60)["counts"] == {"done": 12, "failed": 4}
    assert client.sweep(failed_id)["state"] == "incomplete"
    client.page_size = 1
    failures = list(client.failures(failed_id))
    assert sum(len(failure["runs"]) for failure in failures) == 4
    assert len(failures) == 2  # one run for both d
    for failure in failures:
        assert "out of order" in failure["error"]
        assert failure["command"].startswith(f"sweep rerun {failed_id} ode-")
    (folder / "broken").unlink()
    client.retry(failed_id)
    assert client.wait(failed_id, timeout=60)["counts"] == {"done": 16}
    assert list(client.failures(failed_id)) == []


# ---- errors


def test_errors_of_the_service_are_raised_as_errors_of_the_package(client, sweep_id, service):
    with pytest.raises(NotFound, match=UNKNOWN_ID):
        client.sweep(UNKNOWN_ID)
    with pytest.raises(InvalidInput) as error:
        client.submit({**SMALL_SPEC, "axes": {**SMALL_SPEC["axes"], "gamma": -0.1}})
    assert (error.value.field, str(error.value)) == ("axes.gamma", f"axes.gamma: {error.value.allowed}")
    with pytest.raises(InvalidSpec) as error:
        client.estimate("axes: {d: 0, p: 4, gamma: 1}\nfixed: {k: 2}\ntime: 5\n")
    first, second = str(error.value).splitlines()
    assert first.startswith("line 1, column 11: axes.d: must be a whole number")
    assert second.startswith("line 3, column 7: time: must be a mapping")
    with pytest.raises(InvalidInput, match="did you mean"):
        client.estimate("axs: {}")
    with pytest.raises(InvalidInput, match="at most"):
        client.submit(" " * 5_000_000)
    with ss.Client(service.url) as other, pytest.raises(Denied, match="token"):
        other.sweep(sweep_id)
    with ss.Client(service.url, "guess") as other, pytest.raises(Denied, match="token"):
        next(other.events(sweep_id))
    with ss.Client(service.url, READ_TOKEN) as reader:
        assert reader.sweep(sweep_id)["id"] == sweep_id
        with pytest.raises(Denied, match="read-only"):
            reader.cancel(sweep_id)


def test_environment_sets_url_and_token(service, sweep_id, monkeypatch):
    monkeypatch.setenv("SWEEP_URL", f"{service.url}/")
    monkeypatch.setenv("SWEEP_TOKEN", READ_TOKEN)
    with ss.Client() as client:
        assert client.sweep(sweep_id)["id"] == sweep_id
    monkeypatch.delenv("SWEEP_URL")
    with ss.Client() as client:
        assert client.url == "http://127.0.0.1:8000"


# ---- interrupted services


def run_in_thread(work):
    """Run a function in a daemon thread, which does not delay the end of a failed test."""
    future = Future()

    def run():
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


@pytest.mark.slow
def test_wait_survives_a_restart_of_the_service(tmp_path):
    """SIGKILL while threads wait and read events, then a new service with the same port and data."""
    port, env = free_port(), {"SWEEP_MAX_ACTIVE": "1"}
    first = start_service(tmp_path / "data", port, env)
    try:
        with ss.Client(first.url) as client:
            spec = {**LONG_SWEEP, "seeds": 4, "time": {"max": 100.0, "samples": 4}}
            sweep_id = client.submit(spec)["id"]
            with pytest.raises(TooManySweeps) as error:
                client.submit(SMALL_SPEC)
            assert error.value.field == "sweeps"
            events, states = [], []

            def read():
                for event in client.events(sweep_id):
                    events.append(event)

            def follow():
                for sweep in client.follow(sweep_id):
                    states.append((sweep["state"], sweep["reason"]))
                return sweep

            reading, following = run_in_thread(read), run_in_thread(follow)
            waiting = run_in_thread(lambda: client.wait(sweep_id))
            until(lambda: any(event.data["state"] == "running" for event in events))
            first.kill()
            until(lambda: any("waiting for the service" in reason for _, reason in states))
            before = len(events)
            second = start_service(tmp_path / "data", port, env)
            try:
                assert waiting.result(90)["state"] == "completed"
                assert following.result(10)["counts"] == {"done": 4}
                reading.result(10)
            finally:
                second.stop()
            assert events[-1].data["state"] == "completed"
            assert len(events) > before
            kept = recorded(events)
            numbers = [int(event.id) for event in kept]
            assert numbers == sorted(set(numbers))  # no event twice
            assert {event.kind for event in kept} == {"state", "progress"}
    finally:
        first.close()


def test_events_after_a_given_event(client, sweep_id):
    events = list(client.events(sweep_id))
    assert events[0].kind == "state"
    assert events[-1].data["state"] == "completed"
    assert events[-1].data["id"] == sweep_id
    assert list(client.events(sweep_id, after=events[0].id)) == events[1:]
    assert list(client.events(sweep_id, after=events[-1].id)) == []
