"""The predicted time left of a real mixed sweep on two workers, against the time that it took.

The naive rule, elapsed time times what is left over what is done of the predicted cost, is the baseline. The
course of each sweep is written to a file; `tests/execution/courses` has some of them. Other work on the
machine that starts or ends during a sweep cannot be predicted: the note has the range of the load.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from benchmarks.harness import Row
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.summary import summarise_sweep
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import Ledger, SweepRecord, tables
from sweep_service.workers.embedded import Embedded
from sweep_service.workers.executor import DaskExecutor

WORKERS, SWEEPS = 2, 3
MAX_ERROR = 0.3  # over the second half of a sweep
# Results are merged every two seconds, so of less time left than this a large part is not known.
MIN_SECONDS_LEFT = 5.0
OUTPUT = Path("bench-output") / "time-left.json"  # ignored by git
MIXED = {
    "name": "mixed",
    "axes": {
        "d": [20, 300], "p": [4, 40], "gamma": {"log": [0.1, 2.0, 6]}, "activation": ["erf", "relu", "tanh"],
        "regime": ["classical_noise", "high_dimensional", "mean_field"],
    },
    "fixed": {"k": 2, "noise": 1e-3},
    "init": {"kind": "gaussian", "orthonormal_teacher": True},
    "seeds": 2,
    "time": {"max": 20.0, "samples": 40},
}  # fmt: skip
FEW = {
    "axes": {"d": 20, "p": 4, "gamma": [0.5, 1.0], "regime": ["classical_noise", "high_dimensional"]},
    "time": {"max": 0.5, "samples": 2},
}  # of the quick form


@dataclass
class Course:
    """The course of a sweep: what was shown when, when merges ended, the load, and the bundles at the end.

    All times are in seconds since the submission. A sample is (time, expected, least and largest time left,
    time left by the naive rule).
    """

    samples: list[tuple[float, ...]] = field(default_factory=list)
    merges: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    bundles: list[dict[str, Any]] = field(default_factory=list)
    started: float = 0.0
    end: float = 0.0

    def second_half(self) -> AnyArray:
        """Samples of the second half as rows, with the true time left in place of the time."""
        rows = np.array(self.samples).reshape(-1, 5)
        rows[:, 0] = self.end - rows[:, 0]
        return rows[(rows[:, 0] <= 0.5 * self.end) & (rows[:, 0] >= MIN_SECONDS_LEFT)]


def time_left(quick: bool) -> Iterator[Row]:
    spec = {**MIXED, **FEW} if quick else MIXED
    courses = []
    for number in range(1 if quick else SWEEPS):
        courses.append(follow_sweep(spec))
        yield summarise_course(number + 1, courses[-1], quick)
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps([vars(course) for course in courses]), encoding="utf-8")


def summarise_course(number: int, course: Course, quick: bool) -> Row:
    late = course.second_half()
    bar: dict[str, Any] = {} if quick else {"floor": 0.0, "most_error": MAX_ERROR}
    note = f"{course.end:.0f} s, {len(course.bundles)} bundles, load {min(course.loads):.1f} to "
    note += f"{max(course.loads):.1f}."
    if len(late):
        left, expected, low, high, naive = late.T
        ours, its = np.abs(expected / left - 1.0), np.abs(naive / left - 1.0)
        bar |= {"ours_error": float(ours.max()), "baseline_error": float(its.max())}
        inside = np.mean((low <= left) & (left <= high))
        note += f" Median errors {np.median(ours):.2f} and {np.median(its):.2f}; more than "
        note += f"{MAX_ERROR:.0%} off in {np.mean(ours > MAX_ERROR):.0%} and {np.mean(its > MAX_ERROR):.0%} "
        note += f"of the samples; the range holds in {inside:.0%}."
    return Row(
        f"time_left/mixed-{number}", "largest error of the time left in the second half", course.end,
        "elapsed time over progress", course.end, **bar, note=note,
    )  # fmt: skip


def follow_sweep(spec: Mapping[str, Any]) -> Course:
    """Compute a sweep in a new folder with new workers."""
    course = Course()
    with tempfile.TemporaryDirectory() as root:
        folder = DataFolder(root)
        with Conductor(folder, DaskExecutor(Embedded(WORKERS), folder)) as conductor:
            sweep, _ = conductor.submit(SweepSpec.parse(spec))
            began = time.time()

            def watch(record: SweepRecord) -> None:
                totals = conductor.ledger.progress_totals([sweep.id])[sweep.id]
                summary = summarise_sweep(record, totals, conductor.executor.threads)
                now = time.time() - began
                merged = _seconds_since(began, totals["merged"]) if totals["merged"] else 0.0
                if merged > max(course.merges, default=0.0):
                    course.merges.append(merged)
                if totals["cost_done"] and summary["eta_seconds"] is not None:
                    eta = [summary[f"eta{name}_seconds"] for name in ("", "_low", "_high")]
                    naive = now * totals["cost_left"] / totals["cost_done"]
                    course.samples.append((now, *eta, naive))
                course.loads.append(os.getloadavg()[0])

            conductor.run(sweep.id, watch)
            course.end = time.time() - began
            events = conductor.ledger.events(sweep.id)
            course.started = _seconds_since(began, next(e.time for e in events if e.state == "running"))
            course.bundles = list(_read_bundles(conductor.ledger, sweep.id, began))
    return course


def _read_bundles(ledger: Ledger, sweep_id: str, began: float) -> Iterator[dict[str, Any]]:
    names = ("work", "cost", "seconds", "elapsed", "ended")
    query = sa.select(*(tables.bundles.c[name] for name in names))
    query = query.where(tables.bundles.c.sweep == sweep_id, tables.bundles.c.cost > 0.0)
    with ledger.engine.connect() as connection:
        for row in connection.execute(query.order_by(tables.bundles.c.place)).mappings():
            yield {**row, "ended": _seconds_since(began, row["ended"])}


def _seconds_since(began: float, text: str) -> float:
    return datetime.fromisoformat(text).timestamp() - began
