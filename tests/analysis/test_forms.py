"""The form of a view offers only choices that the view accepts, and is declared with the view."""

import pytest
import xarray as xr

from sweep_service.analysis.axes import point_axes
from sweep_service.analysis.contents import describe_contents
from sweep_service.analysis.forms import Control, Form
from sweep_service.analysis.views import VIEWS, View
from tests.stored import compute_dataset

TIME = {"max": 1.0, "samples": 8}
SPECS = {
    "product": {
        "axes": {
            "d": [6, 9, 12],
            "p": [4, 6],
            "gamma": [0.1, 0.5],
            "regime": ["classical", "high_dimensional"],
        },
        "fixed": {"k": 2},
        "seeds": 2,
        "time": TIME,
    },
    "triangle": {"triangle": {"delta_t": 0.01, "resolution": 3}, "axes": {"regime": "auto"}, "time": TIME}
    | {"fixed": {"k": 2}},
    "scaling": {
        "scaling": {"p0": 2, "gamma0": 1},
        "axes": {"d": [6, 9, 12], "kappa": [0, 0.5], "delta": [0, 0.25]},
        "fixed": {"k": 2},
        "time": TIME,
    },
}


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    return compute_dataset(tmp_path_factory.mktemp("product"), SPECS["product"])


@pytest.fixture(scope="module", params=SPECS)
def dataset(request, tmp_path_factory):
    return compute_dataset(tmp_path_factory.mktemp(request.param), SPECS[request.param])


def defaults(form):
    return {control["word"]: control["default"] for control in form["controls"]}


def test_default_choices_of_every_form_are_accepted(dataset):
    described = describe_contents(dataset)
    for name in described["views"]:
        form = described["forms"][name]
        if form["rest"] == "middle" and described["points"] is not None:
            continue  # points that are no product are selected by hand
        options = defaults(form)
        shown = [*form["covers"], *(options[word] for word in form["axis_controls"])]
        if form["rest"] in ("first", "middle"):
            rest = [axis for axis in described["axes"] if axis["name"] not in shown]
            options |= {axis["name"]: axis["values"][0] for axis in rest}
        if form["one_regime"] and described["regimes"] and "source" not in options:
            options["regime"] = described["regimes"][0]
        VIEWS[name].compute(dataset, **options)


def test_every_offered_value_can_be_drawn_as_a_phase_diagram(product):
    described = describe_contents(product)
    options = defaults(described["forms"]["phase-diagram"])
    rest = {axis["name"]: axis["values"][0] for axis in described["axes"]}
    rest = {name: value for name, value in rest.items() if name not in (options["x"], options["y"])}
    value = next(c for c in described["forms"]["phase-diagram"]["controls"] if c["word"] == "value")
    for choice in value["options"]:
        chosen = {**options, "value": choice["value"], **rest, "regime": "classical"}
        assert VIEWS["phase-diagram"].compute(product, **chosen).ndim == 2


def test_offered_axes_have_several_values(dataset):
    several = {name for name, values in point_axes(dataset).items() if len(values) > 1}
    for form in describe_contents(dataset)["forms"].values():
        for control in form["controls"]:
            if control["word"] in ("x", "y"):
                assert {option["value"] for option in control["options"]} == several


def test_new_view_needs_only_an_entry_in_views(dataset, monkeypatch):
    """An entry of the registry is offered with its form, without any other change."""
    view = View(
        "the mean of an observable", lambda dataset, observable: dataset[f"sgd_{observable}"].mean(),
        lambda result, axes: None, xr.DataArray.to_dict,
        Form((Control("observable", "Observable", "observables", "risk"),)),
        lambda dataset: "sgd_risk" in dataset,
    )  # fmt: skip
    monkeypatch.setitem(VIEWS, "mean", view)
    described = describe_contents(dataset)
    assert "mean" in described["views"]
    (control,) = described["forms"]["mean"]["controls"]
    assert (control["word"], control["default"]) == ("observable", "risk")
    assert {"value": "risk", "title": "risk"} in control["options"]
