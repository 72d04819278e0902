"""Error bars on the page: the accuracy of a spec, z-scores, validity, and seeds."""

import json
import math
import re

from playwright.sync_api import expect

from tests.page.test_views import wait_for_chart
from tests.specs import ERROR_BARS_SPEC

SPEC = {**ERROR_BARS_SPEC, "seeds": {"repeat": 6}}
TRACES = (
    "document.querySelector('#chart').data.map((trace) => [trace.name, trace.yaxis ?? 'y', trace.y.length])"
)


def test_composer_says_how_accurate_the_risk_will_be(page, service):
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/v1/seeds" in request.url else None)
    page.goto("/compose#spec=" + json.dumps(SPEC))
    accuracy = page.locator("#accuracy")
    expect(accuracy).not_to_have_attribute("aria-busy", "true")
    prediction = service.post("/v1/seeds", json=SPEC).json()
    expect(page.locator("#accuracy-summary")).to_have_text(prediction["summary"][0])
    rows = accuracy.locator("tbody tr")
    expect(rows).to_have_count(len(prediction["points"]))
    page.get_by_label("Wanted error in percent").fill("0.5")
    needed = math.ceil((prediction["points"][0]["scatter"][-1] / 0.005) ** 2)
    expect(rows.first.locator("td").last).to_have_text(f"{needed:,}")
    assert len(asked) == 1  # another error needs no other prediction
    expect(page.get_by_role("checkbox", name="error bars")).to_be_checked()
    page.get_by_label("SGD repeats of each").fill("24")
    expect(page.locator("#accuracy-summary")).to_contain_text("With 24 repeats")
    page.get_by_role("checkbox", name="SGD", exact=False).first.uncheck()
    expect(page.locator("#accuracy-notes")).to_contain_text("no runs of SGD")
    expect(page.locator("#accuracy-summary")).to_be_empty()


def test_z_scores_validity_and_seeds_of_a_sweep(page, service):
    sweep_id = service.complete(SPEC)
    page.goto(f"/sweeps/{sweep_id}/curves?d=50&gamma=1&by=none")
    wait_for_chart(page, "#chart")
    marked = [trace for trace in page.evaluate(TRACES) if trace[1] == "y2"]
    curves = service.get(f"/v1/sweeps/{sweep_id}/curves?d=50&gamma=1").json()["curves"]
    shown = sum(length for _, _, length in marked)
    assert shown == sum(len(curve["mean"]) - 1 for curve in curves if curve["source"] == "ode")  # from t > 0
    page.get_by_label("Observable").select_option("z_score")
    expect(page.locator("#caption")).to_contain_text("95 % of the runs")
    assert page.evaluate("document.querySelector('#chart').layout.yaxis.type") == "linear"
    expect(page.get_by_label("log y")).to_be_disabled()
    page.get_by_role("link", name="Seeds").click()
    wait_for_chart(page, "#chart")
    page.get_by_label("Error in %").fill("2")
    expect(page).to_have_url(re.compile("relative_error=0.02"))
    expect(page.locator("#answer")).to_contain_text("an error of 2 % needs")
    expect(page.locator("#answer")).to_contain_text("The 6 repeats of this sweep give")
    assert page.locator(".chart-legend").inner_text().count("predicted") == 1
