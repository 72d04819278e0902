"""Parts into the dataset: the one writer, and what each write must wait for.

Values, then statuses, each on the disk before the next; then the ledger; then the part goes. Whatever
stands when the process dies, merging again gives the same dataset.
"""

from __future__ import annotations

import json
import logging
import shlex
import time as clock
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict

import numpy as np

from sweep_service.errors import Damaged
from sweep_service.execution.hooks import Meter
from sweep_service.faults import fault
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.costs import RECORDING, Calibration, SgdCost, ode_seconds, ode_work
from sweep_service.planning.keys import Copies
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind, run_name
from sweep_service.simulators.selection import choose_engine
from sweep_service.status import Status, count_statuses
from sweep_service.store.dataset import SweepDataset
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import Ledger
from sweep_service.store.parts import Part

ENDING = ".npz"
MERGE_BYTES = 64 << 20  # of parts at once
LONG = 10.0  # seconds of a merge that are worth a line
MOST_LEARNED = 8  # points and regimes of a part whose prices are compared with what they took
log = logging.getLogger(__name__)


class Merger:
    def __init__(self, folder: DataFolder, ledger: Ledger, meter: Meter | None = None) -> None:
        self.folder, self.ledger, self.meter = folder, ledger, meter or Meter()
        self._copies: dict[str, dict[Kind, Copies]] = {}
        self.reported: dict[str, tuple[float, float]] = {}  # (measured, predicted) seconds by class of work

    def copies(self, sweep: str) -> dict[Kind, Copies]:
        if sweep not in self._copies:
            self._copies[sweep] = {kind: Copies(keys) for kind, keys in self.folder.keys(sweep).items()}
        return self._copies[sweep]

    def forget(self, sweep: str) -> None:
        """Nothing of it is to come: which runs are copies need not be kept in memory."""
        self._copies.pop(sweep, None)

    def merge(self, sweep: str) -> None:
        """Bring the parts that are there into the dataset, then into the ledger, then remove them."""
        objects, prefix = self.folder.objects, f"{sweep}.parts/"
        there = list(objects.list(prefix))
        names = [name for name in there if name.endswith(ENDING)]
        dataset = self.folder.dataset(sweep) if names else None
        while names and dataset is not None:
            parts, size, began = dict[str, Part](), 0, clock.monotonic()
            while names and size < MERGE_BYTES:
                name = names.pop(0)
                content = objects.get(name)
                try:
                    parts[name] = Part.unpack(content, dataset.plan)
                except Damaged as error:  # its bundle is still pending, and is computed again
                    about = {"event": "part_damaged", "sweep": sweep, "part": name}
                    log.warning("%s is removed: %s", name, error, extra=about)
                    objects.delete(name)
                size += len(content)
            self._store(dataset, sweep, list(parts.values()))
            merged = {
                name.removeprefix(prefix).removesuffix(ENDING): self._sums(sweep, part)
                for name, part in parts.items()
            }
            self.ledger.merged(sweep, merged)
            fault("merge:ledger")
            for name in there:  # a part after the checkpoints of its runs: their names come first
                if name in parts or name.removeprefix(prefix).partition(".")[0] in merged:
                    objects.delete(name)
            fault("merge:removed")
            self._count(sweep, dataset.plan, list(parts.values()), size, clock.monotonic() - began)

    def _count(self, sweep: str, plan: SweepPlan, parts: list[Part], size: int, seconds: float) -> None:
        for part in parts:
            for engine, runs, steps, busy in _done(plan, part):
                self.meter.computed(engine, runs, steps, busy)
        self.meter.merged(len(parts), size, seconds)
        if seconds > LONG:
            about = {"sweep": sweep, "parts": len(parts), "bytes": size, "seconds": round(seconds, 1)}
            told = "merging %d parts took %.1f s"
            log.warning(told, len(parts), seconds, extra={"event": "merge_slow", **about})

    def _sums(self, sweep: str, part: Part) -> tuple[float, Counter[Status]]:
        """The seconds that a part took, and its runs and their copies by status."""
        counts: Counter[Status] = Counter()
        for kind, numbers in part.numbers.items():
            rows, _ = self.copies(sweep)[kind].expand(numbers)
            counts += count_statuses(part.values[kind]["status"][rows])
        return sum(float(np.nansum(v["seconds"])) for v in part.values.values()), counts

    def _store(self, dataset: SweepDataset, sweep: str, parts: list[Part]) -> None:
        for kind in sorted({kind for part in parts for kind in part.numbers}):
            mine = [part for part in parts if kind in part.numbers]
            numbers = np.concatenate([part.numbers[kind] for part in mine])
            values = {
                name: np.concatenate([part.values[kind][name] for part in mine])
                for name in dataset.plan.schema.variables[kind]
            }
            self.write(dataset, sweep, kind, numbers, values)
        for part in parts:
            self._keep_failures(sweep, part)
            self._learn(dataset.plan, part)
        fault("merge:failures")

    def write(
        self, dataset: SweepDataset, sweep: str, kind: Kind, numbers: AnyArray, values: dict[str, AnyArray]
    ) -> tuple[AnyArray, AnyArray]:
        """Values of runs to all runs with their keys; which row each of these got, and their numbers."""
        rows, targets = self.copies(sweep)[kind].expand(numbers)
        dataset.write(kind, targets, values, rows)
        return rows, targets

    def _keep_failures(self, sweep: str, part: Part) -> None:
        """A capsule for each run that failed: error, trace, copies, and a command that runs it alone."""
        for failure in part.failures:
            name = run_name(failure.kind, failure.number)
            _, runs = self.copies(sweep)[failure.kind].expand(np.array([failure.number]))
            command = shlex.join(["sweep", "rerun", sweep, name, "--data", self.folder.where])
            content = json.dumps({**asdict(failure), "runs": runs.tolist(), "command": command})
            self.folder.objects.put(f"{sweep}.failures/{name}.json", content.encode())

    def _learn(self, plan: SweepPlan, part: Part) -> None:
        """Add up what some of the runs took and what they were predicted to take, by class of work."""
        grid, plain = plan.grid, Calibration()
        last, samples = float(grid.times[-1]), len(grid.times)
        some = np.random.default_rng(0)  # which of them does not matter, but for not being every other one
        for kind in part.numbers:
            done = part.values[kind]["status"] == Status.DONE  # the others took less, or nothing
            numbers, seconds = part.numbers[kind][done], part.values[kind]["seconds"][done]
            runs = plan.runs.table(kind, numbers)
            group = runs.point * (len(grid.regimes) + 1) + runs.regime
            for one in some.permutation(np.unique(group))[:MOST_LEARNED]:
                mine = group == one
                run, count = runs[mine].run(0), int(np.sum(mine))
                point = grid.point(run.point)
                if kind == "sgd":
                    cost = SgdCost(point, last / point.delta_t, samples)
                    steps, records = cost.stepping(count), cost.recording(count)
                    price, work = steps + records, cost.work if steps > records else RECORDING
                else:
                    regime = grid.regimes[run.regime]
                    work = ode_work(point, regime)
                    price = ode_seconds(point, regime, last, samples, plain, grid.options.qmc_points)
                measured, predicted = self.reported.get(work, (0.0, 0.0))
                self.reported[work] = (measured + float(seconds[mine].sum()), predicted + price * count)

    def keep_learned(self) -> None:
        """Let estimates to come know what runs took."""
        self.folder.put_calibration(self.folder.calibration().learned(self.reported))
        self.reported.clear()


def _done(plan: SweepPlan, part: Part) -> Iterator[tuple[str, int, int, float]]:
    """Simulator or regime, runs, steps and seconds of what a part has; it never has two simulators."""
    for kind, numbers in part.numbers.items():
        values, runs = part.values[kind], plan.runs.table(kind, numbers)
        busy = np.nan_to_num(values["seconds"])
        if kind == "sgd" and len(runs):
            engine = choose_engine(plan.grid.point(runs.run(0).point)).name
            yield engine, len(runs), int(values["steps"].sum()), float(busy.sum())
        elif kind == "ode":
            for regime in np.unique(runs.regime):
                mine = runs.regime == regime
                yield plan.grid.regimes[regime], int(mine.sum()), 0, float(busy[mine].sum())
