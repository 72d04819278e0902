"""The overview of a sweep: parameters, small pictures, the map by keyboard, the name and the note."""

import re

import pytest
from playwright.sync_api import expect

from tests.api.served import until
from tests.page.test_views import GRID, TRIANGLE, wait_for_chart
from tests.specs import distinct_spec


@pytest.fixture(scope="module")
def grid(service):
    return service.complete(GRID)


def test_parameters_and_small_pictures_are_shown(page, grid):
    page.goto(f"/sweeps/{grid}")
    parameters = page.locator("#parameters")
    for text in ("γ, learning rate", "0.1, 0.3, 0.9", "variance Δ", "0.001", "erf", "informed"):
        expect(parameters).to_contain_text(text)
    expect(parameters).to_contain_text("classical noise, high dimensional")
    expect(parameters).to_contain_text("2 starts, SGD repeated 2×")
    curves, diagram = page.locator("#preview-curves"), page.locator("#preview-diagram")
    expect(curves.locator("polyline")).to_have_count(9)  # SGD and two theories at three dimensions
    expect(diagram.locator("rect[width]").nth(8)).to_be_visible()  # nine cells at least
    assert "plotly" not in page.content()  # they do not load the plotting library
    diagram.get_by_role("link").click()
    page.wait_for_url("**/phase-diagram?*")
    wait_for_chart(page, "#chart")


@pytest.mark.slow
def test_triangle_has_its_small_picture(page, service):
    corners = service.complete(TRIANGLE)
    page.goto(f"/sweeps/{corners}")
    points = service.get(f"/v1/sweeps/{corners}/contents").json()["points"]
    expect(page.locator("#preview-diagram circle")).to_have_count(len(points))


@pytest.mark.slow
def test_single_point_has_no_diagram(page, service):
    single = service.complete(distinct_spec(7))
    page.goto(f"/sweeps/{single}")
    expect(page.locator("#preview-curves polyline").first).to_be_attached()
    expect(page.locator("#preview-diagram")).to_be_hidden()


def test_map_can_be_used_by_keyboard(page, grid):
    page.goto(f"/sweeps/{grid}")
    canvas, point = page.locator("#map canvas"), page.locator("#map-point")
    expect(canvas).to_have_attribute("aria-label", re.compile("9 points"))
    canvas.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")  # as a keyboard user gets there
    expect(canvas).to_be_focused()
    expect(point).to_contain_text("d = 5, p = 4, γ = 0.1: ")
    assert page.evaluate("getComputedStyle(document.querySelector('#map canvas')).outlineStyle") == "solid"
    drawn = canvas.evaluate("canvas => canvas.toDataURL()")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(point).to_contain_text(re.compile(r"d = 8, p = 4, γ = 0.3: .* done"))
    expect(page.locator("#tip")).to_contain_text("γ = 0.3")
    assert canvas.evaluate("canvas => canvas.toDataURL()") != drawn  # the frame has moved
    for key in ("End", "ArrowRight", "PageDown", "ArrowUp"):  # an edge is no further
        page.keyboard.press(key)
    coordinates = point.text_content().partition(":")[0]
    page.keyboard.press("Enter")
    page.wait_for_url("**/curves?*")
    d, _, gamma = [text.split(" = ")[1] for text in coordinates.split(", ")]
    assert f"d={d}" in page.url
    assert f"gamma={gamma}" in page.url


def test_sweep_is_renamed_and_gets_a_note(page, service):
    sweep_id = service.complete(distinct_spec(8, name="before"))
    page.goto(f"/sweeps/{sweep_id}")
    page.get_by_role("button", name="Rename").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Name")).to_have_value("before")
    dialog.get_by_label("Name").fill("after")
    dialog.get_by_label("Tags").fill("Noise floor, colt,,colt")
    dialog.get_by_label("Note").fill("first line\nsecond line")
    dialog.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text("after")
    expect(page.locator("#note")).to_have_text("first line\nsecond line")
    assert page.title().startswith("after · Overview")
    sweep = service.sweep(sweep_id)
    assert (sweep["name"], sweep["note"]) == ("after", "first line\nsecond line")
    assert sweep["tags"] == ["colt", "noise floor"]
    expect(page.locator("#tags a")).to_have_text(["colt", "noise floor"])
    page.get_by_role("link", name="noise floor").click()
    page.wait_for_url("**/?tag=noise+floor")
    expect(page.locator(".item")).to_have_count(1)
    page.goto("/?name=after")
    item = page.locator(f'[data-id="{sweep_id}"]')
    expect(item.get_by_role("link", name="after")).to_be_visible()
    expect(item).to_contain_text("first line")
    item.get_by_role("link", name="colt").click()  # narrows the list, without leaving it
    expect(page.get_by_label("Tag", exact=True)).to_have_value("colt")
    assert page.url.endswith("/?name=after&tag=colt")
    page.goto(f"/sweeps/{sweep_id}/curves")
    page.get_by_role("button", name="Rename").click()
    page.get_by_role("dialog").get_by_label("Note").fill("")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.locator("#note")).to_be_hidden()
    until(lambda: service.sweep(sweep_id)["note"] is None)


@pytest.mark.slow
def test_other_windows_see_the_new_name(held_page, held):
    sweep_id = held.submit(distinct_spec(9, name="before"))
    held_page.goto(f"/sweeps/{sweep_id}")
    expect(held_page.locator("#rest")).not_to_be_empty()
    held.patch(f"/v1/sweeps/{sweep_id}", json={"name": "renamed elsewhere", "note": "seen here"})
    expect(held_page.locator("h1")).to_have_text("renamed elsewhere")
    expect(held_page.locator("#note")).to_have_text("seen here")
