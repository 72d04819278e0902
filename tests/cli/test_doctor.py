"""`sweep doctor`."""

import json

from sweep_service.cli.answers import DONE, FAILED
from tests.cli.commands import assert_refused, run_command
from tests.specs import SMALL_SPEC
from tests.workers.processes import free_port


def test_doctor_calibrates_and_rebuilds_the_ledger(tmp_path):
    sweep_id = run_command(tmp_path, "run", "-", "--json", text=SMALL_SPEC).json["id"]
    for path in (tmp_path / "sweep-data").glob("ledger.sqlite*"):
        path.unlink()
    assert run_command(tmp_path, "list", "--json").json == []
    report = run_command(tmp_path, "doctor", "--rebuild", "--json").json
    assert report["adopted"] == [sweep_id]
    assert all(factor > 0 for factor in report["calibration"].values())
    assert json.loads((tmp_path / "sweep-data" / "calibration.json").read_text()) == report["calibration"]
    assert run_command(tmp_path, "list", "--json").json[0]["state"] == "completed"
    assert run_command(tmp_path, "run", "-", "--json", text=SMALL_SPEC).json["id"] == sweep_id


def test_text_has_a_line_for_each_check_and_advice(tmp_path):
    answer = run_command(
        tmp_path,
        "doctor",
        env={"SWEEP_KERNEL_CACHE": "/proc/none"},
        before=UNWRITABLE_CACHE_AND_SHORT_MEASUREMENT,
    )
    assert answer.code == DONE
    lines = answer.out.splitlines()
    (index,) = [number for number, line in enumerate(lines) if "kernel cache" in line]
    assert lines[index].startswith("warning  kernel cache   /proc/none/")
    assert lines[index + 1].strip().startswith("do: set SWEEP_KERNEL_CACHE to a writable folder")
    assert any(line.startswith("ok       store          sweep-data: written and read in ") for line in lines)
    assert any(line.endswith(" ok, 1 warning") for line in lines)
    assert "time of each class of work" in answer.out
    assert "\x1b" not in answer.out


UNWRITABLE_CACHE_AND_SHORT_MEASUREMENT = """
import sweep_service.numerics.jit as k, sweep_service.doctor.checks.machine as m
import functools, sweep_service.doctor.calibration as c
k.cache_folder.cache_clear()
point = {"d": 5, "p": 4, "k": 2, "gamma": 0.1}
c.measure = functools.partial(c.measure, sgd_cases=((point, 10, 1),), ode_cases=())
"""


def test_failed_check_sets_the_exit_code_and_skips_the_calibration(tmp_path):
    (tmp_path / "file").write_text("mine")
    answer = run_command(tmp_path, "doctor", "--json", "--data", "file/data")
    assert (answer.code, answer.err, answer.json["verdict"]) == (FAILED, "", "wrong")
    (store,) = [check for check in answer.json["checks"] if check["name"] == "store"]
    assert store["verdict"] == "wrong"
    assert "SWEEP_DATA" in store["advice"]
    assert "calibration" not in answer.json


def test_unreachable_scheduler_is_wrong(tmp_path):
    address = f"tcp://127.0.0.1:{free_port()}"
    before = "import sweep_service.workers.cluster as c\nc.CONNECT_TIMEOUT_SECONDS = 0.3"
    answer = run_command(tmp_path, "doctor", "--json", env={"SWEEP_SCHEDULER": address}, before=before)
    assert answer.code == FAILED
    (check,) = [check for check in answer.json["checks"] if check["verdict"] == "wrong"]
    assert check["name"] == "scheduler"
    assert check["found"] == f"no answer from {address}"
    assert "dask scheduler" in check["advice"]
    assert (answer.json["workers"], answer.json["refused"]) == ([], [])
    assert_refused(
        run_command(tmp_path, "doctor", "--scheduler", "nonsense"), "--scheduler", "tcp://host:8786"
    )
