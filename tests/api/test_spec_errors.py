"""An invalid spec is answered with all of its errors, each with the path of its field."""

import pytest

from sweep_service.errors import MAX_REPORTED_ERRORS
from tests.api.served import JSON, YAML, assert_problem
from tests.specs import SMALL_SPEC

TAKERS = ("/v1/sweeps", "/v1/sweeps?dry_run=true", "/v1/estimate")
TEXT = """\
axes:
  d: [5, true]
  p: 4
  gamma: 0.1
fixed: {k: [2, 4], width: 3}
time: {max: 1, samples: 0}
"""
ERRORS = [
    {"field": "axes.d[1]", "line": 2, "column": 10, "allowed": "must be a whole number >= 1 and <= 1e+12"},
    {"field": "fixed.k", "line": 5, "column": 12,
     "allowed": "must be a single value: use axes for several values"},
    {"field": "fixed (key) width", "line": 5, "column": 20},
    {"field": "time.samples", "line": 6, "column": 25,
     "allowed": "must be a whole number >= 1 and <= 100000"},
]  # fmt: skip


@pytest.mark.parametrize("path", [*TAKERS, "/v1/spec"])
def test_all_errors_are_reported_with_their_places(service, path):
    problem = assert_problem(
        service.post(path, content=TEXT, headers=YAML), 422, "and 3 more errors", field="axes.d[1]"
    )
    for found, expected in zip(problem["errors"], ERRORS, strict=True):
        assert {**found, **expected} == found
    assert "did you mean 'p', the width of the student?" in problem["errors"][2]["allowed"]
    assert "errors_truncated" not in problem


def test_json_has_no_lines(service):
    problem = service.post("/v1/estimate", json={**SMALL_SPEC, "time": 5}).json()
    assert problem["errors"] == [{"field": "time", "allowed": "must be a mapping, such as {max: 100}"}]


def test_number_of_errors_is_bounded(service):
    spec = {**SMALL_SPEC, "axes": {**SMALL_SPEC["axes"], "gamma": [-1] * 1000}}
    problem = service.post("/v1/estimate", json=spec).json()
    assert len(problem["errors"]) == MAX_REPORTED_ERRORS
    assert problem["errors_truncated"] is True


def test_errors_of_a_change(service, sweep_id):
    change = {"axes": {"gamma": [0.9, -1]}, "seeds": 0, "time": {"max": 1e-3}, "fixed": {"k": 3}}
    problem = assert_problem(service.post(f"/v1/sweeps/{sweep_id}/extend", json=change), 422)
    fields = [error["field"] for error in problem["errors"]]
    assert fields == ["change (key) fixed", "axes.gamma[1]", "seeds.init", "time.max"]


@pytest.mark.parametrize(
    "change",
    [
        {"fixed": {"k": 2, "activation": "__x"}},
        {"fixed": {"k": 0}},
        {"fixed": {"k": 2, "noise": -1}},
        {"fixed": {"k": 2, "kappa": "x"}},
        {"axes": {"d": 10**13}},
        {"axes": {"p": [4, 20_001]}},
        {"axes": {"gamma": {"lin": [-1, 1, 3]}}},
        {"axes": {"teacher_activation": ["erf", ""]}},
        {"axes": {"regime": "clasical"}},
        {"points": [{"d": 5, "p": 0}]},
    ],
    ids=str,
)
def test_values_outside_the_schema_are_refused_without_expanding(service, change):
    """`POST /v1/spec` checks what the documented schema says, and the values of axes as well."""
    assert_problem(service.post("/v1/spec", json={"time": {"max": 1}, **change}), 422)


def test_incomplete_spec_can_be_converted(service):
    """So that the page shows a text in its form before it is complete."""
    assert service.post("/v1/spec", json={"time": {"max": 1}}, headers=JSON).status_code == 200
