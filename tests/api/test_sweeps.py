"""Sweeps by REST: submitted once, listed whole, steered from every state."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import xarray as xr

from sweep_service.execution import compute as computing
from sweep_service.execution.conductor import Conductor
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.ledger import Request, State
from tests.api.served import JSON, SMALL, TINY, YAML, another, assert_problem, gated, serving, until

ACTIONS = ("cancel", "pause", "resume", "retry")
ENDS = {state.value for state in State if state.ended}


def act(service, sweep, action):
    answer = service.post(f"/v1/sweeps/{sweep}/{action}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def trace(folder):
    """All that a service has on its disk, but for what readers of the ledger leave."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("ledger.sqlite-shm", "ledger.sqlite-wal")
    }


def stored(service, sweep):
    with xr.open_zarr(service.folder.dataset_path(sweep), chunks=None) as found:
        return found.load()


# ---- submitting


def test_a_sweep_is_accepted_and_computed(service):
    answer = service.post("/v1/sweeps", json=another(1, name="a new one"))
    assert answer.status_code == 202
    about = answer.json()
    assert answer.headers["location"] == about["links"]["self"] == f"/v1/sweeps/{about['id']}"
    assert (about["name"], about["runs"], about["extends"], about["priority"]) == ("a new one", 4, None, 0)
    assert about["state"] in ("queued", "running")
    assert sum(about["counts"].values()) == 4
    ended = service.ended(about["id"])
    assert ended["state"] == "completed"
    assert (ended["counts"], ended["progress"], ended["eta_seconds"]) == ({"done": 4}, 1.0, None)
    assert (ended["bundles_left"], ended["core_seconds_left"], ended["reason"]) == (0, 0.0, "")
    assert ended["core_seconds"] > 0
    assert np.all(stored(service, about["id"]).sgd_status == 1)
    assert service.get(about["links"]["self"]).json() == ended


def test_the_same_spec_is_the_same_sweep(service, sweep):
    """Whatever its name, its order, its format."""
    text = json.dumps({**SMALL, "name": "other"}, indent=3, sort_keys=True)
    named = json.dumps({**SMALL, "name": "another"})
    for content, kind in ((json.dumps(SMALL), JSON), (named, JSON), (text, YAML)):
        answer = service.post("/v1/sweeps", content=content, headers=kind)
        assert answer.status_code == 200
        assert answer.json()["id"] == sweep
        assert answer.json()["name"] == "small"
        assert answer.headers["location"] == f"/v1/sweeps/{sweep}"
    assert service.post("/v1/sweeps", json=service.get(f"/v1/sweeps/{sweep}/spec").json()).status_code == 200


def test_one_of_many_at_once_is_the_first(held):
    with ThreadPoolExecutor(8) as many:
        answers = list(many.map(lambda _: held.post("/v1/sweeps", json=another(2)), range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [202]
    assert len({answer.json()["id"] for answer in answers}) == 1


def test_the_spec_is_shown_with_its_defaults(service, sweep):
    found = service.get(f"/v1/sweeps/{sweep}/spec").json()
    assert found["axes"] == SMALL["axes"]
    assert found["seeds"] == {"init": [0, 1], "repeat": [0, 1]}
    assert (found["simulate"], found["time"]["tail"], found["zip"]) == (True, 0, None)
    assert SweepSpec.parse(found) == SweepSpec.parse(SMALL)


def test_links_lead_somewhere(service, sweep):
    links = service.sweep(sweep)["links"]
    for name in ("self", "spec", "data", "events", "failures", "curves", "page"):
        assert service.get(links[name]).status_code == 200, name
    assert service.get(f"{links['zarr']}/zarr.json").status_code == 200
    assert service.get(links["phase_diagram"], params={"x": "d", "y": "gamma"}).status_code == 200
    assert_problem(service.get(links["dashboard"]), 503, "no scheduler")  # it is serial


def test_names_of_all_letters(service):
    """They are titles, in JSON as in the files."""
    name = "Größe → ∞ “q” \U0001f9ea"
    sweep = service.done(another(3, name=name))
    assert service.sweep(sweep)["name"] == name
    assert service.get(f"/v1/sweeps/{sweep}/spec").json()["name"] == name
    for kind in ("netcdf", "csv", "parquet", "json"):
        assert service.get(f"/v1/sweeps/{sweep}/data", params={"format": kind}).status_code == 200


def test_priorities(held):
    ahead = held.submit(another(4), params={"priority": 7})
    assert held.sweep(ahead)["priority"] == 7
    assert held.submit(another(4), params={"priority": 1}) == ahead
    assert held.sweep(ahead)["priority"] == 7
    for odd in ("1001", "-1001", "1.5", "high", ""):
        answer = held.post("/v1/sweeps", json=another(5), params={"priority": odd})
        assert_problem(answer, 422, field="priority")


# ---- keys of requests


def test_a_request_with_a_key_is_done_once(held):
    key = {"Idempotency-Key": "first 1"}
    first = held.post("/v1/sweeps", json=another(6), headers=key)
    again = held.post("/v1/sweeps", json=another(6), headers=key)
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["id"] == again.json()["id"]
    assert first.headers["location"] == again.headers["location"]


def test_a_key_belongs_to_its_request(held):
    key = {"Idempotency-Key": "second"}
    sweep = held.submit(another(7), headers=key)
    answer = held.post("/v1/sweeps", json=another(8), headers=key)
    assert_problem(answer, 409, "another request", without=["second"])
    assert_problem(held.post(f"/v1/sweeps/{sweep}/extend", json={"seeds": 3}, headers=key), 409)
    listed = held.get("/v1/sweeps?limit=500").json()["sweeps"]
    assert another(8)["axes"]["gamma"] not in [
        held.get(one["links"]["spec"]).json()["axes"]["gamma"] for one in listed
    ]


def test_of_many_requests_with_one_key_one_is_done(held):
    """Though all of them come before any is done."""
    before, key = len(held.engine.ledger.sweeps()), {"Idempotency-Key": "at once"}
    specs = [another(20 + number) for number in range(4)]
    with ThreadPoolExecutor(4) as many:
        answers = list(many.map(lambda spec: held.post("/v1/sweeps", json=spec, headers=key), specs))
    assert sorted(answer.status_code for answer in answers) == [202, 409, 409, 409]
    assert len(held.engine.ledger.sweeps()) == before + 1


def test_a_key_is_forgotten_with_its_sweep(held):
    key = {"Idempotency-Key": "third"}
    sweep = held.submit(another(9), headers=key)
    assert held.delete(f"/v1/sweeps/{sweep}").status_code == 204
    assert held.post("/v1/sweeps", json=another(10), headers=key).status_code == 202


def test_a_key_outlives_the_service(tmp_path):
    key = {"Idempotency-Key": "fourth"}
    with serving(tmp_path, executor=gated) as service:
        sweep = service.submit(another(1), headers=key)
    with serving(tmp_path, executor=gated) as service:
        assert service.post("/v1/sweeps", json=another(1), headers=key).json()["id"] == sweep
        assert_problem(service.post("/v1/sweeps", json=another(2), headers=key), 409)


def test_what_was_refused_leaves_its_key_free(held):
    key = {"Idempotency-Key": "fifth"}
    assert held.post("/v1/sweeps", json={}, headers=key).status_code == 422
    assert held.post("/v1/sweeps", json=another(11), headers=key).status_code == 202


@pytest.mark.parametrize("key", ["", "k" * 201])
def test_keys_that_are_none(held, key):
    answer = held.post("/v1/sweeps", json=another(12), headers={"Idempotency-Key": key})
    assert_problem(answer, 422, without=["kkk"])


def test_a_repeated_request_is_answered_like_the_first(held):
    sweep, key = held.submit(another(14)), {"Idempotency-Key": "sixth"}
    first, again = (held.post("/v1/sweeps", json=another(14), headers=key) for _ in range(2))
    assert first.json()["id"] == again.json()["id"] == sweep
    assert (first.status_code, again.status_code) == (200, 200)


# ---- what it would cost


@pytest.mark.parametrize("path", ["/v1/estimate", "/v1/sweeps?dry_run=true"])
def test_an_estimate_changes_nothing(gate, path):
    before = trace(gate.folder.root)
    answer = gate.post(path, json=another(13), headers={"Idempotency-Key": "of an estimate"})
    assert answer.status_code == 200
    about = answer.json()
    assert (about["points"], about["runs"], about["reused"], about["copies"]) == (1, 4, 0, 0)
    assert about["refused"] is None
    assert about["core_seconds"] > 0
    assert about["bytes"] > 0
    assert set(about["dearest"]) >= {"d", "p", "gamma", "core_seconds"}
    assert trace(gate.folder.root) == before
    assert gate.engine.ledger.answer_to(Request("of an estimate", "any")) is None


def test_both_ways_to_ask_say_the_same(service, sweep):
    """And both know what is stored."""
    spec = {**SMALL, "seeds": {"init": 3, "repeat": 2}}
    one = service.post("/v1/estimate", json=spec).json()
    assert one == service.post("/v1/sweeps?dry_run=true", json=spec).json()
    assert (one["runs"], one["reused"], one["copies"]) == (36, 20, 6)  # theories do not depend on d
    assert "Location" not in service.post("/v1/sweeps?dry_run=true", json=spec).headers


def test_a_cost_without_end_is_a_number_or_null(service):
    spec = {**SMALL, "axes": {"d": 10**12, "p": 4, "gamma": 1e-12}, "time": {"max": 1e15}, "seeds": 1}
    answer = service.post("/v1/estimate", content=json.dumps(spec), headers=JSON)
    about = json.loads(answer.text, parse_constant=pytest.fail)
    assert about["refused"].startswith("core_hours")
    assert about["warnings"]


# ---- the list


def test_pages_hold_every_sweep_once_while_new_ones_come(tmp_path):
    with serving(tmp_path, executor=gated) as service:
        service.executor.let(takes=False)
        there = [service.submit(another(number)) for number in range(7)]
        seen, cursor, number = [], {}, 100
        while True:
            page = service.get("/v1/sweeps", params={"limit": 2, **cursor}).json()
            seen += [one["id"] for one in page["sweeps"]]
            if page["next"] is None:
                break
            cursor = {"cursor": page["next"]}
            there.append(service.submit(another(number := number + 1)))
        assert seen == there[:7][::-1]
        everything = service.get("/v1/sweeps", params={"limit": 500}).json()
        assert [one["id"] for one in everything["sweeps"]] == there[::-1]
        assert everything["next"] is None
        exactly = service.get("/v1/sweeps", params={"limit": len(there)}).json()
        assert exactly["next"] is None  # and no page follows that would be empty
        last = service.get("/v1/sweeps", params={"limit": 1, **cursor}).json()["sweeps"]
        service.delete(f"/v1/sweeps/{last[0]['id']}")
        assert service.get("/v1/sweeps", params=cursor).status_code == 200  # its neighbour may have gone


def test_a_list_of_some_states(held):
    one, two, three = (held.submit(another(number)) for number in (20, 21, 22))
    act(held, two, "pause")
    act(held, three, "cancel")
    states = {"queued": one, "paused": two, "cancelled": three}

    def ids(*wanted):
        query = [("state", state) for state in wanted] + [("limit", "500")]
        found = held.get("/v1/sweeps", params=query).json()["sweeps"]
        assert {sweep["state"] for sweep in found} <= set(wanted)
        return {sweep["id"] for sweep in found}

    for state, sweep in states.items():
        assert ids(state) & set(states.values()) == {sweep}
    assert ids("paused", "cancelled") & set(states.values()) == {two, three}
    assert ids("failed") == set()
    assert_problem(held.get("/v1/sweeps?state=paused&state=asleep"), 422, field="state.1", without=["asleep"])


def test_a_list_shows_what_each_sweep_shows(service, sweep):
    listed = service.get("/v1/sweeps?limit=500").json()["sweeps"]
    assert next(one for one in listed if one["id"] == sweep) == service.sweep(sweep)


def test_a_sweep_says_what_the_list_says_while_the_conductor_is_busy(held, monkeypatch):
    sweep = held.submit(another(23))
    plain, ended, go = Conductor._finish, threading.Event(), threading.Event()

    def slow(conductor, one):
        plain(conductor, one)
        if conductor.ledger.sweep(one).state.ended:
            ended.set()
            go.wait(30.0)

    monkeypatch.setattr(Conductor, "_finish", slow)
    held.executor.let(computes=1)  # of two
    until(lambda: held.executor.computes == 0)
    turns(held)
    assert held.sweep(sweep)["state"] == "running"  # as which it is known, now that all was told
    held.executor.let()
    assert ended.wait(30.0)
    try:
        shown = held.sweep(sweep)["state"]
        listed = held.get("/v1/sweeps?state=completed&limit=500").json()["sweeps"]
        assert sweep in [one["id"] for one in listed]
        assert shown == "completed"
    finally:
        go.set()


# ---- steering


def failing(monkeypatch, seed=1):
    """Make ODE runs of one seed fail."""
    plain = computing.integrate_run

    def broken(point, **options):
        if options["seed"] == seed:
            raise RuntimeError("out of order")
        return plain(point, **options)

    monkeypatch.setattr(computing, "integrate_run", broken)


def in_state(service, state, number, monkeypatch):
    """A sweep that is in a state, and stays in it. Each has a number of its own: what is removed and
    submitted again in the same second gets the same id, by which its files may still be known."""
    executor, spec = service.executor, another(number)
    executor.let(takes=False, computes=0)
    if state == "incomplete":
        failing(monkeypatch)
    sweep = service.submit(spec)
    if state == "running":
        executor.let(computes=0)
        service.reach(sweep, state)
    elif state == "paused":
        act(service, sweep, "pause")
    elif state == "cancelled":
        act(service, sweep, "cancel")
    elif state != "queued":
        if state == "failed":
            spec_file(service, sweep).rename(spec_file(service, sweep).with_suffix(".away"))
        executor.let()
        service.ended(sweep)
        executor.let(takes=False, computes=0)
    monkeypatch.undo()
    assert service.sweep(sweep)["state"] == state
    return sweep


def spec_file(service, sweep):
    return service.folder.objects.root / f"{sweep}.json"


# What an action does to a sweep in a state; in all others it does nothing.
LEADS = {
    ("queued", "cancel"): "cancelled", ("running", "cancel"): "cancelled", ("paused", "cancel"): "cancelled",
    ("queued", "pause"): "paused", ("running", "pause"): "paused", ("paused", "resume"): "queued",
    ("incomplete", "retry"): "queued", ("cancelled", "retry"): "queued", ("failed", "retry"): "queued",
}  # fmt: skip


@pytest.mark.parametrize(("state", "action"), LEADS)
def test_actions_that_lead_elsewhere(held, monkeypatch, state, action):
    """Given once or twice; where it can go on, the sweep ends with all of its runs."""
    wanted = LEADS[state, action]
    sweep = in_state(held, state, 130 + list(LEADS).index((state, action)), monkeypatch)
    if state == "failed":  # and is mended
        spec_file(held, sweep).with_suffix(".away").rename(spec_file(held, sweep))
    held.executor.let(takes=False, computes=0)
    assert act(held, sweep, action)["state"] == wanted
    if action != "retry":
        assert act(held, sweep, action)["state"] == wanted
    turns(held)
    assert held.sweep(sweep)["state"] == wanted
    if wanted == "paused":
        act(held, sweep, "resume")
    held.executor.let()
    if wanted != "cancelled":
        assert held.ended(sweep)["state"] == "completed"
        assert held.sweep(sweep)["counts"] == {"done": 4}
    else:
        turns(held)
        assert held.sweep(sweep)["counts"] == {"cancelled": 4}


@pytest.mark.parametrize("state", [state.value for state in State])
def test_actions_that_lead_nowhere(held, monkeypatch, state):
    sweep = in_state(held, state, 150 + list(State).index(State(state)), monkeypatch)
    before, events = held.sweep(sweep), held.engine.ledger.events(sweep)
    for action in ACTIONS:
        if (state, action) not in LEADS and (state, action) != ("cancelled", "cancel"):
            assert act(held, sweep, action) == before
    turns(held)
    assert (held.sweep(sweep), held.engine.ledger.events(sweep)) == (before, events)
    if state == "cancelled":
        assert act(held, sweep, "cancel")["counts"] == before["counts"]


def turns(service, number=3):
    """Let the conductor go round."""
    for _ in range(number):
        service.engine.ask(lambda conductor: conductor.step())


@pytest.mark.parametrize("state", [state.value for state in State])
def test_a_sweep_is_removed_from_every_state(held, monkeypatch, state):
    number = 102 + list(State).index(State(state))
    sweep = in_state(held, state, number, monkeypatch)
    answer = held.delete(f"/v1/sweeps/{sweep}")
    assert (answer.status_code, answer.content) == (204, b"")
    for _ in range(2):
        assert_problem(held.get(f"/v1/sweeps/{sweep}"), 404)
        assert_problem(held.delete(f"/v1/sweeps/{sweep}"), 404)
    left = [path.name for path in held.folder.objects.root.iterdir() if path.name.startswith(sweep)]
    assert [name for name in left if not name.endswith(".away")] == []
    assert sweep not in [one["id"] for one in held.get("/v1/sweeps?limit=500").json()["sweeps"]]
    turns(held)
    assert held.post("/v1/sweeps", json=another(number)).status_code == 202  # the same again is a new one


def test_a_sweep_that_could_not_go_on_says_why(held, monkeypatch):
    sweep = in_state(held, "failed", 400, monkeypatch)
    assert held.sweep(sweep)["reason"]
    answer = held.post(f"/v1/sweeps/{sweep}/retry")
    assert answer.status_code >= 400  # it still cannot
    assert held.sweep(sweep)["state"] == "failed"


def test_what_is_computed_survives_a_cancel(held):
    sweep = held.submit(another(120))
    held.executor.let(computes=1)
    until(lambda: held.executor.computes == 0)
    about = act(held, sweep, "cancel")
    assert about["counts"] == {"done": 2, "cancelled": 2}
    assert 0 < about["progress"] < 1
    found = stored(held, sweep)
    for kind in ("sgd", "ode"):
        done = found[f"{kind}_status"] == 1
        assert bool(np.isfinite(found[f"{kind}_risk"].isel(time=-1).where(done, 0.0)).all())
        assert bool(np.isnan(found[f"{kind}_risk"].where(~done)).all())


# ---- extending


def test_an_extension_is_a_new_sweep(service, sweep):
    before = trace(service.folder.dataset_path(sweep)), service.sweep(sweep)
    answer = service.post(f"/v1/sweeps/{sweep}/extend", json={"axes": {"gamma": [0.9]}, "name": "wider"})
    assert answer.status_code == 202
    about = answer.json()
    assert (about["extends"], about["name"], about["reused"]) == (sweep, "wider", 24)
    assert answer.headers["location"] == about["links"]["self"] != f"/v1/sweeps/{sweep}"
    assert service.ended(about["id"])["counts"] == {"done": 36}
    old = stored(service, sweep)
    new = stored(service, about["id"]).sel(gamma=old.gamma)
    xr.testing.assert_equal(new.drop_attrs(), old.drop_attrs())  # seconds too: they were copied
    assert (trace(service.folder.dataset_path(sweep)), service.sweep(sweep)) == before
    again = service.post(f"/v1/sweeps/{sweep}/extend", content="axes: {gamma: 0.9}", headers=YAML)
    assert (again.status_code, again.json()["id"]) == (200, about["id"])


def test_an_extension_by_nothing_is_the_sweep_itself(service, sweep):
    for change in ({}, {"seeds": {"init": 1}}, {"axes": {"d": 5}}):
        answer = service.post(f"/v1/sweeps/{sweep}/extend", json=change)
        assert (answer.status_code, answer.json()["id"]) == (200, sweep)


def test_an_extension_with_a_key(held):
    sweep, key = held.submit(another(430)), {"Idempotency-Key": "wider"}
    one = held.post(f"/v1/sweeps/{sweep}/extend", json={"seeds": 3}, headers=key)
    again = held.post(f"/v1/sweeps/{sweep}/extend", json={"seeds": 3}, headers=key)
    assert (one.status_code, again.status_code) == (202, 202)
    assert one.json()["id"] == again.json()["id"]
    other = held.submit(another(431))
    assert_problem(held.post(f"/v1/sweeps/{other}/extend", json={"seeds": 3}, headers=key), 409)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ([], "change"), (None, "change"), ({"time": {"max": 3}}, None), ({"points": []}, "points"),
        ({"axes": {"gamma": "odd"}}, None), ({"axes": 3}, "axes"), ({"seeds": "odd"}, "seeds.init"),
        ({"seeds": {"<odd>": 3}}, "seeds (key)"), ({"axes": {"<odd>": 3}}, None), ({"name": 3}, "name"),
    ],
)  # fmt: skip
def test_changes_that_cannot_be(service, sweep, change, field):
    answer = service.post(f"/v1/sweeps/{sweep}/extend", content=json.dumps(change), headers=JSON)
    assert_problem(answer, 422, field=field, without=["odd"])


# ---- failures


@pytest.fixture(scope="module")
def broken(gate):
    """The id of a sweep with four failed runs."""
    with pytest.MonkeyPatch.context() as patch:
        failing(patch)
        return gate.done({**TINY, "axes": {**TINY["axes"], "gamma": [0.7, 0.8, 0.9, 1.0]}})


def test_failed_runs_are_told_with_a_command(gate, broken):
    about = gate.sweep(broken)
    assert (about["state"], about["counts"]) == ("incomplete", {"done": 12, "failed": 4})
    found = gate.get(f"/v1/sweeps/{broken}/failures").json()
    assert found["next"] is None
    assert len(found["failures"]) == 4
    for one in found["failures"]:
        assert (one["kind"], one["error"]) == ("ode", "RuntimeError: out of order")
        assert one["runs"] == [one["number"]]
        assert one["command"].startswith(f"sweep rerun {broken} ode-{one['number']}")
    assert "Traceback" not in json.dumps(found)


def test_failures_come_in_pages(gate, broken):
    everything = gate.get(f"/v1/sweeps/{broken}/failures").json()["failures"]
    seen, cursor = [], {}
    while True:
        page = gate.get(f"/v1/sweeps/{broken}/failures", params={"limit": 3, **cursor}).json()
        seen += page["failures"]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert seen == everything
    assert gate.get(f"/v1/sweeps/{broken}/failures?limit=4").json()["next"] is None
    late = gate.get(f"/v1/sweeps/{broken}/failures?cursor=sgd-999999999999999999").json()
    assert late == {"failures": [], "next": None}


def test_a_sweep_without_failures_has_none(service, sweep):
    assert service.get(f"/v1/sweeps/{sweep}/failures").json() == {"failures": [], "next": None}


def test_failed_runs_are_computed_again(gate, monkeypatch):
    failing(monkeypatch)
    sweep = gate.done(another(440))
    assert gate.sweep(sweep)["counts"] == {"done": 3, "failed": 1}
    monkeypatch.undo()
    act(gate, sweep, "retry")
    assert gate.ended(sweep)["counts"] == {"done": 4}
    assert gate.get(f"/v1/sweeps/{sweep}/failures").json()["failures"] == []
    assert bool(np.isfinite(stored(gate, sweep).ode_risk).all())
