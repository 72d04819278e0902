"""What is unlike most: values out of order, words as an axis, points; answers that come late, or never."""

import re

import pytest
from playwright.sync_api import expect

from tests.api.served import until
from tests.page.conftest import window
from tests.page.test_views import TRIANGLE, drawn
from tests.specs import SMALL_SPEC, TINY_SPEC, distinct_spec

MIXED = {
    **SMALL_SPEC, "name": "mixed", "axes": {"d": [8, 5], "p": 4, "gamma": [0.9, 0.1, 0.3]}, "simulate": True,
}  # fmt: skip
POINTS = {
    **SMALL_SPEC, "name": "points", "axes": {}, "fixed": {"k": 2},
    "points": [
        {"d": 5, "p": 4, "gamma": 0.1, "activation": "relu"},
        {"d": 5, "p": 2, "gamma": 0.1, "activation": "erf"},
        {"d": 8, "p": 2, "gamma": 0.2, "activation": "erf"},
    ],
}  # fmt: skip


def sgd(service, sweep, **where):
    curves = service.get(f"/v1/sweeps/{sweep}/curves", params=where).json()["curves"]
    (found,) = [one["mean"][1:] for one in curves if one["source"] == "sgd"]
    return found


def shown(page, place="#curves"):
    return page.evaluate(
        "place => document.querySelector(place).data.find((one) => one.mode === 'markers').y", place
    )


def click(page, across, up):
    """In the diagram, at a share of its width and height."""
    box = page.locator("#chart .nsewdrag").first.bounding_box()
    page.mouse.click(box["x"] + box["width"] * across, box["y"] + box["height"] * (1 - up))


def test_values_out_of_order(page, service):
    """They are stored as they were given, and drawn from the least on."""
    sweep = service.complete(MIXED)
    page.goto(f"/sweeps/{sweep}")
    canvas = page.locator("#map canvas")
    expect(canvas).to_have_attribute("aria-label", re.compile("done"))
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + 5)  # the last of gamma, the first of d
    expect(page.locator("#tip")).to_contain_text("d = 8, p = 4, γ = 0.3")
    page.goto(f"/sweeps/{sweep}/phase-diagram?x=gamma&y=d")
    drawn(page, "#chart")
    edges = page.evaluate("document.querySelector('#chart').data[0].x")
    assert edges == sorted(edges)
    click(page, 0.05, 0.05)
    expect(page.locator("#cell-caption")).to_contain_text("γ = 0.1, d = 5")
    until(lambda: shown(page) == sgd(service, sweep, gamma=0.1, d=5))


def test_a_cell_stays_when_another_value_is_shown(page, service):
    sweep = service.complete(MIXED)
    page.goto(f"/sweeps/{sweep}/phase-diagram?x=gamma&y=d&at_gamma=0.3&at_d=8")
    drawn(page, "#chart")
    value = page.get_by_label("Value")
    value.focus()
    value.select_option("sgd_final_risk")
    expect(value).to_be_focused()
    expect(page.locator('[name="at_d"]')).to_have_value("8")
    assert "at_gamma=0.3" in page.url


def test_what_could_not_be_drawn_at_first_can_be_clicked_later(browser, service):
    sweep = service.complete(MIXED)
    with window(browser, service.url, errors=["422"]) as page:
        page.goto(f"/sweeps/{sweep}/phase-diagram?x=gamma&y=gamma")
        expect(page.locator("#problem")).not_to_be_empty()
        page.get_by_label("Vertical").select_option("d")
        drawn(page, "#chart")
        click(page, 0.95, 0.05)
        expect(page.locator("#cell-caption")).to_contain_text("γ = 0.9, d = 5")


@pytest.mark.slow
def test_points_on_two_axes(page, service):
    """Words stand on an axis; a click shows the curves of a point."""
    sweep = service.complete(POINTS)
    page.goto(f"/sweeps/{sweep}/phase-diagram?x=activation&y=d")
    drawn(page, "#chart")
    expect(page.locator("#chart .xtick text")).to_have_text(["relu", "erf"])
    page.locator("#chart .scatterlayer path.point").last.click(force=True)
    expect(page.locator("#cell-caption")).to_contain_text("d = 8, p = 2, γ = 0.2, activation = erf")
    assert "at=2" in page.url
    until(lambda: shown(page) == sgd(service, sweep, d=8))
    page.goto(f"/sweeps/{sweep}/phase-diagram")  # which axes tell them apart is found
    drawn(page, "#chart")
    expect(page.locator("#problem")).to_be_empty()


@pytest.mark.slow
def test_coloured_by_nothing(page, service):
    """An address says so, also where no axis is chosen."""
    sweep = service.complete(POINTS)
    page.goto(f"/sweeps/{sweep}/curves")
    drawn(page, "#chart")
    by = page.get_by_label("Colour by")
    by.focus()
    by.select_option("nothing")
    expect(by).to_be_focused()
    until(lambda: "by=none" in page.url)
    page.reload()
    drawn(page, "#chart")
    expect(page.get_by_label("Colour by")).to_have_value("none")


def test_words_as_an_axis(page, service):
    axes = {"d": [5, 8], "p": 4, "gamma": 0.1, "activation": ["relu", "erf"]}
    sweep = service.complete({**SMALL_SPEC, "name": "words", "axes": axes})
    page.goto(f"/sweeps/{sweep}/phase-diagram?x=d&y=activation")
    drawn(page, "#chart")
    click(page, 0.9, 0.9)
    expect(page.locator("#cell-caption")).to_contain_text("d = 8, activation = erf")
    page.goto(f"/sweeps/{sweep}/figures?view=phase-diagram&x=d&y=activation")
    page.locator("#links a").first.wait_for()
    expect(page.locator("#problem")).to_be_empty()


def test_values_that_are_close(page, service):
    axes = {"d": 5, "p": 4, "gamma": [0.1001, 0.1002]}
    sweep = service.complete({**SMALL_SPEC, "name": "close", "axes": axes})
    page.goto(f"/sweeps/{sweep}/curves")
    drawn(page, "#chart")
    expect(page.locator("#chart .legendtext")).to_have_text(["γ = 0.1001 (SGD)", "γ = 0.1002 (SGD)"])


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.1, [0.1, 0.2]])
def test_one_axis_or_none_has_no_phase_diagram(page, service, gamma):
    sweep = service.complete({**SMALL_SPEC, "axes": {"d": 5, "p": 4, "gamma": gamma}})
    page.goto(f"/sweeps/{sweep}/phase-diagram")
    expect(page.locator("#problem")).to_contain_text("needs two axes")
    page.get_by_role("link", name="the curves").click()
    drawn(page, "#chart")


@pytest.mark.slow
def test_more_beside_a_triangle(page, service):
    axes = {**TRIANGLE["axes"], "noise": [0.0, 0.1]}
    sweep = service.complete({**TRIANGLE, "name": "noisy", "axes": axes})
    page.goto(f"/sweeps/{sweep}/triangle")
    drawn(page, "#chart")
    page.locator('[name="noise"]').select_option("0.1")
    expect(page.locator("#caption")).to_contain_text("Δ = 0.1")
    assert "noise=0.1" in page.url
    drawn(page, "#curves")
    point = service.get(f"/v1/sweeps/{sweep}/contents").json()["points"][0]
    until(lambda: shown(page) == sgd(service, sweep, d=point[0], p=point[1], gamma=point[2], noise=0.1))
    page.goto(f"/sweeps/{sweep}/figures?view=triangle")
    page.locator("#links a").first.wait_for()
    expect(page.locator("#problem")).to_be_empty()


def test_a_figure_that_comes_late(page, service):
    sweep = service.complete(MIXED)
    page.goto(f"/sweeps/{sweep}/figures?view=curves")
    page.locator("#links a").first.wait_for()
    late = []
    page.route("**/figures/curves?*cosine*", lambda route: late.append(route))
    page.get_by_label("Observable").select_option("cosine")
    until(lambda: page.wait_for_timeout(20) or late)
    page.get_by_label("Figure").select_option("phase-diagram")
    expect(page.locator("#links a").first).to_have_attribute("href", re.compile("phase-diagram"))
    image = page.locator("#figure").get_attribute("src")
    late[0].continue_()
    page.wait_for_timeout(500)
    assert page.locator("#figure").get_attribute("src") == image


@pytest.mark.parametrize("room", ["curves", "phase-diagram", "figures", "data"])
def test_a_dataset_that_has_gone(browser, service, room):
    """The ledger knows the sweep; the page says why there is nothing to see."""
    sweep = service.complete(distinct_spec(40, name=f"gone {room}"))
    place = service.folder.dataset_path(sweep)
    place.rename(place.with_suffix(".elsewhere"))
    try:
        with window(browser, service.url, errors=["404"]) as page:
            page.goto(f"/sweeps/{sweep}/{room}")
            expect(page.locator("#problem")).to_contain_text("has no dataset")
            expect(page.locator("#state")).to_have_text("completed")
    finally:
        place.with_suffix(".elsewhere").rename(place)


def test_the_end_is_no_loss(waiting, held):
    """A stream that ends because the sweep did is not a service that does not answer."""
    sweep = held.submit(distinct_spec(41, name="ends"))
    waiting.goto(f"/sweeps/{sweep}")
    expect(waiting.locator("#state")).to_have_text("running")
    waiting.evaluate("""() => {
        window.heard = [];
        new MutationObserver(() => window.heard.push(document.querySelector("#says").textContent))
          .observe(document.querySelector("#says"), {childList: true});
    }""")
    held.executor.let()
    expect(waiting.locator("#state")).to_have_text("completed")
    waiting.wait_for_timeout(1500)
    assert waiting.evaluate("window.heard") == []


def test_deleted_while_looked_at(browser, held):
    sweep = held.submit(distinct_spec(42, name="goes"))
    with window(browser, held.url, errors=["404"]) as page:
        page.goto(f"/sweeps/{sweep}/curves")
        expect(page.locator("#state")).to_have_text("running")
        held.delete(f"/v1/sweeps/{sweep}")
        page.wait_for_url(lambda url: url.rstrip("/") == held.url)


@pytest.mark.slow
def test_a_search_asks_no_more_often(waiting, held):
    """One list is asked for at a time, however often the filter has changed."""
    slow, asked = [], []
    waiting.goto("/")
    expect(waiting.get_by_text("No sweeps yet.")).to_be_visible()
    waiting.route("**/v1/sweeps?*", lambda route: slow.append(route) if len(slow) < 3 else route.continue_())
    for at, word in enumerate("abc"):
        waiting.get_by_label("Name or id").fill(word)
        until(lambda at=at: waiting.wait_for_timeout(20) or len(slow) > at)
    waiting.on("request", lambda one: asked.append(one) if "/v1/sweeps?" in one.url else None)
    for route in slow:
        route.continue_()
    waiting.wait_for_timeout(4000)
    assert len(asked) <= 3


def test_extend_by_keyboard(page, service):
    """Enter means yes; seeds that were listed stay those, and no others come."""
    sweep = service.complete({**TINY_SPEC, "name": "listed", "seeds": [12, 13]})
    page.goto(f"/sweeps/{sweep}")
    page.get_by_role("button", name="extend listed").click()
    page.get_by_label("Axis").select_option("gamma")
    page.get_by_label("Additional values").fill("0.2")
    page.get_by_label("Additional values").press("Enter")
    page.wait_for_url(lambda url: "/sweeps/" in url and sweep not in url)
    spec = service.get(f"/v1/sweeps/{page.url.rpartition('/')[2]}/spec").json()
    assert spec["seeds"]["init"] == [12, 13]
    assert spec["axes"]["gamma"] == [0.1, 0.2]


def test_the_focus_stays_with_the_actions(waiting, held):
    sweep = held.submit(distinct_spec(43, name="steered"))
    waiting.goto(f"/sweeps/{sweep}")
    waiting.locator('#actions [data-action="pause"]').focus()
    waiting.keyboard.press("Enter")
    expect(waiting.locator('#actions [data-action="resume"]')).to_be_focused()
