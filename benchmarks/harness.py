"""What every benchmark shares: fair timing, one result per row, and the tables made of them."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

SHORTEST = 0.02  # seconds: a faster call is repeated until the clock and the scheduler no longer matter
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Row:
    """One comparison. Its bar is a ratio (`floor`) at an error up to `most_error`, or `limit` seconds."""

    name: str
    ours: str
    ours_seconds: float
    baseline: str
    baseline_seconds: float
    ours_error: float | None = None
    baseline_error: float | None = None
    floor: float | None = None
    most_error: float | None = None
    limit: float | None = None
    note: str = ""
    ns_per_step: float | None = None  # of one SGD chain, by us
    gemm_fraction: float | None = None  # of the speed of a large matrix product on this machine

    @property
    def ratio(self) -> float:
        """How many times faster than the baseline we are."""
        return self.baseline_seconds / self.ours_seconds

    @property
    def passed(self) -> bool | None:
        """Is the bar reached, and none of its accuracy sold for it?"""
        if self.limit is not None:
            return self.ours_seconds <= self.limit
        if self.floor is None:
            return None
        accurate = self.most_error is None or self.ours_error is None or self.ours_error <= self.most_error
        return accurate and bool(self.ratio >= self.floor)

    def content(self) -> dict[str, Any]:
        """Plain JSON, the machine included."""
        return {**asdict(self), "ratio": self.ratio, "passed": self.passed, **environment()}


class Timed(NamedTuple):
    seconds: float
    value: Any


def interleaved(
    *calls: Callable[[], Any],
    repeats: int = 5,
    budget: float = 10.0,
    clock: Callable[[], float] = time.process_time,
) -> list[Timed]:
    """The best time of each call and what it returned, measured in turns.

    Seconds are those of the processor: on one thread they are what an idle machine would take, and
    neighbours on a busy one count less. A call that has used up its budget of seconds sits out the
    remaining turns. Callers compile first, by calling once.
    """
    best = [Timed(float("inf"), None) for _ in calls]
    spent = [0.0] * len(calls)
    for _ in range(repeats):
        for at, call in enumerate(calls):
            if spent[at] < budget:
                now = _timed(call, clock)
                spent[at] += now.seconds
                best[at] = min(best[at], now, key=lambda timed: timed.seconds)
    return best


def _timed(call: Callable[[], Any], clock: Callable[[], float]) -> Timed:
    began, elapsed, count, value = clock(), 0.0, 0, None
    while elapsed < SHORTEST:
        value = call()
        count += 1
        elapsed = clock() - began
    return Timed(elapsed / count, value)


def seconds(call: Callable[[], Any]) -> float:
    """Of the processor, of a single call: enough to plan how often to call it."""
    began = time.process_time()
    call()
    return time.process_time() - began


def relative(found: Any, true: Any) -> float:
    """The largest relative difference, entry by entry: for curves that fall over decades."""
    return float(np.max(np.abs(np.asarray(found) / np.asarray(true) - 1.0)))


def relative_to_largest(found: Any, true: Any) -> float:
    """The largest difference over the largest entry: for vectors with zeros in them."""
    return float(np.max(np.abs(np.asarray(found) - true)) / np.max(np.abs(true)))


def environment() -> dict[str, Any]:
    packages = ("sweep-service", "numpy", "scipy", "numba")
    return {
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "threads": {name: os.environ.get(name) for name in THREADS},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
    }


def cpu() -> str:
    """The processor's name, where the system tells."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


HEADER = ("benchmark", "ours", "baseline", "ratio", "bar", "error", "its error", "ns/step", "of gemm", "")
OPTIONAL = {"ns/step", "of gemm"}  # columns that appear where some row has an entry


def table(rows: Sequence[Row]) -> str:
    """For people: one line per row, then what the names stand for."""
    cells = [HEADER, *map(_cells, rows)]
    shown = [at for at, name in enumerate(HEADER) if name not in OPTIONAL or any(c[at] for c in cells[1:])]
    cells = [tuple(line[at] for at in shown) for line in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    legend = [
        f"{row.name}: {row.ours} against {row.baseline}.{' ' + row.note if row.note else ''}" for row in rows
    ]
    return "\n".join([*(line.rstrip() for line in lines), "", *legend])


def _cells(row: Row) -> tuple[str, ...]:
    bar = f"< {row.limit:g} s" if row.limit is not None else "" if row.floor is None else f"> {row.floor:g}"
    return (
        row.name,
        duration(row.ours_seconds),
        duration(row.baseline_seconds),
        f"{row.ratio:.3g}" if row.ratio < 1000 else f"{row.ratio:.0f}",
        bar,
        *("" if error is None else f"{error:.1e}" for error in (row.ours_error, row.baseline_error)),
        "" if row.ns_per_step is None else f"{row.ns_per_step:.3g}",
        "" if row.gemm_fraction is None else f"{row.gemm_fraction:.0%}",
        {True: "pass", False: "MISSED", None: ""}[row.passed],
    )


def duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
