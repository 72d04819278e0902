"""Recovery after a crash, a lost ledger or damaged files."""

import shutil

import pytest
import xarray as xr

from sweep_service.execution import conductor as conducting_module
from sweep_service.status import Status
from sweep_service.store.ledger import State
from tests.execution.conducting import (
    FEW,
    assert_equals_direct_calls,
    count_runs,
    delete_ledger,
    find_leftovers,
    interrupt_sweep,
    list_failure_records,
    load_dataset,
    make_runs_fail,
    make_spec,
    open_conductor,
    raise_interrupt,
    run_sweep,
    spec_with_axes,
)
from tests.stored import ONE_RUN_PER_BUNDLE


def test_rebuilt_ledger_computes_no_run_twice(tmp_path, computed_jobs):
    sweep = interrupt_sweep(tmp_path, computed_jobs, after=5)
    early = count_runs(computed_jobs[:-1])  # the last one was stopped
    delete_ledger(tmp_path)
    with open_conductor(tmp_path, settings=ONE_RUN_PER_BUNDLE) as conductor:
        assert conductor.ledger.sweeps() == []
        before = conductor.counts(sweep.id)
        computed_jobs.clear()
        assert conductor.rebuild() == [sweep.id]
        assert conductor.counts(sweep.id) == before
        ended = conductor.run(sweep.id)
        assert (ended.state, ended.name, ended.runs) == (State.COMPLETED, sweep.name, sweep.runs)
        assert not early & count_runs(computed_jobs)
        assert conductor.rebuild() == []
        assert_equals_direct_calls(conductor, ended)


def test_unmerged_parts_survive_the_loss_of_the_ledger(tmp_path, computed_jobs):
    """All parts are written and none is merged."""
    with open_conductor(tmp_path) as conductor:
        sweep, _ = conductor.submit(make_spec())
        conductor._dispatch([sweep])
        while conductor.executor.poll():
            conductor._dispatch([sweep])
    assert [path for path in find_leftovers(tmp_path) if path.endswith(".npz")]
    delete_ledger(tmp_path)
    computed_jobs.clear()
    with open_conductor(tmp_path) as conductor:
        conductor.rebuild()
        assert conductor.run(sweep.id).state is State.COMPLETED
        assert computed_jobs == []
        assert find_leftovers(tmp_path) == []


@pytest.mark.parametrize("state", [State.COMPLETED, State.INCOMPLETE, State.CANCELLED])
def test_ended_sweep_has_the_same_state_after_a_rebuild(tmp_path, monkeypatch, state):
    with open_conductor(tmp_path) as conductor, monkeypatch.context() as patch:
        if state is State.INCOMPLETE:
            make_runs_fail(patch, "integrate_run", seed=1)
        sweep, _ = conductor.submit(make_spec(name="ended"))
        ended = conductor.cancel(sweep.id) if state is State.CANCELLED else conductor.run(sweep.id)
        assert ended.state is state
        counts, records = conductor.counts(sweep.id), list_failure_records(conductor, sweep)
    delete_ledger(tmp_path)
    with open_conductor(tmp_path) as conductor:
        conductor.rebuild()
        assert conductor.run(sweep.id).state is state
        assert conductor.counts(sweep.id) == counts
        assert list_failure_records(conductor, sweep) == records


def test_rebuild_keeps_creation_time_and_parent(tmp_path, monkeypatch):
    days = iter(["2001-01-01T00:00:00.000+00:00", "2002-02-02T00:00:00.000+00:00"])
    with open_conductor(tmp_path) as conductor, monkeypatch.context() as patch:
        patch.setattr("sweep_service.store.provenance.utc_now", lambda: next(days))
        parent, _ = conductor.submit(make_spec(**FEW))
        child, _ = conductor.submit(make_spec(**FEW, name="child", observables=["risk"]), parent.id)
    delete_ledger(tmp_path)
    with open_conductor(tmp_path) as conductor:
        assert sorted(conductor.rebuild()) == sorted([parent.id, child.id])
        after = {sweep.id: sweep for sweep in conductor.ledger.sweeps()}
    assert list(after) == [child.id, parent.id]
    assert [after[sweep.id].created[:4] for sweep in (parent, child)] == ["2001", "2002"]
    assert [after[sweep.id].extends for sweep in (parent, child)] == [None, parent.id]


def test_interrupted_submission_is_removed(tmp_path):
    with open_conductor(tmp_path) as conductor:
        run_sweep(conductor, make_spec())
        dead, _ = conductor.submit(spec_with_axes(d=[6, 7]))
        conductor.ledger.remove(dead.id)
    (tmp_path / "sweeps" / f"{dead.id}.unowned").touch()
    half = tmp_path / "sweeps" / "20200101-000000-0badcafe.zarr.partial" / "sgd_risk"  # died in `create`
    half.mkdir(parents=True)
    (half / "zarr.json").write_text("{")
    with open_conductor(tmp_path) as conductor:
        assert not list((tmp_path / "sweeps").glob(f"{dead.id}*"))
        assert not list((tmp_path / "sweeps").glob("*0badcafe*"))
        assert conductor.rebuild() == []


def test_complete_sweep_is_kept_without_a_ledger(tmp_path):
    with open_conductor(tmp_path) as conductor:
        sweep = run_sweep(conductor, make_spec())
        before = load_dataset(conductor, sweep)
    delete_ledger(tmp_path)
    with open_conductor(tmp_path) as conductor:
        assert conductor.unknown_sweeps() == [sweep.id]
    with open_conductor(tmp_path) as conductor:
        xr.testing.assert_identical(load_dataset(conductor, sweep), before)


def test_unrelated_files_are_left_alone(tmp_path):
    """Such as a note, a copy of a dataset, files of a file manager."""
    with open_conductor(tmp_path) as conductor:
        sweep = run_sweep(conductor, make_spec())
        shutil.copytree(conductor.folder.dataset_path(sweep.id), tmp_path / "sweeps" / "copy.zarr")
    for name in (".DS_Store", "notes.json"):
        (tmp_path / "sweeps" / name).write_text("mine")
    with open_conductor(tmp_path) as conductor:
        assert run_sweep(conductor, make_spec()).id == sweep.id
    assert {".DS_Store", "notes.json", "copy.zarr"} <= {path.name for path in (tmp_path / "sweeps").iterdir()}


@pytest.mark.parametrize("step", ["_replace_status", "set_state"])
def test_interrupted_cancel_can_be_repeated(tmp_path, monkeypatch, step):
    with open_conductor(tmp_path) as conductor, monkeypatch.context() as patch:
        sweep, _ = conductor.submit(make_spec())
        patch.setattr(
            *(
                (conductor, "_replace_status")
                if step == "_replace_status"
                else (conductor.ledger, "set_state")
            ),
            raise_interrupt,
        )
        with pytest.raises(KeyboardInterrupt):
            conductor.cancel(sweep.id)
    with open_conductor(tmp_path) as conductor:
        conductor.tick()
        assert conductor.cancel(sweep.id).state in (State.CANCELLED, State.COMPLETED)
        assert Status.PENDING not in conductor.counts(sweep.id)


def test_interrupted_removal_does_not_break_a_rebuild(tmp_path, monkeypatch):
    with open_conductor(tmp_path) as conductor, monkeypatch.context() as patch:
        sweep = run_sweep(conductor, make_spec())
        patch.setattr(conductor.folder.objects, "delete", raise_interrupt)
        with pytest.raises(KeyboardInterrupt):
            conductor.remove(sweep.id)
    with open_conductor(tmp_path) as conductor:
        conductor.rebuild()
        assert run_sweep(conductor, make_spec()).state is State.COMPLETED


def test_interrupted_retry_can_be_repeated(tmp_path, monkeypatch):
    with open_conductor(tmp_path) as conductor:
        with monkeypatch.context() as patch:
            make_runs_fail(patch, "run_chains", seed=1)
            sweep = run_sweep(conductor, make_spec())
        with monkeypatch.context() as patch:
            patch.setattr(conductor, "_requeue", raise_interrupt)
            with pytest.raises(KeyboardInterrupt):
                conductor.retry(sweep.id)
    with open_conductor(tmp_path) as conductor:
        conductor.retry(sweep.id)
        assert conductor.run(sweep.id).state is State.COMPLETED
        assert_equals_direct_calls(conductor, sweep)


def test_damaged_sweep_does_not_stop_others_and_can_be_removed(tmp_path, computed_jobs):
    with open_conductor(tmp_path, settings=ONE_RUN_PER_BUNDLE) as conductor:
        whole = run_sweep(conductor, spec_with_axes(d=[6, 7]))
    hurt = interrupt_sweep(tmp_path, computed_jobs)
    shutil.rmtree(tmp_path / "sweeps" / f"{hurt.id}.zarr")
    with open_conductor(tmp_path, settings=ONE_RUN_PER_BUNDLE) as conductor:
        other = run_sweep(conductor, spec_with_axes(d=[7, 8]))
        assert other.state is State.COMPLETED
        assert other.reused > 0  # from the undamaged sweep
        record = conductor.run(hurt.id)
        assert record.state is State.FAILED
        assert f"{hurt.id}.zarr cannot be read" in record.reason
        conductor.remove(hurt.id)
        assert {sweep.id for sweep in conductor.ledger.sweeps()} == {whole.id, other.id}
    assert not list((tmp_path / "sweeps").glob(f"{hurt.id}*"))


def test_dataset_from_another_folder_is_left_alone(tmp_path):
    with open_conductor(tmp_path / "one") as conductor:
        guest = run_sweep(conductor, make_spec())
    with open_conductor(tmp_path / "other") as conductor:
        run_sweep(conductor, spec_with_axes(d=[6, 7]))
    name = f"{guest.id}.zarr"
    shutil.copytree(tmp_path / "one" / "sweeps" / name, tmp_path / "other" / "sweeps" / name)
    with open_conductor(tmp_path / "other") as conductor:
        assert conductor.unknown_sweeps() == [guest.id]
    assert (tmp_path / "other" / "sweeps" / name).exists()


@pytest.mark.parametrize("point", ["remove:disown", "remove:ledger"])
def test_interrupted_removal_is_complete_or_undone(tmp_path, monkeypatch, point):
    with open_conductor(tmp_path) as conductor:
        sweep = run_sweep(conductor, make_spec())
        before = load_dataset(conductor, sweep)

    def dies(name):
        if name == point:
            raise KeyboardInterrupt

    with (
        monkeypatch.context() as patch,
        open_conductor(tmp_path) as conductor,
        pytest.raises(KeyboardInterrupt),
    ):
        patch.setattr(conducting_module, "fault_point", dies)
        conductor.remove(sweep.id)
    with open_conductor(tmp_path) as conductor:
        left = [record.id for record in conductor.ledger.sweeps()]
        assert conductor.rebuild() == []
        if point == "remove:disown":
            xr.testing.assert_identical(load_dataset(conductor, sweep), before)
            assert left == [sweep.id]
        else:
            assert left == []
            assert not list((tmp_path / "sweeps").glob(f"{sweep.id}*"))


def test_start_sends_no_request_for_each_sweep(tmp_path, monkeypatch):
    """In a bucket, each request takes a round trip."""
    with open_conductor(tmp_path) as conductor:
        for d in (5, 6, 7):
            run_sweep(conductor, spec_with_axes(d=d))
    objects, calls = type(conductor.folder.objects), []
    for name in ("delete", "clear", "put", "get", "exists", "list"):
        monkeypatch.setattr(objects, name, lambda self, *given, name=name: calls.append((name, given)))
    with open_conductor(tmp_path):
        assert calls == []
