"""Ctrl-C and SIGTERM: what is interrupted can go on, and says so."""

import signal
import subprocess
import sys

import pytest

from sweep_service.cli.answers import DONE, INTERRUPTED
from tests.cli.commands import COMMANDS, INPUT, LONG, begun, nursery, sweep, trace_of, until


def test_a_cancelled_sweep_is_not_reported_as_done(tmp_path):
    child = nursery().start(tmp_path, "run", "-", "--json", text=LONG)
    begun(tmp_path)
    child.kill(signal.SIGINT)
    assert child.wait().code == INTERRUPTED
    known = sweep(tmp_path, "list", "--json").json[0]["id"]
    assert sweep(tmp_path, "cancel", known, "--json").json["state"] == "cancelled"
    assert not list(tmp_path.rglob("*.checkpoint"))
    answer = sweep(tmp_path, "run", "-", text=LONG)
    assert answer.code == INTERRUPTED
    assert answer.out.startswith("cancelled: 1 run: 1 cancelled\n")
    assert f"go on:\n    sweep retry {known}" in answer.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_an_interrupted_run_is_paused_and_says_how_to_go_on(tmp_path, number, as_json):
    child = nursery().start(tmp_path, "run", "-", *["--json"] * as_json, text=LONG)
    begun(tmp_path)
    child.kill(number)
    answer = child.wait()
    assert answer.code == INTERRUPTED
    assert "Traceback" not in answer.err
    if as_json:
        assert answer.json["state"] == "paused"
        assert answer.err == ""
    else:
        assert "interrupted: the same command goes on from here" in answer.err
    assert sweep(tmp_path, "list", "--json").json[0]["state"] == "paused"


@pytest.mark.slow
def test_an_interrupted_run_goes_on_by_its_spec_or_its_id(tmp_path):
    for argv in (["run", "-"], ["retry", "2"]):
        child = nursery().start(tmp_path, "run", "-", text=LONG)
        begun(tmp_path)
        child.kill(signal.SIGINT)
        assert child.wait().code == INTERRUPTED
        assert sweep(tmp_path, *argv, "--json", text=LONG).json["state"] == "completed"
        assert sweep(tmp_path, "rm", "2").code == DONE


LOST = """
import os, signal, sys, time
from sweep_service.signals import Interrupt, stop
class Closing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0)  # the handler runs here, and Python drops what it raises
stop.listen()
dropped, report = [], sys.unraisablehook
def count(problem):
    dropped.append(problem.exc_type.__name__)
    report(problem)
sys.unraisablehook = count
stop.waiting = True
try:
    Closing()
    time.sleep(30)
except Interrupt:
    stop.handled()
    print("interrupted after", *dropped)
"""


def test_an_interrupt_that_python_drops_comes_again():
    found = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=60)
    assert found.stdout == "interrupted after Interrupt\n", found.stderr
    assert found.stderr == ""


WAIT = """
import os, time
def wait(*_, **__):
    open("busy", "w").close()
    time.sleep(60)
    os._exit(99)
"""
PLACES = {
    "run": "import sweep_service.planning.grids as g\ng.Grid.points = property(wait)",
    "estimate": "import sweep_service.execution.submission as s\ns.Submission.look = wait",
    "doctor": "import sweep_service.doctor.calibration as c\nc.measure = wait",
    "list": "import sweep_service.store.folder as f\nf.DataFolder.has_ledger = wait",
}


@pytest.mark.parametrize("name", PLACES)
def test_what_computes_nothing_ends_at_once(tmp_path, name):
    child = nursery().start(tmp_path, *COMMANDS[name], text=INPUT.get(name, ""), before=WAIT + PLACES[name])
    until((tmp_path / "busy").exists)
    child.kill(signal.SIGINT)
    answer = child.wait()
    assert (answer.code, answer.out) == (INTERRUPTED, "")
    assert answer.err == "sweep: interrupted: the same command begins again\n"
    assert trace_of(tmp_path) == ["busy", *["sweep-data"] * (name == "doctor")]


def test_a_second_interrupt_ends_the_process(tmp_path):
    before = WAIT + "import sweep_service.execution.conductor as c\nc.Conductor.pause = wait"
    child = nursery().start(tmp_path, "run", "-", text=LONG, before=before)
    begun(tmp_path)
    child.kill(signal.SIGINT)
    until((tmp_path / "busy").exists)
    child.kill(signal.SIGINT)
    assert child.wait().code == INTERRUPTED


@pytest.mark.slow
def test_an_interrupted_extension_says_so_in_json(tmp_path):
    short = {**LONG, "time": {"max": 1e-3, "samples": 2}}
    known = sweep(tmp_path, "run", "-", "--json", text=short).json["id"]
    slow = "import sweep_service.execution.task as t\nplain = t.compute\nimport time\n"
    slow += "t.compute = lambda *a: (open('busy', 'w').close(), time.sleep(0.5), plain(*a))[2]\n"
    change = {"axes": {"gamma": [0.01]}}
    child = nursery().start(tmp_path, "extend", known, "-", "--json", text=change, before=slow)
    until((tmp_path / "busy").exists)
    child.kill(signal.SIGINT)
    answer = child.wait()
    assert answer.code == INTERRUPTED
    assert (answer.json["state"], answer.json["extends"]) == ("paused", known)
