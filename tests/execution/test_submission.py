"""Submissions that are refused or fail."""

import errno

import pytest

from sweep_service.errors import LimitExceeded
from sweep_service.planning.estimate import Limits
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State
from tests.execution.conducting import make_spec, open_conductor, run_sweep


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        (Limits(points=3), "points"), (Limits(runs=31), "runs"),
        (Limits(core_hours=1e-9), "core_hours"), (Limits(bytes=1000), "bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_sweep_beyond_a_limit_is_refused_before_anything_is_written(tmp_path, limits, field):
    with open_conductor(tmp_path, limits=limits) as conductor:
        with pytest.raises(LimitExceeded) as refused:
            conductor.submit(make_spec())
        assert refused.value.field == field
        assert conductor.ledger.sweeps() == []
        assert list((tmp_path / "sweeps").iterdir()) == []


def test_sweep_larger_than_the_free_disk_space_is_refused(conductor, monkeypatch):
    monkeypatch.setattr(DataFolder, "free_bytes", lambda self: 1000)
    with pytest.raises(LimitExceeded, match="bytes"):
        conductor.submit(make_spec())
    assert list((conductor.folder.root / "sweeps").iterdir()) == []


def test_failed_submission_leaves_no_files(conductor, monkeypatch):
    def full(*given):
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patch:
        patch.setattr(conductor.ledger, "add", full)
        with pytest.raises(OSError, match="no room"):
            conductor.submit(make_spec())
    assert list(conductor.folder.objects.root.iterdir()) == []
    sweep = run_sweep(conductor, make_spec())
    again, _ = conductor.submit(make_spec(seeds={"init": 2, "repeat": 1}))
    assert (sweep.state, again.state) == (State.COMPLETED, State.COMPLETED)
    assert conductor.merger._copies == {}
