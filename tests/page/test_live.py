"""A page that is watched: it fills in, and outlives a service that dies and comes back."""

import re

import pytest
from playwright.sync_api import expect

from sweep_service.execution.conductor import DEFAULT_SETTINGS, ConductorSettings
from sweep_service.planning.bundles import BundleLimits
from tests.api.served import until
from tests.hold import Hold
from tests.page.conftest import window
from tests.service import start_service
from tests.specs import distinct_spec

MANY = {
    "name": "many",
    "axes": {"d": [5, 8, 12], "p": [2, 4], "gamma": {"log": [0.1, 1.0, 6]}, "regime": "classical"},
    "fixed": {"k": 2}, "init": {"kind": "informed"}, "seeds": 2, "time": {"max": 1.0, "samples": 3},
}  # fmt: skip


@pytest.fixture
def small_bundles(held):
    """Split a small sweep into several bundles, and merge each at once."""
    settings = ConductorSettings(BundleLimits(max_runs=12), merge_interval_seconds=0.0)
    held.conductor_thread.call(setattr, "settings", settings)
    yield
    held.conductor_thread.call(setattr, "settings", DEFAULT_SETTINGS)


def done(page):
    found = re.search(r"(\d+) runs done", page.locator("#map canvas").get_attribute("aria-label"))
    return int(found[1]) if found else 0


def test_the_map_fills_in(waiting, held, small_bundles):
    sweep = held.submit(MANY)
    waiting.goto(f"/sweeps/{sweep}")
    expect(waiting.locator("#map canvas")).to_have_attribute("aria-label", re.compile("pending"))
    held.executor.let(computes=2)
    until(lambda: 0 < done(waiting) < 144)
    assert (
        waiting.evaluate("performance.getEntriesByType('navigation').length") == 1
    )  # and never loaded again
    held.executor.let()
    until(lambda: done(waiting) == 144)
    expect(waiting.locator("#state")).to_have_text("completed")


def test_curves_come_while_it_runs(waiting, held):
    sweep = held.submit({**distinct_spec(7), "simulate": False})
    waiting.goto(f"/sweeps/{sweep}/curves")
    expect(waiting.locator("#problem")).to_have_text("None of these runs has finished yet.")
    held.executor.let()
    expect(waiting.locator("#problem")).to_be_empty()
    until(lambda: waiting.evaluate("document.querySelector('#chart').data?.length > 0"))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_restart_in_the_middle(browser, tmp_path):
    hold = Hold(tmp_path, "run:sgd-0")  # so that the sweep does not end before the service
    service = start_service(tmp_path / "data", env=hold.environment)
    port = int(service.url.rpartition(":")[2])
    try:
        # While the service does not answer, the browser reports that on its console.
        with window(browser, service.url, errors=["ERR_CONNECTION_REFUSED", "net::ERR"]) as page:
            page.goto("/")
            sweep = page.evaluate(
                "spec => fetch('/v1/sweeps', {method: 'POST', headers: {'Content-Type': 'application/json'},"
                " body: JSON.stringify(spec)}).then((one) => one.json())", MANY,
            )["id"]  # fmt: skip
            page.goto(f"/sweeps/{sweep}")
            expect(page.locator("#state")).to_have_text("running", timeout=60_000)
            service.kill()
            expect(page.locator("#says")).to_contain_text("does not answer")
            service.close()
            service = start_service(tmp_path / "data", port=port)
            expect(page.locator("#state")).to_have_text("completed", timeout=120_000)
            expect(page.locator("#counts")).to_contain_text("144 done")
            expect(page.locator("#map canvas")).to_have_attribute("aria-label", re.compile("144 runs done"))
    finally:
        service.stop()
