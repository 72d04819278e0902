"""A stored sweep in programs that know nothing of this package: zarr-python, TensorStore, netCDF."""

import netCDF4
import numpy as np
import pytest
import tensorstore
import zarr

import sweep_service as ss
from sweep_service.dynamics.regimes import REGIMES

SPEC = {
    "axes": {"d": [5, 8], "p": 3, "gamma": [0.1, 0.5], "regime": ["mean_field", "auto", "classical"]},
    "fixed": {"k": 2, "noise": 1e-3},
    "init": {"kind": "informed"},
    "seeds": {"init": 1, "repeat": 2},
    "time": {"max": 1.0, "samples": 4},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def dataset(folder):
    return ss.run(SPEC, data=folder, workers=0)


@pytest.fixture(scope="module")
def path(dataset):
    return dataset.encoding["source"]


def test_zarr_python_reads_everything(dataset, path):
    group = zarr.open_group(path, mode="r")
    assert group.attrs["Conventions"] == "CF-1.11"
    assert set(group.array_keys()) == set(dataset.variables)
    for name, array in group.arrays():
        np.testing.assert_array_equal(array[...], dataset[name].values)
        assert (array.metadata.dimension_names or ()) == dataset[name].dims


def test_texts_have_no_units(path):
    for name, array in zarr.open_group(path, mode="r").arrays():
        units = array.attrs.get("units")
        assert units == ("s" if name.endswith("_seconds") else None), name


def test_tensorstore_reads_every_number(dataset, path):
    """It has no type for text of variable length, for which there is `regime_code`."""
    for name, variable in dataset.variables.items():
        if variable.dtype.kind in "OT":
            continue
        store = {"driver": "file", "path": f"{path}/{name}/"}
        array = tensorstore.open({"driver": "zarr3", "kvstore": store}, open=True).result()
        assert list(array.domain.labels) == list(variable.dims)
        np.testing.assert_array_equal(array.read().result(), variable.values)


def test_regimes_are_also_numbers(dataset, path):
    store = {"driver": "file", "path": f"{path}/regime_code/"}
    codes = tensorstore.open({"driver": "zarr3", "kvstore": store}, open=True).result().read().result()
    attributes = zarr.open_group(path, mode="r")["regime_code"].attrs
    names = dict(zip(attributes["flag_values"], attributes["flag_meanings"].split(), strict=True))
    assert [names[code] for code in codes.tolist()] == ["mean_field", "auto", "classical"]
    assert names == {-1: "auto", **dict(enumerate(REGIMES))}
    assert codes.dtype == np.int8
    # The codes are those of the regimes that auto chose.
    assert dataset.ode_regime.attrs["flag_meanings"].split() == list(REGIMES)


def test_regime_codes_do_not_hinder_a_comparison_of_regimes(dataset):
    one, other = (dataset.sel(regime=name) for name in ("classical", "mean_field"))
    assert (one.ode_risk.drop_vars("regime") - other.ode_risk.drop_vars("regime")).sizes["time"] == 5
    assert "regime_code" not in dataset.coords


def test_sweep_without_theory_has_no_codes(tmp_path):
    axes = {name: values for name, values in SPEC["axes"].items() if name != "regime"}
    assert "regime_code" not in ss.run({**SPEC, "axes": axes}, data=tmp_path, workers=0)


def test_netcdf_tools_read_an_export(dataset, tmp_path):
    dataset.sweep.export(tmp_path / "sweep.nc")
    with netCDF4.Dataset(tmp_path / "sweep.nc") as file:
        assert file.Conventions == "CF-1.11"
        assert file["sgd_risk"].dimensions == dataset.sgd_risk.dims
        file.set_auto_mask(False)
        np.testing.assert_array_equal(file["ode_risk"][...], dataset.ode_risk.values)
        np.testing.assert_array_equal(file["regime_code"][...], dataset.regime_code.values)
        assert "units" not in file["regime"].ncattrs()


def test_tables_have_no_column_of_codes(dataset, tmp_path):
    dataset.sweep.export(tmp_path / "sweep.csv")
    with open(tmp_path / "sweep.csv") as file:
        columns = file.readline().strip().split(",")
    assert "regime" in columns
    assert "regime_code" not in columns
