"""The service itself: readiness, what a spec can name, troubles it outlives."""

import json
import re
import subprocess
import sys
import threading
import time as clock
from concurrent.futures import ThreadPoolExecutor

import pytest

from sweep_service.analysis.export import FORMATS
from sweep_service.api.conductor_thread import SEATS
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.submission import Submission
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.initial import INITS
from sweep_service.model.observables import OBSERVABLES
from sweep_service.planning.spec import SweepSpec
from sweep_service.presets import PRESETS, preset
from sweep_service.store.folder import DataFolder
from sweep_service.version import __version__
from tests.api.served import TINY, another, assert_problem, gated, serving, until
from tests.api.test_metrics import numbers


def test_it_is_well(service):
    assert service.get("/healthz").json() == {"status": "ok"}
    assert service.get("/readyz").json() == {
        "status": "ready", "version": __version__, "threads": 1, "waiting": "", "refused": [],
    }  # fmt: skip


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_probe_may_ask_for_the_head_alone(service, path):
    answer = service.head(path)
    assert (answer.status_code, answer.content) == (200, b"")


def test_long_answers_leave_threads_for_others(tmp_path, monkeypatch):
    """More of them at once than there are threads: who asks for little waits for none of them."""
    told, let = threading.Semaphore(0), threading.Event()

    def slow(*given):
        told.release()
        assert let.wait(60)
        raise InvalidInput("spec", "", "took long")

    with serving(tmp_path) as service, ThreadPoolExecutor(60) as pool:
        sweep = service.done(another(1))
        monkeypatch.setattr(Submission, "price", slow)
        asked = [pool.submit(service.post, "/v1/estimate", json=another(n), timeout=60) for n in range(60)]
        try:
            for _ in range(SEATS):
                assert told.acquire(timeout=30)
            for path in ("/readyz", "/v1/sweeps", f"/v1/sweeps/{sweep}/spec", "/metrics"):
                assert service.get(path, timeout=30).status_code == 200, path
            assert not told.acquire(timeout=0)
        finally:
            let.set()
        assert {one.result().status_code for one in asked} == {422}


def test_an_answer_for_nobody_does_not_keep_the_process():
    code = (
        "import threading, time; from sweep_service.api.serve import _left; "
        "threading.Thread(target=time.sleep, args=(600,)).start(); print('kept', end=''); _left(3)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (found.returncode, found.stdout, found.stderr) == (3, b"kept", b"")


def test_the_event_loop_asks_no_ledger(service, monkeypatch):
    sweep = service.done(another(3))
    assert service.engine.view(sweep) == service.engine.known(sweep)
    service.engine.board.wipe("another")
    monkeypatch.setattr(service.engine.ledger, "sweeps", pytest.fail)
    assert service.engine.known(sweep) is None


def test_the_front_door_leads_to_all_rooms(service):
    page = service.get("/")
    assert page.headers["content-type"].startswith("text/html")
    links = re.findall(r'(?:href|src)="(/[^"]*)"', page.text)
    assert {"/", "/compose", "/cluster", "/docs"} < set(links)
    for link in links:
        assert service.get(link).status_code == 200, link
    assert service.get("/dask").headers["location"] == "/dask/status"
    assert service.get("/dask/status").status_code == 503  # there is no Dask here


@pytest.mark.parametrize("path", ["/", "/compose", "/cluster", "/docs"])
def test_pages_are_safe(service, path):
    page = service.get(path)
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert "<script>" not in page.text  # a policy that allows them would allow a stranger's
    assert "http" not in page.text.replace("http-equiv", "")  # nothing from elsewhere


def test_a_name_is_text_and_nothing_else(service):
    """A title may hold what HTML takes for its own."""
    sweep = service.done(another(5, name="<b>bold & 'quoted'"))
    page = service.get(f"/sweeps/{sweep}").text
    assert "<b>" not in page
    assert "&lt;b&gt;bold" in page


@pytest.mark.parametrize("path", ["/sweeps/nothing", "/sweeps/20200101-000000-00000000", "/sweeps/x/curves"])
def test_a_page_that_is_not_there(service, path):
    answer = service.get(path)
    assert answer.status_code == 404
    assert "Not found" in answer.text


@pytest.mark.parametrize(
    "path", ["../settings.py", "..%2fsettings.py", "js/../../settings.py", "nothing.js", ""]
)
def test_only_files_of_the_page_are_served(service, path):
    answer = service.get(f"/static/{path}")
    assert answer.status_code in (404, 405)
    assert "SWEEP_" not in answer.text


def test_files_are_asked_for_again_and_cost_nothing_then(service):
    first = service.get("/static/page.css")
    assert first.headers["cache-control"] == "no-cache"
    again = service.get("/static/page.css", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304


def test_the_interface_is_described(service):
    about = service.get("/openapi.json").json()
    assert about["info"]["version"] == __version__
    known = about["components"]["schemas"]
    for found in re.findall(r'"#/components/schemas/([^"]*)"', json.dumps(about)):
        assert found in known
    for path, operations in about["paths"].items():
        for method, operation in operations.items():
            bad = {code for code in operation["responses"] if int(code) >= 400}
            if path not in ("/healthz", "/readyz"):
                assert bad >= {"401", "403", "422"}, (method, path)
            for code in bad - {"503"}:
                assert list(operation["responses"][code]["content"]) == ["application/problem+json"]
    assert "security" not in about  # no tokens here


def test_the_examples_of_the_description_are_good(service):
    paths = service.get("/openapi.json").json()["paths"]
    spec = paths["/v1/sweeps"]["post"]["requestBody"]["content"]["application/json"]["example"]
    assert service.post("/v1/estimate", json=spec).status_code == 200
    change = paths["/v1/sweeps/{id}/extend"]["post"]["requestBody"]["content"]["application/yaml"]["example"]
    assert SweepSpec.parse(spec).extended(json.dumps(change)) != SweepSpec.parse(spec)


# ---- what a spec can name


def test_presets_are_specs(service):
    found = {one["name"]: one for one in service.get("/v1/presets").json()["presets"]}
    assert set(found) == set(PRESETS)
    for name, one in found.items():
        assert SweepSpec.parse(one["spec"]) == preset(name)
        assert one["title"] == preset(name).name


def test_a_preset_can_be_asked_for(service):
    one = service.get("/v1/presets").json()["presets"][0]
    assert service.post("/v1/estimate", json=one["spec"]).json()["runs"] > 0


@pytest.mark.parametrize(
    ("part", "registry"),
    [
        ("activations", ACTIVATIONS), ("regimes", [*REGIMES, "auto"]), ("observables", OBSERVABLES),
        ("inits", INITS), ("formats", FORMATS),
    ],
)  # fmt: skip
def test_the_catalogue_is_that_of_the_registries(service, part, registry):
    found = service.get("/v1/catalogue").json()[part]
    assert [one["name"] for one in found] == list(registry)
    assert all(one["about"] for one in found)


def test_what_the_catalogue_names_can_be_asked_for(service):
    found = service.get("/v1/catalogue").json()
    for one in found["activations"]:
        spec = {**TINY, "fixed": {"k": 1, "activation": one["name"]}}
        assert service.post("/v1/estimate", json=spec).status_code == 200, one["name"]
    for one in found["observables"]:
        spec = {**TINY, "observables": [one["name"]]}
        assert service.post("/v1/estimate", json=spec).status_code == 200, one["name"]
    for one in found["regimes"]:
        spec = {**TINY, "axes": {**TINY["axes"], "regime": one["name"]}}
        assert service.post("/v1/estimate", json=spec).status_code == 200, one["name"]


# ---- troubles


def test_a_full_disk_is_waited_for(held, monkeypatch):
    sweep = held.submit(another(2))
    monkeypatch.setattr(DataFolder, "free_bytes", lambda _: 0)
    until(lambda: "waiting for room" in held.get("/readyz").json()["waiting"])
    assert "waiting for room" in held.sweep(sweep)["reason"]
    assert numbers(held)["sweep_waiting", ()] == 1
    assert_problem(held.post("/v1/sweeps", json=another(3)), 422, field="bytes")
    monkeypatch.undo()
    held.executor.let()
    assert held.ended(sweep)["counts"] == {"done": 4}
    assert held.get("/readyz").json()["waiting"] == ""


def test_an_error_of_ours_does_not_stop_the_others(held, monkeypatch):
    """Nor is it told to strangers: the log has it."""

    def broken(*words, **options):
        raise RuntimeError("odd")

    monkeypatch.setattr(Conductor, "tick", broken)
    until(lambda: "met an error" in held.get("/readyz").json()["waiting"])
    assert "odd" not in held.get("/readyz").text
    monkeypatch.undo()
    held.executor.let()
    sweep = held.submit(another(4))
    assert held.ended(sweep)["counts"] == {"done": 4}
    assert held.get("/readyz").json() == {**held.get("/readyz").json(), "status": "ready", "waiting": ""}


def test_a_conductor_that_has_ended_is_told_at_once(tmp_path):
    """Not after the patience of a request, which is long."""
    with serving(tmp_path, executor=gated) as service:
        sweep = service.submit(another(1))
        service.engine.hush()
        service.engine._thread.join()
        assert service.get("/readyz").status_code == 503
        assert service.get("/readyz").json()["status"] == "stopping"
        assert service.get("/healthz").status_code == 200
        began = clock.monotonic()
        answer = service.post(f"/v1/sweeps/{sweep}/cancel")
        assert clock.monotonic() - began < 5
        assert_problem(answer, 503, "stopping")
        assert int(answer.headers["retry-after"]) > 0
        assert service.sweep(sweep)["id"] == sweep  # who only looks may go on


def test_a_service_leaves_no_thread_behind(tmp_path):
    before = set(threading.enumerate())
    with serving(tmp_path) as service:
        service.done(another(1))
    left = set(threading.enumerate()) - before
    assert [thread.name for thread in left if "conductor" in thread.name or "service" in thread.name] == []


def test_what_was_going_on_goes_on_after_a_restart(tmp_path):
    with serving(tmp_path, executor=gated) as service:
        service.executor.let(computes=1)
        sweep = service.submit(another(1))
        until(lambda: service.executor.computes == 0)
        paused = service.submit(another(2))
        service.post(f"/v1/sweeps/{paused}/pause")
    with serving(tmp_path, executor=gated) as service:
        assert service.ended(sweep)["counts"] == {"done": 4}
        assert service.sweep(paused)["state"] == "paused"
