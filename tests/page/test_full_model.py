"""Pages of sweeps over the parameters of the full model: rates of the second layer, batches, schedules."""

import json
import re

import numpy as np
import pytest
import xarray as xr
from playwright.sync_api import expect

from tests.api.served import until
from tests.page.test_live import count_done
from tests.page.test_views import traces, wait_for_chart

RATES, BATCHES, GAMMAS = [0.0, 0.5, 1.0], [1, 4], [0.1, 0.4, 1.6]
SECOND_LAYERS = {
    "name": "second layers",
    "axes": {"second_layer_rate": RATES, "batch": BATCHES, "gamma": GAMMAS, "d": 10, "p": 4,
             "regime": "classical_noise"},
    "fixed": {"k": 2, "noise": 1e-3},
    "second_layer": {"init": [1.2, 0.8, 1.1, 0.5]}, "teacher": {"second_layer": {"init": [1, 0.6]}},
    "seeds": 2, "time": {"max": 4.0, "samples": 4, "tail": 3},
    "observables": ["risk", "second_layer", "second_layer_mean", "second_layer_spread",
                    "second_layer_overlap"],
}  # fmt: skip
ALPHAS, T0S = [0.0, 0.5, 1.0], [0.1, 1.0, 10.0]
SCHEDULES = {
    "name": "schedules",
    "axes": {"schedule.alpha": ALPHAS, "schedule.t0": T0S, "d": 10, "p": 4, "gamma": 0.4,
             "regime": "classical_noise"},
    "fixed": {"k": 2}, "schedule": {"power": {}}, "seeds": 2, "time": {"max": 4.0, "samples": 4},
}  # fmt: skip
CORNERS = {
    "name": "corners of schedules", "triangle": {"delta_t": 0.01, "resolution": 2},
    "axes": {"schedule.alpha": ALPHAS, "regime": "classical_noise"}, "fixed": {"k": 2},
    "schedule": {"power": {"t0": 1}}, "init": {"kind": "informed"}, "time": {"max": 1.0, "samples": 3},
}  # fmt: skip


@pytest.fixture(scope="module")
def schedules(service):
    return service.complete(SCHEDULES)


def mean_of_last_half(array: xr.DataArray) -> xr.DataArray:
    """Mean over the last half of the time, by the trapezoidal rule, and over all runs."""
    half = float(array.time[-1]) / 2
    late = array.interp(time=np.union1d(array.time[array.time >= half], [half]))
    over_time = late.integrate("time") / half
    return over_time.mean([name for name in ("seed", "repeat") if name in over_time.dims])


def drawn_cells(page):
    """Return the numbers of the drawn heat map, row by row; their colours may be logarithmic."""
    trace = page.evaluate(
        "(() => { const { z, colorbar } = document.querySelector('#chart').data[0];"
        " return { z: z.map((row) => [...row]), isLog: Boolean(colorbar.tickvals) }; })()"
    )
    cells = np.array(trace["z"], dtype=float)
    return 10.0**cells if trace["isLog"] else cells


def select_and_wait(page, label, option):
    before = int(page.locator("#chart").get_attribute("data-drawn"))
    page.locator(f'#choose [name="{label}"]').select_option(option)
    wait_for_chart(page, "#chart", before + 1)


def test_sweep_of_second_layers_is_watched_and_drawn(held_page, held, small_bundles):
    """Submitted by REST, watched until it is completed; the diagram shows the values of the dataset."""
    response = held.post("/v1/sweeps", json=SECOND_LAYERS)
    assert response.status_code == 202, response.text
    sweep, page = response.json()["id"], held_page
    page.goto(f"/sweeps/{sweep}")
    expect(page.locator("#map canvas")).to_have_attribute("aria-label", re.compile("pending"))
    held.executor.let(computes=2)
    total = response.json()["runs"]
    until(lambda: 0 < count_done(page) < total)
    held.executor.let()
    expect(page.locator("#state")).to_have_text("completed")
    until(lambda: count_done(page) == total)
    assert page.evaluate("performance.getEntriesByType('navigation').length") == 1
    expect(page.locator("#parameters")).to_contain_text("init [1.2, 0.8, 1.1, 0.5]")
    expect(page.locator("#parameters")).to_contain_text("0, 0.5, 1")
    dataset = held.load_dataset(sweep)
    page.get_by_role("link", name="Phase diagram").click()
    wait_for_chart(page, "#chart")
    page.goto(f"/sweeps/{sweep}/phase-diagram?x=gamma&y=second_layer_rate&value=sgd_risk&batch=4")
    wait_for_chart(page, "#chart")
    for value in ("sgd_risk", "sgd_second_layer_mean", "ode_second_layer_spread", "ode_second_layer_overlap"):
        if value != "sgd_risk":
            select_and_wait(page, "value", value)
        means = mean_of_last_half(dataset[value])
        for batch in reversed(BATCHES):  # ends where the next value begins
            if page.locator('#choose [name="batch"]').input_value() != str(batch):
                select_and_wait(page, "batch", str(batch))
            selected = {"batch": batch, "regime": "classical_noise"}
            known = {name: wanted for name, wanted in selected.items() if name in means.dims}
            expected = means.sel(known).squeeze(drop=True).transpose("second_layer_rate", "gamma")
            assert expected.shape == (len(RATES), len(GAMMAS))
            assert len(np.unique(expected)) > len(GAMMAS)  # otherwise a wrong cell could not be seen
            # 1e-9: the numbers pass through JSON in full, and through a logarithm and back.
            np.testing.assert_allclose(drawn_cells(page), expected, rtol=1e-9, err_msg=f"{value} {batch}")
    title = page.evaluate("document.querySelector('#chart').layout.yaxis.title.text")
    assert title == "ρ · rate of the second layer"


def test_curves_show_the_second_layer(page, service):
    sweep = service.complete(SECOND_LAYERS)
    page.goto(f"/sweeps/{sweep}/curves?gamma=0.4&batch=4&second_layer_rate=1&observable=second_layer_mean")
    wait_for_chart(page, "#chart")
    dataset = service.load_dataset(sweep)
    at = {"gamma": 0.4, "batch": 4, "second_layer_rate": 1.0}
    expected = dataset.sgd_second_layer_mean.sel(at).mean(["seed", "repeat"]).squeeze().values
    drawn = next(trace["y"] for trace in traces(page) if trace["mode"] == "lines+markers" and trace["name"])
    np.testing.assert_allclose(drawn, expected[1:], rtol=1e-9)
    options = page.locator('[name="observable"] option').all_inner_texts()
    assert {"second layer mean", "second layer spread", "second layer overlap"} <= set(options)


def test_diagram_and_curves_have_numbers_of_the_schedule_as_axes(page, service, schedules):
    page.goto(f"/sweeps/{schedules}")
    expect(page.locator("#map canvas")).to_have_attribute("aria-label", re.compile("36 runs done"))
    expect(page.locator("#parameters")).to_contain_text("alpha of the schedule")
    expect(page.locator("#preview-diagram svg")).to_be_visible()
    page.goto(f"/sweeps/{schedules}/phase-diagram?x=schedule.alpha&y=schedule.t0&value=sgd_risk")
    wait_for_chart(page, "#chart")
    means = mean_of_last_half(service.load_dataset(schedules).sgd_risk).squeeze(drop=True)
    expected = means.transpose("schedule.t0", "schedule.alpha")
    np.testing.assert_allclose(drawn_cells(page), expected, rtol=1e-9)
    page.locator("#cell").get_by_label("α").select_option("1")
    expect(page.locator("#cell-caption")).to_contain_text("α = 1, t₀ = 1")
    page.get_by_role("link", name="open in Curves").click()
    wait_for_chart(page, "#chart")
    expect(page.locator('[name="schedule.alpha"]')).to_have_value("1")
    page.get_by_label("Colour by").select_option("schedule.alpha")
    legend = page.locator("#chart + .chart-legend > [role=group]").nth(1)
    expect(legend.get_by_role("button")).to_have_text(["0", "0.5", "1"])


def test_triangle_is_drawn_at_each_number_of_the_schedule(page, service):
    sweep = service.complete(CORNERS)
    page.goto(f"/sweeps/{sweep}")
    expect(page.locator("#preview-diagram .sub")).to_contain_text("α = 0")
    expect(page.locator("#preview-diagram svg")).to_be_visible()
    page.get_by_role("link", name="Triangle").click()
    wait_for_chart(page, "#chart")
    for alpha in ("0.5", "1"):
        select_and_wait(page, "schedule.alpha", alpha)
        expect(page.locator("#caption")).to_contain_text(f"α = {alpha}")
        expect(page.locator("#problem")).to_be_empty()


def test_spec_of_a_full_sweep_returns_to_the_form(page, service, schedules):
    page.goto(f"/compose?from={schedules}")
    expect(page.get_by_label("Title")).to_have_value("schedules")
    expect(page.locator('[name="schedule.kind"]')).to_have_value("power")
    expect(page.locator('[name="list.schedule.alpha"]')).to_have_value("0, 0.5, 1")
    page.get_by_role("tab", name="JSON").click()
    assert json.loads(page.locator("#text").input_value())["schedule"] == {"power": {}}
