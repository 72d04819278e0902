"""An unreadable file of a sweep: the sweep fails with a reason, and others are not affected."""

import json
import logging

import pytest

from sweep_service.errors import Damaged
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store import folder as folders
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State
from tests.stored import ONE_RUN_PER_BUNDLE

SPEC = {
    "axes": {"d": [5, 8], "p": 4, "gamma": [0.1, 0.5]},
    "fixed": {"k": 2},
    "seeds": [7, 8],
    "time": {"max": 1.0, "samples": 4},
}


def conducting(root):
    """A conductor with one run per bundle: several parts share a chunk, which is read again for each."""
    return Conductor(DataFolder(root), SerialExecutor(), settings=ONE_RUN_PER_BUNDLE)


def spec(**change):
    return SweepSpec.parse({**SPEC, **change})


def shortened(path):
    path.write_bytes(path.read_bytes()[:9])


def chunk(stem, name):
    paths = [path for path in stem.with_name(f"{stem.name}.zarr").joinpath(name).rglob("*") if path.is_file()]
    return min(path for path in paths if path.name != "zarr.json")


def metadata(stem):
    return stem.with_name(f"{stem.name}.zarr") / "zarr.json"


def without_an_array(stem):
    content = json.loads(metadata(stem).read_text("utf-8"))
    del content["consolidated_metadata"]["metadata"]["sgd_risk"]
    metadata(stem).write_text(json.dumps(content), "utf-8")


DAMAGES = {
    "values": lambda stem: shortened(chunk(stem, "sgd_risk")),
    "statuses": lambda stem: shortened(chunk(stem, "sgd_status")),
    "keys": lambda stem: shortened(stem.with_name(f"{stem.name}.keys")),
    "spec": lambda stem: shortened(stem.with_name(f"{stem.name}.json")),
    "metadata": lambda stem: shortened(metadata(stem)),
    "other metadata": lambda stem: metadata(stem).write_text("[]", "utf-8"),
    "an array gone": without_an_array,
}


def damage(conductor, sweep, what):
    DAMAGES[what](conductor.folder.objects.root / sweep)
    folders._read_plan.cache_clear()  # as in a new process
    conductor.merger.forget(sweep)


@pytest.mark.parametrize("what", DAMAGES)
def test_damaged_sweep_fails_alone(tmp_path, what):
    with conducting(tmp_path) as conductor:
        hurt, _ = conductor.submit(spec())
        for _ in range(4):
            conductor.step()
        assert conductor.ledger.sweep(hurt.id).state is State.RUNNING
        damage(conductor, hurt.id, what)
        other, _ = conductor.submit(spec(axes={"d": 6, "p": 3, "gamma": 0.7}))
        for _ in range(12):  # with both sweeps
            conductor.step()
        assert conductor.ledger.sweep(other.id).state is State.COMPLETED
        record = conductor.ledger.sweep(hurt.id)
        assert record.state is State.FAILED
        assert hurt.id in record.reason
        assert "cannot be read: " in record.reason
    with conducting(tmp_path) as conductor:  # and does not prevent a start
        assert conductor.ledger.sweep(hurt.id).state is State.FAILED
        conductor.remove(hurt.id)
        assert not list(conductor.folder.objects.list(hurt.id))


@pytest.mark.parametrize("what", DAMAGES)
def test_unreadable_runs_are_computed_again_by_the_next_sweep(tmp_path, caplog, what):
    with conducting(tmp_path) as conductor:
        first, _ = conductor.submit(spec())
        assert conductor.run(first.id).state is State.COMPLETED
        damage(conductor, first.id, what)
        with caplog.at_level(logging.WARNING):
            second, _ = conductor.submit(spec(seeds=[7, 8, 9]))
        assert f"{first.id} cannot be reused" in caplog.text
        assert second.reused == 0
        assert conductor.run(second.id).state is State.COMPLETED
        assert (
            conductor.counts(second.id) == {Status.DONE: 12} == conductor.ledger.totals(second.id)["counts"]
        )


def test_reading_a_damaged_sweep_names_the_damage(tmp_path):
    with conducting(tmp_path) as conductor:
        sweep, _ = conductor.submit(spec())
        conductor.run(sweep.id)
        damage(conductor, sweep.id, "statuses")
        with pytest.raises(Damaged, match=rf"{sweep.id}.zarr/sgd_status/c/0/0/0/0/0 cannot be read"):
            conductor.counts(sweep.id)
