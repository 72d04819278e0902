"""Pages of a sweep: curves, phase diagram, triangle, figures and data, each with its own address."""

import re

import pytest
from playwright.sync_api import expect

from tests.api.served import until
from tests.specs import SMALL_SPEC

GRID_AXES = {"d": [5, 8, 20], "gamma": [0.1, 0.3, 0.9], "regime": ["classical_noise", "high_dimensional"]}
GRID = {**SMALL_SPEC, "name": "grid", "axes": {**SMALL_SPEC["axes"], **GRID_AXES}}
TRIANGLE = {
    "name": "corners", "triangle": {"delta_t": 0.01, "resolution": 3}, "axes": {"regime": "high_dimensional"},
    "fixed": {"k": 2}, "init": {"kind": "informed"}, "seeds": 2, "time": {"max": 1.0, "samples": 5},
}  # fmt: skip


@pytest.fixture(scope="module")
def grid(service):
    return service.complete(GRID)


@pytest.fixture(scope="module")
def corners(service):
    return service.complete(TRIANGLE)


def wait_for_chart(page, selector, times=1):
    """Wait until the chart has been drawn this many times."""
    expect(page.locator(selector)).to_have_attribute("data-drawn", re.compile(r"\d+"))
    until(lambda: int(page.locator(selector).get_attribute("data-drawn")) >= times)


def traces(page, selector="#chart"):
    """Return the traces given to the plotting library."""
    return page.evaluate(
        "selector => document.querySelector(selector).data.map(({name, mode, type, x, y}) =>"
        " ({name, mode, type, x: x && [...x], y: y && [...y]}))",
        selector,
    )


def test_curves_show_served_values_and_keep_options_in_the_address(page, service, grid):
    page.goto(f"/sweeps/{grid}/curves")
    wait_for_chart(page, "#chart")
    lines, points = (
        [trace for trace in traces(page) if trace["mode"] == mode and trace["name"]]
        for mode in ("lines", "lines+markers")
    )
    assert len(points) == 3  # SGD, for each d
    assert len(lines) == 6  # two regimes for each d
    answer = service.get(f"/v1/sweeps/{grid}/curves", params={"gamma": 0.3, "d": 5}).json()
    expected = next(curve for curve in answer["curves"] if curve["source"] == "sgd")["mean"]
    assert points[0]["y"] == expected[1:]  # a logarithmic axis cannot show t = 0
    before = int(page.locator("#chart").get_attribute("data-drawn"))
    page.locator('[name="gamma"]').select_option("0.9")
    wait_for_chart(page, "#chart", before + 1)
    assert "gamma=0.9" in page.url
    page.get_by_label("high dimensional").uncheck()
    until(lambda: len([trace for trace in traces(page) if trace["mode"] == "lines" and trace["name"]]) == 3)
    address = page.url
    page.goto("/")
    page.goto(address)
    wait_for_chart(page, "#chart")
    expect(page.locator('[name="gamma"]')).to_have_value("0.9")
    expect(page.get_by_label("high dimensional")).not_to_be_checked()


def test_click_on_phase_diagram_cell_shows_its_curves(page, service, grid):
    page.goto(f"/sweeps/{grid}/phase-diagram?x=gamma&y=d&value=sgd_risk")
    wait_for_chart(page, "#chart")
    assert [trace["type"] for trace in traces(page)] == ["heatmap"]
    box = page.locator("#chart .nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.1)
    expect(page.locator(".hovertext")).to_contain_text("γ = 0.9")
    # The last column, the top row.
    page.mouse.click(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.1)
    expect(page.locator("#cell-caption")).to_contain_text("γ = 0.9, d = 20")
    wait_for_chart(page, "#curves")
    assert "at_gamma=0.9" in page.url
    assert "at_d=20" in page.url
    answer = service.get(f"/v1/sweeps/{grid}/curves", params={"gamma": 0.9, "d": 20}).json()
    expected = next(curve for curve in answer["curves"] if curve["source"] == "sgd")["mean"]
    points = next(trace for trace in traces(page, "#curves") if trace["mode"] == "lines+markers")
    assert points["y"] == expected[1:]
    page.locator("#cell").get_by_label("d").select_option("5")  # the same without a mouse
    expect(page.locator("#cell-caption")).to_contain_text("γ = 0.9, d = 5")


@pytest.mark.slow
def test_every_value_can_be_plotted(page, service, grid):
    page.goto(f"/sweeps/{grid}/phase-diagram")
    wait_for_chart(page, "#chart")
    names = [value["name"] for value in service.get(f"/v1/sweeps/{grid}/contents").json()["values"]]
    assert {"sgd_phase", "discrepancy", "ode_final_risk"} <= set(names)
    for name in names:
        before = int(page.locator("#chart").get_attribute("data-drawn"))
        page.get_by_label("Value").select_option(name)
        wait_for_chart(page, "#chart", before + 1)
        expect(page.locator("#problem")).to_be_empty()
        assert f"value={name}" in page.url


def test_click_on_triangle_point_shows_its_curves(page, service, corners):
    page.goto(f"/sweeps/{corners}")
    page.get_by_role("link", name="Triangle").click()
    wait_for_chart(page, "#chart")
    points = page.evaluate(
        "document.querySelector('#chart').data"
        ".flatMap((trace) => trace.mode === 'markers' ? trace.customdata : [])"
    )
    assert len(points) == len(service.get(f"/v1/sweeps/{corners}/contents").json()["points"])
    expect(page.locator("#chart")).to_contain_text("mean field")
    page.locator("#chart .scatterlayer path.point").first.click(force=True)
    wait_for_chart(page, "#curves")
    expect(page.locator("#cell-caption")).to_contain_text(re.compile(r"d = .*p = .*γ = "))
    assert "point=" in page.url


def test_sweep_without_triangle_has_no_triangle_page(page, grid):
    page.goto(f"/sweeps/{grid}")
    expect(page.get_by_role("link", name="Phase diagram")).to_be_visible()
    expect(page.get_by_role("link", name="Triangle")).to_have_count(0)


@pytest.mark.parametrize("sweep", ["grid", pytest.param("corners", marks=pytest.mark.slow)])
def test_every_view_has_a_figure(page, service, request, sweep):
    sweep = request.getfixturevalue(sweep)
    page.goto(f"/sweeps/{sweep}/figures")
    image = page.locator("#figure")
    for view in service.get(f"/v1/sweeps/{sweep}/contents").json()["views"]:
        before = image.get_attribute("src")
        page.get_by_label("Figure").select_option(view)
        if page.url.find(f"view={view}") < 0:
            until(lambda view=view: f"view={view}" in page.url)
        until(
            lambda before=before: (
                image.get_attribute("src") != before or page.locator("#problem").text_content()
            )
        )
        assert page.locator("#problem").text_content() == "", view
        assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") > 300
        link = page.locator("#links a", has_text="SVG").get_attribute("href")
        assert service.get(link).headers["content-type"] == "image/svg+xml"


def test_map_click_opens_curves(page, grid):
    page.goto(f"/sweeps/{grid}")
    canvas = page.locator("#map canvas")
    expect(canvas).to_have_attribute("aria-label", re.compile("36 runs done|72 runs done|done"))
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + 5)
    expect(page.locator("#tip")).to_contain_text("done")
    page.mouse.click(box["x"] + box["width"] - 5, box["y"] + 5)
    page.wait_for_url("**/curves?*")
    wait_for_chart(page, "#chart")


def test_data_page_has_runnable_code_spec_and_downloads(page, service, grid, tmp_path):
    page.goto(f"/sweeps/{grid}/data")
    code = page.locator("#python")
    expect(code).to_contain_text("xr.open_zarr")
    namespace = {}
    exec(compile(code.text_content(), "page", "exec"), namespace)
    assert namespace["risk"].sizes["d"] == 3
    expect(page.locator("#spec")).to_contain_text("gamma: [0.1, 0.3, 0.9]")
    expect(page.locator("#provenance")).to_contain_text("sweep service version")
    page.locator("#download").get_by_label("Format").select_option("csv")
    page.locator('#download [name="d"]').select_option("5")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    download.value.save_as(tmp_path / "export.csv")
    assert (tmp_path / "export.csv").read_text("utf-8").count("\n") > 10
    page.get_by_role("link", name="Edit as new sweep").click()
    expect(page.get_by_label("Title")).to_have_value("grid")
