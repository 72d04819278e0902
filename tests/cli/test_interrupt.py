"""Ctrl-C and SIGTERM: an interrupted command can be continued, and says so."""

import signal
import subprocess
import sys
import time as clock

import pytest

from sweep_service.cli.answers import DONE, INTERRUPTED
from sweep_service.signals import END_TIMEOUT_SECONDS
from tests.cli.commands import (
    COMMANDS,
    INPUT,
    fork_server,
    list_files,
    run_command,
    start_held,
    until,
)
from tests.specs import LONG_SPEC


def test_cancelled_sweep_is_not_reported_as_done(tmp_path):
    child = start_held(tmp_path, "run", "-", "--json", text=LONG_SPEC)
    child.kill(signal.SIGINT)
    assert child.wait().code == INTERRUPTED
    sweep_id = run_command(tmp_path, "list", "--json").json[0]["id"]
    assert run_command(tmp_path, "cancel", sweep_id, "--json").json["state"] == "cancelled"
    assert not list(tmp_path.rglob("*.checkpoint"))
    answer = run_command(tmp_path, "run", "-", text=LONG_SPEC)
    assert answer.code == INTERRUPTED
    assert answer.out.startswith("cancelled: 1 run: 1 cancelled\n")
    assert f"continue:\n    sweep retry {sweep_id}" in answer.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_interrupted_run_is_paused_and_says_how_to_continue(tmp_path, number, as_json):
    child = start_held(tmp_path, "run", "-", *["--json"] * as_json, text=LONG_SPEC)
    child.kill(number)
    answer = child.wait()
    assert answer.code == INTERRUPTED
    assert "Traceback" not in answer.err
    if as_json:
        assert answer.json["state"] == "paused"
        assert answer.err == ""
    else:
        assert "interrupted; run the same command again to continue" in answer.err
    assert run_command(tmp_path, "list", "--json").json[0]["state"] == "paused"


@pytest.mark.slow
def test_interrupted_run_is_continued_by_spec_or_id(tmp_path):
    spec = {**LONG_SPEC, "time": {"max": 1.0, "samples": 4}}
    for argv in (["run", "-"], ["retry", "2"]):
        child = start_held(tmp_path, "run", "-", text=spec)
        child.kill(signal.SIGINT)
        assert child.wait().code == INTERRUPTED
        assert run_command(tmp_path, *argv, "--json", text=spec).json["state"] == "completed"
        assert run_command(tmp_path, "rm", "2").code == DONE


DROPPED_INTERRUPT = """
import os, signal, sys, time
from sweep_service.signals import Interrupt, stop
class Closing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0)  # the handler runs here, and Python drops its exception
stop.install()
dropped, report = [], sys.unraisablehook
def record(unraisable):
    dropped.append(unraisable.exc_type.__name__)
    report(unraisable)
sys.unraisablehook = record
stop.waiting = True
try:
    Closing()
    time.sleep(30)
except Interrupt:
    stop.cancel_repeat()
    print("interrupted after", *dropped)
"""


def test_interrupt_dropped_by_python_is_raised_again():
    result = subprocess.run(
        [sys.executable, "-c", DROPPED_INTERRUPT], capture_output=True, text=True, timeout=60
    )
    assert result.stdout == "interrupted after Interrupt\n", result.stderr
    assert result.stderr == ""


WAIT = """
import os, time
def wait(*_, **__):
    open("busy", "w").close()
    time.sleep(60)
    os._exit(99)
"""
BLOCKED_FUNCTIONS = {
    "run": "import sweep_service.planning.grids as g\ng.check_points = wait",
    "estimate": "import sweep_service.execution.submission as s\ns.Submission.summarise_cost = wait",
    "doctor": "import sweep_service.doctor.calibration as c\nc.measure = wait",
    "list": "import sweep_service.store.folder as f\nf.DataFolder.has_ledger = wait",
}


@pytest.mark.parametrize("name", BLOCKED_FUNCTIONS)
def test_command_that_computes_nothing_ends_at_once(tmp_path, name):
    child = fork_server().start(
        tmp_path, *COMMANDS[name], text=INPUT.get(name, ""), before=WAIT + BLOCKED_FUNCTIONS[name]
    )
    until((tmp_path / "busy").exists)
    child.kill(signal.SIGINT)
    answer = child.wait()
    assert (answer.code, answer.out) == (INTERRUPTED, "")
    assert answer.err == "sweep: interrupted; run the same command again\n"
    assert list_files(tmp_path) == ["busy", *["sweep-data"] * (name == "doctor")]


def test_second_interrupt_ends_the_process(tmp_path):
    before = WAIT + "import sweep_service.execution.conductor as c\nc.Conductor.pause = wait"
    child = start_held(tmp_path, "run", "-", text=LONG_SPEC, before=before)
    child.kill(signal.SIGINT)
    until((tmp_path / "busy").exists)
    child.kill(signal.SIGINT)
    assert child.wait().code == INTERRUPTED


@pytest.mark.slow
def test_command_that_hangs_after_an_interrupt_is_ended(tmp_path):
    """For example because the store does not respond."""
    before = WAIT + "import sweep_service.execution.conductor as c\nc.Conductor.pause = wait"
    child = start_held(tmp_path, "run", "-", text=LONG_SPEC, before=before)
    began = clock.monotonic()
    child.kill(signal.SIGTERM)
    assert child.wait().code == INTERRUPTED
    assert END_TIMEOUT_SECONDS < clock.monotonic() - began < END_TIMEOUT_SECONDS + 10.0  # on a busy machine


@pytest.mark.slow
def test_interrupted_extension_is_reported_in_json(tmp_path):
    short = {**LONG_SPEC, "time": {"max": 1e-3, "samples": 2}}
    sweep_id = run_command(tmp_path, "run", "-", "--json", text=short).json["id"]
    change = {"axes": {"gamma": [0.01]}}
    child = start_held(tmp_path, "extend", sweep_id, "-", "--json", text=change)  # sorted first
    child.kill(signal.SIGINT)
    answer = child.wait()
    assert answer.code == INTERRUPTED
    assert (answer.json["state"], answer.json["extends"]) == ("paused", sweep_id)
