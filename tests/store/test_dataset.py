"""Writing and reading runs of a dataset."""

import os

import hypothesis.strategies as st
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings

from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import TooNew
from sweep_service.execution.compute import compute
from sweep_service.planning import schema as schema_module
from sweep_service.planning.jobs import Job
from sweep_service.status import Status
from sweep_service.store import files
from sweep_service.store import local as module
from sweep_service.store.dataset import SweepDataset
from sweep_service.store.parts import Part
from tests.store.datasets import CORE, TWO, at, empty, labels, make_plan, open_strictly, random_values


def test_run_of_many_chunks_is_read_as_written(tmp_path):
    """Also if runs share a row of values: two runs of 4 MB each are written to four positions."""
    plan = make_plan(
        {
            "axes": {"d": [70, 71], "p": 64, "gamma": 0.1}, "seeds": 3, "observables": ["overlaps", "risk"],
            "time": {"max": 1.0, "samples": 120},
        }
    )  # fmt: skip
    assert len(plan.grid.times) == 121
    variable = plan.schema.variables["sgd"]["overlap_student"]
    assert variable.run_bytes > 3 << 20
    assert variable.chunks[-3] < 121
    dataset, rng = SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {}), np.random.default_rng(0)
    numbers, rows = np.array([5, 0, 3, 2]), np.array([1, 0, 1, 1])
    values = random_values(plan, "sgd", 2, rng)
    dataset.write("sgd", numbers, values, rows)
    alone = random_values(plan, "sgd", 1, rng)
    dataset.write("sgd", np.array([4]), alone)
    stored = dataset.read("sgd", np.array([0, 4, 2, 5, 3, 1]), plan.schema.variables["sgd"])
    for name, variable in plan.schema.variables["sgd"].items():
        first, second = values[name]
        nothing = np.full(variable.run_shape, variable.fill, variable.dtype)
        expected = [first, alone[name][0], second, second, second, nothing]
        np.testing.assert_array_equal(stored[name], expected, err_msg=name)
    labelled = open_strictly(tmp_path / "s.zarr").sel(labels(plan, "sgd", 3))
    np.testing.assert_array_equal(labelled.sgd_overlap_student, values["overlap_student"][1])


def test_run_written_twice_at_once_keeps_its_neighbours(tmp_path):
    """Two parts may contain the same run, so a full list of numbers need not cover a chunk."""
    plan = make_plan({"axes": {"d": 70, "p": 4, "gamma": 0.1}, "seeds": 2})
    dataset, rng = SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {}), np.random.default_rng(0)
    both, again = (random_values(plan, "sgd", 2, rng) for _ in range(2))
    dataset.write("sgd", np.array([0, 1]), both)
    dataset.write("sgd", np.array([0, 0]), again, np.array([1, 1]))
    stored = dataset.read("sgd", np.array([0, 1]), plan.schema.variables["sgd"])
    for name in stored:
        np.testing.assert_array_equal(stored[name], [again[name][1], both[name][1]], err_msg=name)


def test_narrow_students_are_padded_with_nan(tmp_path):
    plan = make_plan(
        {
            "axes": {"d": 6, "p": [1, 3], "k": [1, 2], "gamma": 0.5, "regime": ["classical"]}, "fixed": {},
            "observables": ["risk", "overlaps"], "time": {"max": 0.1, "samples": 2},
        }
    )  # fmt: skip
    dataset = SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {})
    jobs = [Job(kind, point, 0, (0,), (0,)) for point in range(4) for kind in ("sgd", "ode")]
    part = Part.of(plan, jobs, [compute(plan, job) for job in jobs])
    for kind in ("sgd", "ode"):
        dataset.write(kind, part.numbers[kind], part.values[kind])
    ds = open_strictly(tmp_path / "s.zarr")
    assert ds.sizes["student"] == ds.sizes["student_other"] == 3
    assert ds.sizes["teacher"] == 2
    for kind in ("sgd", "ode"):
        assert np.all(ds[f"{kind}_status"] == Status.DONE)
        for p in (1, 3):
            for k in (1, 2):
                run = ds.isel(seed=0, d=0, gamma=0).sel(p=p, k=k)
                for name, shape in (("overlap_student_teacher", (p, k)), ("overlap_student", (p, p))):
                    finite = np.isfinite(run[f"{kind}_{name}"].squeeze().values)
                    assert np.all(finite[:, : shape[0], : shape[1]])
                    assert finite.sum() == finite.shape[0] * shape[0] * shape[1]


@pytest.fixture(scope="module")
def chunked(tmp_path_factory):
    """A dataset of many small chunks, and its expected content."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema_module, "CHUNK_BYTES", 800)
        plan = make_plan(
            {
                "axes": {"d": [5, 6, 7], "p": [2, 3], "gamma": [0.1, 0.2], "k": [1, 2], "regime": TWO},
                "fixed": {}, "seeds": {"init": 3, "repeat": 2}, "observables": ["risk", "cosine"],
            }
        )  # fmt: skip
        chunks = {
            v.name: v.chunks for variables in plan.schema.variables.values() for v in variables.values()
        }
    assert chunks["sgd_risk"] != plan.schema.variables["sgd"]["risk"].shape
    path = tmp_path_factory.mktemp("chunked") / "s.zarr"
    dataset = SweepDataset.create(*at(path), plan, {})
    return dataset, {kind: empty(plan, kind, plan.runs.count(kind)) for kind in plan.schema.variables}


@settings(max_examples=12, deadline=None)
@given(kind=st.sampled_from(["sgd", "ode"]), share=st.floats(0.0, 1.0), seed=st.integers(0, 2**32 - 1))
def test_any_subset_of_runs_can_be_written_and_read(chunked, kind, share, seed):
    dataset, model = chunked
    plan, rng = dataset.plan, np.random.default_rng(seed)
    count = plan.runs.count(kind)
    numbers = rng.permutation(count)[: max(1, int(share * count))]
    values = random_values(plan, kind, len(numbers), rng)
    dataset.write(kind, numbers, values)
    for name, array in values.items():
        model[kind][name][numbers] = array
    subset = rng.permutation(count)[:20]
    stored = dataset.read(kind, subset, plan.schema.variables[kind])
    assert set(stored) == set(model[kind])
    for name, array in stored.items():
        np.testing.assert_array_equal(array, model[kind][name][subset], err_msg=name)
    np.testing.assert_array_equal(dataset.status(kind), model[kind]["status"])


def test_neighbours_in_a_chunk_are_unchanged(chunked):
    dataset, model = chunked
    for kind in ("sgd", "ode"):
        count = dataset.plan.runs.count(kind)
        everything = dataset.read(kind, np.arange(count), dataset.plan.schema.variables[kind])
        for name, array in everything.items():
            np.testing.assert_array_equal(array, model[kind][name], err_msg=name)


def test_empty_list_of_runs_can_be_written_and_read(tmp_path):
    plan = make_plan({"axes": CORE})
    dataset, none = SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {}), np.array([], dtype=np.int64)
    dataset.write("sgd", none, empty(plan, "sgd", 0))
    stored = dataset.read("sgd", none, plan.schema.variables["sgd"])
    assert stored["risk"].shape == (0, len(plan.grid.times))


def test_runs_are_read_into_the_shapes_of_another_sweep(tmp_path):
    spec = {"axes": {"d": 5, "p": [2, 4], "gamma": 0.1}, "observables": ["risk", "overlaps"]}
    small = {**spec, "axes": {**spec["axes"], "p": [2]}}
    wide, narrow = make_plan(spec), make_plan(small)
    dataset = SweepDataset.create(*at(tmp_path / "s.zarr"), wide, {})
    values = random_values(wide, "sgd", 2, np.random.default_rng(0))
    values["overlap_student"][0, :, 2:, :] = values["overlap_student"][0, :, :, 2:] = np.nan
    dataset.write("sgd", np.arange(2), values)
    stored = dataset.read("sgd", np.array([0]), narrow.schema.variables["sgd"])
    np.testing.assert_array_equal(stored["overlap_student"][0], values["overlap_student"][0, :, :2, :2])
    back = SweepDataset.create(*at(tmp_path / "t.zarr"), narrow, {})
    back.write("sgd", np.array([0]), stored)
    again = back.read("sgd", np.array([0]), wide.schema.variables["sgd"])
    np.testing.assert_array_equal(again["overlap_student"][0], values["overlap_student"][0])
    np.testing.assert_array_equal(again["risk"][0], values["risk"][0])


def test_open_dataset_shows_new_values(tmp_path):
    plan = make_plan({"axes": {**CORE, "regime": TWO}})
    dataset, rng = SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {}), np.random.default_rng(0)
    count = plan.runs.count("ode")
    values = random_values(plan, "ode", count, rng)
    halves = np.split(rng.permutation(count), [count // 2])
    early = xr.open_dataset(tmp_path / "s.zarr", engine="zarr", cache=False)
    for turn, half in enumerate(halves, 1):
        dataset.write("ode", half, {name: array[half] for name, array in values.items()})
        assert int((early.ode_status != Status.PENDING).sum()) == sum(map(len, halves[:turn]))
        assert int((~early.ode_risk.isnull()).all("time").sum()) == sum(map(len, halves[:turn]))
    np.testing.assert_array_equal(early.sgd_status, Status.PENDING)


def test_values_are_synced_and_named_before_the_status_is_written(tmp_path, monkeypatch):
    plan = make_plan({"axes": CORE})
    dataset, log = SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {}), []
    put, sync = module.LocalChunks.set, files.sync

    async def logged(self, key, value):
        log.append(("written", str(key)))
        await put(self, key, value)

    def synced(path):
        log.append(("synced", str(path)))
        sync(path)

    def named(old, new):
        log.append(("named", str(new)))
        os.rename(old, new)

    monkeypatch.setattr(module.LocalChunks, "set", logged)
    monkeypatch.setattr(files, "sync", synced)
    monkeypatch.setattr(module.os, "replace", named)
    numbers = np.arange(plan.runs.count("sgd"))
    # the status first, because the order of the mapping must not matter
    values = random_values(plan, "sgd", len(numbers), np.random.default_rng(0))
    dataset.write("sgd", numbers, {"status": values.pop("status"), **values})
    written = [key for what, key in log if what == "written"]
    status = [key for key in written if key.startswith("sgd_status/")]
    assert status
    assert {key.split("/")[0] for key in written} == {f"sgd_{name}" for name in (*values, "status")}
    first = log.index(("written", status[0]))
    assert all(log.index(("written", key)) < first for key in written if key not in status)
    for key in written:
        path = tmp_path / "s.zarr" / key
        when = log.index(("written", key))
        until = len(log) if key in status else first
        content = log.index(("synced", f"{path}.partial"))
        named = log.index(("named", str(path)))
        assert when < content < named < until
        for folder in list(path.parents)[: len(key.split("/"))]:
            assert ("synced", str(folder)) in log[named:until], f"{folder} after {key}"


def test_dataset_is_created_atomically(tmp_path, monkeypatch):
    plan, path = make_plan({"axes": CORE}), tmp_path / "s.zarr"

    def dies(*_):
        raise RuntimeError("here")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(zarr, "consolidate_metadata", dies)
        SweepDataset.create(*at(path), plan, {})
    assert not path.exists()
    dataset = SweepDataset.create(*at(path), plan, {})  # replaces what the first attempt left
    assert dataset.status("sgd").tolist() == [0] * 9
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.zarr"]


def test_statuses_can_be_reset(tmp_path):
    plan = make_plan({"axes": CORE})
    dataset, numbers = SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {}), np.arange(9)
    for status in (Status.FAILED, Status.PENDING, Status.DONE):
        dataset.write("sgd", numbers, {"status": np.full(9, status, np.int8)})
        assert dataset.status("sgd").tolist() == [status] * 9


def test_dataset_with_a_newer_layout_is_rejected(tmp_path):
    plan = make_plan({"axes": CORE})
    SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {})
    zarr.open_group(tmp_path / "s.zarr", mode="r+").attrs["layout_version"] = 99
    with pytest.raises(TooNew, match="99"):
        SweepDataset(*at(tmp_path / "s.zarr"), plan)


def test_regime_chosen_by_auto_is_stored(tmp_path):
    plan = make_plan({"axes": {"d": 50, "p": 2, "gamma": 0.1, "regime": "auto"}, "simulate": False})
    dataset = SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {})
    job = Job("ode", 0, 0, (0,), (0,))
    result = compute(plan, job)
    dataset.write("ode", job.numbers(plan.runs), result.values)
    chosen = open_strictly(tmp_path / "s.zarr").ode_regime
    assert chosen.attrs["flag_meanings"].split() == list(REGIMES)
    assert chosen.attrs["flag_meanings"].split()[int(chosen.squeeze())] in REGIMES
    assert list(chosen.attrs["flag_values"]) == list(range(len(REGIMES)))
