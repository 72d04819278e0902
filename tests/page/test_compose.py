"""The compose page: specs from a preset, by hand and as text, and errors at the field concerned."""

import json
import re

import pytest
import yaml
from playwright.sync_api import expect

from sweep_service.planning.spec import SweepSpec
from sweep_service.presets import PRESETS, read_preset
from tests.api.served import until
from tests.specs import TINY_SPEC


def read_tab(page, form):
    page.get_by_role("tab", name=form).click()
    return page.locator("#text").input_value()


def read_spec(page):
    """Return the spec that the page would submit."""
    return json.loads(read_tab(page, "JSON"))


def parameter_row(page, name):
    return page.locator(f'.param[data-name="{name}"]')


def wait_for_estimate(page):
    """Wait until the estimate is that of the current spec."""
    expect(page.locator("#cost")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("#estimate")).to_contain_text("core time")


@pytest.mark.slow
def test_preset_is_edited_submitted_and_computed(page, service):
    page.goto("/compose")
    page.get_by_label("Start from").select_option("fig5d")
    expect(page.get_by_label("Title")).to_have_value(read_preset("fig5d").name)
    page.get_by_label("Until t =").fill("1")  # shorter than in the preset, which takes long
    parameter_row(page, "p").get_by_label("values of p").fill("50")
    wait_for_estimate(page)
    expect(page.locator("#estimate")).to_contain_text("runs10")
    page.get_by_role("button", name="Run sweep").click()
    page.wait_for_url("**/sweeps/*")
    expect(page.get_by_role("heading", level=1)).to_have_text(read_preset("fig5d").name)
    expect(page.locator("#state")).to_have_text("completed")
    expect(page.locator("#counts")).to_contain_text("10 done")
    expect(page.locator("#map canvas")).to_have_attribute("aria-label", re.compile("10 runs done"))
    sweep = page.url.rpartition("/")[2]
    stored = SweepSpec.parse(service.get(f"/v1/sweeps/{sweep}/spec").json())
    assert stored == SweepSpec.parse(
        {**read_preset("fig5d").as_written(), "axes": {**read_preset("fig5d").as_written()["axes"], "p": 50},
         "time": {**read_preset("fig5d").as_written()["time"], "max": 1}}
    )  # fmt: skip


def test_form_filled_by_hand_gives_the_expected_spec(page, service):
    page.goto("/compose")
    page.get_by_label("Title").fill("by hand")
    parameter_row(page, "d").get_by_label("values of d").fill("5, 8")
    parameter_row(page, "p").get_by_label("values of p").fill("4")
    parameter_row(page, "gamma").get_by_role("combobox").select_option("lin")
    for label, value in (("first", "0.1"), ("last", "0.5"), ("count", "3")):
        parameter_row(page, "gamma").get_by_label(f"γ, learning rate: {label}").fill(value)
    page.get_by_label("Add a parameter").select_option("activation")
    parameter_row(page, "activation").get_by_label("square").check()
    parameter_row(page, "activation").get_by_label("erf").uncheck()
    page.get_by_role("checkbox", name="high dimensional SS-ODE").uncheck()
    page.get_by_label("Kind").select_option("informed")
    page.get_by_role("checkbox", name="the same start for all d").check()
    page.get_by_label("Initial conditions").fill("2")
    page.get_by_label("SGD repeats of each").fill("3")
    page.get_by_label("Until t =").fill("1.5")
    page.get_by_label("Samples, log-spaced").fill("5")
    wait_for_estimate(page)
    assert SweepSpec.parse(read_spec(page)) == SweepSpec.parse({
        "name": "by hand",
        "axes": {"d": [5, 8], "p": 4, "gamma": {"lin": [0.1, 0.5, 3]}, "regime": "classical_noise"},
        "fixed": {"k": 2, "noise": 1e-3, "activation": "square"},
        "init": {"kind": "informed", "shared": True},
        "seeds": {"init": 2, "repeat": 3}, "time": {"max": 1.5, "min": 0.03, "samples": 5},
    })  # fmt: skip
    expect(page.locator("#estimate")).to_contain_text("points6")
    expect(page.locator("#estimate")).to_contain_text("SGD steps")
    page.get_by_role("button", name="Run sweep").click()
    page.wait_for_url("**/sweeps/*")
    assert service.wait_until_ended(page.url.rpartition("/")[2])["state"] == "completed"


@pytest.mark.slow
def test_form_and_yaml_preserve_every_preset(page, service):
    """After an edit of the title, the JSON and the YAML differ from the preset in the name only."""
    page.goto("/compose")
    title = page.get_by_label("Title")
    for name in PRESETS:
        page.get_by_label("Start from").select_option(name)
        expect(title).to_have_value(read_preset(name).name)
        title.press("End")
        title.press_sequentially("!")
        expected = SweepSpec.parse({**read_preset(name).as_written(), "name": read_preset(name).name + "!"})
        assert SweepSpec.parse(read_spec(page)) == expected, name
        assert SweepSpec.read(read_tab(page, "YAML")) == expected, name


def test_edited_text_updates_the_form(page):
    page.goto("/compose")
    for form, content in (
        (
            "YAML",
            "axes: {d: [7, 9], p: 3, gamma: {log: [1e-2, 1, 4]}}\nfixed: {k: 1}\nseeds: 3\ntime: {max: 2}\n",
        ),
        (
            "JSON",
            json.dumps({"axes": {"d": 11, "p": 2, "gamma": 0.5}, "fixed": {"k": 1}, "time": {"max": 4}}),
        ),
    ):
        page.get_by_role("tab", name=form).click()
        page.locator("#text").fill(content)
        spec = SweepSpec.read(content)
        values = spec.axes["d"] if isinstance(spec.axes["d"], list) else [spec.axes["d"]]
        expect(parameter_row(page, "d").get_by_label("values of d")).to_have_value(
            ", ".join(map(str, values))
        )
        expect(page.get_by_label("Until t =")).to_have_value(f"{spec.time.max:g}")
        expect(page.get_by_role("checkbox", name="classical noise")).not_to_be_checked()
    assert "client.submit" in read_tab(page, "Python")
    assert "curl -X POST" in read_tab(page, "curl")


def test_python_tab_contains_runnable_code(page, service, tmp_path):
    page.goto("/compose#spec=" + json.dumps({**TINY_SPEC, "name": "copied", "simulate": False}))
    wait_for_estimate(page)
    code = read_tab(page, "Python")
    namespace = {}
    exec(compile(code, "page", "exec"), namespace)
    assert namespace["ds"].ode_risk.notnull().all()
    assert namespace["sweep"]["name"] == "copied"


@pytest.mark.parametrize(
    ("name", "invalid", "field", "message"),
    [
        ("list.gamma", "abc", "param.gamma", "number"),
        ("list.d", "-5", "param.d", ">="),
        ("list.p", "", "param.p", "number"),
        ("time.max", "-1", "time.max", "> 0"),
        ("time.max", "", "time.max", "required"),
        ("time.samples", "1.5", "time.samples", "whole number"),
        ("seeds.init", "0", "seeds.init", ">= 1"),
        ("seeds.repeat", "x", "seeds.repeat", "whole number"),
        ("init.scale", "-2", "init.scale", ">="),
    ],
)
def test_invalid_value_is_reported_at_its_field(page_with_422, service, name, invalid, field, message):
    page, before = page_with_422, service.get("/v1/sweeps").json()
    page.goto("/compose#spec=" + json.dumps({**TINY_SPEC, "init": {"kind": "gaussian"}}))
    wait_for_estimate(page)
    control, box = page.locator(f'[name="{name}"]'), page.locator(f'[data-field="{field}"]')
    valid = control.input_value()
    control.fill(invalid)
    error = box.locator(".error")
    expect(error).not_to_be_empty()
    expect(error).to_contain_text(message)
    expect(box.locator("[aria-invalid=true]")).not_to_have_count(0)
    expect(page.get_by_role("button", name="Run sweep")).to_be_disabled()
    control.fill(valid)
    expect(error).to_be_empty()
    expect(page.get_by_role("button", name="Run sweep")).to_be_enabled()
    assert service.get("/v1/sweeps").json() == before


def test_every_error_is_shown_at_its_field(page_with_422):
    page = page_with_422
    page.goto("/compose#spec=" + json.dumps(TINY_SPEC))
    wait_for_estimate(page)
    wrong = {"list.d": ("-5", "param.d", ">= 1"), "list.gamma": ("0.1, abc", "param.gamma", "> 0"),
             "time.max": ("-1", "time.max", "> 0")}  # fmt: skip
    good = {name: page.locator(f'[name="{name}"]').input_value() for name in wrong}
    for name, (value, _, _) in wrong.items():
        page.locator(f'[name="{name}"]').fill(value)
    ids = set()
    for name, (_, field, text) in wrong.items():
        message = page.locator(f'[data-field="{field}"] .error')
        expect(message).to_contain_text(text)
        described = page.locator(f'[name="{name}"]').get_attribute("aria-describedby")
        assert described == message.get_attribute("id")
        ids.add(described)
    assert len(ids) == len(wrong)
    expect(page.locator("#refused")).to_contain_text("axes.gamma[1]")
    expect(page.locator("#refused")).to_contain_text("time.max")
    for name, value in good.items():
        page.locator(f'[name="{name}"]').fill(value)
    expect(page.locator("#form .error:not(:empty)")).to_have_count(0)
    expect(page.get_by_role("button", name="Run sweep")).to_be_enabled()


def test_late_estimate_does_not_change_the_submitted_spec(page, service):
    """The response to the estimate of an earlier spec arrives after the spec was replaced."""
    page.goto("/compose")
    wait_for_estimate(page)
    delayed = []
    page.route("**/v1/estimate", lambda route: delayed.append(route) if not delayed else route.continue_())
    page.get_by_label("Title").fill("before")
    until(lambda: page.evaluate("1") and delayed)  # the page has requested the estimate
    page.locator("#text").fill("name: after\n" + yaml.safe_dump(TINY_SPEC))
    delayed[0].continue_()
    page.get_by_role("heading", level=1).click()  # leave the text at once; its content must be kept
    page.get_by_role("button", name="Run sweep").click()
    page.wait_for_url("**/sweeps/*")
    expect(page.get_by_role("heading", level=1)).to_have_text("after")


def test_invalid_text_is_reported_and_cannot_be_submitted(page_with_422):
    page = page_with_422
    page.goto("/compose")
    wait_for_estimate(page)
    page.locator("#text").fill("axes: {d: 5\n")
    expect(page.locator("#text-problem")).not_to_be_empty()
    page.locator("#text").fill("axes: {d: 5, p: 2, gamma: 1}\nfixed: {k: 1}\ntime: {max: 1}\nseedz: 3\n")
    expect(page.locator("#text-problem")).to_contain_text("did you mean 'seeds'")
    expect(page.get_by_role("button", name="Run sweep")).to_be_disabled()


def test_sweep_above_the_limits_is_refused(page):
    page.goto("/compose")
    page.get_by_label("Until t =").fill("1e12")
    expect(page.locator("#refused")).to_contain_text("refused: core_hours")
    expect(page.get_by_role("button", name="Run sweep")).to_be_disabled()


def test_every_design_gives_a_valid_spec(page):
    page.goto("/compose")
    for design, label in (
        ("scaling", "p0"),
        ("triangle", "δt"),
        ("points", "One point per line"),
        ("product", "γ, learning rate: first"),
    ):
        page.get_by_label("Design").select_option(design)
        expect(page.get_by_label(label).first).to_be_visible()
        wait_for_estimate(page)
        assert (design in read_spec(page)) == (design != "product")
        expect(page.get_by_role("button", name="Run sweep")).to_be_enabled()


def test_address_contains_the_spec(page, browser, service):
    page.goto("/compose")
    page.get_by_label("Title").fill("shared")
    wait_for_estimate(page)
    until(lambda: "shared" in page.url)
    other_page = page.context.new_page()
    other_page.goto(page.url)
    expect(other_page.get_by_label("Title")).to_have_value("shared")
