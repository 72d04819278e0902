"""Estimates over REST."""

import json

import pytest

from sweep_service.store.ledger import Request
from tests.api.served import JSON, snapshot_files
from tests.specs import SMALL_SPEC, distinct_spec


@pytest.mark.parametrize("path", ["/v1/estimate", "/v1/sweeps?dry_run=true"])
def test_estimate_changes_nothing(gate, path):
    before = snapshot_files(gate.folder.root)
    answer = gate.post(path, json=distinct_spec(13), headers={"Idempotency-Key": "of an estimate"})
    assert answer.status_code == 200
    content = answer.json()
    assert (content["points"], content["runs"], content["reused"], content["copies"]) == (1, 4, 0, 0)
    assert content["refused"] is None
    assert content["core_seconds"] > 0
    assert content["bytes"] > 0
    assert set(content["dearest"]) >= {"d", "p", "gamma", "core_seconds"}
    assert snapshot_files(gate.folder.root) == before
    assert gate.conductor_thread.ledger.find_answer(Request("of an estimate", "any")) is None


def test_estimate_and_dry_run_agree(service, sweep_id):
    """Both take stored runs into account."""
    spec = {**SMALL_SPEC, "seeds": {"init": 3, "repeat": 2}}
    estimate = service.post("/v1/estimate", json=spec).json()
    assert estimate == service.post("/v1/sweeps?dry_run=true", json=spec).json()
    # Copies: the regime does not depend on d.
    assert (estimate["runs"], estimate["reused"], estimate["copies"]) == (36, 20, 6)
    assert "Location" not in service.post("/v1/sweeps?dry_run=true", json=spec).headers


def test_infinite_cost_is_valid_json(service):
    spec = {**SMALL_SPEC, "axes": {"d": 10**12, "p": 4, "gamma": 1e-12}, "time": {"max": 1e15}, "seeds": 1}
    answer = service.post("/v1/estimate", content=json.dumps(spec), headers=JSON)
    content = json.loads(answer.text, parse_constant=pytest.fail)
    assert content["refused"].startswith("core_hours")
    assert content["warnings"]
