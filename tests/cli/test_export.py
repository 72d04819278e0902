"""`sweep export`: every format holds what is stored."""

import csv
import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from sweep_service.analysis import export as exporting
from sweep_service.cli.answers import DONE
from sweep_service.dynamics.regimes import REGIMES
from tests.cli.commands import SMALL, _no_constant, assert_refused, sweep, trace_of


def test_an_export_to_netcdf_reads_back(filled, tmp_path):
    cwd, known = filled
    assert sweep(cwd, "export", known, tmp_path / "out.nc").code == DONE
    with (
        xr.open_dataset(tmp_path / "out.nc", engine="scipy") as found,
        xr.open_zarr(cwd / "sweep-data" / "sweeps" / f"{known}.zarr", chunks=None) as stored,
    ):
        assert set(found.variables) == set(stored.variables)
        for name, variable in stored.variables.items():
            assert found[name].dims == variable.dims
            np.testing.assert_array_equal(found[name].values.astype(variable.dtype), variable.values)
            assert found[name].attrs["long_name"] == variable.attrs["long_name"]
        assert found.attrs["spec"] == stored.attrs["spec"]
    assert os.listdir(tmp_path) == ["out.nc"]


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_an_export_to_csv_has_a_line_for_each_run_and_time(filled, tmp_path):
    cwd, known = filled
    assert sweep(cwd, "export", known, tmp_path / "out.csv").code == DONE
    rows = rows_of(tmp_path / "out.csv")
    assert list(rows[0])[:10] == [
        "source", "d", "p", "gamma", "delta_t", "gamma_over_p", "regime", "seed", "repeat", "time"
    ]  # fmt: skip
    seen = set()
    with xr.open_zarr(cwd / "sweep-data" / "sweeps" / f"{known}.zarr", chunks=None) as stored:
        stored.load()
        assert len(rows) == stored.sgd_risk.size + stored.ode_risk.size
        for row in rows:
            at = {name: int(row[name]) for name in ("d", "p", "seed")} | {"gamma": float(row["gamma"])}
            if row["source"] == "sgd":
                at |= {"repeat": int(row["repeat"])}
                assert row["regime"] == ""
                assert int(row["steps"]) == stored.sgd_steps.sel(at)
            else:
                at |= {"regime": row["regime"]}
                assert (row["source"], row["repeat"], row["steps"]) == ("ode", "", "")
            assert row["status"] == "done"
            assert float(row["delta_t"]) == at["gamma"] / (at["p"] * at["d"])
            at |= {"time": float(row["time"])}
            for name in ("risk", "cosine"):
                assert float(row[name]) == stored[f"{row['source']}_{name}"].sel(at)
            seen.add((row["source"], *at.values()))
    assert len(seen) == len(rows)


def test_an_export_to_csv_goes_block_by_block(tmp_path, monkeypatch):
    """Of points that are no product, with a regime that was chosen and one that is skipped somewhere."""
    points = [{"d": d, "p": 4, "gamma": gamma} for d, gamma in ((2, 0.1), (8, 0.5), (8, 500.0))]
    spec = {
        "points": points, "axes": {"regime": ["auto", "mean_field_projected"]}, "seeds": 3,
        "fixed": {"k": 2, "activation": "square"}, "time": {"max": 200.0, "samples": 3},
    }  # fmt: skip
    about = sweep(tmp_path, "run", "-", "--json", text=spec).json
    dataset = Path(about["path"])
    with xr.open_zarr(dataset, chunks=None) as found:
        exporting.export(found, tmp_path / "whole.csv")
        monkeypatch.setattr(exporting, "LINES", 5)
        for kind in ("sgd", "ode"):
            sizes = [np.prod(list(block.sizes.values())) for block in exporting._blocks(found, kind)]
            assert max(sizes) <= 5
            assert sum(sizes) == found[f"{kind}_risk"].size
        exporting.export(found, tmp_path / "blocks.csv")
    assert (tmp_path / "blocks.csv").read_text() == (tmp_path / "whole.csv").read_text()
    rows = rows_of(tmp_path / "whole.csv")
    assert len(rows) == (9 + 18) * 4
    counts = Counter(row["status"] for row in rows if row["time"] == "0.0")
    assert counts == about["counts"]
    assert counts["skipped"] > 0
    assert counts["diverged"] > 0
    assert "nan" not in (tmp_path / "whole.csv").read_text()
    for row in rows:
        chosen = row["source"] == "ode" and row["status"] != "skipped"
        assert row["regime_chosen"] in (REGIMES if chosen else [""]), row


def test_an_export_without_observables_still_has_its_runs(tmp_path):
    about = sweep(tmp_path, "run", "-", "--json", text={**SMALL, "observables": ["overlaps"]}).json
    assert sweep(tmp_path, "export", about["id"], "out.csv").code == DONE
    rows = rows_of(tmp_path / "out.csv")
    assert len(rows) == 24 * 5
    assert {row["status"] for row in rows} == {"done"}


def test_an_export_to_json_is_json_and_changes_no_text(tmp_path):
    wild = {
        "axes": {**SMALL["axes"], "gamma": [0.1, 500.0]},
        "fixed": {**SMALL["fixed"], "activation": "square"},
    }
    spec = {**SMALL, **wild, "name": "why NaN?", "time": {"max": 2000.0, "samples": 4}}
    known = sweep(tmp_path, "run", "-", "--json", text=spec).json["id"]
    assert sweep(tmp_path, "export", known, "out.json").code == DONE
    found = json.loads((tmp_path / "out.json").read_text("utf-8"), parse_constant=_no_constant)
    assert found["attrs"]["title"] == "why NaN?"
    values = np.array(found["data_vars"]["sgd_risk"]["data"], dtype=float)
    with xr.open_zarr(tmp_path / "sweep-data" / "sweeps" / f"{known}.zarr", chunks=None) as stored:
        assert np.any(np.isnan(stored.sgd_risk))
        np.testing.assert_array_equal(values, stored.sgd_risk.values)


@pytest.mark.parametrize("output", ["out.xlsx", "out", "no/such/folder/out.csv", "."])
def test_an_export_that_cannot_be_written_is_refused(filled, tmp_path, output):
    cwd, known = filled
    data = cwd / "sweep-data"
    assert_refused(sweep(tmp_path, "export", known, output, "--data", data))
    assert trace_of(tmp_path) == []
