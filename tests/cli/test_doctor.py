"""`sweep doctor`."""

import json

from tests.cli.commands import SMALL, sweep


def test_the_doctor_measures_and_finds_lost_sweeps(tmp_path):
    known = sweep(tmp_path, "run", "-", "--json", text=SMALL).json["id"]
    for path in (tmp_path / "sweep-data").glob("ledger.sqlite*"):
        path.unlink()
    assert sweep(tmp_path, "list", "--json").json == []
    found = sweep(tmp_path, "doctor", "--rebuild", "--json").json
    assert found["adopted"] == [known]
    assert all(factor > 0 for factor in found["calibration"].values())
    assert json.loads((tmp_path / "sweep-data" / "calibration.json").read_text()) == found["calibration"]
    assert sweep(tmp_path, "list", "--json").json[0]["state"] == "completed"
    assert sweep(tmp_path, "run", "-", "--json", text=SMALL).json["id"] == known
