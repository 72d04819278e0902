"""Submissions that are refused or fail, and what a submission reads."""

import errno
from collections import Counter

import numpy as np
import pytest

from sweep_service.errors import LimitExceeded, NotFound
from sweep_service.planning.estimate import Limits
from sweep_service.store import key_index
from sweep_service.store.folder import DataFolder
from sweep_service.store.key_index import KeyIndex, key_prefixes
from sweep_service.store.ledger import State
from tests.execution.conducting import make_spec, open_conductor, run_sweep, spec_with_axes


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


def count_reads(conductor, monkeypatch):
    """Count the reads of each kind of file, and the datasets that are opened."""
    reads, get, dataset = Counter(), conductor.folder.objects.get, conductor.folder.dataset

    def counted_get(name):
        reads[name.rpartition(".")[2]] += 1
        return get(name)

    def counted_dataset(sweep_id):
        reads["dataset"] += 1
        return dataset(sweep_id)

    monkeypatch.setattr(conductor.folder.objects, "get", counted_get)
    monkeypatch.setattr(conductor.folder, "dataset", counted_dataset)
    return reads


def test_submission_reads_no_files_of_unrelated_sweeps(conductor, monkeypatch):
    """Otherwise each submission would take longer than the one before."""
    for number in range(4):
        conductor.submit(spec_with_axes(gamma=[0.2 + number]))
    reads = count_reads(conductor, monkeypatch)
    conductor.submit(spec_with_axes(gamma=[9.0]))
    assert reads["keys"] <= 1  # of the sweep that was added last; the others are in the index already
    assert reads["dataset"] == 0


def test_submission_opens_no_datasets_without_results(conductor, monkeypatch):
    """Sweeps that share runs but have not computed any."""
    for number in range(4):
        conductor.submit(spec_with_axes(gamma=[0.5, 1.0 + number]))
    reads = count_reads(conductor, monkeypatch)
    sweep, _ = conductor.submit(spec_with_axes(gamma=[0.5, 9.0]))
    assert (reads["dataset"], sweep.reused) == (0, 0)


def test_index_of_keys_follows_the_stored_keys(conductor):
    """Keys that are written anew, and sweeps that are removed."""
    first = run_sweep(conductor, spec_with_axes(gamma=[0.5]))
    index, keys = conductor.folder.key_index, conductor.folder.keys(first.id)
    prefixes = key_prefixes(keys)
    assert index.may_share(first.id, prefixes)
    conductor.folder.put_keys(first.id, {kind: np.zeros_like(keys[kind]) for kind in keys})
    assert not index.may_share(first.id, prefixes)
    conductor.folder.put_keys(first.id, keys)
    assert index.may_share(first.id, prefixes)
    conductor.remove(first.id)
    with pytest.raises(NotFound):
        index.may_share(first.id, prefixes)


def test_index_of_keys_is_bounded(conductor, monkeypatch):
    ids = [conductor.submit(spec_with_axes(gamma=[0.5 + number]))[0].id for number in range(4)]
    keys = {sweep_id: conductor.folder.keys(sweep_id) for sweep_id in ids}
    monkeypatch.setattr(key_index, "MAX_INDEXED_RUNS", 2 * len(key_prefixes(keys[ids[0]])))
    index = KeyIndex(keys.__getitem__)
    for sweep_id in ids * 2:
        assert index.may_share(sweep_id, key_prefixes(keys[sweep_id]))
        assert len(index._prefixes) <= 2
