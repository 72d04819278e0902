"""Edge cases of the page: unsorted values, axes of names, listed points, late or missing responses."""

import re

import pytest
from playwright.sync_api import expect

from tests.api.served import until
from tests.page.conftest import open_page
from tests.page.test_views import TRIANGLE, wait_for_chart
from tests.specs import SMALL_SPEC, TINY_SPEC, distinct_spec

UNSORTED = {
    **SMALL_SPEC, "name": "unsorted", "axes": {"d": [8, 5], "p": 4, "gamma": [0.9, 0.1, 0.3]},
    "simulate": True,
}  # fmt: skip
POINTS = {
    **SMALL_SPEC, "name": "points", "axes": {}, "fixed": {"k": 2},
    "points": [
        {"d": 5, "p": 4, "gamma": 0.1, "activation": "relu"},
        {"d": 5, "p": 2, "gamma": 0.1, "activation": "erf"},
        {"d": 8, "p": 2, "gamma": 0.2, "activation": "erf"},
    ],
}  # fmt: skip


def served_means(service, sweep, **where):
    """Return the SGD means that the service gives, without t = 0."""
    curves = service.get(f"/v1/sweeps/{sweep}/curves", params=where).json()["curves"]
    (means,) = [curve["mean"][1:] for curve in curves if curve["source"] == "sgd"]
    return means


def plotted_means(page):
    return page.evaluate("document.querySelector('#curves').data.find(({name}) => name === 'SGD').y")


def click_diagram(page, across, up):
    """Click at these fractions of the width and height of the diagram."""
    box = page.locator("#chart .nsewdrag").first.bounding_box()
    page.mouse.click(box["x"] + box["width"] * across, box["y"] + box["height"] * (1 - up))


def test_unsorted_values_are_stored_as_given_and_plotted_in_order(page, service):
    sweep = service.complete(UNSORTED)
    page.goto(f"/sweeps/{sweep}")
    canvas = page.locator("#map canvas")
    expect(canvas).to_have_attribute("aria-label", re.compile("done"))
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + 5)  # the last gamma, the first d
    expect(page.locator("#tip")).to_contain_text("d = 8, p = 4, γ = 0.3")
    page.goto(f"/sweeps/{sweep}/phase-diagram?x=gamma&y=d")
    wait_for_chart(page, "#chart")
    edges = page.evaluate("document.querySelector('#chart').data[0].x")
    assert edges == sorted(edges)
    click_diagram(page, 0.05, 0.05)
    expect(page.locator("#cell-caption")).to_contain_text("γ = 0.1, d = 5")
    until(lambda: plotted_means(page) == served_means(service, sweep, gamma=0.1, d=5))


def test_selected_cell_is_kept_when_the_value_changes(page, service):
    sweep = service.complete(UNSORTED)
    page.goto(f"/sweeps/{sweep}/phase-diagram?x=gamma&y=d&at_gamma=0.3&at_d=8")
    wait_for_chart(page, "#chart")
    value = page.get_by_label("Value")
    value.focus()
    value.select_option("sgd_final_risk")
    expect(value).to_be_focused()
    expect(page.locator('[name="at_d"]')).to_have_value("8")
    assert "at_gamma=0.3" in page.url


def test_diagram_can_be_clicked_after_an_initial_error(browser, service):
    sweep = service.complete(UNSORTED)
    with open_page(browser, service.url, expected_errors=["422"]) as page:
        page.goto(f"/sweeps/{sweep}/phase-diagram?x=gamma&y=gamma")
        expect(page.locator("#problem")).not_to_be_empty()
        page.get_by_label("Vertical").select_option("d")
        wait_for_chart(page, "#chart")
        click_diagram(page, 0.95, 0.05)
        expect(page.locator("#cell-caption")).to_contain_text("γ = 0.9, d = 5")


@pytest.mark.slow
def test_listed_points_are_plotted_and_clicked(page, service):
    """One of the axes has names; a click shows the curves of a point."""
    sweep = service.complete(POINTS)
    page.goto(f"/sweeps/{sweep}/phase-diagram?x=activation&y=d")
    wait_for_chart(page, "#chart")
    expect(page.locator("#chart .xtick text")).to_have_text(["relu", "erf"])
    page.locator("#chart .scatterlayer path.point").last.click(force=True)
    expect(page.locator("#cell-caption")).to_contain_text("d = 8, p = 2, γ = 0.2, activation = erf")
    assert "at=2" in page.url
    until(lambda: plotted_means(page) == served_means(service, sweep, d=8))
    page.goto(f"/sweeps/{sweep}/phase-diagram")  # chooses two axes that differ
    wait_for_chart(page, "#chart")
    expect(page.locator("#problem")).to_be_empty()


@pytest.mark.slow
def test_choice_of_no_colour_axis_is_kept_in_the_address(page, service):
    sweep = service.complete(POINTS)
    page.goto(f"/sweeps/{sweep}/curves")
    wait_for_chart(page, "#chart")
    colour_by = page.get_by_label("Colour by")
    colour_by.focus()
    colour_by.select_option("nothing")
    expect(colour_by).to_be_focused()
    until(lambda: "by=none" in page.url)
    page.reload()
    wait_for_chart(page, "#chart")
    expect(page.get_by_label("Colour by")).to_have_value("none")


def test_axis_of_names_can_be_plotted(page, service):
    axes = {"d": [5, 8], "p": 4, "gamma": 0.1, "activation": ["relu", "erf"]}
    sweep = service.complete({**SMALL_SPEC, "name": "names", "axes": axes})
    page.goto(f"/sweeps/{sweep}/phase-diagram?x=d&y=activation")
    wait_for_chart(page, "#chart")
    click_diagram(page, 0.9, 0.9)
    expect(page.locator("#cell-caption")).to_contain_text("d = 8, activation = erf")
    page.goto(f"/sweeps/{sweep}/figures?view=phase-diagram&x=d&y=activation")
    page.locator("#links a").first.wait_for()
    expect(page.locator("#problem")).to_be_empty()


def test_close_values_have_different_labels(page, service):
    axes = {"d": 5, "p": 4, "gamma": [0.1001, 0.1002]}
    sweep = service.complete({**SMALL_SPEC, "name": "close", "axes": axes})
    page.goto(f"/sweeps/{sweep}/curves")
    wait_for_chart(page, "#chart")
    values = page.locator("#chart + .chart-legend").get_by_role("group", name="γ =").get_by_role("button")
    expect(values).to_have_text(["0.1001", "0.1002"])


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.1, [0.1, 0.2]])
def test_phase_diagram_needs_two_axes(page, service, gamma):
    sweep = service.complete({**SMALL_SPEC, "axes": {"d": 5, "p": 4, "gamma": gamma}})
    page.goto(f"/sweeps/{sweep}/phase-diagram")
    expect(page.locator("#problem")).to_contain_text("needs two axes")
    page.get_by_role("link", name="the curves").click()
    wait_for_chart(page, "#chart")


@pytest.mark.slow
def test_triangle_with_a_further_axis(page, service):
    axes = {**TRIANGLE["axes"], "noise": [0.0, 0.1]}
    sweep = service.complete({**TRIANGLE, "name": "noisy", "axes": axes})
    page.goto(f"/sweeps/{sweep}/triangle")
    wait_for_chart(page, "#chart")
    page.locator('[name="noise"]').select_option("0.1")
    expect(page.locator("#caption")).to_contain_text("Δ = 0.1")
    assert "noise=0.1" in page.url
    wait_for_chart(page, "#curves")
    point = service.get(f"/v1/sweeps/{sweep}/contents").json()["points"][0]
    until(
        lambda: (
            plotted_means(page)
            == served_means(service, sweep, d=point[0], p=point[1], gamma=point[2], noise=0.1)
        )
    )
    page.goto(f"/sweeps/{sweep}/figures?view=triangle")
    page.locator("#links a").first.wait_for()
    expect(page.locator("#problem")).to_be_empty()


def test_late_figure_does_not_replace_a_newer_one(page, service):
    sweep = service.complete(UNSORTED)
    page.goto(f"/sweeps/{sweep}/figures?view=curves")
    page.locator("#links a").first.wait_for()
    delayed = []
    page.route("**/figures/curves?*cosine*", lambda route: delayed.append(route))
    page.get_by_label("Observable").select_option("cosine")
    until(lambda: page.wait_for_timeout(20) or delayed)
    page.get_by_label("Figure").select_option("phase-diagram")
    expect(page.locator("#links a").first).to_have_attribute("href", re.compile("phase-diagram"))
    image = page.locator("#figure").get_attribute("src")
    delayed[0].continue_()
    page.wait_for_timeout(500)
    assert page.locator("#figure").get_attribute("src") == image


@pytest.mark.parametrize("view", ["curves", "phase-diagram", "figures", "data"])
def test_missing_dataset_is_reported(browser, service, view):
    """The ledger lists the sweep, but its dataset was moved away."""
    sweep = service.complete(distinct_spec(40, name=f"gone {view}"))
    path = service.folder.dataset_path(sweep)
    path.rename(path.with_suffix(".moved"))
    try:
        with open_page(browser, service.url, expected_errors=["404"]) as page:
            page.goto(f"/sweeps/{sweep}/{view}")
            expect(page.locator("#problem")).to_contain_text("has no dataset")
            expect(page.locator("#state")).to_have_text("completed")
    finally:
        path.with_suffix(".moved").rename(path)


def test_end_of_sweep_is_not_reported_as_lost_connection(held_page, held):
    """The event stream closes at the end of a sweep, which shows no message."""
    sweep = held.submit(distinct_spec(41, name="ends"))
    held_page.goto(f"/sweeps/{sweep}")
    expect(held_page.locator("#state")).to_have_text("running")
    held_page.evaluate("""() => {
        window.messages = [];
        new MutationObserver(() => window.messages.push(document.querySelector("#says").textContent))
          .observe(document.querySelector("#says"), {childList: true});
    }""")
    held.executor.let()
    expect(held_page.locator("#state")).to_have_text("completed")
    held_page.wait_for_timeout(1500)
    assert held_page.evaluate("window.messages") == []


def test_deletion_of_the_shown_sweep_opens_the_list(browser, held):
    sweep = held.submit(distinct_spec(42, name="goes"))
    with open_page(browser, held.url, expected_errors=["404"]) as page:
        page.goto(f"/sweeps/{sweep}/curves")
        expect(page.locator("#state")).to_have_text("running")
        held.delete(f"/v1/sweeps/{sweep}")
        page.wait_for_url(lambda url: url.rstrip("/") == held.url)


@pytest.mark.slow
def test_filter_changes_send_one_request_at_a_time(held_page, held):
    """The page requests one list at a time, however often the filter has changed."""
    delayed, later = [], []
    held_page.goto("/")
    expect(held_page.get_by_text("No sweeps yet.")).to_be_visible()
    held_page.route(
        "**/v1/sweeps?*", lambda route: delayed.append(route) if len(delayed) < 3 else route.continue_()
    )
    for index, letter in enumerate("abc"):
        held_page.get_by_label("Name or id").fill(letter)
        until(lambda index=index: held_page.wait_for_timeout(20) or len(delayed) > index)
    held_page.on("request", lambda request: later.append(request) if "/v1/sweeps?" in request.url else None)
    for route in delayed:
        route.continue_()
    held_page.wait_for_timeout(4000)
    assert len(later) <= 3


def test_enter_submits_an_extension_and_keeps_listed_seeds(page, service):
    sweep = service.complete({**TINY_SPEC, "name": "listed", "seeds": [12, 13]})
    page.goto(f"/sweeps/{sweep}")
    page.get_by_role("button", name="extend listed").click()
    page.get_by_text("Parameters with one value").click()
    page.get_by_label("Add to gamma").fill("0.2")
    page.get_by_label("Add to gamma").press("Enter")
    page.wait_for_url(lambda url: "/sweeps/" in url and sweep not in url)
    spec = service.get(f"/v1/sweeps/{page.url.rpartition('/')[2]}/spec").json()
    assert spec["seeds"]["init"] == [12, 13]
    assert spec["axes"]["gamma"] == [0.1, 0.2]


def test_focus_moves_to_the_new_action(held_page, held):
    sweep = held.submit(distinct_spec(43, name="steered"))
    held_page.goto(f"/sweeps/{sweep}")
    held_page.locator('#actions [data-action="pause"]').focus()
    held_page.keyboard.press("Enter")
    expect(held_page.locator('#actions [data-action="resume"]')).to_be_focused()
