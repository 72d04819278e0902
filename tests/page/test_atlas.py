"""The atlas: facets, a diagram over several sweeps, the curves of a point, and points that are missing."""

import re

import pytest
from playwright.sync_api import expect

from sweep_service.planning.designs import _lattice
from sweep_service.planning.spec import Triangle
from tests.api.served import serving, until
from tests.page.conftest import open_page
from tests.page.test_views import traces, wait_for_chart
from tests.specs import TINY_SPEC


def make_spec(name, d, gamma, **fixed):
    axes = {"d": d, "p": 2, "gamma": gamma, "regime": "classical_noise"}
    return {**TINY_SPEC, "name": name, "axes": axes, "fixed": {"k": 1, **fixed}}


# Nine points of three sweeps, which share two; and two points at other parameters.
SPECS = [
    make_spec("left", [5, 8], [0.1, 0.2]),
    {**make_spec("right", [5, 8], [0.2, 0.4, 0.8]), "seeds": [2, 3]},
    make_spec("top", 12, 0.1),
    make_spec("noisy", [5, 8], 0.1, noise=0.01),
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A service with four sweeps: (service, ids)."""
    with serving(tmp_path_factory.mktemp("atlas")) as service:
        yield service, [service.complete(spec) for spec in SPECS]


@pytest.fixture
def page(browser, stored):
    with open_page(browser, stored[0].url, expected_errors=["422"]) as opened:
        yield opened


def wait_for_points(page, count, sweeps):
    expect(page.locator("#caption")).to_contain_text(f"{count} points of {sweeps} sweep")
    wait_for_chart(page, "#chart")


def test_diagram_over_three_sweeps_in_five_clicks(page, stored):
    page.goto("/")
    page.get_by_role("link", name="Atlas").click()  # 1: what varies and is not shown is selected
    wait_for_points(page, 9, 3)
    noise = page.get_by_role("group", name="noise", exact=True)
    noise.get_by_role("button", name=re.compile("^0.01")).click()  # 2
    wait_for_points(page, 2, 1)
    noise.get_by_role("button", name=re.compile("^0 ")).click()  # 3
    wait_for_points(page, 9, 3)
    page.get_by_role("group", name="kind").get_by_role("button", name=re.compile("sgd")).click()  # 4
    wait_for_points(page, 9, 3)
    expect(page.locator("#summary")).to_contain_text("9 points · 3 sweeps")
    (markers,) = [trace for trace in traces(page) if trace["mode"] == "markers"]
    drawn = {(round(x, 6), y) for x, y in zip(markers["x"], markers["y"], strict=True)}
    expected = {(gamma, d) for gamma in (0.1, 0.2, 0.4, 0.8) for d in (5, 8)} | {(0.1, 12)}
    assert drawn in (expected, {(y, x) for x, y in expected})


def test_selection_is_in_the_address_and_figures_are_served(page, stored):
    service, ids = stored
    page.goto("/atlas?x=gamma&y=d&value=sgd_risk&noise=0&at_x=0.2&at_y=8")
    wait_for_points(page, 9, 3)
    expect(page.locator("#cell-caption")).to_contain_text("γ = 0.2, d = 8")
    links = page.locator("#sources a")
    expect(links).to_have_count(3)
    assert {"left", "right", "Compare these sweeps"} == set(links.all_inner_texts())  # the point is in both
    wait_for_chart(page, "#curves")
    with page.expect_request("**/v1/atlas/phase-diagram*") as again:
        page.reload()
    assert "x=gamma&y=d" in again.value.url
    expect(page.locator("#cell-caption")).to_contain_text("γ = 0.2, d = 8")
    for name, media_type in (("PNG", "image/png"), ("SVG", "image/svg+xml"), ("PDF", "application/pdf")):
        link = page.locator("#links a", has_text=name).get_attribute("href")
        assert service.get(link).headers["content-type"] == media_type
    page.get_by_role("link", name="Compare these sweeps").click()
    page.wait_for_url("**/compare?sweeps=*")
    assert ids[0] in page.url
    wait_for_chart(page, "#chart")


def fill_region(page):
    """Enter a rectangle of four learning rates and three dimensions."""
    page.get_by_text("Compute what is missing").click()
    region = {"x_low": "0.1", "x_high": "0.8", "x_count": "4", "y_low": "5", "y_high": "12", "y_count": "3"}
    for name, value in region.items():
        page.locator(f'#region [name="{name}"]').fill(value)
    for name in ("x_spacing", "y_spacing"):
        page.locator(f'#region [name="{name}"]').select_option("log")


def test_missing_points_are_composed_and_computed(page, stored):
    service, _ = stored
    page.goto("/atlas?x=gamma&y=d&value=sgd_risk&noise=0")
    wait_for_points(page, 9, 3)
    fill_region(page)
    answer = page.locator("#missing-answer")
    expect(answer).to_contain_text("3 of 12 points are not stored")
    expect(answer).to_contain_text("core time")
    page.get_by_role("button", name="Compose a sweep of these points").click()
    page.wait_for_url("**/compose#spec=*")
    expect(page.locator("#estimate")).to_contain_text("core time")
    assert "already stored" not in page.locator("#estimate").text_content()
    page.get_by_role("button", name="Run sweep").click()
    page.wait_for_url("**/sweeps/*")
    sweep_id = page.url.rpartition("/")[2]
    sweep = service.wait_until_ended(sweep_id)
    assert (sweep["state"], sweep["reused"], sweep["runs"]) == ("completed", 0, 12)
    dataset = service.load_dataset(sweep_id)
    assert dataset.d.values.tolist() == [12]
    assert dataset.gamma.values.round(9).tolist() == [0.2, 0.4, 0.8]
    page.goto("/atlas?x=gamma&y=d&value=sgd_risk&noise=0")
    wait_for_points(page, 12, 4)
    fill_region(page)
    expect(answer).to_contain_text("All 12 points are stored.")
    expect(page.get_by_role("button", name="Compose a sweep of these points")).to_be_disabled()
    service.delete(f"/v1/sweeps/{sweep_id}")


def test_rectangle_is_marked_with_the_mouse(page):
    page.goto("/atlas?x=gamma&y=d&value=sgd_risk&noise=0")
    wait_for_points(page, 9, 3)
    drawn = int(page.locator("#chart").get_attribute("data-drawn"))
    page.get_by_text("Compute what is missing").click()
    wait_for_chart(page, "#chart", drawn + 1)
    page.locator("#chart").scroll_into_view_if_needed()
    plot = page.locator("#chart .nsewdrag").bounding_box()
    page.mouse.move(plot["x"] + 0.1 * plot["width"], plot["y"] + 0.1 * plot["height"])
    page.mouse.down()
    page.mouse.move(plot["x"] + 0.5 * plot["width"], plot["y"] + 0.5 * plot["height"], steps=4)
    page.mouse.move(plot["x"] + 0.6 * plot["width"], plot["y"] + 0.6 * plot["height"], steps=4)
    page.mouse.up()
    read = lambda name: float(page.locator(f'#region [name="{name}"]').input_value())  # noqa: E731
    until(lambda: read("x_low") > 0.1)
    assert 0.1 < read("x_low") < read("x_high") < 0.8
    assert 5 < read("y_low") < read("y_high") < 12
    expect(page.locator("#missing-answer")).to_contain_text("points are not stored")


def test_nothing_is_stored(browser, tmp_path):
    with serving(tmp_path) as service, open_page(browser, service.url, expected_errors=["422"]) as page:
        page.goto("/atlas")
        expect(page.locator("#problem")).to_contain_text("no runs yet")


@pytest.mark.parametrize(
    "design",
    [
        {"delta_t": 0.01, "resolution": 6},
        {"delta_t": 1e-3, "resolution": 9, "p_multiple_of": 4},
        {"delta_t": 1e-4, "resolution": 5, "gamma_max": 3.0, "d_min": 7, "p_min": 5},
    ],
)
def test_lattice_of_a_triangle_is_that_of_the_service(page, design):
    k = 2
    triangle = Triangle(**design)
    step = k if triangle.p_multiple_of == "k" else triangle.p_multiple_of
    d, p = _lattice(triangle, k)
    page.goto("/cluster")
    limits = {
        "deltaT": triangle.delta_t,
        "gammaMax": triangle.gamma_max,
        "dMin": triangle.d_min or k + 1,
        "step": step,
        "pMin": -(-(triangle.p_min or k) // step) * step,
    }
    points = page.evaluate(
        "async ([limits, resolution]) => (await import('/static/js/atlas/lattice.js'))"
        ".listTriangle(limits, resolution)",
        [limits, triangle.resolution],
    )
    assert {(point["d"], point["p"]) for point in points} == set(zip(d.tolist(), p.tolist(), strict=True))
    for point in points:
        assert point["gamma"] == pytest.approx(triangle.delta_t * point["p"] * point["d"], rel=1e-12)
        assert point["u_d"] + point["u_p"] + point["u_gamma"] == pytest.approx(1.0)  # rounding only
