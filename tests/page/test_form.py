"""The form and the text of a spec stay equal: no edit of either is lost, however fast they follow."""

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
from tests.page.test_compose import priced, row, text, written
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
        {"seeds": [5]},
        {"seeds": {"init": [7, 9], "repeat": [3]}},
        {"axes": {**AXES, "noise": [0.1], "activation": ["relu", "erf"]}},
        {"axes": {**AXES, "d": [6, 8], "gamma": [0.1, 0.2]}, "zip": [["d", "gamma"]]},
        {"axes": {}, "points": [{**AXES, "noise": noise, "activation": "relu"} for noise in (0.1, 0.2)]},
        {"axes": {"d": [6, 8], "kappa": [0, 0.5], "delta": 0.5}, "scaling": SCALING},
        {"axes": {"noise": [0.0, 0.1]}, "triangle": {"delta_t": 0.01, "resolution": 2, "p_multiple_of": "k"}},
        {"fixed": {"k": 2, "regime": "classical"}, "simulate": False},
        {"observables": ["risk", "cosine"]},
        {"observables": [one.name for one in OBSERVABLES.values() if one.default]},
        {"regime_options": {"finite_d_factor": True, "particles": 256}, "axes": {**AXES, "regime": "auto"}},
    ],
    ids=str,
)  # fmt: skip
def test_the_form_says_what_a_spec_says(page, change):
    """Whatever is in a spec, another title leaves it as it is."""
    spec = {"name": "before", "axes": AXES, "fixed": {"k": 2}, "time": {"max": 1}, **change}
    page.goto("/compose#spec=" + quote(json.dumps(spec)))
    page.get_by_label("Title").fill("after")
    priced(page)
    expected = Grid.of(SweepSpec.parse(spec))
    for found in (SweepSpec.parse(written(page)), SweepSpec.read(text(page, "YAML"))):
        assert found.name == "after"
        assert Grid.of(found).key == expected.key


def test_what_is_typed_is_not_lost_by_leaving(page):
    """The form reads the text a moment after it is typed; leaving the text before that loses nothing."""
    page.goto("/compose")
    priced(page)
    spec = json.dumps({**TINY_SPEC, "name": "typed"})
    page.get_by_role("tab", name="JSON").click()
    page.locator("#text").fill(spec)
    page.get_by_label("Start from").focus()
    expect(page.get_by_label("Title")).to_have_value("typed")
    page.locator("#text").fill(spec.replace("typed", "again"))
    page.get_by_role("tab", name="YAML").click()
    expect(page.locator("#text")).to_have_value(re.compile("name: again"))
    expect(page.get_by_label("Title")).to_have_value("again")


def test_an_answer_that_comes_late_does_not_undo_what_was_done_since(page):
    page.goto("/compose")
    priced(page)
    late = []
    page.route("**/v1/spec", lambda route: late.append(route))
    page.locator("#text").fill(json.dumps({**TINY_SPEC, "name": "old"}))
    until(lambda: page.wait_for_timeout(20) or late)
    page.get_by_label("Title").fill("new")
    late[0].continue_()
    page.unroute("**/v1/spec")
    page.wait_for_timeout(300)
    expect(page.get_by_label("Title")).to_have_value("new")
    assert written(page)["name"] == "new"


def test_a_title_may_look_like_code(page, service):
    """A text is a text, in Python, YAML and curl."""
    name = 'it\'s "so": true, false, null ü ✓ <b>'
    page.goto("/compose#spec=" + quote(json.dumps({**TINY_SPEC, "name": name, "simulate": False})))
    expect(page.get_by_label("Title")).to_have_value(name)
    priced(page)
    submitted = []
    code = text(page, "Python").partition("client.submit(")[2].rpartition(")\nclient.wait")[0]
    submitted.append(ast.literal_eval(code))
    submitted.append(yaml.safe_load(text(page, "YAML")))
    submitted.append(yaml.safe_load(text(page, "curl").partition("<<'YAML'\n")[2].removesuffix("YAML")))
    assert [(one["name"], one["simulate"]) for one in submitted] == [(name, False)] * 3


def test_another_link_in_the_same_window(page):
    page.goto("/compose#spec=" + json.dumps({**TINY_SPEC, "name": "one"}))
    expect(page.get_by_label("Title")).to_have_value("one")
    page.goto("/compose#spec=" + json.dumps({**TINY_SPEC, "name": "two"}))
    expect(page.get_by_label("Title")).to_have_value("two")
    page.get_by_label("Title").fill("three")
    page.get_by_role("link", name="Skip to content").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Title")).to_have_value("three")


@pytest.mark.parametrize("link", ["%7B", "null", "5", '{"points": 5}', '{"axes": {"gamma": null}}'])
def test_a_link_that_says_nothing(forgiven, link):
    forgiven.goto(f"/compose#spec={link}")
    expect(forgiven.get_by_label("Title")).to_be_visible()


def test_many_letters(page):
    """A browser allows a page to change its address so often and no more."""
    page.goto("/compose")
    page.get_by_label("Title").press_sequentially("a" * 200)
    until(lambda: page.wait_for_timeout(50) or "a" * 200 in page.url)


def test_the_focus_stays(page):
    page.goto("/compose")
    kind = row(page, "gamma").get_by_role("combobox")
    kind.focus()
    kind.select_option("lin")
    expect(kind).to_be_focused()
    page.get_by_label("Add a parameter").select_option("init.scale")
    expect(row(page, "init.scale").locator("input")).to_be_focused()
    row(page, "init.scale").get_by_role("button").click()
    expect(page.get_by_label("Add a parameter")).to_be_focused()
    title = page.get_by_label("Title")
    title.fill("ac")
    title.press("ArrowLeft")
    title.press("b")
    priced(page)
    title.press("!")
    expect(title).to_have_value("ab!c")
