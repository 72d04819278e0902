"""Rounds of sweeps with a target error over REST."""

from tests.api.served import assert_problem
from tests.specs import SMALL_SPEC

TARGET = {"relative": 0.5, "max_seeds": 7}


def test_rounds_of_a_sweep_are_listed(service, sweep_id):
    assert service.get(f"/v1/sweeps/{sweep_id}/rounds").json() == {"rounds": [], "is_complete": True}
    spec = {**SMALL_SPEC, "seeds": 5, "target_error": TARGET}
    target_id = service.complete(spec)
    content = service.get(f"/v1/sweeps/{target_id}/rounds").json()
    assert content["is_complete"]
    first, second = content["rounds"]
    points = service.get(f"/v1/sweeps/{target_id}/map").json()["points"]
    assert (first["number"], first["points"], first["largest_seeds"]) == (0, points, 5)
    assert first["basis"] == {"pilot": points}
    assert sum(second["basis"].values()) == points
    assert second["largest_seeds"] <= 7
    counts = service.sweep(target_id)["counts"]
    assert counts["done"] == first["runs"] + second["runs"]
    assert counts.get("skipped", 0) == service.sweep(target_id)["runs"] - counts["done"]


def test_rounds_of_an_unknown_sweep(service):
    assert_problem(service.get("/v1/sweeps/20260101-000000-00000000/rounds"), 404)


def test_target_without_an_error_is_rejected(service):
    spec = {**SMALL_SPEC, "seeds": 5, "target_error": {"max_seeds": 7}}
    assert_problem(service.post("/v1/estimate", json=spec), 422, field="target_error")
