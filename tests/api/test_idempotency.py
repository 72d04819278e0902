"""Idempotency keys: a request with a key is executed once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.api.served import assert_problem, gated, serving
from tests.specs import distinct_spec


def test_request_with_key_is_executed_once(held):
    key = {"Idempotency-Key": "first 1"}
    first = held.post("/v1/sweeps", json=distinct_spec(6), headers=key)
    again = held.post("/v1/sweeps", json=distinct_spec(6), headers=key)
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["id"] == again.json()["id"]
    assert first.headers["location"] == again.headers["location"]


def test_key_belongs_to_its_request(held):
    key = {"Idempotency-Key": "second"}
    sweep_id = held.submit(distinct_spec(7), headers=key)
    answer = held.post("/v1/sweeps", json=distinct_spec(8), headers=key)
    assert_problem(answer, 409, "another request", without=["second"])
    assert_problem(held.post(f"/v1/sweeps/{sweep_id}/extend", json={"seeds": 3}, headers=key), 409)
    listed = held.get("/v1/sweeps?limit=500").json()["sweeps"]
    assert distinct_spec(8)["axes"]["gamma"] not in [
        held.get(sweep["links"]["spec"]).json()["axes"]["gamma"] for sweep in listed
    ]


def test_concurrent_requests_with_one_key_execute_one(held):
    """Although all arrive before the first is executed."""
    before, key = len(held.conductor_thread.ledger.sweeps()), {"Idempotency-Key": "at once"}
    specs = [distinct_spec(20 + number) for number in range(4)]
    with ThreadPoolExecutor(4) as many:
        answers = list(many.map(lambda spec: held.post("/v1/sweeps", json=spec, headers=key), specs))
    assert sorted(answer.status_code for answer in answers) == [202, 409, 409, 409]
    assert len(held.conductor_thread.ledger.sweeps()) == before + 1


def test_key_is_removed_with_its_sweep(held):
    key = {"Idempotency-Key": "third"}
    sweep_id = held.submit(distinct_spec(9), headers=key)
    assert held.delete(f"/v1/sweeps/{sweep_id}").status_code == 204
    assert held.post("/v1/sweeps", json=distinct_spec(10), headers=key).status_code == 202


def test_key_survives_restart(tmp_path):
    key = {"Idempotency-Key": "fourth"}
    with serving(tmp_path, executor=gated) as service:
        sweep_id = service.submit(distinct_spec(1), headers=key)
    with serving(tmp_path, executor=gated) as service:
        assert service.post("/v1/sweeps", json=distinct_spec(1), headers=key).json()["id"] == sweep_id
        assert_problem(service.post("/v1/sweeps", json=distinct_spec(2), headers=key), 409)


def test_rejected_request_does_not_use_its_key(held):
    key = {"Idempotency-Key": "fifth"}
    assert held.post("/v1/sweeps", json={}, headers=key).status_code == 422
    assert held.post("/v1/sweeps", json=distinct_spec(11), headers=key).status_code == 202


@pytest.mark.parametrize("key", ["", "k" * 201])
def test_invalid_keys_are_rejected(held, key):
    answer = held.post("/v1/sweeps", json=distinct_spec(12), headers={"Idempotency-Key": key})
    assert_problem(answer, 422, without=["kkk"])


def test_repeated_request_gets_the_same_response(held):
    sweep_id, key = held.submit(distinct_spec(14)), {"Idempotency-Key": "sixth"}
    first, again = (held.post("/v1/sweeps", json=distinct_spec(14), headers=key) for _ in range(2))
    assert first.json()["id"] == again.json()["id"] == sweep_id
    assert (first.status_code, again.status_code) == (200, 200)
