"""Actions on sweeps: cancel, pause, resume, retry, remove; and failures."""

import json

import numpy as np
import pytest

from sweep_service.store.ledger import State
from tests.api.served import assert_problem, fail_ode_runs, until
from tests.specs import TINY_SPEC, distinct_spec

ACTIONS = ("cancel", "pause", "resume", "retry")


def in_state(service, state, number, monkeypatch):
    """Return a sweep that is in a state and stays in it. Each test needs its own `number`: a sweep that is
    removed and submitted again within a second gets the same id, for which files may still be cached."""
    executor, spec = service.executor, distinct_spec(number)
    executor.let(takes=False, computes=0)
    if state == "incomplete":
        fail_ode_runs(monkeypatch)
    sweep_id = service.submit(spec)
    if state == "running":
        executor.let(computes=0)
        service.wait_for_state(sweep_id, state)
    elif state == "paused":
        service.act(sweep_id, "pause")
    elif state == "cancelled":
        service.act(sweep_id, "cancel")
    elif state != "queued":
        if state == "failed":
            spec_file(service, sweep_id).rename(spec_file(service, sweep_id).with_suffix(".away"))
        executor.let()
        service.wait_until_ended(sweep_id)
        executor.let(takes=False, computes=0)
    monkeypatch.undo()
    assert service.sweep(sweep_id)["state"] == state
    return sweep_id


def spec_file(service, sweep_id):
    return service.folder.objects.root / f"{sweep_id}.json"


# The new state after an action; all other actions have no effect.
LEADS = {
    ("queued", "cancel"): "cancelled", ("running", "cancel"): "cancelled", ("paused", "cancel"): "cancelled",
    ("queued", "pause"): "paused", ("running", "pause"): "paused", ("paused", "resume"): "queued",
    ("incomplete", "retry"): "queued", ("cancelled", "retry"): "queued", ("failed", "retry"): "queued",
}  # fmt: skip


@pytest.mark.parametrize(("state", "action"), LEADS)
def test_actions_change_state(held, monkeypatch, state, action):
    """Repeating an action has no further effect, and a sweep that can continue computes all its runs."""
    wanted = LEADS[state, action]
    sweep_id = in_state(held, state, 130 + list(LEADS).index((state, action)), monkeypatch)
    if state == "failed":  # repair it
        spec_file(held, sweep_id).with_suffix(".away").rename(spec_file(held, sweep_id))
    held.executor.let(takes=False, computes=0)
    assert held.act(sweep_id, action)["state"] == wanted
    if action != "retry":
        assert held.act(sweep_id, action)["state"] == wanted
    held.run_steps()
    assert held.sweep(sweep_id)["state"] == wanted
    if wanted == "paused":
        held.act(sweep_id, "resume")
    held.executor.let()
    if wanted != "cancelled":
        assert held.wait_until_ended(sweep_id)["state"] == "completed"
        assert held.sweep(sweep_id)["counts"] == {"done": 4}
    else:
        held.run_steps()
        assert held.sweep(sweep_id)["counts"] == {"cancelled": 4}


def without_remaining_time(sweep):
    """A sweep without the predictions that change as time passes."""
    return {name: value for name, value in sweep.items() if not name.startswith("eta_")}


@pytest.mark.parametrize("state", [state.value for state in State])
def test_other_actions_have_no_effect(held, monkeypatch, state):
    sweep_id = in_state(held, state, 150 + list(State).index(State(state)), monkeypatch)
    before = without_remaining_time(held.sweep(sweep_id))
    events = held.conductor_thread.ledger.events(sweep_id)
    for action in ACTIONS:
        if (state, action) not in LEADS and (state, action) != ("cancelled", "cancel"):
            assert without_remaining_time(held.act(sweep_id, action)) == before
    held.run_steps()
    assert without_remaining_time(held.sweep(sweep_id)) == before
    assert held.conductor_thread.ledger.events(sweep_id) == events
    if state == "cancelled":
        assert held.act(sweep_id, "cancel")["counts"] == before["counts"]


@pytest.mark.parametrize("state", [state.value for state in State])
def test_sweep_is_removed_in_every_state(held, monkeypatch, state):
    number = 102 + list(State).index(State(state))
    sweep_id = in_state(held, state, number, monkeypatch)
    answer = held.delete(f"/v1/sweeps/{sweep_id}")
    assert (answer.status_code, answer.content) == (204, b"")
    for _ in range(2):
        assert_problem(held.get(f"/v1/sweeps/{sweep_id}"), 404)
        assert_problem(held.delete(f"/v1/sweeps/{sweep_id}"), 404)
    left = [path.name for path in held.folder.objects.root.iterdir() if path.name.startswith(sweep_id)]
    assert [name for name in left if not name.endswith(".away")] == []
    assert sweep_id not in [
        connection["id"] for connection in held.get("/v1/sweeps?limit=500").json()["sweeps"]
    ]
    held.run_steps()
    assert (
        held.post("/v1/sweeps", json=distinct_spec(number)).status_code == 202
    )  # an equal spec is a new sweep


def test_failed_sweep_has_reason(held, monkeypatch):
    sweep_id = in_state(held, "failed", 400, monkeypatch)
    assert held.sweep(sweep_id)["reason"]
    answer = held.post(f"/v1/sweeps/{sweep_id}/retry")
    assert answer.status_code >= 400  # the cause remains
    assert held.sweep(sweep_id)["state"] == "failed"


def test_cancelled_sweep_keeps_computed_runs(held):
    sweep_id = held.submit(distinct_spec(120))
    held.executor.let(computes=1)
    until(lambda: held.executor.computes == 0)
    description = held.act(sweep_id, "cancel")
    assert description["counts"] == {"done": 2, "cancelled": 2}
    assert 0 < description["progress"] < 1
    dataset = held.load_dataset(sweep_id)
    for kind in ("sgd", "ode"):
        done = dataset[f"{kind}_status"] == 1
        assert bool(np.isfinite(dataset[f"{kind}_risk"].isel(time=-1).where(done, 0.0)).all())
        assert bool(np.isnan(dataset[f"{kind}_risk"].where(~done)).all())


@pytest.fixture(scope="module")
def broken(gate):
    """The id of a sweep with four failed runs."""
    with pytest.MonkeyPatch.context() as patch:
        fail_ode_runs(patch)
        return gate.complete({**TINY_SPEC, "axes": {**TINY_SPEC["axes"], "gamma": [0.7, 0.8, 0.9, 1.0]}})


def test_failures_include_a_command(gate, broken):
    description = gate.sweep(broken)
    assert (description["state"], description["counts"]) == ("incomplete", {"done": 12, "failed": 4})
    content = gate.get(f"/v1/sweeps/{broken}/failures").json()
    assert content["next"] is None
    assert len(content["failures"]) == 4
    for failure in content["failures"]:
        assert (failure["kind"], failure["error"]) == ("ode", "RuntimeError: out of order")
        assert failure["runs"] == [failure["number"]]
        assert failure["command"].startswith(f"sweep rerun {broken} ode-{failure['number']}")
    assert "Traceback" not in json.dumps(content)


def test_failures_are_paginated(gate, broken):
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


def test_sweep_without_failures(service, sweep_id):
    assert service.get(f"/v1/sweeps/{sweep_id}/failures").json() == {"failures": [], "next": None}


def test_failed_runs_are_retried(gate, monkeypatch):
    fail_ode_runs(monkeypatch)
    sweep_id = gate.complete(distinct_spec(440))
    assert gate.sweep(sweep_id)["counts"] == {"done": 3, "failed": 1}
    monkeypatch.undo()
    gate.act(sweep_id, "retry")
    assert gate.wait_until_ended(sweep_id)["counts"] == {"done": 4}
    assert gate.get(f"/v1/sweeps/{sweep_id}/failures").json()["failures"] == []
    assert bool(np.isfinite(gate.load_dataset(sweep_id).ode_risk).all())
