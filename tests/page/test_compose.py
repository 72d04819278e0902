"""Compose a sweep: from a preset, by hand, as text; what is wrong is said where it is."""

import json
import re

import pytest
import yaml
from playwright.sync_api import expect

from sweep_service.planning.spec import SweepSpec
from sweep_service.presets import PRESETS, read_preset
from tests.api.served import until
from tests.specs import TINY_SPEC


def text(page, form):
    page.get_by_role("tab", name=form).click()
    return page.locator("#text").input_value()


def written(page):
    """The spec that would be sent."""
    return json.loads(text(page, "JSON"))


def row(page, name):
    return page.locator(f'.param[data-name="{name}"]')


def priced(page):
    """Wait until the cost is that of what is written."""
    expect(page.locator("#cost")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("#estimate")).to_contain_text("core time")


@pytest.mark.slow
def test_from_a_preset_to_the_end(page, service):
    page.goto("/compose")
    page.get_by_label("Start from").select_option("fig5d")
    expect(page.get_by_label("Title")).to_have_value(read_preset("fig5d").name)
    page.get_by_label("Until t =").fill("1")  # the preset itself takes a while
    row(page, "p").get_by_label("values of p").fill("50")
    priced(page)
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


def test_by_hand(page, service):
    page.goto("/compose")
    page.get_by_label("Title").fill("by hand")
    row(page, "d").get_by_label("values of d").fill("5, 8")
    row(page, "p").get_by_label("values of p").fill("4")
    row(page, "gamma").get_by_role("combobox").select_option("lin")
    for what, value in (("first", "0.1"), ("last", "0.5"), ("count", "3")):
        row(page, "gamma").get_by_label(f"γ, learning rate: {what}").fill(value)
    page.get_by_label("Add a parameter").select_option("activation")
    row(page, "activation").get_by_label("square").check()
    row(page, "activation").get_by_label("erf").uncheck()
    page.get_by_role("checkbox", name="high dimensional SS-ODE").uncheck()
    page.get_by_label("Kind").select_option("informed")
    page.get_by_role("checkbox", name="the same start for all d").check()
    page.get_by_label("Initial conditions").fill("2")
    page.get_by_label("SGD repeats of each").fill("3")
    page.get_by_label("Until t =").fill("1.5")
    page.get_by_label("Samples, log-spaced").fill("5")
    priced(page)
    assert SweepSpec.parse(written(page)) == SweepSpec.parse({
        "name": "by hand",
        "axes": {"d": [5, 8], "p": 4, "gamma": {"lin": [0.1, 0.5, 3]}, "regime": "classical_noise"},
        "fixed": {"k": 2, "noise": 1e-3, "activation": "square"},
        "init": {"kind": "informed", "shared": True},
        "seeds": {"init": 2, "repeat": 3}, "time": {"max": 1.5, "samples": 5},
    })  # fmt: skip
    expect(page.locator("#estimate")).to_contain_text("points6")
    expect(page.locator("#estimate")).to_contain_text("SGD steps")
    page.get_by_role("button", name="Run sweep").click()
    page.wait_for_url("**/sweeps/*")
    assert service.wait_until_ended(page.url.rpartition("/")[2])["state"] == "completed"


@pytest.mark.slow
def test_the_form_says_what_a_preset_says(page, service):
    """Whatever a preset has, the form reads back; and the YAML is read as the same spec."""
    page.goto("/compose")
    title = page.get_by_label("Title")
    for name in PRESETS:
        page.get_by_label("Start from").select_option(name)
        expect(title).to_have_value(read_preset(name).name)
        title.press("End")
        title.press_sequentially("!")
        expected = SweepSpec.parse({**read_preset(name).as_written(), "name": read_preset(name).name + "!"})
        assert SweepSpec.parse(written(page)) == expected, name
        assert SweepSpec.read(text(page, "YAML")) == expected, name


def test_text_becomes_the_form(page):
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
        wanted = spec.axes["d"] if isinstance(spec.axes["d"], list) else [spec.axes["d"]]
        expect(row(page, "d").get_by_label("values of d")).to_have_value(", ".join(map(str, wanted)))
        expect(page.get_by_label("Until t =")).to_have_value(f"{spec.time.max:g}")
        expect(page.get_by_role("checkbox", name="classical noise")).not_to_be_checked()
    assert "client.submit" in text(page, "Python")
    assert "curl -X POST" in text(page, "curl")


def test_what_is_copied_runs(page, service, tmp_path):
    """The Python of the page, as it stands."""
    page.goto("/compose#spec=" + json.dumps({**TINY_SPEC, "name": "copied", "simulate": False}))
    priced(page)
    code = text(page, "Python")
    namespace = {}
    exec(compile(code, "page", "exec"), namespace)
    assert namespace["ds"].ode_risk.notnull().all()
    assert namespace["sweep"]["name"] == "copied"


@pytest.mark.parametrize(
    ("name", "wrong", "place", "words"),
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
def test_what_is_wrong_is_said_at_its_field(forgiven, service, name, wrong, place, words):
    page, before = forgiven, service.get("/v1/sweeps").json()
    page.goto("/compose#spec=" + json.dumps({**TINY_SPEC, "init": {"kind": "gaussian"}}))
    priced(page)
    field, box = page.locator(f'[name="{name}"]'), page.locator(f'[data-field="{place}"]')
    good = field.input_value()
    field.fill(wrong)
    said = box.locator(".error")
    expect(said).not_to_be_empty()
    expect(said).to_contain_text(words)
    expect(box.locator("[aria-invalid=true]")).not_to_have_count(0)
    expect(page.get_by_role("button", name="Run sweep")).to_be_disabled()
    field.fill(good)
    expect(said).to_be_empty()
    expect(page.get_by_role("button", name="Run sweep")).to_be_enabled()
    assert service.get("/v1/sweeps").json() == before


def test_every_error_is_shown_at_its_field(forgiven):
    page = forgiven
    page.goto("/compose#spec=" + json.dumps(TINY_SPEC))
    priced(page)
    wrong = {"list.d": ("-5", "param.d", ">= 1"), "list.gamma": ("0.1, abc", "param.gamma", "> 0"),
             "time.max": ("-1", "time.max", "> 0")}  # fmt: skip
    good = {name: page.locator(f'[name="{name}"]').input_value() for name in wrong}
    for name, (value, _, _) in wrong.items():
        page.locator(f'[name="{name}"]').fill(value)
    ids = set()
    for name, (_, place, words) in wrong.items():
        said = page.locator(f'[data-field="{place}"] .error')
        expect(said).to_contain_text(words)
        described = page.locator(f'[name="{name}"]').get_attribute("aria-describedby")
        assert described == said.get_attribute("id")
        ids.add(described)
    assert len(ids) == len(wrong)
    expect(page.locator("#refused")).to_contain_text("axes.gamma[1]")
    expect(page.locator("#refused")).to_contain_text("time.max")
    for name, value in good.items():
        page.locator(f'[name="{name}"]').fill(value)
    expect(page.locator("#form .error:not(:empty)")).to_have_count(0)
    expect(page.get_by_role("button", name="Run sweep")).to_be_enabled()


def test_what_is_run_is_what_is_written(page, service):
    """However slow an answer to what was there before may be."""
    page.goto("/compose")
    priced(page)
    slow = []
    page.route("**/v1/estimate", lambda route: slow.append(route) if not slow else route.continue_())
    page.get_by_label("Title").fill("before")
    until(lambda: page.evaluate("1") and slow)  # it is asked what this would cost
    page.locator("#text").fill("name: after\n" + yaml.safe_dump(TINY_SPEC))
    slow[0].continue_()
    page.get_by_role("heading", level=1).click()  # what is typed stays, though the text is left at once
    page.get_by_role("button", name="Run sweep").click()
    page.wait_for_url("**/sweeps/*")
    expect(page.get_by_role("heading", level=1)).to_have_text("after")


def test_a_text_that_is_wrong(forgiven):
    page = forgiven
    page.goto("/compose")
    priced(page)
    page.locator("#text").fill("axes: {d: 5\n")
    expect(page.locator("#text-problem")).not_to_be_empty()
    page.locator("#text").fill("axes: {d: 5, p: 2, gamma: 1}\nfixed: {k: 1}\ntime: {max: 1}\nseedz: 3\n")
    expect(page.locator("#text-problem")).to_contain_text("did you mean 'seeds'")
    expect(page.get_by_role("button", name="Run sweep")).to_be_disabled()


def test_what_is_too_dear_says_so(page):
    page.goto("/compose")
    page.get_by_label("Until t =").fill("1e12")
    expect(page.locator("#refused")).to_contain_text("refused: core_hours")
    expect(page.get_by_role("button", name="Run sweep")).to_be_disabled()


def test_designs(page):
    page.goto("/compose")
    for design, first in (
        ("scaling", "p0"),
        ("triangle", "δt"),
        ("points", "One point per line"),
        ("product", "γ, learning rate: first"),
    ):
        page.get_by_label("Design").select_option(design)
        expect(page.get_by_label(first).first).to_be_visible()
        priced(page)
        assert (design in written(page)) == (design != "product")
        expect(page.get_by_role("button", name="Run sweep")).to_be_enabled()


def test_a_link_to_it(page, browser, service):
    page.goto("/compose")
    page.get_by_label("Title").fill("shared")
    priced(page)
    until(lambda: "shared" in page.url)
    again = page.context.new_page()
    again.goto(page.url)
    expect(again.get_by_label("Title")).to_have_value("shared")
