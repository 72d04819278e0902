"""Named places where a test may kill the process: between any two writes that belong together.

`SWEEP_FAULT=merge:values` ends the process there with SIGKILL the first time it comes by,
`SWEEP_FAULT=merge:values#3` the third time, `SWEEP_FAULT=run:sgd-12` whenever that run is computed.
Without the variable a fault point does nothing.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable

POINTS = (
    "submit:disown", "submit:spec", "submit:keys", "submit:dataset", "submit:reuse", "submit:ledger",
    "task:computed", "task:part",
    "merge:values", "merge:status", "merge:failures", "merge:ledger", "merge:removed",
    "finish:state", "cancel:status", "cancel:counts", "retry:status", "remove:disown", "remove:ledger",
)  # fmt: skip

_seen: Counter[str] = Counter()


def poison(runs: Callable[[], list[str]]) -> None:
    """Die if one of these runs is the one that was asked for."""
    asked = os.environ.get("SWEEP_FAULT", "")
    if asked.startswith("run:") and asked.removeprefix("run:") in runs():
        os.kill(os.getpid(), signal.SIGKILL)


def fault(point: str) -> None:
    """Die here if that is what was asked for."""
    asked = os.environ.get("SWEEP_FAULT")
    if asked is None:
        return
    name, _, count = asked.partition("#")
    if name == point:
        _seen[point] += 1
        if _seen[point] == int(count or 1):
            os.kill(os.getpid(), signal.SIGKILL)
