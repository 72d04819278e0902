"""Several sweeps on one figure, and the settings of a view carried to another sweep."""

import pytest
from playwright.sync_api import expect

from tests.page.test_views import GRID, traces, wait_for_chart
from tests.specs import SMALL_SPEC

OTHER = {**SMALL_SPEC, "name": "other", "axes": {**SMALL_SPEC["axes"], "gamma": [0.1, 0.5]}}


@pytest.fixture(scope="module")
def ids(service):
    return [service.complete(GRID), service.complete(OTHER)]


def test_curves_of_sweeps_are_overlaid(page, ids):
    page.goto(f"/sweeps/{ids[0]}/curves")
    page.get_by_role("link", name="Overlay sweeps").click()
    wait_for_chart(page, "#chart")
    page.get_by_label("Add a sweep").select_option(ids[1])
    wait_for_chart(page, "#chart", 2)
    legend = page.locator(".chart-legend").first
    expect(legend).to_contain_text("grid")
    expect(legend).to_contain_text("other")
    assert f"sweeps={ids[0]},{ids[1]}" in page.url
    page.locator("#choose").get_by_label("γ").select_option("0.1")  # the only common value
    names = [trace["name"] for trace in traces(page) if trace["name"]]
    assert names.count("classical noise") == 2
    page.reload()
    expect(page.locator("#sweeps li")).to_have_count(2)
    page.get_by_role("button", name="remove grid").click()
    expect(page.locator("#sweeps li")).to_have_count(1)


def test_view_is_carried_to_another_sweep(page, ids):
    page.goto(f"/sweeps/{ids[0]}/curves?by=d&gamma=0.1&regime=classical_noise&linear=x")
    wait_for_chart(page, "#chart")
    page.get_by_role("button", name="Same view of").click()
    page.get_by_role("dialog").get_by_label("Sweep").select_option(ids[1])
    page.get_by_role("dialog").get_by_role("button", name="Show").click()
    page.wait_for_url(f"**/sweeps/{ids[1]}/curves?*")
    wait_for_chart(page, "#chart")
    for part in ("by=d", "gamma=0.1", "linear=x"):
        assert part in page.url
    expect(page.get_by_label("log t")).not_to_be_checked()


def test_settings_that_the_other_sweep_lacks_are_named(page, ids):
    page.goto(f"/sweeps/{ids[0]}/curves?by=d&gamma=0.3")
    wait_for_chart(page, "#chart")
    page.get_by_role("button", name="Same view of").click()
    page.get_by_role("dialog").get_by_label("Sweep").select_option(ids[1])
    page.get_by_role("dialog").get_by_role("button", name="Show").click()
    page.wait_for_url(f"**/sweeps/{ids[1]}/curves?*")
    expect(page.locator("#says")).to_contain_text("This sweep does not have γ = 0.3.")
    wait_for_chart(page, "#chart")
