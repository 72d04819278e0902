"""Fault points: named places between two related writes at which a test may kill the process.

`SWEEP_FAULT=merge:values` kills the process with SIGKILL the first time it reaches that point,
`SWEEP_FAULT=merge:values#3` the third time, `SWEEP_FAULT=run:sgd-12` whenever that run is computed.
Without the variable a fault point does nothing.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable

FAULT_POINTS = (
    "submit:disown", "submit:spec", "submit:keys", "submit:dataset", "submit:reuse", "submit:ledger",
    "task:computed", "task:part",
    "merge:values", "merge:status", "merge:failures", "merge:ledger", "merge:removed",
    "finish:state", "cancel:status", "cancel:counts", "retry:status", "remove:disown", "remove:ledger",
    "restart:marked", "restart:parts", "restart:values", "restart:keys", "restart:attributes",
    "restart:ledger",
)  # fmt: skip

_visits: Counter[str] = Counter()


def kill_at_run(run_names: Callable[[], list[str]]) -> None:
    """Kill the process if `SWEEP_FAULT` names one of these runs."""
    setting = os.environ.get("SWEEP_FAULT", "")
    if setting.startswith("run:") and setting.removeprefix("run:") in run_names():
        os.kill(os.getpid(), signal.SIGKILL)


def fault_point(name: str) -> None:
    """Kill the process if `SWEEP_FAULT` names this point and this visit to it."""
    setting = os.environ.get("SWEEP_FAULT")
    if setting is None:
        return
    target, _, count = setting.partition("#")
    if target == name:
        _visits[name] += 1
        if _visits[name] == int(count or 1):
            os.kill(os.getpid(), signal.SIGKILL)
