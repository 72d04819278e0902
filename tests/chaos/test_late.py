"""Late parts: written by a worker that seemed dead, after its bundle was computed elsewhere."""

from dataclasses import replace

import pytest
import xarray as xr

from sweep_service.execution import compute as computing
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.execution.task import ObjectCheckpoint, Task, part_name, run_task
from sweep_service.planning.spec import SweepSpec
from sweep_service.simulators import simulate
from sweep_service.status import Status
from sweep_service.store.folder import INDEX_SUFFIX, DataFolder
from sweep_service.store.ledger import State
from tests.chaos.crashes import SPEC
from tests.stored import ONE_RUN_PER_BUNDLE

END = {
    "completed": lambda conductor, sweep: conductor.run(sweep),
    "cancelled": lambda conductor, sweep: conductor.cancel(sweep),
    "deleted": lambda conductor, sweep: conductor.remove(sweep),
}


def conducting(root):
    return Conductor(DataFolder(root), SerialExecutor(), settings=ONE_RUN_PER_BUNDLE)


def stored(conductor, sweep):
    with xr.open_zarr(conductor.folder.dataset_path(sweep), chunks=None) as dataset:
        return dataset.load()


def begun(conductor):
    """Return a partly merged sweep and its tasks in order."""
    sweep, _ = conductor.submit(SweepSpec.parse(SPEC))
    bundles = conductor.ledger.pending_bundles(sweep.id, 100)
    for _ in range(3):
        conductor.tick()
    assert 0 < conductor.ledger.totals(sweep.id)["bundles_left"] < len(bundles)
    return sweep.id, [Task(str(conductor.folder.root), sweep.id, bundle) for bundle in bundles]


def write_late(conductor, tasks):
    """Write what a worker leaves after a finished bundle, and after it is killed during another."""
    for task in tasks:
        run_task(task)
    objects = conductor.folder.objects
    ObjectCheckpoint(objects, f"{tasks[0].sweep_id}.parts/{tasks[0].bundle.key}.0.checkpoint").save(b"half")


def files(conductor, sweep):
    """The names of the files of a sweep, but for its index, which is written meanwhile."""
    paths = conductor.folder.objects.root.glob(f"{sweep}.*")
    return sorted(path.name for path in paths if INDEX_SUFFIX not in path.name)


@pytest.mark.parametrize("started", ["while it runs", "at the next start"])
@pytest.mark.parametrize("end", END)
def test_parts_after_the_end_are_removed_and_change_nothing(tmp_path, end, started):
    with conducting(tmp_path) as conductor:
        sweep, tasks = begun(conductor)
        END[end](conductor, sweep)
        dataset = None if end == "deleted" else stored(conductor, sweep)
        files_before, states = files(conductor, sweep), [record.state for record in conductor.ledger.sweeps()]
        write_late(conductor, tasks)
        assert files(conductor, sweep) != files_before
        if started == "while it runs":
            conductor.tick()
            assert files(conductor, sweep) != files_before  # not at every tick, because listing is slow
            conductor.settings = replace(conductor.settings, tidy_interval_seconds=-1.0)
            conductor.tick()
            assert files(conductor, sweep) == files_before
    with conducting(tmp_path) as conductor:
        conductor.tick()
        assert files(conductor, sweep) == files_before
        assert [record.state for record in conductor.ledger.sweeps()] == states
        assert conductor.unknown_sweeps() == []
        if dataset is not None:
            xr.testing.assert_identical(stored(conductor, sweep), dataset)


def test_repeated_parts_are_merged_to_the_same_values(tmp_path):
    with conducting(tmp_path / "alone") as conductor:
        wanted = stored(conductor, conductor.run(conductor.submit(SweepSpec.parse(SPEC))[0].id).id)
    with conducting(tmp_path / "data") as conductor:
        sweep, tasks = begun(conductor)
        write_late(conductor, tasks[:5])  # some of them are already merged
        ended = conductor.run(sweep)
        assert ended.state is State.COMPLETED
        assert conductor.ledger.totals(sweep)["counts"] == {Status.DONE: ended.runs}
        seconds = ["sgd_seconds", "ode_seconds"]
        xr.testing.assert_equal(stored(conductor, sweep).drop_vars(seconds), wanted.drop_vars(seconds))
        assert not [name for name in files(conductor, sweep) if name.endswith(".parts")]


def test_parts_of_a_sweep_without_ledger_row_are_kept(tmp_path):
    """A rebuild needs them."""
    with conducting(tmp_path) as conductor:
        sweep, tasks = begun(conductor)
        write_late(conductor, tasks[-1:])
    (tmp_path / "ledger.sqlite").unlink()
    with conducting(tmp_path) as conductor:
        assert conductor.folder.objects.get(part_name(sweep, tasks[-1].bundle.key))
        done = conductor.folder.dataset(sweep).counts()[Status.DONE]
        assert conductor.rebuild() == [sweep]
        assert conductor.folder.dataset(sweep).counts()[Status.DONE] > done


class Failing(SerialExecutor):
    """Reports every task as dead, although its part was written."""

    def poll(self):
        return [replace(receipt, error="KilledWorker: three times") for receipt in super().poll()]


def test_existing_part_is_not_replaced_by_a_failed_one(tmp_path):
    folder = DataFolder(tmp_path)
    with Conductor(folder, Failing()) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(SPEC))
        assert conductor.run(sweep.id).state is State.COMPLETED
        assert conductor.counts(sweep.id) == {Status.DONE: sweep.runs}


def test_repeated_runs_are_counted_once(tmp_path, monkeypatch):
    """A worker that was cut off writes the part of a bundle that was merged before a retry."""
    with conducting(tmp_path) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(SPEC))
        first = conductor.ledger.pending_bundles(sweep.id, 1)[0]
        with monkeypatch.context() as patch:
            patch.setattr(computing, "run_chains", broken)
            assert conductor.run(sweep.id).state is State.INCOMPLETE
        conductor.retry(sweep.id)
        run_task(Task(conductor.folder.location, sweep.id, first))
        assert conductor.run(sweep.id).state is State.COMPLETED
        assert conductor.ledger.totals(sweep.id)["counts"] == conductor.counts(sweep.id)


def broken(point, **options):
    if point.d == SPEC["axes"]["d"][-1]:
        raise RuntimeError("out of order")
    return simulate(point, **options)
