"""Form and text of a spec on the compose page: they stay equal and no quick edit of either is lost."""

import ast
import json
import re
from urllib.parse import quote

import pytest
import yaml
from playwright.sync_api import expect

from sweep_service.model.observables import OBSERVABLES
from sweep_service.planning.grids import Grid
from sweep_service.planning.spec import SweepSpec
from tests.api.served import until
from tests.page.test_compose import parameter_row, read_spec, read_tab, wait_for_estimate
from tests.specs import TINY_SPEC

AXES = {"d": 6, "p": 2, "gamma": 0.1}
RHO = {"kind": "informed", "teacher": {"rho": 0.3, "norms": [1.0, 2.0]}}
SCALING = {"p0": 2, "gamma0": 1, "p_multiple_of": 3}
GIVEN = {"kind": "overlaps", "M": [[0.1], [0.2]], "Q": [[1, 0], [0, 1]], "P": [[1]]}


@pytest.mark.parametrize(
    "change",
    [
        {"init": RHO},
        {"init": {"kind": "informed", "teacher": "random", "shared": True}},
        {"init": {"kind": "planted", "orthonormal_teacher": False, "epsilon": 0.2}},
        {"init": {"kind": "gaussian", "teacher": "orthonormal", "scale": 2.0, "shared": {"d0": 6}}},
        {"init": GIVEN, "fixed": {"k": 1}},
        {"init": {"kind": "gaussian"}, "axes": {**AXES, "init.scale": [0.5, 1.0]}},
        {"teacher": "orthonormal", "schedule": {"exponential": {"tau": 3}}},
        {"teacher": {"gram": [[1, 0.5], [0.5, 1]]}, "second_layer": {"init": "gaussian", "scale": 0.5}},
        {"teacher": {"second_layer": {"init": [1, 0.6]}}, "init": RHO},
        {"second_layer": {"scale": -1}, "schedule": {"steps": [[0, 2], [1, 0.5]]}},
        {"schedule": {"power": {"t0": 5}}, "axes": {**AXES, "schedule.alpha": {"lin": [0, 1, 3]}}},
        {"axes": {**AXES, "teacher.rho": [0, 0.5], "second_layer.scale": [1, 2], "batch": [1, 4]}},
        {"seeds": [5]},
        {"seeds": {"init": [7, 9], "repeat": [3]}},
        {"seeds": 5, "target_error": {"value": "risk", "relative": 0.1, "max_seeds": 20}, "keep_state": True},
        {"axes": {**AXES, "noise": [0.1], "activation": ["relu", "erf"]}},
        {"axes": {**AXES, "d": [6, 8], "gamma": [0.1, 0.2]}, "zip": [["d", "gamma"]]},
        {"axes": {}, "points": [{**AXES, "noise": noise, "activation": "relu"} for noise in (0.1, 0.2)]},
        {"axes": {"d": [6, 8], "kappa": [0, 0.5], "delta": 0.5}, "scaling": SCALING},
        {"axes": {"noise": [0.0, 0.1]}, "triangle": {"delta_t": 0.01, "resolution": 2, "p_multiple_of": "k"}},
        {"fixed": {"k": 2, "regime": "classical"}, "simulate": False},
        {"observables": ["risk", "cosine"]},
        {"observables": [observable.name for observable in OBSERVABLES.values() if observable.default]},
        {"regime_options": {"finite_d_factor": True, "particles": 256}, "axes": {**AXES, "regime": "auto"}},
    ],
    ids=str,
)  # fmt: skip
def test_edit_of_the_title_preserves_the_rest_of_the_spec(page, change):
    spec = {"name": "before", "axes": AXES, "fixed": {"k": 2}, "time": {"max": 1}, **change}
    page.goto("/compose#spec=" + quote(json.dumps(spec)))
    page.get_by_label("Title").fill("after")
    wait_for_estimate(page)
    expected = Grid.of(SweepSpec.parse(spec))
    for edited in (SweepSpec.parse(read_spec(page)), SweepSpec.read(read_tab(page, "YAML"))):
        assert edited.name == "after"
        assert Grid.of(edited).key == expected.key


def test_text_is_applied_when_it_loses_focus(page):
    """The form reads the text a moment after the last key; losing the focus before loses nothing."""
    page.goto("/compose")
    wait_for_estimate(page)
    spec = json.dumps({**TINY_SPEC, "name": "typed"})
    page.get_by_role("tab", name="JSON").click()
    page.locator("#text").fill(spec)
    page.get_by_label("Start from").focus()
    expect(page.get_by_label("Title")).to_have_value("typed")
    page.locator("#text").fill(spec.replace("typed", "again"))
    page.get_by_role("tab", name="YAML").click()
    expect(page.locator("#text")).to_have_value(re.compile("name: again"))
    expect(page.get_by_label("Title")).to_have_value("again")


def test_late_response_does_not_undo_a_later_edit(page):
    page.goto("/compose")
    wait_for_estimate(page)
    delayed = []
    page.route("**/v1/spec", lambda route: delayed.append(route))
    page.locator("#text").fill(json.dumps({**TINY_SPEC, "name": "old"}))
    until(lambda: page.wait_for_timeout(20) or delayed)
    page.get_by_label("Title").fill("new")
    delayed[0].continue_()
    page.unroute("**/v1/spec")
    page.wait_for_timeout(300)
    expect(page.get_by_label("Title")).to_have_value("new")
    assert read_spec(page)["name"] == "new"


def test_title_is_quoted_in_python_yaml_and_curl(page, service):
    name = 'it\'s "so": true, false, null ü ✓ <b>'
    page.goto("/compose#spec=" + quote(json.dumps({**TINY_SPEC, "name": name, "simulate": False})))
    expect(page.get_by_label("Title")).to_have_value(name)
    wait_for_estimate(page)
    specs = []
    code = read_tab(page, "Python").partition("client.submit(")[2].rpartition(")\nclient.wait")[0]
    specs.append(ast.literal_eval(code))
    specs.append(yaml.safe_load(read_tab(page, "YAML")))
    specs.append(yaml.safe_load(read_tab(page, "curl").partition("<<'YAML'\n")[2].removesuffix("YAML")))
    assert [(spec["name"], spec["simulate"]) for spec in specs] == [(name, False)] * 3


def test_second_link_in_the_same_page_replaces_the_spec(page):
    page.goto("/compose#spec=" + json.dumps({**TINY_SPEC, "name": "one"}))
    expect(page.get_by_label("Title")).to_have_value("one")
    page.goto("/compose#spec=" + json.dumps({**TINY_SPEC, "name": "two"}))
    expect(page.get_by_label("Title")).to_have_value("two")
    page.get_by_label("Title").fill("three")
    page.get_by_role("link", name="Skip to content").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Title")).to_have_value("three")


@pytest.mark.parametrize("link", ["%7B", "null", "5", '{"points": 5}', '{"axes": {"gamma": null}}'])
def test_invalid_link_opens_the_form(page_with_422, link):
    page_with_422.goto(f"/compose#spec={link}")
    expect(page_with_422.get_by_label("Title")).to_be_visible()


def test_fast_typing_does_not_exceed_the_limit_of_address_changes(page):
    """Browsers limit how often a page may change its address."""
    page.goto("/compose")
    page.get_by_label("Title").press_sequentially("a" * 200)
    until(lambda: page.wait_for_timeout(50) or "a" * 200 in page.url)


def test_focus_is_kept_or_moves_to_the_next_control(page):
    page.goto("/compose")
    kind = parameter_row(page, "gamma").get_by_role("combobox")
    kind.focus()
    kind.select_option("lin")
    expect(kind).to_be_focused()
    page.get_by_label("Add a parameter").select_option("init.scale")
    expect(parameter_row(page, "init.scale").locator("input")).to_be_focused()
    parameter_row(page, "init.scale").get_by_role("button").click()
    expect(page.get_by_label("Add a parameter")).to_be_focused()
    title = page.get_by_label("Title")
    title.fill("ac")
    title.press("ArrowLeft")
    title.press("b")
    wait_for_estimate(page)
    title.press("!")
    expect(title).to_have_value("ab!c")
