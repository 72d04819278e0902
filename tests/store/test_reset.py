"""Runs that are reset, and attributes that are replaced, in an existing dataset."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from sweep_service.planning.grids import Grid
from sweep_service.planning.jobs import empty_values
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store import files
from sweep_service.store.folder import DataFolder
from tests.specs import SMALL_SPEC


@pytest.fixture
def folder(tmp_path):
    folder = DataFolder(tmp_path)
    folder.objects.prepare()
    return folder


@pytest.fixture
def dataset(folder):
    """A dataset in which every run is done."""
    spec = SweepSpec.parse(SMALL_SPEC)
    folder.objects.put("s.json", spec.model_dump_json().encode())
    dataset = folder.create_dataset("s", SweepPlan(Grid.of(spec)), {"title": "old", "key": "1"})
    for kind in dataset.plan.runs.kinds:
        runs = dataset.plan.runs.count(kind)
        values = empty_values(dataset.plan.schema, kind, runs)
        for name in values:
            values[name][:] = Status.DONE if name == "status" else 3
        dataset.write(kind, np.arange(runs), values)
    return dataset


def test_reset_runs_are_as_if_never_written(folder, dataset):
    numbers = np.array([0, 5, 6])
    dataset.reset("sgd", numbers)
    dataset.reset("ode", np.array([], dtype=np.int64))
    assert np.flatnonzero(dataset.status("sgd") == Status.PENDING).tolist() == numbers.tolist()
    assert np.all(dataset.status("ode") == Status.DONE)
    variables = dataset.plan.schema.variables["sgd"]
    values = dataset.read("sgd", np.arange(dataset.plan.runs.count("sgd")), variables)
    for name, variable in variables.items():
        empty = np.full_like(values[name][numbers], variable.fill)
        np.testing.assert_array_equal(values[name][numbers], empty, err_msg=name)
        assert not np.any(np.isin(values[name][[1, 2, 3]], variable.fill)), name


def test_reset_chunk_is_replaced_on_the_disk_too(dataset, monkeypatch):
    """A power failure must not bring back the old statuses."""
    synced = []
    monkeypatch.setattr(files, "sync", lambda path: synced.append(Path(path)) or path.stat())
    chunk = next(path for path in Path(dataset.store.root, "sgd_status", "c").rglob("*") if path.is_file())
    before = chunk.read_bytes()
    dataset.reset("sgd", np.arange(dataset.plan.runs.count("sgd")))
    assert chunk.read_bytes() != before
    assert chunk.parent in synced


def test_attributes_are_replaced_and_stay_consolidated(folder, dataset):
    dataset.update_attributes({"key": "2", "versions": "{}"})
    with xr.open_zarr(folder.dataset_path("s"), chunks=None, consolidated=True) as stored:
        assert (stored.attrs["title"], stored.attrs["key"], stored.attrs["versions"]) == ("old", "2", "{}")
        assert stored.attrs["layout_version"] == folder.dataset("s").group.attrs["layout_version"]
        assert np.all(stored.sgd_risk == 3.0)
