"""Charts: ticks of logarithmic axes, legend, tool bar, the first time shown, the triangle's symbols."""

import math
import re

import pytest
from playwright.sync_api import expect

from tests.api.served import until
from tests.page.conftest import open_page
from tests.page.test_views import GRID, TRIANGLE, traces, wait_for_chart
from tests.specs import ERROR_BARS_SPEC, SMALL_SPEC

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
# With 1e-5 as the first time, nothing changes in the first half of the time axis.
FLAT_START = {
    **SMALL_SPEC, "name": "flat start", "axes": {"d": 20, "p": 4, "gamma": [0.1, 0.5], "regime": "classical"},
    "time": {"max": 10.0, "min": 1e-5, "samples": 60},
}  # fmt: skip


@pytest.fixture(scope="module")
def grid(service):
    return service.complete(GRID)


@pytest.fixture(scope="module")
def flat_start(service):
    return service.complete(FLAT_START)


def axis(page, name="xaxis", selector="#chart"):
    return page.evaluate(
        "([selector, name]) => document.querySelector(selector).layout[name]", [selector, name]
    )


LIST_TICKS = """async ([low, high, count]) => {
  const { createLogTicks } = await import("/static/js/charts/log-ticks.js");
  return createLogTicks(low, high, count);
}"""


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (1.3e-3, 0.11, ["0.002", "0.005", "0.01", "0.02", "0.05", "0.1"]),
        (0.9e-6, 120.0, ["10⁻⁶", "10⁻⁴", "10⁻²", "1", "10²"]),
        (2e-6, 3e-5, ["2·10⁻⁶", "5·10⁻⁶", "10⁻⁵", "2·10⁻⁵"]),
        (0.31, 0.42, ["0.32", "0.34", "0.36", "0.38", "0.4", "0.42"]),
        (4.0, 9.5, ["4", "5", "6", "7", "8", "9"]),
    ],
)
def test_ticks_of_logarithmic_axes_are_whole_numbers_and_few(page, low, high, labels):
    page.goto("/")
    ticks = page.evaluate(LIST_TICKS, [low, high, 7])
    assert ticks["texts"] == labels
    assert all(low * (1 - 1e-6) <= value <= high * (1 + 1e-6) for value in ticks["values"] + ticks["minor"])


@pytest.mark.slow
def test_zoom_gives_new_ticks(page, flat_start):
    page.goto(f"/sweeps/{flat_start}/curves")
    wait_for_chart(page, "#chart")
    before = axis(page)["ticktext"]
    page.evaluate("Plotly.relayout(document.querySelector('#chart'), {'xaxis.range': [0.1, 0.7]})")
    until(lambda: axis(page)["ticktext"] != before)
    assert axis(page)["ticktext"] == ["2", "3", "4", "5"]


def test_time_axis_begins_shortly_before_the_first_change(page, service, flat_start):
    page.goto(f"/sweeps/{flat_start}/curves")
    wait_for_chart(page, "#chart")
    low, high = axis(page)["range"]
    curves = service.get(f"/v1/sweeps/{flat_start}/curves", params={"gamma": 0.1}).json()
    risk = next(curve for curve in curves["curves"] if curve["source"] == "ode")["mean"]
    # 2 % of the height are visible; the theory's curve falls monotonically.
    threshold = max(risk) * (min(risk) / max(risk)) ** 0.02
    last_flat = max(time for time, value in zip(curves["time"], risk, strict=True) if value > threshold)
    share = (math.log10(last_flat) - low) / (high - low)
    assert 0.05 < share < 0.3  # of all samples it would be two thirds
    expect(page.locator("#caption")).to_contain_text("nothing visible changes before t = ")
    first = min(time for trace in traces(page) for time in trace["x"])
    assert first == pytest.approx(1e-5)  # zooming out shows all


def test_legend_groups_sources_and_values(page, grid):
    page.goto(f"/sweeps/{grid}/curves")
    wait_for_chart(page, "#chart")
    groups = page.locator("#chart + .chart-legend > [role=group]")
    expect(groups).to_have_count(2)
    assert groups.nth(0).get_by_role("button").all_inner_texts() == [
        "SGD, 16 to 84 % of its runs", "classical noise", "high dimensional",
    ]  # fmt: skip
    assert groups.nth(1).get_by_role("button").all_inner_texts() == ["5", "8", "20"]
    dashes = page.evaluate(
        "document.querySelector('#chart').data.filter((trace) => trace.mode === 'lines' && trace.name)"
        ".map((trace) => trace.line.dash)"
    )
    assert sorted(set(dashes)) == ["dash", "solid"]  # one for each theory
    page.get_by_role("button", name="classical noise").click()
    visible = (
        "document.querySelector('#chart').data.filter((trace) => trace.visible).map((trace) => trace.name)"
    )
    until(lambda: "classical noise" not in page.evaluate(visible))
    expect(page.get_by_role("button", name="classical noise")).to_have_attribute("aria-pressed", "false")
    assert "high dimensional" in page.evaluate(visible)


@pytest.mark.slow
def test_predicted_band_can_be_hidden(page, service):
    page.goto(f"/sweeps/{service.complete(ERROR_BARS_SPEC)}/curves?d=50&gamma=0.2")
    wait_for_chart(page, "#chart")
    ends = (
        "document.querySelector('#chart').data"
        ".filter((trace) => trace.meta.keys.includes('predicted') && trace.visible !== false)"
        ".map((trace) => [...trace.y])"
    )
    low, mean, high = page.evaluate(ends)
    assert all(list(row) == sorted(row) for row in zip(low, mean, high, strict=True))
    label = "predicted mean and 95 % of the runs"
    page.get_by_role("button", name=label).click()
    until(lambda: not page.evaluate(ends))
    expect(page.get_by_role("button", name=label)).to_have_attribute("aria-pressed", "false")


@pytest.mark.slow
def test_tool_bar_covers_neither_chart_nor_title(page, grid):
    page.goto(f"/sweeps/{grid}/phase-diagram?x=gamma&y=d&value=sgd_risk")
    for selector in ("#chart", "#curves"):
        wait_for_chart(page, selector)
        page.locator(f"{selector} .nsewdrag").first.hover()
        bar = page.locator(f"{selector} .modebar-group").first
        expect(bar).to_be_visible()
        plot = page.locator(f"{selector} .nsewdrag").first.bounding_box()
        tools = bar.bounding_box()
        assert tools["y"] + tools["height"] <= plot["y"]
        assert tools["y"] >= page.locator(selector).bounding_box()["y"]


OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll(
    "#chart .xtick text, #chart .ytick text, #chart .xtitle, #chart .ytitle, .chart-legend button, #caption")]
    .map((element) => [element.textContent, element.getBoundingClientRect()])
    .filter(([text, box]) => text && box.width);
  const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  return boxes.flatMap(([text, box], index) => boxes.slice(index + 1)
    .filter(([, other]) => overlap(box, other)).map(([other]) => [text, other]));
}"""


@pytest.mark.slow
def test_nothing_overlaps_on_a_phone(browser, service, grid):
    with open_page(browser, service.url, **PHONE) as page:
        page.goto(f"/sweeps/{grid}/curves")
        wait_for_chart(page, "#chart")
        assert page.evaluate(OVERLAPS) == []
        expect(page.locator("#chart .modebar-group")).to_have_count(0)  # a finger cannot hover


@pytest.mark.slow
def test_triangle_has_the_symbols_and_texts_of_the_printed_figure(page, service):
    corners = service.complete(TRIANGLE)
    page.goto(f"/sweeps/{corners}/triangle?value=sgd_risk")
    wait_for_chart(page, "#chart")
    names = [regime["name"] for regime in service.get("/v1/catalogue").json()["regimes"]]
    answer = service.get(f"/v1/sweeps/{corners}/figures/triangle", params={"value": "sgd_risk"}).json()
    chosen = sorted({point["auto_regime"] for point in answer["points"]}, key=names.index)
    symbols = page.evaluate(
        "document.querySelector('#chart').data.filter((trace) => trace.mode === 'markers')"
        ".map((trace) => [trace.name, trace.marker.symbol])"
    )
    marks = ["circle", "square", "triangle-up", "diamond"]  # o, s, ^ and D in print
    assert symbols == [[name.replace("_", " "), mark] for name, mark in zip(chosen, marks, strict=False)]
    expect(page.locator("#chart + .chart-legend")).to_contain_text("chosen by auto")
    texts = page.evaluate("document.querySelector('#chart').layout.annotations.map(({text}) => text)")
    expected = {"high-dimensional<br>d → ∞", "mean field<br>p → ∞", "classical<br>γ → 0", "δt = 10⁻²"}
    assert expected | {"input dimension d", "student width p", "learning rate γ"} <= set(texts)
    assert any(re.fullmatch(r"γ/p = .*", text) for text in texts)
