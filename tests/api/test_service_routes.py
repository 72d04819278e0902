"""Readiness, pages, the catalogue, and failures that a service survives."""

import json
import re
import subprocess
import sys
import threading
import time as clock
from concurrent.futures import ThreadPoolExecutor

import pytest

from sweep_service.analysis.export import FORMATS
from sweep_service.api.conductor_thread import MAX_SLOW_REQUESTS_PER_CLIENT
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.extension import extend_spec
from sweep_service.execution.submission import Submission
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.initial import INITS
from sweep_service.model.observables import OBSERVABLES
from sweep_service.planning.spec import SweepSpec
from sweep_service.presets import PRESETS, read_preset
from sweep_service.store.folder import DataFolder
from sweep_service.version import __version__
from tests.api.served import assert_problem, gated, serving, until
from tests.api.test_metrics import numbers
from tests.specs import TINY_SPEC, distinct_spec


def test_service_is_healthy_and_ready(service):
    assert service.get("/healthz").json() == {"status": "ok"}
    assert service.get("/readyz").json() == {
        "status": "ready", "version": __version__, "threads": 1, "waiting": "", "refused": [],
    }  # fmt: skip


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_accept_head(service, path):
    answer = service.head(path)
    assert (answer.status_code, answer.content) == (200, b"")


def test_slow_requests_do_not_starve_fast_ones(tmp_path, monkeypatch):
    """Even with more slow requests than there are threads."""
    started, let = threading.Semaphore(0), threading.Event()

    def slow(*given):
        started.release()
        assert let.wait(60)
        raise InvalidInput("spec", "", "took long")

    with serving(tmp_path) as service, ThreadPoolExecutor(60) as pool:
        sweep_id = service.complete(distinct_spec(1))
        monkeypatch.setattr(Submission, "summarise_cost", slow)
        slow_requests = [
            pool.submit(service.post, "/v1/estimate", json=distinct_spec(n), timeout=60) for n in range(60)
        ]
        try:
            for _ in range(MAX_SLOW_REQUESTS_PER_CLIENT):
                assert started.acquire(timeout=30)
            for path in ("/readyz", "/v1/sweeps", f"/v1/sweeps/{sweep_id}/spec", "/metrics"):
                assert service.get(path, timeout=30).status_code == 200, path
            assert not started.acquire(timeout=0)
        finally:
            let.set()
        assert {future.result().status_code for future in slow_requests} == {422}


def test_unfinished_response_does_not_delay_exit():
    code = (
        "import threading, time; from sweep_service.api.serve import _exit; "
        "threading.Thread(target=time.sleep, args=(600,)).start(); print('kept', end=''); _exit(3)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (3, b"kept", b"")


def test_event_loop_does_not_read_ledger(service, monkeypatch):
    sweep_id = service.complete(distinct_spec(3))
    assert service.conductor_thread.describe(sweep_id) == service.conductor_thread.describe_cached(sweep_id)
    service.conductor_thread.status_cache.invalidate("another")
    monkeypatch.setattr(service.conductor_thread.ledger, "sweeps", pytest.fail)
    assert service.conductor_thread.describe_cached(sweep_id) is None


def test_every_page_is_served(service):
    page = service.get("/")
    assert page.headers["content-type"].startswith("text/html")
    links = re.findall(r'(?:href|src)="(/[^"]*)"', page.text)
    assert {"/", "/compose", "/cluster", "/docs"} < set(links)
    for link in links:
        assert service.get(link).status_code == 200, link
    assert service.get("/dask").headers["location"] == "/dask/status"
    assert service.get("/dask/status").status_code == 503  # without Dask


@pytest.mark.parametrize("path", ["/", "/compose", "/cluster", "/docs"])
def test_pages_have_security_headers(service, path):
    page = service.get(path)
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert "<script>" not in page.text  # the content security policy forbids inline scripts
    assert "http" not in page.text.replace("http-equiv", "")  # nothing is loaded from other hosts


def test_sweep_name_is_escaped_in_page(service):
    """A name may contain HTML."""
    sweep_id = service.complete(distinct_spec(5, name="<b>bold & 'quoted'"))
    page = service.get(f"/sweeps/{sweep_id}").text
    assert "<b>" not in page
    assert "&lt;b&gt;bold" in page


@pytest.mark.parametrize("path", ["/sweeps/nothing", "/sweeps/20200101-000000-00000000", "/sweeps/x/curves"])
def test_unknown_page_is_not_found(service, path):
    answer = service.get(path)
    assert answer.status_code == 404
    assert "Not found" in answer.text


@pytest.mark.parametrize(
    "path", ["../settings.py", "..%2fsettings.py", "js/../../settings.py", "nothing.js", ""]
)
def test_only_static_files_are_served(service, path):
    answer = service.get(f"/static/{path}")
    assert answer.status_code in (404, 405)
    assert "SWEEP_" not in answer.text


def test_static_files_are_revalidated(service):
    first = service.get("/static/page.css")
    assert first.headers["cache-control"] == "no-cache"
    again = service.get("/static/page.css", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304


def test_openapi_describes_all_routes(service):
    content = service.get("/openapi.json").json()
    assert content["info"]["version"] == __version__
    known = content["components"]["schemas"]
    for reference in re.findall(r'"#/components/schemas/([^"]*)"', json.dumps(content)):
        assert reference in known
    for path, operations in content["paths"].items():
        for method, operation in operations.items():
            bad = {code for code in operation["responses"] if int(code) >= 400}
            if path not in ("/healthz", "/readyz"):
                assert bad >= {"401", "403", "422"}, (method, path)
            for code in bad - {"503"}:
                assert list(operation["responses"][code]["content"]) == ["application/problem+json"]
    assert "security" not in content  # because there are no tokens


def test_openapi_examples_are_valid(service):
    paths = service.get("/openapi.json").json()["paths"]
    spec = paths["/v1/sweeps"]["post"]["requestBody"]["content"]["application/json"]["example"]
    assert service.post("/v1/estimate", json=spec).status_code == 200
    change = paths["/v1/sweeps/{id}/extend"]["post"]["requestBody"]["content"]["application/yaml"]["example"]
    assert extend_spec(SweepSpec.parse(spec), json.dumps(change)) != SweepSpec.parse(spec)


# ---- presets and catalogue


def test_presets_are_specs(service):
    content = {preset["name"]: preset for preset in service.get("/v1/presets").json()["presets"]}
    assert set(content) == set(PRESETS)
    for name, preset in content.items():
        assert SweepSpec.parse(preset["spec"]) == read_preset(name)
        assert preset["title"] == read_preset(name).name


def test_preset_can_be_estimated(service):
    preset = service.get("/v1/presets").json()["presets"][0]
    assert service.post("/v1/estimate", json=preset["spec"]).json()["runs"] > 0


@pytest.mark.parametrize(
    ("part", "registry"),
    [
        ("activations", ACTIVATIONS), ("regimes", [*REGIMES, "auto"]), ("observables", OBSERVABLES),
        ("inits", INITS), ("formats", FORMATS),
    ],
)  # fmt: skip
def test_catalogue_equals_registries(service, part, registry):
    content = service.get("/v1/catalogue").json()[part]
    assert [named["name"] for named in content] == list(registry)
    assert all(named["about"] for named in content)


def test_names_of_catalogue_are_accepted(service):
    content = service.get("/v1/catalogue").json()
    for activation in content["activations"]:
        spec = {**TINY_SPEC, "fixed": {"k": 1, "activation": activation["name"]}}
        assert service.post("/v1/estimate", json=spec).status_code == 200, activation["name"]
    for observable in content["observables"]:
        spec = {**TINY_SPEC, "observables": [observable["name"]]}
        assert service.post("/v1/estimate", json=spec).status_code == 200, observable["name"]
    for regime in content["regimes"]:
        spec = {**TINY_SPEC, "axes": {**TINY_SPEC["axes"], "regime": regime["name"]}}
        assert service.post("/v1/estimate", json=spec).status_code == 200, regime["name"]


# ---- failures


def test_sweep_waits_while_disk_is_full(held, monkeypatch):
    sweep_id = held.submit(distinct_spec(2))
    monkeypatch.setattr(DataFolder, "free_bytes", lambda _: 0)
    until(lambda: "waiting for room" in held.get("/readyz").json()["waiting"])
    assert "waiting for room" in held.sweep(sweep_id)["reason"]
    assert numbers(held)["sweep_waiting", ()] == 1
    assert_problem(held.post("/v1/sweeps", json=distinct_spec(3)), 507, field="bytes")
    estimate = held.post("/v1/estimate", json=distinct_spec(3)).json()
    assert "free disk space" in estimate["refused"]
    monkeypatch.undo()
    held.executor.let()
    assert held.wait_until_ended(sweep_id)["counts"] == {"done": 4}
    assert held.get("/readyz").json()["waiting"] == ""


def test_failing_step_does_not_stop_service(held, monkeypatch):
    """Its details are in the log only."""

    def broken(*arguments, **options):
        raise RuntimeError("odd")

    monkeypatch.setattr(Conductor, "tick", broken)
    until(lambda: "retrying after an internal error" in held.get("/readyz").json()["waiting"])
    assert "odd" not in held.get("/readyz").text
    monkeypatch.undo()
    held.executor.let()
    sweep_id = held.submit(distinct_spec(4))
    assert held.wait_until_ended(sweep_id)["counts"] == {"done": 4}
    assert held.get("/readyz").json() == {**held.get("/readyz").json(), "status": "ready", "waiting": ""}


def test_request_fails_at_once_when_conductor_has_ended(tmp_path):
    """Without waiting for the timeout of an action."""
    with serving(tmp_path, executor=gated) as service:
        sweep_id = service.submit(distinct_spec(1))
        service.conductor_thread.request_stop()
        service.conductor_thread._thread.join()
        assert service.get("/readyz").status_code == 503
        assert service.get("/readyz").json()["status"] == "stopping"
        assert service.get("/healthz").status_code == 200
        began = clock.monotonic()
        answer = service.post(f"/v1/sweeps/{sweep_id}/cancel")
        assert clock.monotonic() - began < 5
        assert_problem(answer, 503, "stopping")
        assert int(answer.headers["retry-after"]) > 0
        assert service.sweep(sweep_id)["id"] == sweep_id  # reading is still possible


def test_service_leaves_no_threads(tmp_path):
    before = set(threading.enumerate())
    with serving(tmp_path) as service:
        service.complete(distinct_spec(1))
    left = set(threading.enumerate()) - before
    assert [thread.name for thread in left if "conductor" in thread.name or "service" in thread.name] == []


def test_sweeps_continue_after_restart(tmp_path):
    with serving(tmp_path, executor=gated) as service:
        service.executor.let(computes=1)
        sweep_id = service.submit(distinct_spec(1))
        until(lambda: service.executor.computes == 0)
        paused = service.submit(distinct_spec(2))
        service.post(f"/v1/sweeps/{paused}/pause")
    with serving(tmp_path, executor=gated) as service:
        assert service.wait_until_ended(sweep_id)["counts"] == {"done": 4}
        assert service.sweep(paused)["state"] == "paused"
