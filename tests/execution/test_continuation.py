"""Sweeps that are extended to later times continue their SGD runs, to the bits of one long run."""

import json
import signal

import numpy as np
import pytest
import xarray as xr

from sweep_service.cli.answers import DONE
from sweep_service.execution import compute as computing
from sweep_service.execution.extension import extend_spec
from sweep_service.execution.submission import Submission
from sweep_service.planning import plan as planning
from sweep_service.planning.estimate import Limits
from sweep_service.planning.grids import Grid
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.kept_states import KeptList, KeptState, KeptStates
from tests.chaos.crashes import begin
from tests.cli.commands import fork_server, run_command
from tests.execution.conducting import assert_equals_direct_calls, load_dataset, run_sweep

# A point for each simulator that sweeps choose.
POINTS = {
    "S1": {"d": 5, "p": 4}, "S3": {"d": 60, "p": 3}, "S2": {"d": 60, "p": 50},
    "S4": {"d": 5, "p": 40, "activation": "square", "gamma": 0.05},
}  # fmt: skip
SPEC = {
    "points": [{"gamma": 0.3, "activation": "erf", **point} for point in POINTS.values()],
    "fixed": {"k": 2, "noise": 1e-3, "regime": "classical"},
    "seeds": {"init": 2, "repeat": 3},
    "time": {"max": 2.0, "samples": 4},
}


def extend(conductor, sweep, **time):
    spec = extend_spec(conductor.folder.spec(sweep.id), json.dumps({"time": time}))
    return run_sweep(conductor, spec, extends=sweep.id)


def estimate(conductor, spec):
    return Submission(spec).summarise_cost(conductor.folder, conductor.ledger, Limits())


@pytest.fixture
def beginnings(monkeypatch):
    """A list of the number of recorded samples at which each call of `run_chains` begins."""
    beginnings, original = [], computing.run_chains

    def record(point, *, continuation, seeds, repeats, **options):
        samples = 0 if continuation is None else continuation.samples
        beginnings.extend([samples] * len(seeds) * len(repeats))
        return original(point, continuation=continuation, seeds=seeds, repeats=repeats, **options)

    monkeypatch.setattr(computing, "run_chains", record)
    return beginnings


def test_runs_of_every_simulator_continue_to_the_bits_of_one_long_run(conductor, beginnings):
    parent = run_sweep(conductor, SweepSpec.parse(SPEC))
    assert set(conductor.folder.plan(parent.id).grid.simulators.values) == POINTS.keys()
    before = load_dataset(conductor, parent)
    beginnings.clear()
    spec = extend_spec(conductor.folder.spec(parent.id), '{"time": {"max": 6.0, "samples": 3}}')
    cost = estimate(conductor, spec)
    assert (cost["continued"], cost["reused"]) == (24, 0)
    steps = sum(4.0 * point["p"] * point["d"] / point["gamma"] for point in SPEC["points"])  # from 2 to 6
    assert cost["sgd_steps"] == pytest.approx(6 * steps)
    child = run_sweep(conductor, spec, extends=parent.id)
    assert beginnings == [5] * 24
    after = assert_equals_direct_calls(conductor, child)
    np.testing.assert_array_equal(after.sgd_risk[..., :5], before.sgd_risk)  # stored samples stay
    assert np.all(after.sgd_seconds >= before.sgd_seconds.values)  # with those of the first part
    beginnings.clear()
    grandchild = extend(conductor, child, max=9.0, samples=2)
    assert beginnings == [8] * 24
    assert_equals_direct_calls(conductor, grandchild)
    conductor.remove(child.id)
    conductor.remove(grandchild.id)
    beginnings.clear()
    both = {**SPEC["time"], "then": [{"max": 6.0, "samples": 3}, {"max": 9.0, "samples": 2}]}
    again = run_sweep(conductor, SweepSpec.parse({**SPEC, "time": both}))
    assert beginnings == [5] * 24  # of the only sweep that is left
    assert_equals_direct_calls(conductor, again)


def test_runs_without_kept_state_are_computed_anew(conductor, beginnings):
    parent = run_sweep(conductor, SweepSpec.parse({**SPEC, "keep_state": False}))
    assert list(conductor.folder.objects.list(f"{parent.id}.states/")) == []
    beginnings.clear()
    spec = extend_spec(conductor.folder.spec(parent.id), '{"time": {"max": 3.0, "samples": 2}}')
    cost = estimate(conductor, spec)
    assert cost["continued"] == 0
    assert any("24 SGD runs are computed anew" in note for note in cost["notes"])
    child = run_sweep(conductor, spec)
    assert set(beginnings) == {0}
    assert_equals_direct_calls(conductor, child)


def damage_states(conductor, parent):
    for name in conductor.folder.objects.list(f"{parent.id}.states/0"):
        content = bytearray(conductor.folder.objects.get(name))
        content[len(content) // 2] ^= 1
        conductor.folder.objects.put(name, bytes(content))


def lose_states(conductor, parent):
    conductor.folder.objects.clear(f"{parent.id}.states")


def remove_sweep(conductor, parent):
    conductor.remove(parent.id)


@pytest.mark.parametrize("harm", [damage_states, lose_states, remove_sweep])
def test_whatever_is_lost_after_the_submission_is_computed_anew(conductor, beginnings, harm):
    spec = SweepSpec.parse({**SPEC, "points": SPEC["points"][:2], "seeds": 2})
    parent = run_sweep(conductor, spec)
    longer = extend_spec(spec, '{"time": {"max": 3.0, "samples": 2}}')
    child, _ = conductor.submit(longer)
    assert len(conductor.folder.continued(child.id)) == 4
    harm(conductor, parent)
    beginnings.clear()
    assert_equals_direct_calls(conductor, conductor.run(child.id))
    assert set(beginnings) == {0}


def test_diverged_runs_have_ended_and_are_reused(conductor, beginnings):
    """At this learning rate some chains diverge before the first end, and some after it."""
    spec = SweepSpec.parse({
        "axes": {"d": 6, "p": 4, "gamma": 0.5}, "fixed": {"k": 2, "activation": "square"},
        "seeds": {"init": 2, "repeat": 10}, "time": {"max": 2.0, "samples": 3},
    })  # fmt: skip
    parent = run_sweep(conductor, spec)
    diverged = conductor.counts(parent.id)[Status.DIVERGED]
    assert 0 < diverged < 20
    beginnings.clear()
    child = extend(conductor, parent, max=12.0, samples=3)
    assert child.reused == diverged
    assert beginnings == [4] * (20 - diverged)
    assert conductor.counts(child.id)[Status.DIVERGED] > diverged
    assert_equals_direct_calls(conductor, child)


def test_key_of_a_continued_run_names_that_of_its_first_part():
    spec = SweepSpec.parse(SPEC)
    longer = extend_spec(spec, '{"time": {"max": 6.0, "samples": 3}}')
    short_plan, long_plan = SweepPlan(Grid.of(spec)), SweepPlan(Grid.of(longer))
    first, second = long_plan.sgd_keys
    np.testing.assert_array_equal(first, short_plan.keys["sgd"])
    np.testing.assert_array_equal(second, long_plan.keys["sgd"])
    assert not set(first.tolist()) & set(second.tolist())
    other = extend_spec(SweepSpec.parse({**SPEC, "time": {"max": 2.0, "samples": 5}}), (
        '{"time": {"max": 6.0, "samples": 3}}'
    ))  # fmt: skip
    assert not set(SweepPlan(Grid.of(other)).keys["sgd"].tolist()) & set(second.tolist())


def test_states_are_kept_by_default_if_they_are_small(monkeypatch):
    plan = SweepPlan(Grid.of(SweepSpec.parse(SPEC)))
    # overlaps of S3, weights of S1 and S2, and d rows in S4
    assert plan.state_numbers.tolist() == [5 * 4, 3 * (3 + 2), 60 * 50, 5 * 5]
    assert plan.state_bytes == 8 * 6 * sum(plan.state_numbers)
    assert plan.keeps_state
    monkeypatch.setattr(planning, "MAX_DEFAULT_STATE_BYTES", plan.state_bytes - 1)
    assert not SweepPlan(plan.grid).keeps_state
    asked = SweepPlan(Grid.of(SweepSpec.parse({**SPEC, "keep_state": True})))
    assert asked.keeps_state
    assert asked.grid.key != plan.grid.key  # it is another sweep, as more is stored
    assert not SweepPlan(Grid.of(SweepSpec.parse({**SPEC, "keep_state": False}))).keeps_state


def test_kept_states_are_found_again(tmp_path, conductor):
    objects, rng = conductor.folder.objects, np.random.default_rng(0)
    states = {n: KeptState(bytes([n] * 16), rng.normal(size=1 + n)) for n in (0, 3, 9)}
    default = KeptList(np.zeros(10, bool), runs_per_object=4)
    kept = KeptStates(objects, "s")
    assert kept.read_list() is None
    assert kept.read(np.arange(10)) == {}
    for number in (9, 0, 3):
        kept.write({number: states[number]}, default)
    assert np.flatnonzero(kept.read_list().is_kept).tolist() == [0, 3, 9]
    found = kept.read(np.arange(10))
    assert found.keys() == states.keys()
    for number, state in states.items():
        assert found[number].key == state.key
        np.testing.assert_array_equal(found[number].values, state.values)
    assert len(list(objects.list("s.states/"))) == 3  # two objects of four runs, and the list


CHILD = '{"time": {"max": 3.0, "samples": 2}}'


@pytest.mark.parametrize(
    "fault",
    [
        "extend:continued", "keep:states",
        *(pytest.param(f, marks=pytest.mark.slow) for f in ("task:computed", "task:part", "merge:values",
          "merge:status", "merge:ledger", "merge:removed", "submit:ledger")),
    ],
)  # fmt: skip
def test_extension_that_is_killed_continues(tmp_path, fault):
    """The same dataset as that of the long spec in a new folder."""
    parent = begin(tmp_path).wait()
    arguments = ["extend", parent.json["id"], "-", "--serial", "--json"]
    killed = fork_server().start(tmp_path, *arguments, text=CHILD, env={"SWEEP_FAULT": fault}).wait()
    assert killed.code == -signal.SIGKILL, killed
    again = run_command(tmp_path, *arguments, text=CHILD)
    assert again.code == DONE, again.err
    spec = json.loads((tmp_path / "sweep-data" / "sweeps" / f"{again.json['id']}.json").read_text())
    (tmp_path / "new").mkdir()
    whole = run_command(tmp_path / "new", "run", "-", "--serial", "--json", text=spec)
    assert whole.code == DONE, whole.err
    continued, long = (
        xr.open_zarr(folder / answer.json["path"], chunks=None)
        .load()
        .drop_vars(["sgd_seconds", "ode_seconds"])
        for folder, answer in ((tmp_path, again), (tmp_path / "new", whole))
    )
    xr.testing.assert_equal(continued, long)
