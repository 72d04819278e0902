"""Every export format reads back as the stored data, for whole sweeps and selections."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr

from sweep_service.analysis import export as exporting
from sweep_service.analysis.export import FORMATS, export, export_bytes
from sweep_service.analysis.selection import select, select_variables
from sweep_service.errors import InvalidInput
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.text import replace_nonfinite

COMMON = {
    "fixed": {"k": 2, "activation": "square"},
    "seeds": {"init": 2, "repeat": 2},
    "time": {"max": 5.0, "samples": 5},
}
SPECS = {
    "product": COMMON
    | {
        "name": "Δ, product",
        "axes": {"d": [5, 8], "p": [2, 4], "gamma": [0.1, 20.0], "init.scale": [0.5, 1.0],
                 "regime": ["auto", "classical"]},
    },
    "points": COMMON
    | {
        "points": [{"d": 2, "p": 4, "gamma": 0.1, "activation": "erf"},
                   {"d": 8, "p": 4, "gamma": 20.0, "activation": "square"}],
        "axes": {"regime": ["classical", "mean_field_projected"]},
        "fixed": {"k": 2},
    },
}  # fmt: skip
PARTS = {
    "everything": lambda ds: ds,
    "a corner": lambda ds: select(ds, {"d": 8, "gamma": "1:", "seed": 1, "time": 1}),
    "every other": lambda ds: select(ds, {"time": [0, 5], "seed": "0:1"}),
    "without statuses": lambda ds: select_variables(ds, "sgd_risk,ode_risk,sgd_cosine"),
    "SGD": lambda ds: select_variables(ds, "sgd_risk,sgd_status"),
    "theory": lambda ds: select_variables(ds, "ode_risk"),
    "statuses": lambda ds: select_variables(ds, "sgd_status,ode_status"),
    "times of one kind": lambda ds: select_variables(ds, "sgd_status,ode_risk"),
    "overlaps beside statuses": lambda ds: select_variables(ds, "sgd_status,sgd_overlap_student"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return DataFolder(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module", params=SPECS)
def path(request, folder):
    with Conductor(folder, SerialExecutor()) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(SPECS[request.param]))
        assert conductor.run(sweep.id).state == "completed"
    return folder.dataset_path(sweep.id)


@pytest.fixture
def stored(path):
    with xr.open_zarr(path, chunks=None) as result:
        yield result


def assert_same_arrays(result, expected):
    """Compare arrays by name: values, including NaN, and dimensions."""
    assert set(result) == set(expected.variables)
    for name, variable in expected.variables.items():
        dims, values = result[name]
        assert tuple(dims) == variable.dims
        if variable.dtype.kind in "iuf":
            np.testing.assert_array_equal(np.array(values, dtype=float), variable.values)
        else:
            assert np.array(values).tolist() == variable.values.tolist()


def read_netcdf(path, expected):
    with xr.open_dataset(path, engine="h5netcdf") as result:
        assert result.attrs["spec"] == expected.attrs["spec"]
        assert result.attrs["title"] == expected.attrs["title"]
        for name, variable in expected.variables.items():
            assert result[name].attrs["long_name"] == variable.attrs["long_name"]
        assert_same_arrays(
            {name: (array.dims, array.values) for name, array in result.variables.items()}, expected
        )


def refuse(name):
    raise AssertionError(f"{name} is not JSON")


def read_json(path, expected):
    result = json.loads(path.read_text("utf-8"), parse_constant=refuse)
    assert result["attrs"] == expected.attrs
    arrays = result["coords"] | result["data_vars"]
    assert_same_arrays({name: (array["dims"], array["data"]) for name, array in arrays.items()}, expected)


def assert_table(frame, expected):
    """Check the rows of each kind in the order of runs and times, and that no column is empty."""
    used = {"source"}
    for kind in ("sgd", "ode"):
        arrays = {
            str(name): array for name, array in expected.data_vars.items() if str(name).startswith(kind)
        }
        lines = frame[frame["source"] == kind]
        if not arrays:
            assert len(lines) == 0
            continue
        longest = max(
            (array for array in arrays.values() if array.dims[-1] in ("time", "seed", "repeat")),
            key=lambda a: a.ndim,
        )
        assert len(lines) == longest.size
        for name, array in arrays.items():
            if set(array.dims) - set(longest.dims):
                assert name.removeprefix(f"{kind}_") not in frame
                continue
            column = "regime_chosen" if name == "ode_regime" else name.removeprefix(f"{kind}_")
            used.add(column)
            values = array.broadcast_like(longest).transpose(*longest.dims).values.reshape(-1)
            if "flag_meanings" in array.attrs:
                meanings = [*array.attrs["flag_meanings"].split(), None]
                assert [None if pd.isna(word) else word for word in lines[column]] == [
                    meanings[n] for n in values
                ]
            else:
                np.testing.assert_array_equal(lines[column].to_numpy(dtype=float), values)
        for name, array in longest.coords.items():
            used.add(name)
            values = array.broadcast_like(longest).transpose(*longest.dims).values.reshape(-1)
            assert lines[name].tolist() == values.tolist()
    assert set(frame.columns) == used


def read_csv(path, expected):
    assert_table(pd.read_csv(path), expected)


def read_parquet(path, expected):
    table = pq.read_table(path)
    for name, value in expected.attrs.items():
        assert table.schema.metadata[str(name).encode()].decode() == str(value)
    for name in {"source", "status", "regime", "regime_chosen", "activation"} & set(table.column_names):
        assert pa.types.is_dictionary(table.schema.field(name).type)
    for name in {"d", "seed", "repeat", "steps"} & set(table.column_names):
        assert table.schema.field(name).type == pa.int64()
    for name in {"d", "gamma", "risk"} & set(table.column_names):
        assert table.schema.field(name).metadata[b"long_name"]
    assert not any(
        column.type == pa.float64() and np.isnan(column.drop_null().to_numpy()).any()
        for column in table.columns
    )
    assert_table(table.to_pandas(), expected)


READERS = {"netcdf": read_netcdf, "csv": read_csv, "parquet": read_parquet, "json": read_json}


def test_sweeps_cover_the_difficult_cases(stored):
    assert Status.DIVERGED in stored.sgd_status
    assert stored.sgd_risk.isnull().any()
    if "point" in stored.dims:
        assert Status.SKIPPED in stored.ode_status
    else:
        assert stored.sgd_overlap_student.isel(p=0, student=3).isnull().all()


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", FORMATS)
def test_exported_selection_reads_back(stored, tmp_path, name, part):
    chosen = PARTS[part](stored)
    output = tmp_path / f"out{FORMATS[name].suffix}"
    export(chosen, output)
    assert [file.name for file in tmp_path.iterdir()] == [output.name]
    READERS[name](output, chosen)


@pytest.mark.parametrize("name", FORMATS)
def test_format_overrides_the_suffix(stored, tmp_path, name):
    export(stored, tmp_path / "out.bin", name)
    READERS[name](tmp_path / "out.bin", stored)


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_table_is_written_block_by_block(stored, tmp_path, monkeypatch, name):
    monkeypatch.setattr(exporting, "ROWS_PER_BLOCK", 50)
    export(stored, tmp_path / "out", name)
    READERS[name](tmp_path / "out", stored)
    if name == "parquet":
        metadata = pq.ParquetFile(tmp_path / "out").metadata
        assert max(metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)) <= 50


def test_json_is_written_piece_by_piece(stored, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "NUMBERS_PER_WRITE", 3)
    export(stored, tmp_path / "out.json")
    READERS["json"](tmp_path / "out.json", stored)
    wanted = json.dumps(replace_nonfinite(stored.to_dict()), default=str)
    assert json.loads((tmp_path / "out.json").read_text("utf-8")) == json.loads(wanted)


def test_unfinished_sweep_is_exported(tmp_path):
    folder = DataFolder(tmp_path / "data")
    with Conductor(folder, SerialExecutor()) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(SPECS["points"]))
    for name, read in READERS.items():
        with folder.open_dataset(sweep.id) as result:
            export(result, tmp_path / "out", name)
            assert np.all(result.sgd_status == Status.PENDING)
            read(tmp_path / "out", result)


def test_bytes_are_known_before_anything_is_read(path):
    with xr.open_zarr(path, chunks=None) as result:
        part = select_variables(select(result, {"time": 5}), "sgd_risk,sgd_status")
        expected = result.sgd_status.size * (8 + 1)
        assert expected < export_bytes(part) < 2 * expected + 500  # plus coordinates
        assert not result.sgd_risk.variable._in_memory
        assert export_bytes(result) == result.nbytes


# ---- invalid exports


def test_invalid_output_is_rejected_and_leaves_no_file(stored, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for output, form, field in (
        ("out.xlsx", None, "output"), ("out", None, "output"), ("no/out.csv", None, "output"),
        ("folder.csv", None, "output"), (".", "csv", "output"), ("out.csv", "cvs", "format"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput) as error:
            export(stored, tmp_path / output, form)
        assert error.value.field == field
    with pytest.raises(InvalidInput, match="did you mean 'csv'"):
        export(stored, tmp_path / "out.csv", "cvs")
    assert [file.name for file in tmp_path.iterdir()] == ["folder.csv"]


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_table_of_overlaps_alone_is_rejected(stored, tmp_path, name):
    with pytest.raises(InvalidInput, match="netcdf or json"):
        export(select_variables(stored, "sgd_overlap_student"), tmp_path / "out", name)
    assert list(tmp_path.iterdir()) == []


def test_netcdf_keeps_types_and_long_attributes(tmp_path):
    """Whole numbers beyond 2^53, texts, and a spec above 64 KiB, which HDF5 does not hold in a header."""
    large, spec = 2**60 + 1, "x" * (1 << 20)
    numbers = xr.DataArray(np.array([large, -large]), dims="seed", coords={"seed": ["é", "a text"]})
    export(xr.Dataset({"sgd_steps": numbers}, attrs={"spec": spec}), tmp_path / "out.nc")
    with xr.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as result:
        assert (result.sgd_steps.dtype, result.sgd_steps.values.tolist()) == (np.int64, [large, -large])
        assert result.seed.values.tolist() == ["é", "a text"]
        assert result.attrs["spec"] == spec
    assert (tmp_path / "out.nc").read_bytes()[1:4] == b"HDF"


def test_failed_export_keeps_the_old_file(stored, tmp_path, monkeypatch):
    (tmp_path / "out.csv").write_text("mine")
    monkeypatch.setattr(exporting, "_flag_meanings", lambda flags: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export(stored, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "mine"
    assert [file.name for file in tmp_path.iterdir()] == ["out.csv"]
