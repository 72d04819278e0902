"""The OpenAPI document as generated clients use it: names, parameters, and models of what is answered."""

import re
from datetime import datetime

import pytest
from pydantic import TypeAdapter

from sweep_service.analysis.views import VIEWS
from sweep_service.api.error_responses import (
    PROBLEM_TYPE_BY_ERROR,
    PROBLEM_TYPE_BY_STATUS,
    PROBLEM_TYPE_PREFIX,
    STATUS_BY_ERROR,
)
from sweep_service.api.routes.figures import AnyView
from sweep_service.api.schemas.view_models import Curves, PhaseDiagram, SeedCurves, TriangleOut
from sweep_service.model.parameters import PARAMETERS
from tests.api.served import assert_problem
from tests.specs import SMALL_SPEC


@pytest.fixture(scope="module")
def document(service):
    return service.get("/openapi.json").json()


def operations(document):
    return {
        operation["operationId"]: operation
        for methods in document["paths"].values()
        for operation in methods.values()
    }


def test_operation_ids_are_short_and_unique(document):
    ids = [
        operation["operationId"] for methods in document["paths"].values() for operation in methods.values()
    ]
    assert len(set(ids)) == len(ids)
    assert [name for name in ids if not re.fullmatch(r"[a-z]+(_[a-z]+){0,2}", name)] == []
    assert {"submit_sweep", "list_sweeps", "get_sweep", "follow_sweep", "cancel_sweep"} <= set(ids)


@pytest.mark.parametrize(
    "name", ["get_curves", "count_seeds", "get_phase_diagram", "get_figure", "export_data"]
)
def test_selections_and_options_are_parameters(document, name):
    parameters = operations(document)[name]["parameters"]
    names = [parameter["name"] for parameter in parameters]
    assert len(set(names)) == len(names)
    assert {*PARAMETERS, "regime", "seed", "time", "init.scale"} <= set(names)
    assert all(not parameter["required"] for parameter in parameters if parameter["in"] == "query")
    if name == "get_figure":
        words = {control.option for view in VIEWS.values() for control in view.form.controls}
        assert {*words, "levels", "cmap"} <= set(names)


def test_times_are_dates(document, service, sweep_id):
    fields = document["components"]["schemas"]["SweepOut"]["properties"]
    sweep = service.sweep(sweep_id)
    for name in ("created", "updated"):
        assert fields[name]["format"] == "date-time"
        assert datetime.fromisoformat(sweep[name]).utcoffset().total_seconds() == 0


# ---- the models of views


def test_curves_have_their_model(get):
    for options in ({"d": 5}, {"d": 5, "time": "steps"}, {"d": 5, "gamma": 0.1, "observable": "cosine"}):
        content = get("curves", **options).json()
        assert Curves.model_validate(content).curves[0].mean == content["curves"][0]["mean"]


def test_curves_with_error_bars_have_their_model(service):
    axes = {"d": 50, "p": 2, "gamma": 0.5, "regime": ["classical", "high_dimensional"]}
    spec = {**SMALL_SPEC, "axes": axes, "fluctuations": True, "seeds": {"init": 1, "repeat": 6}}
    path = f"/v1/sweeps/{service.complete(spec)}"
    curves = Curves.model_validate(service.get(f"{path}/curves").json())
    theory = next(curve for curve in curves.curves if curve.regime == "high_dimensional")
    assert len(theory.validity) == len(theory.predicted["low"]) == len(curves.time)
    assert Curves.model_validate(service.get(f"{path}/curves?observable=z_score").json()).band
    seeds = SeedCurves.model_validate(service.get(f"{path}/seeds").json())
    assert {curve.source for curve in seeds.curves} == {"sgd", "ode"}


def test_diagrams_have_their_models(get, service):
    diagram = PhaseDiagram.model_validate(get("phase-diagram", x="gamma", y="d").json())
    assert (diagram.form, len(diagram.value.values)) == ("grid", 2)
    spec = {**SMALL_SPEC, "axes": {"regime": "classical"}, "triangle": {"delta_t": 0.01, "resolution": 2},
            "simulate": False, "seeds": 1}  # fmt: skip
    path = f"/v1/sweeps/{service.complete(spec)}"
    content = service.get(f"{path}/phase-diagram?x=triangle&value=ode_risk").json()
    triangle = TriangleOut.model_validate(content)
    assert triangle.points[0].u_d + triangle.points[0].u_p + triangle.points[0].u_gamma == pytest.approx(1.0)
    points = PhaseDiagram.model_validate(service.get(f"{path}/phase-diagram?x=d&y=p&value=ode_risk").json())
    assert (points.form, len(points.points)) == ("points", len(triangle.points))


def test_other_views_are_labelled_arrays(get):
    model = TypeAdapter(AnyView)
    for view, options in (("collapse", {"gamma": 0.5}),):
        content = get(f"figures/{view}", **options).json()
        assert model.validate_python(content).model_dump(exclude_unset=True).keys() == content.keys()


# ---- problems


def test_problems_have_stable_types(service, sweep_id):
    prefix = "urn:sweep-service:problem:"
    assert prefix == PROBLEM_TYPE_PREFIX
    for response, status, name in (
        (service.get("/v1/sweeps/20000101-000000-00000000"), 404, "not-found"),
        (service.put("/v1/sweeps"), 405, "method-not-allowed"),
        (service.get("/v1/sweeps?limit=0"), 422, "invalid-input"),
        (service.post("/v1/sweeps", json={**SMALL_SPEC, "wrong": 1}), 422, "invalid-input"),
        (service.post("/v1/sweeps", json={**SMALL_SPEC, "time": {"max": 1e12}}), 422, "limit-exceeded"),
        (service.post("/v1/sweeps", content=b"x"), 415, "unsupported-media-type"),
    ):
        assert assert_problem(response, status)["type"] == prefix + name


def test_every_status_and_error_has_a_type(document):
    statuses = {
        int(status)
        for operation in operations(document).values()
        for status in operation["responses"]
        if int(status) >= 400
    }
    assert statuses | set(STATUS_BY_ERROR.values()) <= set(PROBLEM_TYPE_BY_STATUS)
    names = [*PROBLEM_TYPE_BY_ERROR.values(), *PROBLEM_TYPE_BY_STATUS.values()]
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)
