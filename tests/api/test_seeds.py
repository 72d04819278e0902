"""Numbers of seeds over REST: before a run, and of a stored sweep."""

import json

import pytest

from sweep_service.analysis.error_bars.seed_curves import compute_seed_curves
from sweep_service.analysis.error_bars.spec_seeds import predict_seeds
from sweep_service.planning.outline import Outline
from sweep_service.text import replace_nonfinite
from tests.api.served import JSON, assert_problem, snapshot_files
from tests.specs import ERROR_BARS_SPEC


def test_prediction_changes_nothing(service):
    before = snapshot_files(service.folder.root)
    answer = service.post("/v1/seeds?relative_error=0.02", json=ERROR_BARS_SPEC)
    expected = predict_seeds(Outline.read(ERROR_BARS_SPEC), service.folder.calibration(), 0.02)
    assert answer.json() == replace_nonfinite(expected)
    assert [point["title"] for point in answer.json()["points"]].count("the largest δt") == 1
    assert answer.json()["summary"][0].startswith("With 3 repeats the risk at t = 1 will be known to ")
    assert snapshot_files(service.folder.root) == before


def test_bad_requests(service):
    assert_problem(service.post("/v1/seeds?relative_error=0", json=ERROR_BARS_SPEC), 422)
    assert_problem(service.post("/v1/seeds?relative_error=inf", json=ERROR_BARS_SPEC), 422)
    bad = {**ERROR_BARS_SPEC, "seeds": 0}
    problem = assert_problem(service.post("/v1/seeds", content=json.dumps(bad), headers=JSON), 422)
    assert problem["field"].startswith("seeds")
    assert_problem(service.get("/v1/sweeps/20000101-000000-00000000/seeds"), 404)


@pytest.mark.parametrize("query", [{}, {"value": "final_risk", "relative_error": "0.1", "d": "50"}])
def test_seeds_of_a_stored_sweep(service, query):
    sweep_id = service.complete(ERROR_BARS_SPEC)
    expected = compute_seed_curves(service.load_dataset(sweep_id), **query)
    answer = service.get(f"/v1/sweeps/{sweep_id}/seeds", params=query)
    assert answer.json() == replace_nonfinite(expected)
    again = service.get(answer.request.url, headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


def test_seeds_as_a_figure_and_bad_options(service):
    url = f"/v1/sweeps/{service.complete(ERROR_BARS_SPEC)}/seeds"
    assert service.get(url, params={"format": "svg", "d": 50}).content.startswith(b"<?xml")
    assert_problem(service.get(url, params={"relative_error": "much"}), 422, field="relative_error")
    assert_problem(service.get(url, params={"value": "nonsense"}), 422, field="value")


def test_z_scores_and_validity_in_curves(service):
    url = f"/v1/sweeps/{service.complete(ERROR_BARS_SPEC)}/curves"
    content = service.get(url, params={"observable": "z_score", "d": 50}).json()
    assert content["band"][1] == pytest.approx(1.96, abs=1e-3)
    theories = [curve for curve in service.get(url).json()["curves"] if curve["source"] == "ode"]
    assert all(len(curve["validity"]) == len(curve["mean"]) for curve in theories)
    assert {curve["overall"] for curve in theories} <= {"holds", "off", "nonlinear"}
