"""Structured parameters on the compose page: teacher, second layers, schedule, and their numbers as axes."""

import json
from urllib.parse import quote

import pytest
import yaml
from playwright.sync_api import expect

from sweep_service.model.structure_kinds import list_kinded_structures
from sweep_service.planning.spec import SweepSpec
from tests.page.test_compose import parameter_row, read_spec, read_tab, wait_for_estimate

BASE = {
    "axes": {"d": 8, "p": 2, "gamma": 0.1, "regime": "classical_noise"}, "fixed": {"k": 2},
    "time": {"max": 1, "samples": 3},
}  # fmt: skip
FULL = {
    **BASE,
    "teacher": {"rho": 0.3, "norms": [1, 2], "second_layer": {"init": "gaussian", "scale": 2}},
    "second_layer": {"init": [1.2, 0.8]}, "schedule": {"power": {"t0": 5, "alpha": 0.5}},
}  # fmt: skip


def open_spec(page, spec):
    page.goto("/compose#spec=" + quote(json.dumps(spec)))
    wait_for_estimate(page)


def control(page, name):
    return page.locator(f'#form [name="{name}"]')


def choose(page, structure, kind):
    control(page, f"{structure}.kind").select_option(kind)


def test_structures_filled_by_hand_give_the_expected_spec(page):
    open_spec(page, BASE)
    before = page.locator("#estimate").inner_text()
    choose(page, "schedule", "power")
    control(page, "schedule.power.t0").fill("5")
    page.get_by_label("Add a parameter").select_option("schedule.alpha")
    row = parameter_row(page, "schedule.alpha").get_by_label("values of α, alpha of the schedule")
    expect(row).to_have_value("0.5")  # moved from the field, which the grid replaces
    expect(control(page, "schedule.power.alpha")).to_be_disabled()
    row.fill("0, 0.5, 1")
    choose(page, "second_layer", "given numbers")
    control(page, "second_layer.init").fill("1.2, 0.8")
    choose(page, "teacher", "Gram matrix")
    control(page, "teacher.gram").fill("1 0.2\n0.2 2")
    choose(page, "teacher.second_layer", "rademacher")
    control(page, "teacher.second_layer.scale").fill("0.5")
    page.get_by_text("Observables, axes that vary").click()
    page.locator('[name="observable"][value="second_layer"]').check()
    wait_for_estimate(page)
    expect(page.locator("#estimate")).to_contain_text("points3")
    assert page.locator("#estimate").inner_text() != before
    expected = SweepSpec.parse({
        **BASE,
        "axes": {**BASE["axes"], "schedule.alpha": [0, 0.5, 1]},
        "teacher": {"gram": [[1, 0.2], [0.2, 2]], "second_layer": {"init": "rademacher", "scale": 0.5}},
        "second_layer": {"init": [1.2, 0.8]},
        "schedule": {"power": {"t0": 5}},
        "observables": ["risk", "specialisation", "largest_norm", "mean_orthogonal_norm", "cosine",
                        "second_layer"],
    })  # fmt: skip
    assert SweepSpec.parse(read_spec(page)) == expected
    assert SweepSpec.read(read_tab(page, "YAML")) == expected


def test_errors_of_structures_are_shown_at_their_fields(page_with_422):
    page = page_with_422
    open_spec(page, {**FULL, "axes": {**BASE["axes"], "schedule.t0": [1, 2]},
                     "schedule": {"power": {"alpha": 0.5}}})  # fmt: skip
    row = parameter_row(page, "schedule.t0").locator("input")
    for field, name, invalid, message in (
        (control(page, "schedule.power.alpha"), "schedule.power.alpha", "-1", ">= 0"),
        (control(page, "second_layer.init"), "second_layer.init", "1, 2, 3", "must have 2 numbers"),
        (control(page, "second_layer.init"), "second_layer.init", "", "a list of numbers"),
        (control(page, "teacher.rho"), "teacher.rho", "3", "must be in"),
        (control(page, "teacher.rho"), "teacher.rho", "", "number"),
        (control(page, "teacher.second_layer.scale"), "teacher.second_layer.scale", "1e9", "1e+08"),
        (row, "param.schedule.t0", "0, 1", "> 0"),
    ):
        valid = field.input_value()
        field.fill(invalid)
        error = page.locator(f'[data-field~="{name}"] .error')
        expect(error).to_contain_text(message)
        expect(field).to_have_attribute("aria-describedby", error.get_attribute("id"))
        expect(page.locator("#form .error:not(:empty)")).to_have_count(1)
        expect(page.get_by_role("button", name="Run sweep")).to_be_disabled()
        field.fill(valid)
        expect(error).to_be_empty()
    choose(page, "init", "symmetric")
    expect(page.locator('[data-field~="teacher"] .error')).to_contain_text("orthonormal")
    choose(page, "teacher", "orthonormal")
    expect(page.locator("#form .error:not(:empty)")).to_have_count(0)


def test_numbers_of_structures_become_axes_and_back(page):
    open_spec(page, FULL)
    adder = page.get_by_label("Add a parameter")
    options = adder.locator("option").all_inner_texts()
    assert {"schedule.t0", "teacher.rho", "teacher.second_layer.scale", "init.scale"} <= set(options)
    assert not {"schedule.tau", "second_layer.scale", "init.epsilon"} & set(options)  # of other kinds
    for name, value in (("schedule.t0", 5), ("teacher.second_layer.scale", 2), ("teacher.rho", 0.3)):
        adder.select_option(name)
        expect(parameter_row(page, name).locator("input")).to_have_value(str(value))
    wait_for_estimate(page)
    spec = read_spec(page)
    assert {name: spec["axes"][name] for name in ("schedule.t0", "teacher.rho")} == {
        "schedule.t0": 5, "teacher.rho": 0.3,
    }  # fmt: skip
    assert spec["schedule"] == {"power": {"alpha": 0.5}}
    assert spec["teacher"] == {"norms": [1, 2], "second_layer": {"init": "gaussian"}}
    for name in ("schedule.t0", "teacher.rho"):
        parameter_row(page, name).get_by_role("button").click()
    assert {**read_spec(page)["schedule"]["power"]} == {"t0": 5, "alpha": 0.5}
    assert read_spec(page)["teacher"]["rho"] == 0.3
    choose(page, "teacher.second_layer", "given numbers")
    expect(parameter_row(page, "teacher.second_layer.scale")).to_have_count(0)  # not of this kind


def test_text_with_structures_fills_the_form(page):
    open_spec(page, BASE)
    text = {**FULL, "schedule": {"steps": [[10, 0.5], [100, 0.1]]}, "init": {"kind": "informed"}}
    page.locator("#text").fill(yaml.safe_dump(text))
    expect(control(page, "schedule.kind")).to_have_value("steps")
    expect(control(page, "schedule.steps")).to_have_value("10 0.5\n100 0.1")
    expect(control(page, "second_layer.init")).to_have_value("1.2, 0.8")
    expect(control(page, "teacher.kind")).to_have_value("equicorrelated")
    expect(control(page, "teacher.norms")).to_have_value("1, 2")
    expect(control(page, "init.kind")).to_have_value("informed")
    wait_for_estimate(page)
    assert SweepSpec.parse(read_spec(page)) == SweepSpec.parse(text)


def test_every_kind_gives_a_spec_that_is_accepted(page):
    open_spec(page, BASE)
    for structure in list_kinded_structures():
        for kind in reversed(structure.kinds):  # the default last
            choose(page, structure.name, kind.name)
            values = control(page, f"{structure.name}.init")
            if kind.fields and kind.fields[0].type == "numbers":
                values.fill("1, 2")
            wait_for_estimate(page)
            expect(page.get_by_role("button", name="Run sweep")).to_be_enabled()
            expect(control(page, f"{structure.name}.kind")).to_have_value(kind.name)
            if kind is not structure.kinds[0]:
                assert structure.name.partition(".")[0] in read_spec(page)
    assert SweepSpec.parse(read_spec(page)) == SweepSpec.parse(BASE)


@pytest.mark.parametrize("name", ["init", "teacher", "second_layer", "schedule"])
def test_value_of_no_kind_stays_as_written(page_with_422, name):
    page, value = page_with_422, {"unknown": 1}
    page.goto("/compose#spec=" + quote(json.dumps({**BASE, name: value})))
    expect(control(page, f"{name}.kind")).to_have_value("as written in the text")
    expect(page.locator("#refused")).not_to_be_empty()
    page.get_by_label("Title").fill("still there")
    assert read_spec(page)[name] == value
