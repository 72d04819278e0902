"""`sweep export`: every format contains the stored values."""

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
from tests.cli.commands import assert_refused, list_files, reject_constant, run_command
from tests.specs import SMALL_SPEC


def test_netcdf_export_reads_back(stored_sweep, tmp_path):
    cwd, sweep_id = stored_sweep
    assert run_command(cwd, "export", sweep_id, tmp_path / "out.nc").code == DONE
    with (
        xr.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as exported,
        xr.open_zarr(cwd / "sweep-data" / "sweeps" / f"{sweep_id}.zarr", chunks=None) as stored,
    ):
        assert set(exported.variables) == set(stored.variables)
        for name, variable in stored.variables.items():
            assert exported[name].dims == variable.dims
            np.testing.assert_array_equal(exported[name].values.astype(variable.dtype), variable.values)
            assert exported[name].attrs["long_name"] == variable.attrs["long_name"]
        assert exported.attrs["spec"] == stored.attrs["spec"]
    assert os.listdir(tmp_path) == ["out.nc"]


def read_rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_csv_export_has_a_row_for_each_run_and_time(stored_sweep, tmp_path):
    cwd, sweep_id = stored_sweep
    assert run_command(cwd, "export", sweep_id, tmp_path / "out.csv").code == DONE
    rows = read_rows(tmp_path / "out.csv")
    names = [
        "source", "d", "p", "gamma", "delta_t", "gamma_over_p", "regime", "seed", "repeat", "time"
    ]  # fmt: skip
    fixed = {"k", "noise", "activation", "teacher_activation", "init.kind", "init.teacher"}
    assert [name for name in rows[0] if name in names] == names
    assert fixed <= set(rows[0])
    seen = set()
    with xr.open_zarr(cwd / "sweep-data" / "sweeps" / f"{sweep_id}.zarr", chunks=None) as stored:
        stored.load()
        assert len(rows) == stored.sgd_risk.size + stored.ode_risk.size
        for row in rows:
            labels = {name: int(row[name]) for name in ("d", "p", "seed")} | {"gamma": float(row["gamma"])}
            if row["source"] == "sgd":
                labels |= {"repeat": int(row["repeat"])}
                assert row["regime"] == ""
                assert int(row["steps"]) == stored.sgd_steps.sel(labels)
            else:
                labels |= {"regime": row["regime"]}
                assert (row["source"], row["repeat"], row["steps"]) == ("ode", "", "")
            assert row["status"] == "done"
            assert float(row["delta_t"]) == labels["gamma"] / (labels["p"] * labels["d"])
            labels |= {"time": float(row["time"])}
            for name in ("risk", "cosine"):
                assert float(row[name]) == stored[f"{row['source']}_{name}"].sel(labels)
            seen.add((row["source"], *labels.values()))
    assert len(seen) == len(rows)


def test_csv_export_in_blocks(tmp_path, monkeypatch):
    """For points that are not a product, with a chosen regime and one that is skipped at some points."""
    points = [{"d": d, "p": 4, "gamma": gamma} for d, gamma in ((2, 0.1), (8, 0.5), (8, 500.0))]
    spec = {
        "points": points, "axes": {"regime": ["auto", "mean_field_projected"]}, "seeds": 3,
        "fixed": {"k": 2, "activation": "square"}, "time": {"max": 200.0, "samples": 3},
    }  # fmt: skip
    sweep = run_command(tmp_path, "run", "-", "--json", text=spec).json
    dataset = Path(sweep["path"])
    with xr.open_zarr(dataset, chunks=None) as stored:
        exporting.export(stored, tmp_path / "whole.csv")
        monkeypatch.setattr(exporting, "ROWS_PER_BLOCK", 5)
        for kind in ("sgd", "ode"):
            sizes = [np.prod(list(block.sizes.values())) for block in exporting._read_blocks(stored, kind)]
            assert max(sizes) <= 5
            assert sum(sizes) == stored[f"{kind}_risk"].size
        exporting.export(stored, tmp_path / "blocks.csv")
    assert (tmp_path / "blocks.csv").read_text() == (tmp_path / "whole.csv").read_text()
    rows = read_rows(tmp_path / "whole.csv")
    assert len(rows) == (9 + 18) * 4
    counts = Counter(row["status"] for row in rows if row["time"] == "0.0")
    assert counts == sweep["counts"]
    assert counts["skipped"] > 0
    assert counts["diverged"] > 0
    assert "nan" not in (tmp_path / "whole.csv").read_text()
    for row in rows:
        chosen = row["source"] == "ode" and row["status"] != "skipped"
        assert row["regime_chosen"] in (REGIMES if chosen else [""]), row


def test_export_without_observables_has_a_row_per_run(tmp_path):
    sweep = run_command(tmp_path, "run", "-", "--json", text={**SMALL_SPEC, "observables": ["overlaps"]}).json
    assert run_command(tmp_path, "export", sweep["id"], "out.csv").code == DONE
    rows = read_rows(tmp_path / "out.csv")
    assert len(rows) == 24 * 5
    assert {row["status"] for row in rows} == {"done"}


def test_json_export_is_strict_json_and_keeps_texts(tmp_path):
    divergent = {
        "axes": {**SMALL_SPEC["axes"], "gamma": [0.1, 500.0]},
        "fixed": {**SMALL_SPEC["fixed"], "activation": "square"},
    }
    spec = {**SMALL_SPEC, **divergent, "name": "why NaN?", "time": {"max": 2000.0, "samples": 4}}
    sweep_id = run_command(tmp_path, "run", "-", "--json", text=spec).json["id"]
    assert run_command(tmp_path, "export", sweep_id, "out.json").code == DONE
    exported = json.loads((tmp_path / "out.json").read_text("utf-8"), parse_constant=reject_constant)
    assert exported["attrs"]["title"] == "why NaN?"
    values = np.array(exported["data_vars"]["sgd_risk"]["data"], dtype=float)
    with xr.open_zarr(tmp_path / "sweep-data" / "sweeps" / f"{sweep_id}.zarr", chunks=None) as stored:
        assert np.any(np.isnan(stored.sgd_risk))
        np.testing.assert_array_equal(values, stored.sgd_risk.values)


@pytest.mark.parametrize("output", ["out.xlsx", "out", "no/such/folder/out.csv", "."])
def test_unwritable_export_is_refused(stored_sweep, tmp_path, output):
    cwd, sweep_id = stored_sweep
    data = cwd / "sweep-data"
    assert_refused(run_command(tmp_path, "export", sweep_id, output, "--data", data))
    assert list_files(tmp_path) == []
