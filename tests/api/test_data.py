"""Exports over HTTP contain the selected part of the stored data."""

import io
import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import xarray as xr

from sweep_service.analysis.export import FORMATS
from sweep_service.status import DivergedQuantity, Status
from tests.api.served import assert_problem, serving
from tests.specs import SMALL_SPEC, distinct_spec


def netcdf(content):
    with xr.open_dataset(io.BytesIO(content), engine="h5netcdf") as dataset:
        return dataset.load()


def of_json(content):
    result = json.loads(content, parse_constant=pytest.fail)
    dataset = xr.Dataset.from_dict(result)
    return dataset.map(lambda array: array.astype(float) if array.dtype == object else array)


def assert_same(received, stored):
    if stored.dtype.kind in "fiu":
        np.testing.assert_array_equal(received, stored)
    else:
        assert [str(text) for text in received.ravel()] == [str(text) for text in stored.ravel()]


def as_table(stored, kind):
    """Return the table of CSV and Parquet for one kind: a row for each run and time."""
    prefix = f"{kind}_"
    longest, names = stored[f"{prefix}risk"].dims, [name for name in stored if name.startswith(prefix)]
    columns = [name for name in names if set(stored[name].dims) <= set(longest)]
    frame = stored[columns].to_dataframe(dim_order=list(longest)).reset_index()
    frame = frame.rename(columns={name: name.removeprefix(prefix) for name in columns})
    frame["status"] = [Status(int(value)).label for value in frame["status"]]
    quantities = [DivergedQuantity(int(value)) for value in frame["diverged_quantity"]]
    frame["diverged_quantity"] = [quantity.label for quantity in quantities]
    return frame.assign(source=kind)


# ---- exports


@pytest.mark.parametrize("kind", FORMATS)
def test_export_has_media_type_and_file_name(get, sweep_id, kind):
    answer = get(format=kind)
    assert answer.status_code == 200
    assert answer.headers["content-type"].partition(";")[0] == FORMATS[kind].media_type
    assert f'filename="{sweep_id}{FORMATS[kind].suffix}"' in answer.headers["content-disposition"]
    assert int(answer.headers["content-length"]) == len(answer.content) > 1000


def test_netcdf_is_default_and_complete(get, stored):
    dataset = netcdf(get().content)
    assert set(dataset.variables) == set(stored.variables)
    for name in stored.variables:
        assert_same(dataset[name].values, stored[name].values)
    assert dataset.attrs["spec"] == stored.attrs["spec"]


def test_json_export_is_complete(get, stored):
    result = of_json(get(format="json").content)
    assert set(result.variables) == set(stored.variables)
    for name in stored.variables:
        assert_same(result[name].values, stored[name].values)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_have_one_row_per_run_and_time(get, stored, kind):
    content = get(format=kind).content
    if kind == "csv":
        table = pd.read_csv(io.BytesIO(content))
    else:
        table = pq.read_table(io.BytesIO(content)).to_pandas()
    for source in ("sgd", "ode"):
        expected = as_table(stored, source)
        received = table[table.source == source].reset_index(drop=True)
        assert len(received) == len(expected) == stored[f"{source}_risk"].size
        for name in expected.columns:
            if expected[name].dtype.kind == "f":  # CSV has all digits
                np.testing.assert_array_equal(received[name].to_numpy(float), expected[name].to_numpy())
            else:
                assert list(received[name]) == list(expected[name]), name


SELECTIONS = {
    "one value": ({"d": "5"}, {"d": [5]}),
    "several": ({"d": "5,8", "gamma": "0.5"}, {"gamma": [0.5]}),
    "again": ([("seed", "0"), ("seed", "1"), ("repeat", "1")], {"repeat": [1]}),
    "a range": ({"gamma": "0.2:1"}, {"gamma": [0.5]}),
    "half a range": ({"gamma": ":0.2"}, {"gamma": [0.1]}),
    "a word": ({"regime": "classical_noise"}, {}),
    "the nearest time": ({"time": "1.9"}, {"time": [2.0]}),
    "digits": ({"gamma": "0.50000000001"}, {"gamma": [0.5]}),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_export_of_selection(service, sweep_id, stored, name):
    params, wanted = SELECTIONS[name]
    params = [*(params.items() if isinstance(params, dict) else params), ("variables", "sgd_risk,ode_risk")]
    answer = service.get(f"/v1/sweeps/{sweep_id}/data", params=params)
    assert answer.status_code == 200, answer.text
    dataset = netcdf(answer.content)
    assert set(dataset.data_vars) == {"sgd_risk", "ode_risk"}
    part = stored.sel(wanted)
    for variable in dataset.data_vars:
        np.testing.assert_array_equal(dataset[variable].values, part[variable].values)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"d": "7"}, "d"), ({"d": "odd"}, "d"), ({"d": ""}, "d"), ({"d": "5,,8"}, "d"), ({"d": "nan"}, "d"),
        ({"gamma": "inf"}, "gamma"), ({"gamma": "1e999"}, "gamma"), ({"gamma": "7:8"}, "gamma"),
        ({"gamma": "1:0"}, "gamma"), ({"gamma": "0.1:0.2:0.3"}, "gamma"), ({"seed": "9" * 5000}, "seed"),
        ({"regime": "odd"}, "regime"), ({"odd": "1"}, "selection"), ({"": "1"}, "selection"),
        ({"delta_t": "odd"}, "delta_t"), ({"d": ",".join(map(str, range(1001)))}, "d"),
        ({"variables": "odd"}, "variables"), ({"variables": ""}, "variables"),
        ({"variables": "d"}, "variables"), ({"variables": "sgd_risk,odd"}, "variables"),
        ({"variables": "odd" * 1000}, "variables"), ({"format": "odd"}, "format"), ({"format": ""}, "format"),
        ({"format": "CSV"}, "format"), ({"time": "odd"}, "time"),
    ],
)  # fmt: skip
def test_invalid_selection_is_rejected(get, params, field):
    assert_problem(get(**params), 422, field=field, without=["odd", "9999"])


def test_variables_without_table_form_are_rejected(service, stored):
    if "sgd_overlap_student_teacher" not in stored:
        pytest.skip("it stores no overlaps")
    sweep_id = service.submit(SMALL_SPEC)
    for kind in ("csv", "parquet"):
        answer = service.get(
            f"/v1/sweeps/{sweep_id}/data", params={"format": kind, "variables": "sgd_overlap_student_teacher"}
        )
        assert_problem(answer, 422, "netcdf", field="variables")


def test_export_above_size_limit_is_rejected(tmp_path):
    with serving(tmp_path, max_export_bytes=2000) as service:
        sweep_id = service.complete(SMALL_SPEC)
        for kind in FORMATS:
            answer = service.get(f"/v1/sweeps/{sweep_id}/data", params={"format": kind})
            assert_problem(answer, 422, "at most 2000 bytes", field="selection")
            few = {"format": kind, "d": 5, "seed": 0, "gamma": 0.1, "variables": "sgd_risk"}
            assert service.get(f"/v1/sweeps/{sweep_id}/data", params=few).status_code == 200


def test_exports_leave_no_temporary_files(get, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert get(format="csv").status_code == 200
    assert get(format="csv", variables="odd").status_code == 422
    assert list(tmp_path.iterdir()) == []


def test_range_of_export(get, service, sweep_id):
    whole = get(format="csv").content
    answer = service.get(f"/v1/sweeps/{sweep_id}/data?format=csv", headers={"Range": "bytes=0-9"})
    assert answer.content in (whole[:10], whole)


def test_export_of_queued_sweep_has_no_values(held):
    sweep_id = held.submit(distinct_spec(1))
    dataset = netcdf(held.get(f"/v1/sweeps/{sweep_id}/data").content)
    assert not dataset.sgd_status.values.any()
    assert np.isnan(dataset.sgd_risk.values).all()
    content = json.loads(held.get(f"/v1/sweeps/{sweep_id}/data?format=json").text, parse_constant=pytest.fail)
    assert set(np.ravel(content["data_vars"]["sgd_risk"]["data"])) == {None}
    for connection in held.get(f"/v1/sweeps/{sweep_id}/curves").json()["curves"]:
        assert (connection["runs"], set(connection["mean"])) == (0, {None})
