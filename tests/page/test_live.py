"""Live updates of an open page, also after the service was killed and started again."""

import re

import pytest
from playwright.sync_api import expect

from tests.api.served import until
from tests.hold import Hold
from tests.page.conftest import open_page
from tests.service import start_service
from tests.specs import distinct_spec

MANY = {
    "name": "many",
    "axes": {"d": [5, 8, 12], "p": [2, 4], "gamma": {"log": [0.1, 1.0, 6]}, "regime": "classical"},
    "fixed": {"k": 2}, "init": {"kind": "informed"}, "seeds": 2, "time": {"max": 1.0, "samples": 3},
}  # fmt: skip


def count_done(page):
    match = re.search(r"(\d+) runs done", page.locator("#map canvas").get_attribute("aria-label"))
    return int(match[1]) if match else 0


def test_map_shows_runs_as_they_are_computed(held_page, held, small_bundles):
    sweep = held.submit(MANY)
    held_page.goto(f"/sweeps/{sweep}")
    expect(held_page.locator("#map canvas")).to_have_attribute("aria-label", re.compile("pending"))
    held.executor.let(computes=2)
    until(lambda: 0 < count_done(held_page) < 144)
    # The page was not reloaded.
    assert held_page.evaluate("performance.getEntriesByType('navigation').length") == 1
    held.executor.let()
    until(lambda: count_done(held_page) == 144)
    expect(held_page.locator("#state")).to_have_text("completed")


def test_curves_appear_while_the_sweep_runs(held_page, held):
    sweep = held.submit({**distinct_spec(7), "simulate": False})
    held_page.goto(f"/sweeps/{sweep}/curves")
    expect(held_page.locator("#problem")).to_have_text("None of these runs has finished yet.")
    held.executor.let()
    expect(held_page.locator("#problem")).to_be_empty()
    until(lambda: held_page.evaluate("document.querySelector('#chart').data?.length > 0"))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_page_reconnects_to_a_restarted_service(browser, tmp_path):
    hold = Hold(tmp_path, "run:sgd-0")  # so that the sweep does not end before the service
    service = start_service(tmp_path / "data", env=hold.environment)
    port = int(service.url.rpartition(":")[2])
    try:
        # While the service does not answer, the browser reports that on its console.
        with open_page(browser, service.url, expected_errors=["ERR_CONNECTION_REFUSED", "net::ERR"]) as page:
            page.goto("/")
            sweep = page.evaluate(
                "spec => fetch('/v1/sweeps', {method: 'POST', headers: {'Content-Type': 'application/json'},"
                " body: JSON.stringify(spec)}).then((response) => response.json())", MANY,
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
