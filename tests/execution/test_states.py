"""States of sweeps: cancel, pause, resume, retry, remove."""

from dataclasses import replace

import pytest
import xarray as xr

from sweep_service.errors import InUse
from sweep_service.status import Status
from sweep_service.store.ledger import State
from tests.execution.conducting import (
    FEW,
    assert_equals_direct_calls,
    count_runs,
    find_leftovers,
    interrupt_sweep,
    load_dataset,
    make_spec,
    open_conductor,
    run_sweep,
    spec_with_axes,
)
from tests.stored import ONE_RUN_PER_BUNDLE


def test_cancelled_sweep_keeps_computed_runs(tmp_path, computed_jobs):
    sweep = interrupt_sweep(tmp_path, computed_jobs)
    with open_conductor(tmp_path, settings=ONE_RUN_PER_BUNDLE) as conductor:
        before = load_dataset(conductor, sweep)
        assert conductor.cancel(sweep.id).state is State.CANCELLED
        after = load_dataset(conductor, sweep)
        counts = conductor.counts(sweep.id)
        assert set(counts) == {Status.DONE, Status.CANCELLED}
        done_before = before.sgd_status == Status.DONE
        xr.testing.assert_equal(after.where(done_before).sgd_risk, before.where(done_before).sgd_risk)
        jobs = len(computed_jobs)
        assert conductor.tick() is False
        assert conductor.run(sweep.id).state is State.CANCELLED
        assert len(computed_jobs) == jobs
        assert find_leftovers(tmp_path) == []


def test_cancelled_runs_can_be_retried(tmp_path, computed_jobs):
    sweep = interrupt_sweep(tmp_path, computed_jobs)
    with open_conductor(tmp_path, settings=ONE_RUN_PER_BUNDLE) as conductor:
        conductor.cancel(sweep.id)
        kept, before = conductor.counts(sweep.id)[Status.DONE], len(computed_jobs)
        conductor.retry(sweep.id)
        ended = conductor.run(sweep.id)
        assert ended.state is State.COMPLETED
        assert len(computed_jobs) - before <= sweep.runs - kept
        assert_equals_direct_calls(conductor, ended)


def test_paused_sweep_waits_until_it_is_resumed(tmp_path, computed_jobs):
    sweep = interrupt_sweep(tmp_path, computed_jobs)
    with open_conductor(tmp_path, settings=ONE_RUN_PER_BUNDLE) as conductor:
        assert conductor.pause(sweep.id).state is State.PAUSED
        jobs = len(computed_jobs)
        assert conductor.run(sweep.id).state is State.PAUSED
        assert conductor.tick() is False
        assert len(computed_jobs) == jobs
    with open_conductor(tmp_path, settings=ONE_RUN_PER_BUNDLE) as conductor:
        assert conductor.ledger.sweep(sweep.id).state is State.PAUSED
        conductor.resume(sweep.id)
        assert conductor.run(sweep.id).state is State.COMPLETED
        assert conductor.resume(sweep.id).state is State.COMPLETED


def test_small_sweep_does_not_wait_for_a_large_one(fine_conductor):
    """Running sweeps share the window."""
    large, _ = fine_conductor.submit(make_spec(**{**FEW, "seeds": 6}))
    little, _ = fine_conductor.submit(make_spec(axes={"d": 7, "p": 3, "gamma": 0.3}, seeds=1))
    fine_conductor.run(little.id)
    assert fine_conductor.ledger.totals(large.id)["bundles_left"] > 0


def test_removed_sweep_leaves_no_files(conductor):
    keep = run_sweep(conductor, make_spec())
    gone, _ = conductor.submit(spec_with_axes(d=[6, 7]))
    conductor.remove(gone.id)
    assert [sweep.id for sweep in conductor.ledger.sweeps()] == [keep.id]
    assert not list(conductor.folder.root.rglob(f"{gone.id}*"))
    fresh = run_sweep(conductor, spec_with_axes(d=[6, 7]))
    assert fresh.state is State.COMPLETED
    assert_equals_direct_calls(conductor, fresh)


def test_second_fine_conductorcannot_open_the_folder(conductor):
    with pytest.raises(InUse, match=r"in use by process \d+"), open_conductor(conductor.folder.root):
        pass


def test_run_executes_only_one_sweep(tmp_path, computed_jobs):
    other = interrupt_sweep(tmp_path, computed_jobs)
    with open_conductor(tmp_path, settings=ONE_RUN_PER_BUNDLE) as conductor:
        before = conductor.counts(other.id)
        assert run_sweep(conductor, spec_with_axes(d=[60, 70])).state is State.COMPLETED
        assert conductor.counts(other.id) == before
        assert conductor.ledger.sweep(other.id).state is State.QUEUED  # it is not executed


def test_cancelled_sweep_keeps_unmerged_runs(tmp_path, monkeypatch):
    settings = replace(ONE_RUN_PER_BUNDLE, merge_interval_seconds=1e9)
    with open_conductor(tmp_path, settings=settings) as conductor:
        sweep, _ = conductor.submit(make_spec())
        for _ in range(3):
            conductor.tick()
        assert conductor.counts(sweep.id) == {Status.PENDING: sweep.runs}
        conductor.cancel(sweep.id)
        assert conductor.counts(sweep.id)[Status.DONE] >= 3


def test_runs_computed_before_a_pause_are_not_computed_again(tmp_path, computed_jobs, monkeypatch):
    settings = replace(ONE_RUN_PER_BUNDLE, merge_interval_seconds=60.0)
    with open_conductor(tmp_path, settings=settings) as conductor:
        sweep, _ = conductor.submit(make_spec(**FEW))
        for _ in range(3):
            conductor.tick()
        conductor.pause(sweep.id)
        assert conductor.counts(sweep.id).keys() == {Status.PENDING}  # nothing is merged yet
        conductor.resume(sweep.id)
        assert conductor.run(sweep.id).state is State.COMPLETED
    assert set(count_runs(computed_jobs).values()) == {1}


def test_counts_are_final_when_the_state_becomes_cancelled(tmp_path, monkeypatch):
    with open_conductor(tmp_path) as conductor:
        sweep, _ = conductor.submit(make_spec())
        plain, counts = conductor.ledger.set_state, []

        def record_counts(name, *arguments, **options):
            counts.append(conductor.ledger.totals(name)["counts"])
            plain(name, *arguments, **options)

        monkeypatch.setattr(conductor.ledger, "set_state", record_counts)
        conductor.cancel(sweep.id)
        assert counts == [{Status.CANCELLED: sweep.runs}]


def test_retry_of_a_complete_sweep_changes_nothing(conductor):
    before = run_sweep(conductor, make_spec())
    assert conductor.retry(before.id) == before
    conductor._replace_status(before.id, Status.DONE, Status.PENDING)
    assert conductor.retry(before.id).state is State.QUEUED
    assert conductor.run(before.id).state is State.COMPLETED
    assert conductor.counts(before.id) == {Status.DONE: before.runs}
