"""Failed runs and bundles: failure records, attempts, retries."""

import json
import shlex
from collections import Counter

import numpy as np
import pytest

from sweep_service.execution import task as tasks
from sweep_service.execution.conductor import DEFAULT_SETTINGS
from sweep_service.planning.keys import CopyGroups
from sweep_service.status import Status
from sweep_service.store.ledger import State
from tests.execution.conducting import (
    FEW,
    assert_equals_direct_calls,
    count_runs,
    find_leftovers,
    list_failure_records,
    load_dataset,
    make_runs_fail,
    make_spec,
    open_conductor,
    run_sweep,
    spec_with_axes,
)


@pytest.mark.parametrize("engine", ["run_chains", "integrate_run"])
def test_failed_runs_have_failure_records_and_can_be_retried(
    fine_conductor, computed_jobs, monkeypatch, engine
):
    kind = "sgd" if engine == "run_chains" else "ode"
    with monkeypatch.context() as patch:
        make_runs_fail(patch, engine, seed=1)
        sweep = run_sweep(fine_conductor, make_spec(**FEW))
    assert sweep.state is State.INCOMPLETE
    broken = fine_conductor.folder.dataset(sweep.id).status(kind) == Status.FAILED
    dataset = load_dataset(fine_conductor, sweep)
    assert np.all(dataset[f"{kind}_status"].sel(seed=1) == Status.FAILED)
    assert np.all(dataset[f"{kind}_status"].sel(seed=0) == Status.DONE)
    assert np.all(np.isnan(dataset[f"{kind}_risk"].sel(seed=1)))
    records = [
        json.loads(fine_conductor.folder.objects.get(name))
        for name in list_failure_records(fine_conductor, sweep)
    ]
    first = {int(n) for n in np.flatnonzero(broken)} & set(
        CopyGroups(fine_conductor.folder.keys(sweep.id)[kind]).first_runs().tolist()
    )
    assert {record["number"] for record in records} == first
    assert all(
        "seed 1 is out of order" in record["error"] and "RuntimeError" in record["trace"]
        for record in records
    )

    computed_jobs.clear()
    fine_conductor.retry(sweep.id)
    assert fine_conductor.counts(sweep.id)[Status.PENDING] == int(broken.sum())
    ended = fine_conductor.run(sweep.id)
    assert ended.state is State.COMPLETED
    assert set(count_runs(computed_jobs).values()) == {1}
    assert {(job.kind, job.seeds) for _, job in computed_jobs} == {(kind, (1,))}
    assert list_failure_records(fine_conductor, sweep) == []
    assert (
        fine_conductor.ledger.totals(sweep.id)["counts"]
        == fine_conductor.counts(sweep.id)
        == {Status.DONE: sweep.runs}
    )
    assert_equals_direct_calls(fine_conductor, ended)


def test_ledger_counts_a_retried_run_once(conductor, monkeypatch):
    """Also if the bundle of a failed run contains runs that are done."""
    with monkeypatch.context() as patch:
        make_runs_fail(patch, "integrate_run", seed=1)
        sweep = run_sweep(conductor, make_spec())
    assert conductor.ledger.totals(sweep.id)["counts"] == conductor.counts(sweep.id)
    conductor.retry(sweep.id)
    conductor.run(sweep.id)
    assert conductor.ledger.totals(sweep.id)["counts"] == {Status.DONE: sweep.runs}


def test_command_of_a_failure_record_names_run_and_folder(tmp_path, monkeypatch):
    """It can be run in a shell in any folder."""
    make_runs_fail(monkeypatch, "integrate_run", seed=1)
    monkeypatch.chdir(tmp_path)
    with open_conductor("my data") as conductor:
        sweep = run_sweep(conductor, make_spec())
        record = json.loads(conductor.folder.objects.get(list_failure_records(conductor, sweep)[0]))
    command = shlex.split(record["command"])
    run = f"{record['kind']}-{record['number']}"
    assert command == ["sweep", "rerun", sweep.id, run, "--data", str(tmp_path / "my data")]


def test_bundle_that_always_fails_is_given_up_after_max_attempts(fine_conductor, monkeypatch):
    plain, tries = tasks.compute, Counter()

    def broken(plan, job, *rest):
        tries[job] += 1
        if job.kind == "sgd" and job.point == 1:
            raise MemoryError("no more")
        return plain(plan, job, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "compute", broken)
        sweep = run_sweep(fine_conductor, make_spec(**FEW))
    assert sweep.state is State.INCOMPLETE
    assert {tries[job] for job in tries if job.kind == "sgd" and job.point == 1} == {
        DEFAULT_SETTINGS.max_attempts
    }
    assert {tries[job] for job in tries if job.kind == "ode" or job.point != 1} == {1}
    assert fine_conductor.counts(sweep.id) == {Status.DONE: sweep.runs - 2, Status.FAILED: 2}
    records = [
        json.loads(fine_conductor.folder.objects.get(name))
        for name in list_failure_records(fine_conductor, sweep)
    ]
    assert [record["error"] for record in records] == ["MemoryError: no more"] * 2
    fine_conductor.retry(sweep.id)
    assert fine_conductor.run(sweep.id).state is State.COMPLETED
    assert_equals_direct_calls(fine_conductor, sweep)


def test_bundle_that_fails_once_is_retried(conductor, monkeypatch):
    plain, tries = tasks.compute, []

    def broken(*given):
        tries.append(given)
        if len(tries) == 1:
            raise MemoryError("no more")
        return plain(*given)

    monkeypatch.setattr(tasks, "compute", broken)
    assert run_sweep(conductor, make_spec()).state is State.COMPLETED


def test_damaged_checkpoint_is_ignored(conductor):
    sweep, _ = conductor.submit(make_spec(axes={"d": 5, "p": 4, "gamma": 0.1}, seeds=1))
    (bundle,) = conductor.ledger.pending_bundles(sweep.id, 9)
    conductor.folder.objects.put(f"{sweep.id}.parts/{bundle.key}.0.checkpoint", b"of another version")
    assert conductor.run(sweep.id).state is State.COMPLETED
    assert find_leftovers(conductor.folder.root) == []


def test_failure_record_names_the_copies_of_its_run(tmp_path, monkeypatch):
    make_runs_fail(monkeypatch, "integrate_run", 1)
    shared = make_spec(init={"kind": "informed", "shared": True})
    with open_conductor(tmp_path) as conductor:
        sweep = run_sweep(conductor, shared)
        failed = np.flatnonzero(conductor.folder.dataset(sweep.id).status("ode") == Status.FAILED)
        objects = conductor.folder.objects
        records = [json.loads(objects.get(name)) for name in objects.list(f"{sweep.id}.failures/")]
        named = sorted(run for record in records for run in record["runs"])
        assert named == failed.tolist()
        assert len(records) < len(named)


def test_retried_runs_are_counted_once_beside_reused_ones(tmp_path, monkeypatch):
    with open_conductor(tmp_path) as conductor:
        run_sweep(conductor, make_spec())
        with monkeypatch.context() as patch:
            make_runs_fail(patch, "run_chains", 1)
            more = run_sweep(conductor, spec_with_axes(d=[*make_spec().axes["d"], 60]))
        assert more.reused > 0
        ended = conductor.run(conductor.retry(more.id).id)
        assert sum(conductor.ledger.totals(more.id)["counts"].values()) == ended.runs
