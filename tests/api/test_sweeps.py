"""Sweeps over REST: submission, and the list."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sweep_service.execution.conductor import Conductor
from sweep_service.planning.spec import SweepSpec
from tests.api.served import JSON, YAML, assert_problem, gated, serving, until
from tests.specs import SMALL_SPEC, distinct_spec


def test_sweep_is_accepted_and_computed(service):
    answer = service.post("/v1/sweeps", json=distinct_spec(1, name="a new one"))
    assert answer.status_code == 202
    content = answer.json()
    assert answer.headers["location"] == content["links"]["self"] == f"/v1/sweeps/{content['id']}"
    assert (content["name"], content["runs"], content["extends"], content["priority"]) == (
        "a new one",
        4,
        None,
        0,
    )
    assert content["state"] in ("queued", "running")
    assert sum(content["counts"].values()) == 4
    ended = service.wait_until_ended(content["id"])
    assert ended["state"] == "completed"
    assert (ended["counts"], ended["progress"], ended["eta_seconds"]) == ({"done": 4}, 1.0, None)
    assert (ended["bundles_left"], ended["core_seconds_left"], ended["reason"]) == (0, 0.0, "")
    assert ended["core_seconds"] > 0
    assert np.all(service.load_dataset(content["id"]).sgd_status == 1)
    assert service.get(content["links"]["self"]).json() == ended


def test_equivalent_spec_returns_existing_sweep(service, sweep_id):
    """Whatever the name, the order of keys and the format."""
    text = json.dumps({**SMALL_SPEC, "name": "other"}, indent=3, sort_keys=True)
    named = json.dumps({**SMALL_SPEC, "name": "another"})
    for content, kind in ((json.dumps(SMALL_SPEC), JSON), (named, JSON), (text, YAML)):
        answer = service.post("/v1/sweeps", content=content, headers=kind)
        assert answer.status_code == 200
        assert answer.json()["id"] == sweep_id
        assert answer.json()["name"] == "small"
        assert answer.headers["location"] == f"/v1/sweeps/{sweep_id}"
    assert (
        service.post("/v1/sweeps", json=service.get(f"/v1/sweeps/{sweep_id}/spec").json()).status_code == 200
    )


def test_concurrent_submissions_create_one_sweep(held):
    with ThreadPoolExecutor(8) as many:
        answers = list(many.map(lambda _: held.post("/v1/sweeps", json=distinct_spec(2)), range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [202]
    assert len({answer.json()["id"] for answer in answers}) == 1


def test_spec_includes_defaults(service, sweep_id):
    content = service.get(f"/v1/sweeps/{sweep_id}/spec").json()
    assert content["axes"] == SMALL_SPEC["axes"]
    assert content["seeds"] == {"init": [0, 1], "repeat": [0, 1]}
    assert (content["simulate"], content["time"]["tail"], content["zip"]) == (True, 0, None)
    assert SweepSpec.parse(content) == SweepSpec.parse(SMALL_SPEC)


def test_links_are_valid(service, sweep_id):
    links = service.sweep(sweep_id)["links"]
    for name in ("self", "spec", "data", "events", "failures", "curves", "page"):
        assert service.get(links[name]).status_code == 200, name
    assert service.get(f"{links['zarr']}/zarr.json").status_code == 200
    assert service.get(links["phase_diagram"], params={"x": "d", "y": "gamma"}).status_code == 200
    assert_problem(service.get(links["dashboard"]), 503, "no scheduler")  # the executor is serial


def test_names_may_have_any_characters(service):
    """In JSON and in exported files."""
    name = "Größe → ∞ “q” \U0001f9ea"
    sweep_id = service.complete(distinct_spec(3, name=name))
    assert service.sweep(sweep_id)["name"] == name
    assert service.get(f"/v1/sweeps/{sweep_id}/spec").json()["name"] == name
    for kind in ("netcdf", "csv", "parquet", "json"):
        assert service.get(f"/v1/sweeps/{sweep_id}/data", params={"format": kind}).status_code == 200


def test_priority_is_stored_and_validated(held):
    ahead = held.submit(distinct_spec(4), params={"priority": 7})
    assert held.sweep(ahead)["priority"] == 7
    assert held.submit(distinct_spec(4), params={"priority": 1}) == ahead
    assert held.sweep(ahead)["priority"] == 7
    for odd in ("1001", "-1001", "1.5", "high", ""):
        answer = held.post("/v1/sweeps", json=distinct_spec(5), params={"priority": odd})
        assert_problem(answer, 422, field="priority")


def test_pages_list_every_sweep_once_while_others_are_added(tmp_path):
    with serving(tmp_path, executor=gated) as service:
        service.executor.let(takes=False)
        ids = [service.submit(distinct_spec(number)) for number in range(7)]
        seen, cursor, number = [], {}, 100
        while True:
            page = service.get("/v1/sweeps", params={"limit": 2, **cursor}).json()
            seen += [sweep["id"] for sweep in page["sweeps"]]
            if page["next"] is None:
                break
            cursor = {"cursor": page["next"]}
            ids.append(service.submit(distinct_spec(number := number + 1)))
        assert seen == ids[:7][::-1]
        everything = service.get("/v1/sweeps", params={"limit": 500}).json()
        assert [sweep["id"] for sweep in everything["sweeps"]] == ids[::-1]
        assert everything["next"] is None
        exactly = service.get("/v1/sweeps", params={"limit": len(ids)}).json()
        assert exactly["next"] is None  # no empty page follows
        last = service.get("/v1/sweeps", params={"limit": 1, **cursor}).json()["sweeps"]
        service.delete(f"/v1/sweeps/{last[0]['id']}")
        assert (
            service.get("/v1/sweeps", params=cursor).status_code == 200
        )  # a cursor stays valid when its sweep is removed


def test_sweeps_are_filtered_by_state(held):
    queued, paused, cancelled = (held.submit(distinct_spec(number)) for number in (20, 21, 22))
    held.act(paused, "pause")
    held.act(cancelled, "cancel")
    states = {"queued": queued, "paused": paused, "cancelled": cancelled}

    def ids(*wanted):
        query = [("state", state) for state in wanted] + [("limit", "500")]
        content = held.get("/v1/sweeps", params=query).json()["sweeps"]
        assert {sweep["state"] for sweep in content} <= set(wanted)
        return {sweep["id"] for sweep in content}

    for state, sweep_id in states.items():
        assert ids(state) & set(states.values()) == {sweep_id}
    assert ids("paused", "cancelled") & set(states.values()) == {paused, cancelled}
    assert ids("failed") == set()
    assert_problem(held.get("/v1/sweeps?state=paused&state=asleep"), 422, field="state.1", without=["asleep"])


def test_list_and_sweep_agree(service, sweep_id):
    listed = service.get("/v1/sweeps?limit=500").json()["sweeps"]
    assert next(sweep for sweep in listed if sweep["id"] == sweep_id) == service.sweep(sweep_id)


def test_list_and_sweep_agree_while_conductor_is_busy(held, monkeypatch):
    sweep_id = held.submit(distinct_spec(23))
    plain, ended, go = Conductor._finish, threading.Event(), threading.Event()

    def slow(conductor, sweep_id):
        plain(conductor, sweep_id)
        if conductor.ledger.sweep(sweep_id).state.has_ended:
            ended.set()
            go.wait(30.0)

    monkeypatch.setattr(Conductor, "_finish", slow)
    held.executor.let(computes=1)  # of two bundles
    until(lambda: held.executor.computes == 0)
    held.run_steps()
    assert held.sweep(sweep_id)["state"] == "running"  # which is cached now
    held.executor.let()
    assert ended.wait(30.0)
    try:
        shown = held.sweep(sweep_id)["state"]
        listed = held.get("/v1/sweeps?state=completed&limit=500").json()["sweeps"]
        assert sweep_id in [sweep["id"] for sweep in listed]
        assert shown == "completed"
    finally:
        go.set()
