"""Accessibility: axe-core rules, narrow screens, colour schemes, layout shifts, bytes to load, keyboard."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.page.conftest import open_page
from tests.page.test_views import GRID, TRIANGLE, wait_for_chart
from tests.specs import VERY_LONG_SPEC, distinct_spec

SWEEP_PAGES = ["", "/curves", "/phase-diagram", "/seeds", "/figures", "/data"]
PAGES = [
    "/",
    "/compose",
    "/compose?preset=veiga-phase-plane",
    "/atlas",
    "/compare?sweeps=GRID,CORNERS",
    "/cluster",
    "/nowhere",
    "/sweeps/20200101-000000-00000000",
    *(f"/sweeps/GRID{page}" for page in SWEEP_PAGES),
    "/sweeps/CORNERS/triangle",
]
FAST_PAGES = ("/", "/compose", "/atlas", "/sweeps/GRID", "/sweeps/GRID/phase-diagram")  # not slow
every_page = pytest.mark.parametrize(
    "path", [pytest.param(path, marks=[] if path in FAST_PAGES else [pytest.mark.slow]) for path in PAGES]
)
CHARTS = ("/curves", "/phase-diagram", "/triangle", "/atlas", "CORNERS")
MAX_BYTES = 1_500_000  # without the plotting library, which only charts load
LAYOUT_SHIFT = """new Promise((resolve) => {
  let total = 0;
  const add = (shift) => { total += shift.hadRecentInput ? 0 : shift.value; };
  new PerformanceObserver((list) => list.getEntries().forEach(add))
    .observe({type: "layout-shift", buffered: true});
  setTimeout(() => resolve(total), 300);
})"""


@pytest.fixture(scope="module")
def sweep_ids(gated_service):
    """Ids of two completed sweeps, by the names in `PAGES`; a third sweep waits."""
    gated_service.executor.let()
    ids = {"GRID": gated_service.complete(GRID), "CORNERS": gated_service.complete(TRIANGLE)}
    gated_service.executor.let(computes=0)
    gated_service.submit(distinct_spec(1, name="it waits"))
    return ids


def with_ids(path, sweep_ids):
    for name, sweep_id in sweep_ids.items():
        path = path.replace(name, sweep_id)
    return path


def wait_until_loaded(page, path):
    if path.endswith(CHARTS):
        wait_for_chart(page, "#chart")
    if path == "/atlas":
        wait_for_chart(page, "#curves")
    if path == "/":
        expect(page.locator(".item")).to_have_count(3)
    if path.startswith("/compose"):
        expect(page.locator("#estimate")).to_contain_text("core time")
    if path.endswith("/figures"):
        page.locator("#links a").first.wait_for()
    if path.endswith("/data"):
        expect(page.locator("#provenance")).not_to_be_empty()


@every_page
def test_axe_finds_no_serious_violation(browser, gated_service, sweep_ids, path):
    with open_page(browser, gated_service.url, expected_errors=["404"]) as page:
        page.goto(with_ids(path, sweep_ids))
        wait_until_loaded(page, path)
        for _ in ("light", "dark"):
            violations = Axe().run(page).response["violations"]
            serious = [rule for rule in violations if rule["impact"] in ("serious", "critical")]
            assert {rule["id"]: [node["html"][:200] for node in rule["nodes"]] for rule in serious} == {}
            page.get_by_role("button", name="Switch between light and dark").click()


@every_page
def test_page_fits_a_phone(browser, gated_service, sweep_ids, path):
    with open_page(
        browser, gated_service.url, viewport={"width": 375, "height": 740}, expected_errors=["404"]
    ) as page:
        page.goto(with_ids(path, sweep_ids))
        wait_until_loaded(page, path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 375


@every_page
def test_layout_does_not_shift(browser, gated_service, sweep_ids, path):
    with open_page(browser, gated_service.url, expected_errors=["404"]) as page:
        page.goto(with_ids(path, sweep_ids))
        wait_until_loaded(page, path)
        assert page.evaluate(LAYOUT_SHIFT) < 0.1  # the limit of a good Cumulative Layout Shift in Web Vitals


@pytest.mark.parametrize("path", ["/", "/compose", "/cluster", "/sweeps/GRID"])
def test_page_loads_few_bytes(browser, gated_service, sweep_ids, path):
    with open_page(browser, gated_service.url, locale="en-GB") as page:  # a new context: its cache is empty
        sizes = []
        page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
        page.goto(with_ids(path, sweep_ids), wait_until="networkidle" if path != "/" else "load")
        wait_until_loaded(page, path)
        assert 0 < sum(sizes) < MAX_BYTES


def test_rest_documentation_needs_no_external_files(browser, gated_service):
    with open_page(browser, gated_service.url) as page:
        page.goto("/docs")
        expect(page.locator("#swagger")).to_contain_text("/v1/sweeps/{id}/events")


def test_chosen_colour_scheme_is_remembered(browser, gated_service):
    with open_page(browser, gated_service.url, color_scheme="dark") as page:
        page.goto("/")
        background = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")  # noqa: E731
        dark = background()
        page.get_by_role("button", name="Switch between light and dark").click()
        assert background() != dark
        page.reload()
        assert background() != dark


@pytest.mark.usefixtures("sweep_ids")  # stops the executor
def test_page_can_be_used_by_keyboard(browser, gated_service):
    with open_page(browser, gated_service.url) as page:
        page.goto("/")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#main")).to_be_focused()
        page.goto("/compose")
        wait_until_loaded(page, "/compose")
        page.get_by_role("tab", name="YAML").focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name="JSON")).to_be_focused()
        expect(page.get_by_role("tab", name="JSON")).to_have_attribute("aria-selected", "true")
        sweep_id = gated_service.submit({**VERY_LONG_SPEC, "name": "by keyboard"})
        page.goto(f"/sweeps/{sweep_id}")
        page.locator('#actions [data-action="cancel"]').focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert gated_service.sweep(sweep_id)["state"] != "cancelled"
        gated_service.client.post(f"/v1/sweeps/{sweep_id}/cancel")
