"""Timing, result rows and tables, shared by all benchmarks."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

MIN_TIMING_SECONDS = 0.02  # faster calls are repeated, so that clock and scheduler do not matter
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Row:
    """A comparison. Its bar is a ratio (`floor`) at an error up to `most_error`, or `limit` seconds."""

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
    ns_per_step: float | None = None  # of one SGD chain, by this package
    gemm_fraction: float | None = None  # speed relative to a large matrix product on this machine

    @property
    def ratio(self) -> float:
        """Speed relative to the baseline."""
        return self.baseline_seconds / self.ours_seconds

    @property
    def passed(self) -> bool | None:
        """Whether the bar is reached with the required accuracy; None without a bar."""
        if self.limit is not None:
            return self.ours_seconds <= self.limit
        if self.floor is None:
            return None
        accurate = self.most_error is None or self.ours_error is None or self.ours_error <= self.most_error
        return accurate and bool(self.ratio >= self.floor)

    def content(self) -> dict[str, Any]:
        """The row as plain JSON, with a description of the machine."""
        return {**asdict(self), "ratio": self.ratio, "passed": self.passed, **describe_environment()}


class Timing(NamedTuple):
    seconds: float
    value: Any


def time_interleaved(
    *calls: Callable[[], Any],
    repeats: int = 5,
    budget: float = 10.0,
    clock: Callable[[], float] = time.process_time,
) -> list[Timing]:
    """Best time and return value of each call, measured in turns.

    By default, times are processor times, which on one thread depend little on other processes. A call
    that has used up its budget of seconds is skipped in the remaining turns. Callers must compile kernels
    first by calling once.
    """
    best = [Timing(float("inf"), None) for _ in calls]
    spent = [0.0] * len(calls)
    for _ in range(repeats):
        for index, call in enumerate(calls):
            if spent[index] < budget:
                timing = _time_call(call, clock)
                spent[index] += timing.seconds
                best[index] = min(best[index], timing, key=lambda item: item.seconds)
    return best


def _time_call(call: Callable[[], Any], clock: Callable[[], float]) -> Timing:
    began, elapsed, count, value = clock(), 0.0, 0, None
    while elapsed < MIN_TIMING_SECONDS:
        value = call()
        count += 1
        elapsed = clock() - began
    return Timing(elapsed / count, value)


def measure_seconds(call: Callable[[], Any]) -> float:
    """Processor time of a single call, accurate enough to plan the number of calls."""
    began = time.process_time()
    call()
    return time.process_time() - began


def relative_error(result: Any, true: Any) -> float:
    """Largest relative difference, entry by entry, for curves that fall over decades."""
    return float(np.max(np.abs(np.asarray(result) / np.asarray(true) - 1.0)))


def error_relative_to_largest(result: Any, true: Any) -> float:
    """Largest difference divided by the largest entry, for vectors that contain zeros."""
    return float(np.max(np.abs(np.asarray(result) - true)) / np.max(np.abs(true)))


def describe_environment() -> dict[str, Any]:
    packages = ("sweep-service", "numpy", "scipy", "numba")
    return {
        "cpu": read_cpu_name(),
        "cores": os.cpu_count(),
        "threads": {name: os.environ.get(name) for name in THREADS},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
    }


def read_cpu_name() -> str:
    """Name of the processor, if the system provides it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


HEADER = ("benchmark", "ours", "baseline", "ratio", "bar", "error", "its error", "ns/step", "of gemm", "")
OPTIONAL = {"ns/step", "of gemm"}  # columns that are shown only if a row has an entry


def format_table(rows: Sequence[Row]) -> str:
    """A text table with one line per row, followed by a legend of the names."""
    cells = [HEADER, *map(_format_cells, rows)]
    shown = [at for at, name in enumerate(HEADER) if name not in OPTIONAL or any(c[at] for c in cells[1:])]
    cells = [tuple(line[at] for at in shown) for line in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    legend = [
        f"{row.name}: {row.ours} against {row.baseline}.{' ' + row.note if row.note else ''}" for row in rows
    ]
    return "\n".join([*(line.rstrip() for line in lines), "", *legend])


def _format_cells(row: Row) -> tuple[str, ...]:
    bar = f"< {row.limit:g} s" if row.limit is not None else "" if row.floor is None else f"> {row.floor:g}"
    return (
        row.name,
        format_duration(row.ours_seconds),
        format_duration(row.baseline_seconds),
        f"{row.ratio:.3g}" if row.ratio < 1000 else f"{row.ratio:.0f}",
        bar,
        *("" if error is None else f"{error:.1e}" for error in (row.ours_error, row.baseline_error)),
        "" if row.ns_per_step is None else f"{row.ns_per_step:.3g}",
        "" if row.gemm_fraction is None else f"{row.gemm_fraction:.0%}",
        {True: "pass", False: "MISSED", None: ""}[row.passed],
    )


def format_duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
