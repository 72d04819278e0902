"""Exports by HTTP hold what is stored, and no more than was asked for."""

import io
import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import xarray as xr

from sweep_service.analysis.export import FORMATS
from sweep_service.status import Status
from tests.api.served import SMALL, another, assert_problem, serving


def netcdf(content):
    with xr.open_dataset(io.BytesIO(content), engine="scipy") as found:
        return found.load()


def of_json(content):
    about = json.loads(content, parse_constant=pytest.fail)
    found = xr.Dataset.from_dict(about)
    return found.map(lambda one: one.astype(float) if one.dtype == object else one)


def assert_same(theirs, mine):
    if mine.dtype.kind in "fiu":
        np.testing.assert_array_equal(theirs, mine)
    else:
        assert [str(text) for text in theirs.ravel()] == [str(text) for text in mine.ravel()]


def as_table(stored, kind):
    """What CSV and Parquet hold of a kind: a line for each run and time."""
    prefix = f"{kind}_"
    longest, mine = stored[f"{prefix}risk"].dims, [name for name in stored if name.startswith(prefix)]
    some = [name for name in mine if set(stored[name].dims) <= set(longest)]
    frame = stored[some].to_dataframe(dim_order=list(longest)).reset_index()
    frame = frame.rename(columns={name: name.removeprefix(prefix) for name in some})
    frame["status"] = [Status(int(value)).label for value in frame["status"]]
    return frame.assign(source=kind)


# ---- exports


@pytest.mark.parametrize("kind", FORMATS)
def test_an_export_is_a_file_of_its_kind(get, sweep, kind):
    answer = get(format=kind)
    assert answer.status_code == 200
    assert answer.headers["content-type"].partition(";")[0] == FORMATS[kind].media_type
    assert f'filename="{sweep}{FORMATS[kind].suffix}"' in answer.headers["content-disposition"]
    assert int(answer.headers["content-length"]) == len(answer.content) > 1000


def test_netcdf_is_the_default_and_holds_everything(get, stored):
    found = netcdf(get().content)
    assert set(found.variables) == set(stored.variables)
    for name in stored.variables:
        assert_same(found[name].values, stored[name].values)
    assert found.attrs["spec"] == stored.attrs["spec"]


def test_json_holds_everything(get, stored):
    found = of_json(get(format="json").content)
    assert set(found.variables) == set(stored.variables)
    for name in stored.variables:
        assert_same(found[name].values, stored[name].values)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_hold_a_line_for_each_run_and_time(get, stored, kind):
    content = get(format=kind).content
    if kind == "csv":
        found = pd.read_csv(io.BytesIO(content))
    else:
        found = pq.read_table(io.BytesIO(content)).to_pandas()
    for source in ("sgd", "ode"):
        mine = as_table(stored, source)
        theirs = found[found.source == source].reset_index(drop=True)
        assert len(theirs) == len(mine) == stored[f"{source}_risk"].size
        for name in mine.columns:
            if mine[name].dtype.kind == "f":  # the digits of a CSV are all there
                np.testing.assert_array_equal(theirs[name].to_numpy(float), mine[name].to_numpy())
            else:
                assert list(theirs[name]) == list(mine[name]), name


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
def test_a_selection(service, sweep, stored, name):
    params, wanted = SELECTIONS[name]
    params = [*(params.items() if isinstance(params, dict) else params), ("variables", "sgd_risk,ode_risk")]
    answer = service.get(f"/v1/sweeps/{sweep}/data", params=params)
    assert answer.status_code == 200, answer.text
    found = netcdf(answer.content)
    assert set(found.data_vars) == {"sgd_risk", "ode_risk"}
    part = stored.sel(wanted)
    for variable in found.data_vars:
        np.testing.assert_array_equal(found[variable].values, part[variable].values)


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
def test_what_is_not_there_is_refused(get, params, field):
    assert_problem(get(**params), 422, field=field, without=["odd", "9999"])


def test_what_a_table_cannot_hold_is_refused(service, stored):
    if "sgd_overlap_student_teacher" not in stored:
        pytest.skip("it stores no overlaps")
    sweep = service.submit(SMALL)
    for kind in ("csv", "parquet"):
        answer = service.get(
            f"/v1/sweeps/{sweep}/data", params={"format": kind, "variables": "sgd_overlap_student_teacher"}
        )
        assert_problem(answer, 422, "netcdf", field="variables")


def test_more_than_is_allowed_at_once(tmp_path):
    with serving(tmp_path, max_export_bytes=2000) as service:
        sweep = service.done(SMALL)
        for kind in FORMATS:
            answer = service.get(f"/v1/sweeps/{sweep}/data", params={"format": kind})
            assert_problem(answer, 422, "at most 2000 bytes", field="selection")
            few = {"format": kind, "d": 5, "seed": 0, "gamma": 0.1, "variables": "sgd_risk"}
            assert service.get(f"/v1/sweeps/{sweep}/data", params=few).status_code == 200


def test_exports_leave_nothing_behind(get, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert get(format="csv").status_code == 200
    assert get(format="csv", variables="odd").status_code == 422
    assert list(tmp_path.iterdir()) == []


def test_a_part_of_an_export(get, service, sweep):
    whole = get(format="csv").content
    answer = service.get(f"/v1/sweeps/{sweep}/data?format=csv", headers={"Range": "bytes=0-9"})
    assert answer.content in (whole[:10], whole)


def test_a_sweep_that_has_not_begun_has_no_values_yet(held):
    sweep = held.submit(another(1))
    found = netcdf(held.get(f"/v1/sweeps/{sweep}/data").content)
    assert not found.sgd_status.values.any()
    assert np.isnan(found.sgd_risk.values).all()
    about = json.loads(held.get(f"/v1/sweeps/{sweep}/data?format=json").text, parse_constant=pytest.fail)
    assert set(np.ravel(about["data_vars"]["sgd_risk"]["data"])) == {None}
    for one in held.get(f"/v1/sweeps/{sweep}/curves").json()["curves"]:
        assert (one["runs"], set(one["mean"])) == (0, {None})
