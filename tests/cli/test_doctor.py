"""`sweep doctor`."""

import json

from sweep_service.cli.answers import DONE, FAILED
from tests.cli.commands import SMALL, assert_refused, sweep
from tests.workers.processes import free_port


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


def test_people_read_a_line_for_each_check_and_what_to_do(tmp_path):
    answer = sweep(tmp_path, "doctor", env={"SWEEP_KERNEL_CACHE": "/proc/none"}, before=BY_HAND)
    assert answer.code == DONE
    lines = answer.out.splitlines()
    (at,) = [number for number, line in enumerate(lines) if "kernel cache" in line]
    assert lines[at].startswith("warning  kernel cache   /proc/none/")
    assert lines[at + 1].strip().startswith("do: SWEEP_KERNEL_CACHE names a folder")
    assert any(line.startswith("ok       store          sweep-data: written and read in ") for line in lines)
    assert any(line.endswith(" ok, 1 warning") for line in lines)
    assert "time of each kind of work" in answer.out
    assert "\x1b" not in answer.out


BY_HAND = """
import sweep_service.numerics.jit as k, sweep_service.doctor.checks.machine as m
import sweep_service.doctor.calibration as c
k.cache_folder.cache_clear()
c.SGD, c.ODE = (({"d": 5, "p": 4, "k": 2, "gamma": 0.1}, 10, 1),), ()
"""  # a cache that cannot be, and a short measurement


def test_what_is_wrong_is_an_exit_code_and_keeps_from_measuring(tmp_path):
    (tmp_path / "file").write_text("mine")
    answer = sweep(tmp_path, "doctor", "--json", "--data", "file/data")
    assert (answer.code, answer.err, answer.json["verdict"]) == (FAILED, "", "wrong")
    (store,) = [check for check in answer.json["checks"] if check["name"] == "store"]
    assert store["verdict"] == "wrong"
    assert "SWEEP_DATA" in store["advice"]
    assert "calibration" not in answer.json


def test_a_scheduler_that_is_not_there_is_wrong(tmp_path):
    address = f"tcp://127.0.0.1:{free_port()}"
    before = "import sweep_service.workers.cluster as c\nc.CONNECT = 0.3"
    answer = sweep(tmp_path, "doctor", "--json", env={"SWEEP_SCHEDULER": address}, before=before)
    assert answer.code == FAILED
    (check,) = [check for check in answer.json["checks"] if check["verdict"] == "wrong"]
    assert check["name"] == "scheduler"
    assert check["found"] == f"nobody answers at {address}"
    assert "dask scheduler" in check["advice"]
    assert (answer.json["workers"], answer.json["refused"]) == ([], [])
    assert_refused(sweep(tmp_path, "doctor", "--scheduler", "nonsense"), "--scheduler", "tcp://host:8786")
