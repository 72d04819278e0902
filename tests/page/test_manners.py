"""For everybody: no serious fault that axe-core knows, every width, both lights, no jumps, little to load."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.page.conftest import window
from tests.page.test_views import GRID, TRIANGLE, drawn
from tests.specs import VERY_LONG_SPEC, distinct_spec

ROOMS = ["", "/curves", "/phase-diagram", "/figures", "/data"]
PAGES = [
    "/",
    "/compose",
    "/compose?preset=veiga-phase-plane",
    "/cluster",
    "/sweeps/20200101-000000-00000000",
    *(f"/sweeps/GRID{room}" for room in ROOMS),
    "/sweeps/CORNERS/triangle",
]
FEW = ("/", "/compose", "/sweeps/GRID", "/sweeps/GRID/phase-diagram")  # are looked at in every run
every_page = pytest.mark.parametrize(
    "path", [pytest.param(path, marks=[] if path in FEW else [pytest.mark.slow]) for path in PAGES]
)
CHARTS = ("/curves", "/phase-diagram", "/triangle")
LIMIT = 1_500_000  # bytes before a chart is opened
JUMPS = """new Promise((resolve) => {
  let total = 0;
  const add = (one) => { total += one.hadRecentInput ? 0 : one.value; };
  new PerformanceObserver((list) => list.getEntries().forEach(add))
    .observe({type: "layout-shift", buffered: true});
  setTimeout(() => resolve(total), 300);
})"""


@pytest.fixture(scope="module")
def house(gate):
    """Sweeps in several states."""
    gate.executor.let()
    found = {"GRID": gate.complete(GRID), "CORNERS": gate.complete(TRIANGLE)}
    gate.executor.let(computes=0)
    gate.submit(distinct_spec(1, name="it waits"))
    return gate, found


def at(house, path):
    for name, sweep in house[1].items():
        path = path.replace(name, sweep)
    return path


def settle(page, path):
    if path.endswith(CHARTS):
        drawn(page, "#chart")
    if path == "/":
        expect(page.locator(".item")).to_have_count(3)
    if path.startswith("/compose"):
        expect(page.locator("#estimate")).to_contain_text("core time")
    if path.endswith("/figures"):
        page.locator("#links a").first.wait_for()
    if path.endswith("/data"):
        expect(page.locator("#provenance")).not_to_be_empty()


@every_page
def test_nothing_serious_for_axe(browser, house, path):
    with window(browser, house[0].url, errors=["404"]) as page:
        page.goto(at(house, path))
        settle(page, path)
        for _ in ("light", "dark"):
            found = Axe().run(page).response["violations"]
            bad = [one for one in found if one["impact"] in ("serious", "critical")]
            assert {one["id"]: [node["html"][:200] for node in one["nodes"]] for one in bad} == {}
            page.get_by_role("button", name="Switch between light and dark").click()


@every_page
def test_it_fits_a_phone(browser, house, path):
    with window(browser, house[0].url, viewport={"width": 375, "height": 740}, errors=["404"]) as page:
        page.goto(at(house, path))
        settle(page, path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 375


@every_page
def test_nothing_jumps(browser, house, path):
    with window(browser, house[0].url, errors=["404"]) as page:
        page.goto(at(house, path))
        settle(page, path)
        assert page.evaluate(JUMPS) < 0.1  # what is called good of a page on the web


@pytest.mark.parametrize("path", ["/", "/compose", "/cluster", "/sweeps/GRID"])
def test_little_to_load(browser, house, path):
    with window(browser, house[0].url, locale="en-GB") as page:  # a context of its own has loaded nothing yet
        sizes = []
        page.on("requestfinished", lambda one: sizes.append(one.sizes()["responseBodySize"]))
        page.goto(at(house, path), wait_until="networkidle" if path != "/" else "load")
        settle(page, path)
        assert 0 < sum(sizes) < LIMIT


def test_the_rest_interface_is_described_without_a_network(browser, house):
    with window(browser, house[0].url) as page:
        page.goto("/docs")
        expect(page.locator("#swagger")).to_contain_text("/v1/sweeps/{id}/events")


def test_light_and_dark(browser, house):
    with window(browser, house[0].url, color_scheme="dark") as page:
        page.goto("/")
        ground = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")  # noqa: E731
        dark = ground()
        page.get_by_role("button", name="Switch between light and dark").click()
        assert ground() != dark
        page.reload()
        assert ground() != dark  # it is remembered


def test_by_keyboard(browser, house):
    with window(browser, house[0].url) as page:
        page.goto("/")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#main")).to_be_focused()
        page.goto("/compose")
        settle(page, "/compose")
        page.get_by_role("tab", name="YAML").focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name="JSON")).to_be_focused()
        expect(page.get_by_role("tab", name="JSON")).to_have_attribute("aria-selected", "true")
        running = house[0].submit({**VERY_LONG_SPEC, "name": "by keyboard"})
        page.goto(f"/sweeps/{running}")
        page.locator('#actions [data-action="cancel"]').focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert house[0].sweep(running)["state"] != "cancelled"
        house[0].client.post(f"/v1/sweeps/{running}/cancel")
