"""Fixed parameters as scalar coordinates: in new datasets, in those of older versions, and in exports."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import sweep_service as ss
from sweep_service.analysis.curves import compute_curves
from sweep_service.analysis.phase_diagram import phase_diagram
from sweep_service.analysis.selection import select
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput
from sweep_service.model.fixed import format_fixed
from sweep_service.store.dataset import SweepDataset
from sweep_service.store.folder import DataFolder
from sweep_service.store.metadata import DIGEST
from sweep_service.store.migration import complete_dataset
from tests.store.datasets import CORE, at, make_plan, open_strictly

SPEC = {
    "name": "fixed",
    "axes": {"d": [5, 8], "p": 4, "gamma": [0.1, 0.5], "regime": "classical_noise"},
    "fixed": {"noise": 1e-3},
    "init": {"kind": "gaussian", "scale": 0.5},
    "seeds": 2,
    "time": {"max": 2.0, "samples": 4},
}
FIXED = {
    "noise": 1e-3, "activation": "erf", "teacher_activation": "erf", "init.kind": "gaussian",
    "init.scale": 0.5, "init.teacher": "random",
}  # fmt: skip


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory):
    """The paths of sweeps of k = 1 and k = 2, and their data folder."""
    folder = tmp_path_factory.mktemp("data")
    for k in (1, 2):
        ss.run({**SPEC, "fixed": {**SPEC["fixed"], "k": k}}, data=folder, workers=0, progress=False)
    paths = [sweep["path"] for sweep in ss.sweeps(folder)]
    return {int(ss.open(path).k): path for path in paths}, folder


def test_fixed_parameters_are_scalar_coordinates(sweeps):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stored = xr.open_zarr(sweeps[0][2], chunks=None)  # by xarray alone
    for name, value in {**FIXED, "k": 2}.items():
        assert (stored[name].ndim, stored[name].item()) == (0, value)
        assert stored[name].attrs["long_name"]
        assert name in stored.coords


@pytest.mark.parametrize(
    ("change", "absent", "present"),
    [
        ({"axes": {**CORE, "noise": [0.0, 0.1]}}, {"noise"}, {"k": 2, "init.scale": 1.0}),
        ({"axes": {**CORE, "init.scale": [0.5, 1.0]}}, {"init.scale"}, {"init.kind": "gaussian"}),
        # The teacher's activation follows the student's, and has no single value.
        ({"axes": {**CORE, "activation": ["erf", "relu"]}}, {"activation", "teacher_activation"}, {"k": 2}),
        ({"points": [{"d": 9, "p": 2, "gamma": 0.1, "noise": 0.5}], "axes": {}}, {"noise"}, {"k": 2}),
        ({"init": {"kind": "informed", "teacher": {"rho": 0.5}}}, {"init.scale"}, {"init.kind": "informed"}),
    ],
)
def test_names_are_those_of_axes(tmp_path, change, absent, present):
    path = tmp_path / "sweep.zarr"
    SweepDataset.create(*at(path), make_plan({"axes": CORE, **change}), {})
    stored = open_strictly(path)
    assert not [name for name in absent if name in stored and stored[name].ndim == 0]
    assert {name: stored[name].item() for name in present} == present


def strip(dataset):
    """A dataset as an older version stored it."""
    old = dataset.drop_vars([*FIXED, "k"])
    for variable in old.variables.values():
        variable.attrs["units"] = "1"
    return old


def test_older_datasets_get_them_when_they_are_opened(sweeps, tmp_path):
    new = ss.open(sweeps[0][2]).load()
    old = strip(new.copy(deep=True))
    for variable in old.variables.values():
        variable.encoding = {}
    del old.attrs[DIGEST]
    path = tmp_path / "20260101-000000-00000000.zarr"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of consolidated metadata
        old.to_zarr(path, zarr_format=3)
    assert "k" not in xr.open_zarr(path).coords
    opened = ss.open(path).load()
    xr.testing.assert_equal(opened.drop_attrs(), new.drop_attrs())
    assert "units" not in opened.sgd_risk.attrs
    assert {name: opened[name].item() for name in FIXED} == FIXED


def test_a_dataset_without_a_readable_spec_is_opened_as_it_is(sweeps):
    for attributes in ({}, {"spec": '{"axes": {"d": -1}}'}, {"spec": "{"}):
        bare = strip(ss.open(sweeps[0][2]).load()).drop_attrs(deep=False).assign_attrs(attributes)
        assert "k" not in complete_dataset(bare)


def test_exports_have_them_as_columns(sweeps, tmp_path):
    dataset = ss.open(sweeps[0][2])
    for name in ("table.csv", "table.parquet"):
        dataset.sweep.export(tmp_path / name)
    for table in (pd.read_csv(tmp_path / "table.csv"), pd.read_parquet(tmp_path / "table.parquet")):
        for name, value in {**FIXED, "k": 2}.items():
            assert set(table[name]) == {value}
    dataset.sweep.export(tmp_path / "data.nc")
    dataset.sweep.export(tmp_path / "data.json")
    with open(tmp_path / "data.json") as file:
        plain = xr.Dataset.from_dict(json.load(file))
    with xr.open_dataset(tmp_path / "data.nc") as netcdf:
        for name, value in {**FIXED, "k": 2}.items():
            assert (netcdf[name].item(), plain[name].item()) == (value, value)
            assert name in netcdf.coords


def test_a_fixed_parameter_can_be_selected(sweeps):
    dataset = ss.open(sweeps[0][2])
    xr.testing.assert_identical(select(dataset, {"k": 2, "activation": "erf", "noise": "0:1"}), dataset)
    with pytest.raises(InvalidInput, match="is not stored; available: 2"):
        select(dataset, {"k": 3})


def test_sweeps_of_different_parameters_are_concatenated(sweeps):
    paths, _ = sweeps
    both = xr.concat(
        [ss.open(paths[1]), ss.open(paths[2])], "k", join="outer", data_vars="all", coords="different",
        compat="equals",
    )  # fmt: skip
    assert (both.sizes["k"], list(both.k.values), both.noise.item()) == (2, [1, 2], 1e-3)
    single = [ss.open(paths[k]).sweep.final_risk("sgd") for k in (1, 2)]
    joint = both.sweep.final_risk("sgd")
    for k, part in zip((1, 2), single, strict=True):
        for name in ("final_risk", "standard_error"):
            np.testing.assert_allclose(joint[name].sel(k=k).squeeze(), part[name].squeeze(), rtol=1e-12)


def test_views_tell_the_fixed_parameters(sweeps):
    dataset = ss.open(sweeps[0][2])
    everything = {"k": 2, **FIXED}
    assert compute_curves(dataset)["fixed"] == everything
    assert phase_diagram(dataset, "gamma", "d").attrs["fixed"] == everything
    for figure in (dataset.sweep.plot_curves(), dataset.sweep.plot_phase_diagram("gamma", "d")):
        assert figure.axes[0].get_title(loc="left").endswith("$k$ = 2, $\\Delta$ = $10^{-3}$, erf")


def test_analyses_read_the_start_of_a_fixed_scale(sweeps):
    """The kind and the teacher of the start are coordinates too, and must not be taken for numbers."""
    dataset = ss.open(sweeps[0][2])
    assert set(dataset.sweep.phase("sgd").phase.values.ravel()) <= {
        "diverged", "perfect", "plateau", "unspecialised", "bad", "undecided",
    }  # fmt: skip
    assert set(phase_diagram(dataset, "gamma", "d", "auto_regime").values.ravel()) <= set(REGIMES)


def test_labels_of_dimensionless_quantities_have_no_unit(sweeps):
    from xarray.plot.utils import label_from_attrs

    dataset = ss.open(sweeps[0][2])
    assert label_from_attrs(dataset.gamma) == "learning rate"
    assert label_from_attrs(dataset.sgd_seconds).endswith("[s]")
    assert "[1]" not in label_from_attrs(phase_diagram(dataset, "gamma", "d"))


def test_record_of_a_sweep_tells_them(sweeps):
    _, folder = sweeps
    records = {sweep["fixed"]["k"]: sweep["fixed"] for sweep in ss.sweeps(folder)}
    assert records[2] == {"p": 4, "k": 2, **FIXED}
    grid = DataFolder(folder).plan(ss.sweeps(folder)[0]["id"]).grid
    assert grid.single_values() == ss.sweeps(folder)[0]["fixed"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, "p = 4, k = 2, noise = 0.001, init.scale = 0.5, erf, gaussian"),
        ({"init.scale": 1.0}, "p = 4, k = 2, noise = 0.001, erf, gaussian"),
        ({"teacher_activation": "relu", "init.scale": 1.0},
         "p = 4, k = 2, noise = 0.001, erf, relu teacher, gaussian"),
        ({"init.teacher": "orthonormal", "init.scale": 1.0},
         "p = 4, k = 2, noise = 0.001, erf, gaussian, orthonormal teacher"),
        ({"init.kind": "overlaps", "init.scale": 1.0}, "p = 4, k = 2, noise = 0.001, init.scale = 1, erf"),
    ],
)  # fmt: skip
def test_fixed_parameters_are_formatted_in_one_line(change, text):
    assert format_fixed({"p": 4, "k": 2, **FIXED, **change}) == text
