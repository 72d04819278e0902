"""Extending sweeps over REST."""

import json

import pytest
import xarray as xr

from tests.api.served import JSON, YAML, assert_problem, snapshot_files
from tests.specs import distinct_spec


def test_extension_is_a_new_sweep(service, sweep_id):
    before = snapshot_files(service.folder.dataset_path(sweep_id)), service.sweep(sweep_id)
    answer = service.post(f"/v1/sweeps/{sweep_id}/extend", json={"axes": {"gamma": [0.9]}, "name": "wider"})
    assert answer.status_code == 202
    content = answer.json()
    assert (content["extends"], content["name"], content["reused"]) == (sweep_id, "wider", 24)
    assert answer.headers["location"] == content["links"]["self"] != f"/v1/sweeps/{sweep_id}"
    assert service.wait_until_ended(content["id"])["counts"] == {"done": 36}
    old = service.load_dataset(sweep_id)
    new = service.load_dataset(content["id"]).sel(gamma=old.gamma)
    xr.testing.assert_equal(new.drop_attrs(), old.drop_attrs())  # including the seconds, which are copied
    assert (snapshot_files(service.folder.dataset_path(sweep_id)), service.sweep(sweep_id)) == before
    again = service.post(f"/v1/sweeps/{sweep_id}/extend", content="axes: {gamma: 0.9}", headers=YAML)
    assert (again.status_code, again.json()["id"]) == (200, content["id"])


def test_empty_extension_returns_the_sweep_itself(service, sweep_id):
    for change in ({}, {"seeds": {"init": 1}}, {"axes": {"d": 5}}):
        answer = service.post(f"/v1/sweeps/{sweep_id}/extend", json=change)
        assert (answer.status_code, answer.json()["id"]) == (200, sweep_id)


def test_extension_with_key_is_executed_once(held):
    sweep_id, key = held.submit(distinct_spec(430)), {"Idempotency-Key": "wider"}
    first = held.post(f"/v1/sweeps/{sweep_id}/extend", json={"seeds": 3}, headers=key)
    again = held.post(f"/v1/sweeps/{sweep_id}/extend", json={"seeds": 3}, headers=key)
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["id"] == again.json()["id"]
    other = held.submit(distinct_spec(431))
    assert_problem(held.post(f"/v1/sweeps/{other}/extend", json={"seeds": 3}, headers=key), 409)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ([], "change"), (None, "change"), ({"time": {"max": 0.1}}, "time.max"), ({"init": {}}, None),
        ({"points": []}, "points"),
        ({"axes": {"gamma": "odd"}}, None), ({"axes": 3}, "axes"), ({"seeds": "odd"}, "seeds.init"),
        ({"seeds": {"<odd>": 3}}, "seeds (key)"), ({"axes": {"<odd>": 3}}, None), ({"name": 3}, "name"),
    ],
)  # fmt: skip
def test_invalid_changes_are_rejected(service, sweep_id, change, field):
    answer = service.post(f"/v1/sweeps/{sweep_id}/extend", content=json.dumps(change), headers=JSON)
    assert_problem(answer, 422, field=field, without=["odd"])


def test_price_of_an_extension_is_shown_without_creating_it(service, sweep_id):
    before = service.get("/v1/sweeps").json()
    url = f"/v1/sweeps/{sweep_id}/extend?dry_run=true"
    cost = service.post(url, json={"axes": {"gamma": [0.07]}}).json()
    assert (cost["runs"], cost["reused"], cost["refused"]) == (36, 20, None)  # and 6 copies
    observed = service.post(url, json={"observables": ["cosines"]}).json()
    assert (observed["runs"], observed["reused"]) == (24, 0)  # the stored runs lack the observable
    assert service.get("/v1/sweeps").json() == before


def test_name_and_observables_of_an_extension(service, sweep_id):
    """The name in the query also makes another request of it, for the same key and body."""
    url, key = f"/v1/sweeps/{sweep_id}/extend", {"Idempotency-Key": "with cosines"}
    change = {"axes": {"gamma": [0.07]}, "observables": ["cosines"]}
    answer = service.post(f"{url}?name=fine", json=change, headers=key)
    assert (answer.status_code, answer.json()["name"]) == (202, "fine")
    assert_problem(service.post(f"{url}?name=other", json=change, headers=key), 409)
    extension = answer.json()["id"]
    assert service.wait_until_ended(extension)["counts"] == {"done": 36}
    dataset = service.load_dataset(extension)
    assert "sgd_cosines" in dataset
    assert list(dataset.gamma.values) == sorted(dataset.gamma.values)
    assert dataset.sel(gamma=slice(0.05, 0.15)).sizes["gamma"] >= 1  # fails on an axis that is not sorted


def test_later_times_continue_the_runs(service, sweep_id):
    url, last = f"/v1/sweeps/{sweep_id}/extend", float(service.load_dataset(sweep_id).time[-1])
    change = {"time": {"max": 2 * last, "samples": 3}}
    cost = service.post(f"{url}?dry_run=true", json=change).json()
    assert cost["continued"] > 0
    assert cost["state_bytes"] > 0
    extension = service.post(url, json=change).json()["id"]
    service.wait_until_ended(extension)
    old, new = service.load_dataset(sweep_id), service.load_dataset(extension)
    assert new.sizes["time"] == old.sizes["time"] + 3
    xr.testing.assert_equal(new.sgd_risk.sel(time=old.time).drop_attrs(), old.sgd_risk.drop_attrs())
