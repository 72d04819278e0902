"""Fault points kill the process where `SWEEP_FAULT` says."""

import os
import re
import signal
import subprocess
import sys

import pytest

from sweep_service.faults import FAULT_POINTS
from tests.execution.merging import (
    ROOT,
)


@pytest.mark.parametrize(
    ("fault", "printed"),
    [("merge:values", ""), ("merge:values#3", "1 2 "), ("merge:values#5", "1 2 3 4 "), ("other", "1 2 3 4 ")],
)
def test_fault_point_kills_at_the_given_visit(fault, printed):
    code = "\n".join(
        [
            "from sweep_service.faults import fault_point",
            "for turn in range(1, 5):",
            "    fault_point('merge:status')",
            "    fault_point('merge:values')",
            "    print(turn, end=' ', flush=True)",
        ]
    )
    environment = {**os.environ, "SWEEP_FAULT": fault}
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert process.stdout == printed
    assert process.returncode == (0 if printed.startswith("1 2 3 4") else -signal.SIGKILL)


def test_every_fault_point_is_in_the_code_once():
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "sweep_service").rglob("*.py"))
    assert sorted(re.findall(r'\bfault_point\("([^"]+)"\)', sources)) == sorted(FAULT_POINTS)
