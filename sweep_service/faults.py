"""Fault points: named places between two related writes at which a test may kill or hold the process.

`SWEEP_FAULT=merge:values` kills the process with SIGKILL the first time it reaches that point,
`SWEEP_FAULT=merge:values#3` the third time, `SWEEP_FAULT=run:sgd-12` whenever that run is computed.
If `SWEEP_FAULT_UNTIL` names a file, the process is not killed but waits there until that file exists, and
meanwhile has a file of the same name with its process id appended. Without the variables a fault point does
nothing, and nothing but the environment sets them.
"""

from __future__ import annotations

import os
import signal
import time as clock
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

FAULT_POINTS = (
    "submit:disown", "submit:spec", "submit:keys", "submit:dataset", "submit:reuse", "submit:ledger",
    "keep:states", "extend:continued", "round:decided", "round:stored", "round:skipped",
    "task:computed", "task:part",
    "merge:values", "merge:status", "merge:failures", "merge:ledger", "merge:removed",
    "finish:state", "cancel:status", "cancel:counts", "retry:status", "remove:disown", "remove:ledger",
    "restart:marked", "restart:parts", "restart:values", "restart:keys", "restart:attributes",
    "restart:ledger",
    "import:marked", "import:spec", "import:keys", "import:dataset", "import:values", "import:ledger",
)  # fmt: skip
HOLD_INTERVAL_SECONDS = 0.02  # between two looks for the file that ends a hold

_visits: Counter[str] = Counter()


def run_fault_point(run_names: Callable[[], list[str]], stopped: Callable[[], bool] | None = None) -> None:
    """Kill or hold the process if `SWEEP_FAULT` names one of these runs; a hold ends when `stopped`."""
    setting = os.environ.get("SWEEP_FAULT", "")
    if setting.startswith("run:") and setting.removeprefix("run:") in run_names():
        _kill_or_hold(stopped)


def fault_point(name: str) -> None:
    """Kill or hold the process if `SWEEP_FAULT` names this point and this visit to it."""
    setting = os.environ.get("SWEEP_FAULT")
    if setting is None:
        return
    target, _, count = setting.partition("#")
    if target == name:
        _visits[name] += 1
        if _visits[name] == int(count or 1):
            _kill_or_hold()


def _kill_or_hold(stopped: Callable[[], bool] | None = None) -> None:
    until = os.environ.get("SWEEP_FAULT_UNTIL")
    if not until:
        os.kill(os.getpid(), signal.SIGKILL)
        return
    go, held = Path(until), Path(f"{until}.{os.getpid()}")
    with suppress(OSError):
        held.touch()
    # A process does not outlive the folder of its test.
    while not go.exists() and go.parent.exists() and not (stopped is not None and stopped()):
        clock.sleep(HOLD_INTERVAL_SECONDS)
    with suppress(OSError):
        held.unlink()
