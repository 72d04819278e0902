"""Damage that `sweep doctor --verify` finds, and its repair: the dataset is bit-equal afterwards."""

import numpy as np
import pytest

import sweep_service.analysis.registration  # noqa: F401
from sweep_service.doctor.verify import stored_ids, verify
from sweep_service.errors import Damaged
from sweep_service.execution.repair import RepairRequest, carry_out_requests
from sweep_service.status import Status
from sweep_service.store import folder as folders
from sweep_service.store.ledger import State
from tests.chaos.flips import (
    assert_same_values,
    find_chunk,
    flip_bit,
    kind_of_file,
    random_bit,
    read_values,
    shorten,
    stored_files,
)
from tests.execution.conducting import (
    FEW,
    delete_ledger,
    interrupt_sweep,
    make_runs_fail,
    make_spec,
    open_conductor,
    run_sweep,
)

SECONDS = ("sgd_seconds", "ode_seconds")


def verdicts(folder):
    folders._read_plan.cache_clear()  # as in a new process
    checks, findings = verify(folder, stored_ids(folder))
    return [check.found for check in checks if check.verdict == "wrong"], findings


def repair(folder):
    """Request and carry out the repair of everything that is found, as the doctor does."""
    _, findings = verdicts(folder)
    for found in findings:
        if found.problems:
            found.request.save(folder, found.sweep_id)
    with open_conductor(folder.root) as conductor:
        for found in findings:
            conductor.run(found.sweep_id)
        return [conductor.ledger.sweep(found.sweep_id).state for found in findings]


@pytest.fixture
def folder(tmp_path):
    with open_conductor(tmp_path) as conductor:
        run_sweep(conductor, make_spec(**FEW))
        return conductor.folder


def values(folder):
    (sweep_id,) = stored_ids(folder)
    with folder.open_dataset(sweep_id) as dataset:
        return read_values(dataset, SECONDS)


def path_of(folder, suffix):
    (sweep_id,) = stored_ids(folder)
    return folder.root / "sweeps" / f"{sweep_id}{suffix}"


def test_every_kind_of_damage_is_found_and_repaired(folder):
    """One file of each kind after the other, so that repairs follow repairs."""
    (sweep_id,) = stored_ids(folder)
    expected, rng = values(folder), np.random.default_rng(0)
    files = {kind_of_file(path): path for path in stored_files(folder.root, sweep_id)}
    for kind, path in files.items():
        flip_bit(path, random_bit(path, rng))
        problems, _ = verdicts(folder)
        assert len(problems) == 1, kind
        assert path.name in problems[0] or "/c/0" in problems[0], problems
        assert repair(folder) == [State.COMPLETED], kind
        assert verdicts(folder)[0] == [], kind
        assert_same_values(values(folder), expected)


def test_missing_and_truncated_chunks_are_repaired(folder):
    expected, dataset = values(folder), path_of(folder, ".zarr")
    find_chunk(dataset, "sgd_risk").unlink()
    find_chunk(dataset, "ode_status").unlink()
    shorten(find_chunk(dataset, "sgd_steps"))
    find_chunk(dataset, "time").unlink()
    assert len(verdicts(folder)[0]) == 4
    assert repair(folder) == [State.COMPLETED]
    assert_same_values(values(folder), expected)


def test_only_runs_of_the_lost_chunk_are_computed_again(folder, computed_jobs):
    computed_jobs.clear()
    flip_bit(find_chunk(path_of(folder, ".zarr"), "ode_cosine"), 50)
    repair(folder)
    assert {job.kind for _, job in computed_jobs} == {"ode"}


def test_done_runs_without_values_are_found(folder):
    """As an older version left them that merged into a chunk after it had been lost."""
    expected = values(folder)
    dataset = folder.dataset(stored_ids(folder)[0])
    dataset._open_array("sgd_risk")[0] = np.nan
    (problem,), _ = verdicts(folder)
    assert "2 done runs have no value at t = 0" in problem
    (sweep_id,) = stored_ids(folder)
    for method in ("final_risk", "discrepancy"):
        with folder.open_dataset(sweep_id) as stored, pytest.raises(Damaged, match="2 done runs lack values"):
            getattr(stored.sweep, method)()
    with open_conductor(folder.root) as conductor:  # and they are not reused
        more, _ = conductor.submit(make_spec(**{**FEW, "seeds": 3}))
        assert more.reused == 8
        conductor.remove(more.id)
    assert repair(folder) == [State.COMPLETED]
    assert_same_values(values(folder), expected)


def test_damaged_parts_and_failure_records_are_repaired(tmp_path, monkeypatch):
    with open_conductor(tmp_path) as conductor, monkeypatch.context() as patch:
        make_runs_fail(patch, "integrate_run", seed=1)
        sweep = run_sweep(conductor, make_spec(**FEW))
        assert sweep.state is State.INCOMPLETE
    records = sorted((tmp_path / "sweeps" / f"{sweep.id}.failures").iterdir())
    flip_bit(records[0], 40)
    (problem,), _ = verdicts(conductor.folder)
    assert records[0].name in problem
    assert repair(conductor.folder) == [State.INCOMPLETE]  # the other record is intact, and its run failed
    assert [path.exists() for path in records[:2]] == [False, True]


def test_ledger_that_counts_other_runs_is_corrected(folder):
    (sweep_id,) = stored_ids(folder)
    with open_conductor(folder.root) as conductor:
        conductor.ledger.set_counts(sweep_id, {Status.DONE: 3})
    (problem,), _ = verdicts(folder)
    assert "the ledger counts other runs" in problem
    assert repair(folder) == [State.COMPLETED]
    assert verdicts(folder)[0] == []


def test_repair_that_is_interrupted_is_done_again(folder, monkeypatch):
    expected = values(folder)
    flip_bit(find_chunk(path_of(folder, ".zarr"), "sgd_risk"), 50)
    _, (found,) = verdicts(folder)
    found.request.save(folder, found.sweep_id)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("sweep_service.execution.merger.Merger.merge", interrupt)
        with open_conductor(folder.root):
            pass
    assert path_of(folder, ".repair").exists()
    with open_conductor(folder.root) as conductor:
        assert conductor.run(found.sweep_id).state is State.COMPLETED
    assert not path_of(folder, ".repair").exists()
    assert_same_values(values(folder), expected)


def interrupt(*arguments):
    raise KeyboardInterrupt


def test_sweep_of_which_nothing_is_left_fails_with_a_reason(folder):
    shorten(path_of(folder, ".json"))
    shorten(path_of(folder, ".zarr") / "zarr.json")
    assert not verdicts(folder)[1][0].is_repairable
    RepairRequest().save(folder, stored_ids(folder)[0])
    with open_conductor(folder.root) as conductor:
        sweep = conductor.ledger.sweep(stored_ids(folder)[0])
    assert (sweep.state, "cannot be read" in sweep.reason) == (State.FAILED, True)


def test_paused_sweep_stays_paused(tmp_path, computed_jobs):
    sweep = interrupt_sweep(tmp_path, computed_jobs, after=5)
    with open_conductor(tmp_path) as conductor:
        conductor.pause(sweep.id)
        RepairRequest().save(conductor.folder, sweep.id)
        carry_out_requests(conductor)
        assert conductor.ledger.sweep(sweep.id).state is State.PAUSED
        conductor.resume(sweep.id)
        assert conductor.run(sweep.id).state is State.COMPLETED


def test_rebuilt_sweep_has_the_progress_of_its_stored_runs(tmp_path, computed_jobs):
    from sweep_service.execution.summary import summarise_sweep

    sweep = interrupt_sweep(tmp_path, computed_jobs, after=5)
    delete_ledger(tmp_path)
    with open_conductor(tmp_path) as conductor:
        conductor.rebuild()
        totals = conductor.ledger.progress_totals([sweep.id])[sweep.id]
        summary = summarise_sweep(conductor.ledger.sweep(sweep.id), totals, 1.0)
        assert 0.01 < summary["progress"] < 0.99
        assert summary["core_seconds"] > 0.0
        assert summary["eta_seconds"] > 0.0
        conductor.run(sweep.id)
        assert conductor.ledger.totals(sweep.id)["bundles_left"] == 0


def test_sweep_of_a_newer_layout_is_not_adopted(folder, caplog):
    from tests.chaos.flips import change_metadata

    change_metadata(path_of(folder, ".zarr"), layout_version=99)
    (problem,), (found,) = verdicts(folder)
    assert ("has layout 99" in problem, found.is_repairable) == (True, False)
    delete_ledger(folder.root)
    with open_conductor(folder.root) as conductor:
        assert conductor.rebuild() == []
    assert "cannot be added to the ledger" in caplog.text
