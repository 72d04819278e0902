"""The conductor on a full disk, simulated by the calls that fail."""

import errno

import pytest
import sqlalchemy as sa

from sweep_service.execution import task as tasks
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import Receipt, SerialExecutor
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State
from tests.execution.conducting import (
    FEW,
    assert_equals_direct_calls,
    count_runs,
    make_runs_fail,
    make_spec,
    open_conductor,
    run_sweep,
)
from tests.stored import ONE_RUN_PER_BUNDLE


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"), OSError(122, "Disk quota exceeded"),
        sa.exc.OperationalError("insert", {}, Exception("database or disk is full")),
    ],
    ids=["no space", "quota", "ledger"],
)  # fmt: skip
def test_conductor_waits_for_disk_space_and_computes_no_run_twice(
    conductor, computed_jobs, monkeypatch, error
):
    plain, tries, reasons = conductor.merger._write_parts, [], []

    def full(*given):
        tries.append(given)
        if len(tries) < 3:
            raise error
        return plain(*given)

    monkeypatch.setattr(conductor.merger, "_write_parts", full)
    monkeypatch.setattr(conductor.executor, "sleep", lambda seconds: None)
    sweep, _ = conductor.submit(make_spec())
    ended = conductor.run(sweep.id, lambda now: reasons.append(now.reason))
    assert ended.state is State.COMPLETED
    assert sum("waiting for room" in reason for reason in reasons) == 2
    assert ended.reason == ""
    assert set(count_runs(computed_jobs).values()) == {1}
    assert_equals_direct_calls(conductor, ended)


def test_full_disk_at_a_checkpoint_does_not_fail_the_run(conductor, monkeypatch):
    """The disk is full when a long run saves its checkpoint."""
    plain, tries = tasks.ObjectCheckpoint.save, []

    def full(self, content):
        tries.append(self)
        if len(tries) == 1:
            raise OSError(28, "No space left on device")
        plain(self, content)

    monkeypatch.setattr(tasks.ObjectCheckpoint, "save", full)
    monkeypatch.setattr("sweep_service.simulators.run.CHECKPOINT_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(conductor.executor, "sleep", lambda seconds: None)
    assert run_sweep(conductor, make_spec()).state is State.COMPLETED
    assert tries


def test_other_disk_errors_are_raised(conductor, monkeypatch):
    monkeypatch.setattr(conductor.merger, "_write_parts", lambda *given: deny_permission())
    sweep, _ = conductor.submit(make_spec())
    with pytest.raises(OSError, match="denied"):
        conductor.run(sweep.id)


def deny_permission():
    raise OSError(errno.EACCES, "permission denied")


def test_part_that_could_not_be_written_is_not_computed_again(tmp_path, computed_jobs, monkeypatch):
    with open_conductor(tmp_path) as conductor:
        sweep, _ = conductor.submit(make_spec())
        original_put, refusals = conductor.folder.objects.__class__.put, [3]

        def full(objects, name, content):
            if name.endswith(".npz") and refusals[0]:
                refusals[0] -= 1
                raise OSError(errno.ENOSPC, "no space left")
            original_put(objects, name, content)

        monkeypatch.setattr(conductor.folder.objects.__class__, "put", full)
        monkeypatch.setattr(conductor.executor, "sleep", lambda seconds: None)
        assert conductor.run(sweep.id).state is State.COMPLETED
    assert refusals == [0]
    assert max(count_runs(computed_jobs).values()) == 1


class BatchExecutor(SerialExecutor):
    """Several bundles end between two polls, as on a cluster; the first one fails once."""

    failed = False

    def has_room(self, sweep):
        return len(self.queue) < 4

    def poll(self):
        receipts, tasks_, self.queue = [], self.queue, []
        for task in tasks_:
            error, self.failed = ("" if self.failed else "KilledWorker: once"), True
            if not error:
                tasks.run_task(task)
            receipts.append(Receipt(task.sweep_id, task.bundle.key, error))
        return receipts

    def sleep(self, seconds):
        pass


def test_receipt_that_cannot_be_processed_delays_no_other(tmp_path, monkeypatch):
    with Conductor(DataFolder(tmp_path), BatchExecutor(), settings=ONE_RUN_PER_BUNDLE) as conductor:
        plain, full = (
            conductor.ledger.count_attempt,
            [sa.exc.OperationalError("", {}, Exception("disk is full"))],
        )

        def tried(*given):
            if full:
                raise full.pop()
            return plain(*given)

        monkeypatch.setattr(conductor.ledger, "count_attempt", tried)
        sweep, _ = conductor.submit(make_spec(**FEW))
        conductor.step()
        assert "room on the disk" in conductor.wait_reason
        for _ in range(10):
            conductor.step()
        assert conductor.ledger.sweep(sweep.id).state is State.COMPLETED
        assert conductor.receipts == []


def test_unwritten_part_with_failed_runs_is_not_kept(conductor, monkeypatch):
    """Otherwise it would be written after the cause is fixed, although the run is computed again."""
    objects, original_put = type(conductor.folder.objects), type(conductor.folder.objects).put

    def full(self, name, content):
        if name.endswith(".npz"):
            raise OSError(errno.ENOSPC, "no room")
        original_put(self, name, content)

    for seed, kept in ((0, 0), (99, 1)):  # there is no seed 99
        sweep, _ = conductor.submit(
            make_spec(seeds={"init": 1, "repeat": 1}, time={"max": 1.0 + kept, "samples": 4})
        )
        (bundle, *_) = [
            bundle for bundle in conductor.ledger.pending_bundles(sweep.id, 9) if bundle.jobs[0].kind == "sgd"
        ]
        with monkeypatch.context() as patch:
            make_runs_fail(patch, "run_chains", seed)
            patch.setattr(objects, "put", full)
            with pytest.raises(OSError, match="no room"):
                tasks.run_task(tasks.Task(conductor.folder.location, sweep.id, bundle))
        assert len(tasks._unwritten) == kept
    tasks._unwritten.clear()
