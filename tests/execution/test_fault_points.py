"""Fault points kill or hold the process where `SWEEP_FAULT` says."""

import os
import re
import signal
import subprocess
import sys

import pytest

from sweep_service.faults import FAULT_POINTS
from tests.cli.commands import until
from tests.execution.merging import (
    ROOT,
)
from tests.hold import Hold

VISITS = """
from sweep_service.faults import fault_point, run_fault_point
for turn in range(1, 5):
    fault_point('merge:status')
    fault_point('merge:values')
    run_fault_point(lambda: [f'sgd-{turn}'], stopped=lambda: turn == 4)
    print(turn, end=' ', flush=True)
"""


@pytest.mark.parametrize(
    ("fault", "printed"),
    [("merge:values", ""), ("merge:values#3", "1 2 "), ("merge:values#5", "1 2 3 4 "), ("other", "1 2 3 4 ")],
)
def test_fault_point_kills_at_the_given_visit(fault, printed):
    environment = {**os.environ, "SWEEP_FAULT": fault}
    process = subprocess.run(
        [sys.executable, "-c", VISITS], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert process.stdout == printed
    assert process.returncode == (0 if printed.startswith("1 2 3 4") else -signal.SIGKILL)


@pytest.mark.parametrize(
    ("fault", "printed"), [("merge:values#3", "1 2 "), ("run:sgd-2", "1 "), ("run:sgd-4", "1 2 3 4 ")]
)
def test_held_process_waits_for_the_file(tmp_path, fault, printed):
    """A hold at a run also ends when the task is stopped, as `VISITS` stops its last one."""
    hold = Hold(tmp_path, fault)
    environment = {**os.environ, **hold.environment}
    with subprocess.Popen(
        [sys.executable, "-c", VISITS], env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        seen = process.stdout.read(len(printed))
        if printed != "1 2 3 4 ":
            until(lambda: hold.has(process.pid))
            assert process.poll() is None
            hold.release()
        assert seen + process.stdout.read() == "1 2 3 4 "
    assert process.returncode == 0
    assert hold.count() == 0


def test_every_fault_point_is_in_the_code_once():
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "sweep_service").rglob("*.py"))
    assert sorted(re.findall(r'\bfault_point\("([^"]+)"\)', sources)) == sorted(FAULT_POINTS)
