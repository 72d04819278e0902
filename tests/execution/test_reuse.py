"""Runs that are stored, or equal within a sweep, are not computed again."""

import json

import pytest
import xarray as xr

from sweep_service.execution.extension import extend_spec
from sweep_service.execution.merger import MAX_MERGE_BYTES
from sweep_service.planning.keys import CopyGroups
from sweep_service.status import Status
from sweep_service.store.ledger import State
from tests.execution.conducting import (
    SMALL,
    assert_equals_direct_calls,
    count_runs,
    load_dataset,
    make_runs_fail,
    make_spec,
    run_sweep,
    spec_with_axes,
)


def test_equal_runs_of_a_sweep_are_computed_once(conductor, computed_jobs):
    """From a shared start, the high-dimensional regime does not depend on d."""
    sweep = run_sweep(
        conductor, make_spec(simulate=False, axes={**SMALL["axes"], "regime": "high_dimensional"})
    )
    grid = conductor.folder.plan(sweep.id).grid
    keys = conductor.folder.keys(sweep.id)["ode"]
    assert len(CopyGroups(keys).first_runs()) == len(keys) // len(grid.axes["d"])
    assert sum(count_runs(computed_jobs).values()) == len(keys) // 2
    assert_equals_direct_calls(conductor, sweep)


def test_overlapping_sweep_computes_only_new_runs(conductor, computed_jobs):
    first = run_sweep(conductor, make_spec())
    before = load_dataset(conductor, first)
    computed_jobs.clear()
    second = run_sweep(conductor, spec_with_axes(d=[8, 5, 11]))
    assert {job.point // 2 for _, job in computed_jobs} == {2}  # two gammas for each d; the third d is new
    new = load_dataset(conductor, second)
    assert second.reused >= first.runs  # regimes that do not depend on d are reused for the new d
    xr.testing.assert_equal(new.sel(d=[5, 8]), before.sel(d=[5, 8]))  # copies, so the seconds too
    assert_equals_direct_calls(conductor, second)


def test_subset_of_a_stored_sweep_is_complete_at_once(conductor, computed_jobs):
    run_sweep(conductor, make_spec())
    computed_jobs.clear()
    sweep, new = conductor.submit(spec_with_axes(d=5))
    assert (new, sweep.state, computed_jobs) == (True, State.COMPLETED, [])
    assert conductor.counts(sweep.id) == {Status.DONE: sweep.runs}
    assert_equals_direct_calls(conductor, sweep)


@pytest.mark.parametrize("left", ["sgd", "ode"])
def test_runs_of_one_kind_are_reused_without_the_other(conductor, computed_jobs, left):
    """All runs of the other kind are stored."""
    run_sweep(conductor, make_spec(simulate=False) if left == "sgd" else spec_with_axes(regime="classical"))
    computed_jobs.clear()
    run_sweep(conductor, make_spec())
    assert {job.kind for _, job in computed_jobs} == {left}


def test_equivalent_spec_returns_the_existing_sweep(conductor):
    first = run_sweep(conductor, make_spec(name="one"))
    again, new = conductor.submit(make_spec(name="another", axes={**SMALL["axes"], "gamma": [0.1, 0.5]}))
    assert (again.id, new) == (first.id, False)
    assert len(conductor.ledger.sweeps()) == 1


def test_runs_are_reused_only_with_all_requested_observables(conductor, computed_jobs):
    run_sweep(conductor, make_spec(observables=["risk"]))
    computed_jobs.clear()
    more = run_sweep(conductor, make_spec(observables=["risk", "cosine", "overlaps"]))
    assert more.reused == 0
    assert len(computed_jobs) > 0
    computed_jobs.clear()
    less = run_sweep(conductor, make_spec(observables=["risk", "cosine"]))
    assert less.reused == less.runs
    assert computed_jobs == []
    assert_equals_direct_calls(conductor, less)


@pytest.mark.parametrize("regime", ["classical_noise", "mean_field", "auto"])
def test_added_regime_leaves_old_runs_reusable(conductor, computed_jobs, regime):
    """Additional overlap variables of a mean field are not required of other regimes."""
    first = run_sweep(conductor, make_spec())
    computed_jobs.clear()
    second = run_sweep(conductor, spec_with_axes(regime=["classical", "high_dimensional", regime]))
    assert second.reused == first.runs
    assert {job.regime for _, job in computed_jobs} == {2}
    assert_equals_direct_calls(conductor, second)


def test_reuse_does_not_depend_on_the_block_size(conductor, computed_jobs, monkeypatch):
    """From two sweeps, with copies, from wider arrays in another order."""

    def wanted(**axes):
        axes = {**SMALL["axes"], "regime": "high_dimensional", **axes}
        return make_spec(axes=axes, seeds=1, observables=["risk", "overlaps"])

    run_sweep(conductor, wanted(d=5, p=[6, 4]))
    run_sweep(conductor, wanted(d=8))
    computed_jobs.clear()
    datasets = []
    for size in (MAX_MERGE_BYTES, 1):
        conductor.merger.max_merge_bytes = size
        sweep, new = conductor.submit(wanted(d=[5, 8], gamma=[0.5, 0.1]))
        assert (new, sweep.state, sweep.reused) == (True, State.COMPLETED, sweep.runs)
        datasets.append(load_dataset(conductor, sweep).drop_attrs())
        conductor.remove(sweep.id)
    assert computed_jobs == []
    xr.testing.assert_identical(*datasets)


def test_failed_runs_are_not_reused(conductor, computed_jobs, monkeypatch):
    with monkeypatch.context() as patch:
        make_runs_fail(patch, "integrate_run", seed=1)
        assert run_sweep(conductor, make_spec()).state is State.INCOMPLETE
    computed_jobs.clear()
    second = run_sweep(conductor, spec_with_axes(gamma=[0.1, 0.5, 0.7]))
    assert second.state is State.COMPLETED
    again = {(job.point % 3, job.seeds) for _, job in computed_jobs if job.kind == "ode"}
    assert {(0, (1,)), (1, (1,)), (2, (0, 1))} <= again
    assert_equals_direct_calls(conductor, second)


def test_extension_is_a_new_sweep_and_keeps_its_parent(conductor, computed_jobs):
    parent = run_sweep(conductor, make_spec(name="parent"))
    before = load_dataset(conductor, parent)
    computed_jobs.clear()
    change = json.dumps({"axes": {"gamma": [0.9]}, "seeds": 3})
    wider = extend_spec(conductor.folder.spec(parent.id), change)
    child = run_sweep(conductor, wider, extends=parent.id)
    assert child.extends == parent.id
    assert child.reused >= parent.runs
    assert conductor.ledger.sweep(parent.id) == parent
    xr.testing.assert_identical(load_dataset(conductor, parent), before)
    assert count_runs(computed_jobs).total() < child.runs - parent.runs + 1
    assert_equals_direct_calls(conductor, child)
