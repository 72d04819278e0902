"""Merging of parts: every copy of a run, and the same dataset after any crash."""

import os
import signal
import subprocess
import sys
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from sweep_service.execution import merger as module
from sweep_service.execution.compute import compute
from sweep_service.execution.merger import Merger
from sweep_service.faults import FAULT_POINTS
from sweep_service.planning.jobs import Job
from sweep_service.planning.keys import KEY_DTYPE, CopyGroups
from sweep_service.status import Status
from sweep_service.store import dataset as dataset_module
from sweep_service.store.parts import Part
from tests.execution.merging import (
    BASE,
    MERGE,
    ROOT,
    digest,
    list_parts,
    merge,
    open_sweep,
    prepare_sweep,
    put_parts,
)

MERGING = [point for point in FAULT_POINTS if point.startswith("merge:")]


class Killed(BaseException):
    """The process died."""


def test_all_runs_are_merged_and_parts_are_removed(sweep):
    put_parts(sweep)
    merge(sweep)
    ds = open_sweep(sweep)
    assert np.all(ds.sgd_status == Status.DONE)
    assert np.all(ds.ode_status == Status.DONE)
    assert not ds.sgd_risk.isnull().any()
    assert list_parts(sweep) == []
    totals = sweep.ledger.totals("s")
    assert totals["bundles_left"] == 0
    assert totals["counts"] == {Status.DONE: 24 + 24}
    seconds = [values["seconds"].sum() for part in sweep.parts.values() for values in part.values.values()]
    assert totals["seconds"] == pytest.approx(sum(seconds))


def test_merged_values_equal_those_of_the_parts(sweep):
    put_parts(sweep)
    merge(sweep)
    dataset = sweep.folder.dataset("s")
    for part in sweep.parts.values():
        for kind, numbers in part.numbers.items():
            stored = dataset.read(kind, numbers, sweep.plan.schema.variables[kind])
            for name, array in part.values[kind].items():
                np.testing.assert_array_equal(stored[name], array, err_msg=name)


def test_parts_can_be_merged_one_by_one(sweep):
    for turn, key in enumerate(sweep.parts, 1):
        put_parts(sweep, [key])
        merge(sweep)
        assert sweep.ledger.totals("s")["bundles_left"] == len(sweep.parts) - turn
        ds = open_sweep(sweep)
        done = int((ds.sgd_status == 1).sum() + (ds.ode_status == 1).sum())
        assert sum(sweep.ledger.totals("s")["counts"].values()) == done
    merge(sweep)  # no parts
    assert done == 48


def test_noiseless_regime_is_stored_at_every_gamma(sweep):
    put_parts(sweep)
    merge(sweep)
    classical = open_sweep(sweep).ode_risk.sel(regime="classical")
    assert np.all(classical == classical.isel(gamma=0))
    assert not np.any(classical.isel(time=-1, d=0, gamma=0, seed=0) == classical.isel(time=-1, d=1, seed=0))
    noisy = open_sweep(sweep).ode_risk.sel(regime="classical_noise")
    assert not np.any(noisy.isel(gamma=1) == noisy.isel(gamma=0))
    unique = CopyGroups(sweep.plan.keys["ode"]).first_runs()
    assert len(unique) == 3 * 2 + 3 * 2 * 2  # (d, seed) of one regime, (d, gamma, seed) of the other


def test_shared_start_is_stored_at_every_dimension(tmp_path):
    sweep = prepare_sweep(tmp_path, {**BASE, "init": {"kind": "informed", "shared": True}})
    put_parts(sweep)
    merge(sweep)
    ds = open_sweep(sweep)
    classical, noisy = ds.ode_risk.sel(regime="classical"), ds.ode_risk.sel(regime="classical_noise")
    assert np.all(classical == classical.isel(gamma=0, d=0))
    assert np.all(noisy == noisy.isel(d=0))
    assert not np.any(noisy.isel(gamma=1) == noisy.isel(gamma=0))
    assert np.all(ds.ode_status == Status.DONE)
    assert len(np.unique(ds.sgd_risk)) == ds.sgd_risk.size  # every SGD run is different
    assert sweep.ledger.totals("s")["counts"] == {Status.DONE: 48}
    sweep.ledger.close()


def test_copies_equal_their_own_computation(tmp_path):
    """Equal keys must mean equal values: compares runs computed alone with merged ones."""
    sweep = prepare_sweep(tmp_path, {**BASE, "init": {"kind": "informed", "shared": True}, "simulate": False})
    for bundle in sweep.bundles:
        results = [compute(sweep.plan, job) for job in bundle.jobs]
        sweep.parts[bundle.key] = Part.of(sweep.plan, bundle.jobs, results)
    put_parts(sweep)
    merge(sweep)
    dataset = sweep.folder.dataset("s")
    for number in range(0, sweep.plan.runs.count("ode"), 3):
        alone = compute(sweep.plan, Job.of(sweep.plan.runs.find(f"ode-{number}")))
        stored = dataset.read("ode", np.array([number]), sweep.plan.schema.variables["ode"])
        np.testing.assert_array_equal(stored["risk"], alone.values["risk"])
    sweep.ledger.close()


@given(
    labels=st.lists(st.integers(0, 6), min_size=1, max_size=40),
    picks=st.lists(st.integers(0, 39), max_size=10, unique=True),
)
@settings(deadline=None)
def test_expansion_finds_every_copy(labels, picks):
    keys = np.array([bytes([label]) * 16 for label in labels], dtype=KEY_DTYPE)
    numbers = np.array([pick for pick in picks if pick < len(labels)], dtype=np.int64)
    copies = CopyGroups(keys)
    rows, targets = copies.expand(numbers)
    expected = [
        (row, at)
        for row, number in enumerate(numbers)
        for at in range(len(labels))
        if labels[at] == labels[number]
    ]
    assert list(zip(rows.tolist(), targets.tolist(), strict=True)) == expected
    assert copies.first_runs().tolist() == sorted({labels.index(label) for label in labels})


def test_merging_twice_gives_the_same_dataset(sweep):
    put_parts(sweep)
    merge(sweep)
    before, totals = digest(sweep), sweep.ledger.totals("s")
    put_parts(sweep)
    merge(sweep)
    assert digest(sweep) == before
    assert sweep.ledger.totals("s") == totals
    assert list_parts(sweep) == []


@pytest.mark.parametrize("size", [1, 7])
def test_dataset_does_not_depend_on_the_block_size(sweep, reference, size):
    put_parts(sweep)
    merge(sweep, max_merge_bytes=size)
    assert digest(sweep) == reference.digest
    totals, expected = sweep.ledger.totals("s"), dict(reference.totals)
    assert totals.pop("seconds") == pytest.approx(expected.pop("seconds"))  # summed in another order
    assert totals == expected


@pytest.mark.parametrize("point", MERGING)
def test_merge_after_a_death_at_any_point_gives_the_same_dataset(sweep, reference, monkeypatch, point):
    seen = Counter()

    def fault(name):
        seen[name] += 1
        if name == point and seen[name] == 2:
            raise Killed

    put_parts(sweep)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(module, "fault_point", fault)
        patch.setattr(dataset_module, "fault_point", fault)
        merge(sweep, max_merge_bytes=1)
    ds = open_sweep(sweep)
    assert np.any(ds.sgd_status != Status.DONE)
    for kind in ("sgd", "ode"):  # runs with a status have values
        assert not ds[f"{kind}_risk"].where(ds[f"{kind}_status"] == Status.DONE, 0.0).isnull().any()
    merge(sweep, max_merge_bytes=1)
    assert digest(sweep) == reference.digest
    assert list_parts(sweep) == []
    totals = sweep.ledger.totals("s")
    assert totals["bundles_left"] == 0
    assert totals["counts"] == {Status.DONE: 48}


def test_death_during_removal_of_parts_counts_no_run_twice(sweep, monkeypatch):
    put_parts(sweep)
    delete = sweep.folder.objects.delete

    def dies(*names):
        delete(*names[:2])
        raise Killed

    merger = Merger(sweep.folder, sweep.ledger)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(sweep.folder.objects, "delete", dies)
        merger.merge("s")
    assert len(list_parts(sweep)) == len(sweep.parts) - 2
    merge(sweep)
    totals = sweep.ledger.totals("s")
    assert totals["counts"] == {Status.DONE: 48}
    seconds = [values["seconds"].sum() for part in sweep.parts.values() for values in part.values.values()]
    assert totals["seconds"] == pytest.approx(sum(seconds))


def test_killed_merger_has_written_values_but_no_status(sweep):
    put_parts(sweep)
    environment = {**os.environ, "SWEEP_FAULT": "merge:values"}
    ended = subprocess.run([sys.executable, "-c", MERGE, sweep.folder.root], env=environment, cwd=ROOT)
    assert ended.returncode == -signal.SIGKILL
    ds = open_sweep(sweep)
    assert np.all(ds.sgd_status == Status.PENDING)
    assert np.all(ds.ode_status == Status.PENDING)
    assert not (ds.sgd_risk if ds.ode_risk.isnull().all() else ds.ode_risk).isnull().any()
    assert len(list_parts(sweep)) == len(sweep.parts)
    merge(sweep)
    assert np.all(open_sweep(sweep).sgd_status == Status.DONE)


def test_checkpoints_of_other_bundles_are_kept(sweep):
    sweep.folder.objects.put("s.parts/0a.0.checkpoint", b"half way")
    put_parts(sweep)
    merge(sweep)
    assert list_parts(sweep) == ["s.parts/0a.0.checkpoint"]


def test_measured_times_update_the_calibration(sweep):
    put_parts(sweep)
    merger = Merger(sweep.folder, sweep.ledger)
    merger.merge("s")
    took = {"sgd": 0.0, "ode": 0.0}
    for part in sweep.parts.values():
        for kind, values in part.values.items():
            took[kind] += values["seconds"].sum()
    for kind, seconds in took.items():
        assert sum(m for work, (m, _) in merger.timings.items() if work.startswith(kind)) == pytest.approx(
            seconds
        )
    assert all(predicted > 0.0 for _, predicted in merger.timings.values())
    works = set(merger.timings)
    merger.update_calibration()
    assert merger.timings == {}
    assert set(sweep.folder.calibration().factors) == works
