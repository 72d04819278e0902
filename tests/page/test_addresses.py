"""Addresses without a page, the REST page in the dark, and the first time of a new sweep."""

import pytest
from playwright.sync_api import expect

from tests.api.served import assert_problem
from tests.page.conftest import open_page
from tests.page.test_compose import read_spec, wait_for_estimate

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize("path", ["/nowhere", "/sweeps", "/sweeps/x/y/z", "/static/nothing.js"])
def test_wrong_address_has_a_page_for_browsers(service, path):
    answer = service.get(path, headers=BROWSER)
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert "There is no page at this address" in answer.text
    assert_problem(service.get(path), 404)  # a program gets data


@pytest.mark.parametrize("path", ["/v1/nowhere", "/v1/sweeps/20200101-000000-00000000"])
def test_routes_of_the_api_have_problem_details_for_everyone(service, path):
    assert_problem(service.get(path, headers=BROWSER), 404)


def test_wrong_method_is_still_reported(service):
    assert_problem(service.post("/compose", headers=BROWSER), 405)


@pytest.mark.slow
def test_rest_page_is_dark_in_dark_mode(browser, service):
    with open_page(browser, service.url, color_scheme="dark") as page:
        page.goto("/docs")
        expect(page.locator(".opblock").first).to_be_visible()
        getter = "selector => getComputedStyle(document.querySelector(selector)).{}".format
        text = page.evaluate(getter("color"), "#swagger .info .title")
        background = page.evaluate(getter("backgroundColor"), "#swagger")
        assert lightness(text) > 180
        assert lightness(background) < 60


def lightness(colour):
    """Return the mean of the three channels of an rgb() colour."""
    channels = colour[colour.index("(") + 1 : -1].split(",")[:3]
    return sum(float(channel) for channel in channels) / 3


def test_first_time_of_a_new_sweep_follows_learning_rate_and_last_time(page):
    page.goto("/compose")
    first = page.get_by_label("First sample at t =")
    expect(first).to_have_value("0.02")  # γ up to 10 at p = 8
    page.get_by_label("γ, learning rate: last").fill("1000")
    expect(first).to_have_value("0.001")  # not below max/1e5
    page.get_by_label("Until t =").fill("1")
    expect(first).to_have_value("0.0002")
    first.fill("0.5")
    page.get_by_label("Until t =").fill("300")
    expect(first).to_have_value("0.5")  # what was typed stays
    assert read_spec(page)["time"] == {"max": 300, "min": 0.5}


@pytest.mark.slow
def test_first_time_of_a_preset_stays_as_it_is(page):
    page.goto("/compose?preset=fig2-right")
    wait_for_estimate(page)
    before = read_spec(page)["time"]
    page.get_by_label("Until t =").fill("77")
    assert read_spec(page)["time"] == {**before, "max": 77}
