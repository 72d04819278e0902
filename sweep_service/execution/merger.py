"""The merger, which copies parts into the dataset and is the only writer of its arrays.

Values are written first, then statuses, each durable before the next; then the ledger is updated; then the
parts are removed. If the process dies in between, merging again gives the same dataset.
"""

from __future__ import annotations

import logging
import shlex
import time as clock
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict

import numpy as np

from sweep_service.errors import Damaged
from sweep_service.execution.hooks import ExecutionHooks
from sweep_service.faults import fault_point
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.costs import (
    RECORDING_WORK_CLASS,
    Calibration,
    SgdCost,
    ode_seconds,
    ode_work_class,
)
from sweep_service.planning.keys import CopyGroups
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind, run_name
from sweep_service.planning.versions import Versions, versions_agree
from sweep_service.simulators.selection import choose_simulator
from sweep_service.status import Status, count_statuses
from sweep_service.store.dataset import SweepDataset
from sweep_service.store.folder import DataFolder
from sweep_service.store.kept_states import KeptList, KeptState, KeptStates
from sweep_service.store.ledger import Ledger
from sweep_service.store.parts import Part
from sweep_service.store.sealed import pack_json

PART_SUFFIX = ".npz"
MAX_MERGE_BYTES = 64 << 20  # of parts merged at once
SLOW_MERGE_SECONDS = 10.0  # longer merges are logged
MAX_TIMED_GROUPS = 8  # points and regimes of a part whose measured and predicted times are compared
log = logging.getLogger(__name__)


class Merger:
    """Merges the parts of sweeps in blocks of about `max_merge_bytes`."""

    def __init__(
        self,
        folder: DataFolder,
        ledger: Ledger,
        hooks: ExecutionHooks | None = None,
        max_merge_bytes: int = MAX_MERGE_BYTES,
    ) -> None:
        self.folder, self.ledger, self.hooks = folder, ledger, hooks or ExecutionHooks()
        self.max_merge_bytes = max_merge_bytes
        self._copies: dict[str, dict[Kind, CopyGroups]] = {}
        self._sgd_keys: dict[str, AnyArray] = {}
        self.timings: dict[str, tuple[float, float]] = {}  # (measured, predicted) seconds by class of work

    def copies(self, sweep_id: str) -> dict[Kind, CopyGroups]:
        """Return the groups of equal runs of a sweep, cached until `forget`."""
        if sweep_id not in self._copies:
            keys_by_kind = self.folder.keys(sweep_id)
            self._copies[sweep_id] = {kind: CopyGroups(keys) for kind, keys in keys_by_kind.items()}
        return self._copies[sweep_id]

    def forget(self, sweep_id: str) -> None:
        """Free the memory for a sweep of which no more parts will come."""
        self._copies.pop(sweep_id, None)
        self._sgd_keys.pop(sweep_id, None)

    def distinct_runs(self, sweep_id: str, *, pending: bool) -> dict[Kind, AnyArray]:
        """Return the numbers of runs that are pending, or are not, one of each group of equal runs.

        Of pending runs only those that a round has chosen, if the sweep has rounds.
        """
        dataset, copies = self.folder.dataset(sweep_id), self.copies(sweep_id)
        numbers = {
            kind: np.intersect1d(
                np.flatnonzero((dataset.status(kind) == Status.PENDING) == pending), copies[kind].first_runs()
            )
            for kind in dataset.plan.runs.kinds
        }
        rounds = self.folder.rounds(sweep_id) if pending else None
        return numbers if rounds is None else rounds.restrict(dataset.plan, numbers)

    def merge(self, sweep_id: str, ended: Mapping[str, str] | None = None) -> set[str]:
        """Copy all parts to the dataset, update the ledger, then remove the parts.

        `ended` are the times at which bundles ended, by default now. Return the keys of the merged bundles.
        """
        merged_keys = set[str]()
        objects, prefix = self.folder.objects, f"{sweep_id}.parts/"
        stored = list(objects.list(prefix))
        names = [name for name in stored if name.endswith(PART_SUFFIX)]
        dataset = self.folder.dataset(sweep_id) if names else None
        versions = self.ledger.sweep(sweep_id).versions if names else {}
        while names and dataset is not None:
            parts, size, began = dict[str, Part](), 0, clock.monotonic()
            while names and size < self.max_merge_bytes:
                name = names.pop(0)
                content = objects.get(name)
                try:
                    parts[name] = self._read_part(content, dataset.plan, versions)
                except Damaged as error:  # its bundle is still pending, and is computed again
                    extra = {"event": "part_damaged", "sweep": sweep_id, "part": name}
                    log.warning("removed part %s: %s", name, error, extra=extra)
                    objects.delete(name)
                size += len(content)
            self._write_parts(dataset, sweep_id, list(parts.values()))
            merged = {
                name.removeprefix(prefix).removesuffix(PART_SUFFIX): self._sum_part(sweep_id, part)
                for name, part in parts.items()
            }
            elapsed = {
                # a run that continues a checkpoint took longer than this attempt
                name.removeprefix(prefix).removesuffix(PART_SUFFIX): max(part.elapsed, part.seconds)
                for name, part in parts.items()
            }
            self.ledger.mark_merged(sweep_id, merged, elapsed, ended)
            merged_keys |= merged.keys()
            fault_point("merge:ledger")
            # With the checkpoints of each part, whose names also begin with the key of its bundle.
            merged_names = [name for name in stored if name.removeprefix(prefix).partition(".")[0] in merged]
            objects.delete(*merged_names)
            fault_point("merge:removed")
            self._report(sweep_id, dataset.plan, list(parts.values()), size, clock.monotonic() - began)
        return merged_keys

    def _read_part(self, content: bytes, plan: SweepPlan, versions: Versions) -> Part:
        """Read a part. A late one, of a worker that ran other versions, is as useless as a damaged one."""
        part = Part.unpack(content, plan)
        if not versions_agree(part.versions, versions):
            raise Damaged(f"it was computed by {part.versions or 'first versions'}, not by {versions}")
        return part

    def _report(self, sweep_id: str, plan: SweepPlan, parts: list[Part], size: int, seconds: float) -> None:
        """Call the hooks, and log a slow merge."""
        for part in parts:
            for engine, runs, steps, core_seconds in _sum_by_engine(plan, part):
                self.hooks.on_computed(engine, runs, steps, core_seconds)
        self.hooks.on_merged(len(parts), size, seconds)
        if seconds > SLOW_MERGE_SECONDS:
            extra = {
                "event": "merge_slow", "sweep": sweep_id, "parts": len(parts), "bytes": size,
                "seconds": round(seconds, 1),
            }  # fmt: skip
            log.warning("merging %d parts took %.1f s", len(parts), seconds, extra=extra)

    def _sum_part(self, sweep_id: str, part: Part) -> tuple[float, Counter[Status]]:
        """Return the measured seconds of a part, and its runs, with their copies, by status."""
        counts: Counter[Status] = Counter()
        for kind, numbers in part.numbers.items():
            rows, _ = self.copies(sweep_id)[kind].expand(numbers)
            counts += count_statuses(part.values[kind]["status"][rows])
        return part.seconds, counts

    def _write_parts(self, dataset: SweepDataset, sweep_id: str, parts: list[Part]) -> None:
        for kind in sorted({kind for part in parts for kind in part.numbers}):
            kind_parts = [part for part in parts if kind in part.numbers]
            numbers = np.concatenate([part.numbers[kind] for part in kind_parts])
            values = {
                name: np.concatenate([part.values[kind][name] for part in kind_parts])
                for name in dataset.plan.schema.variables[kind]
            }
            self.write_runs(dataset, sweep_id, kind, numbers, values)
        for part in parts:
            self._save_failures(sweep_id, part)
            self._add_timings(dataset.plan, part)
        self._keep_states(dataset.plan, sweep_id, parts)
        fault_point("merge:failures")

    def _keep_states(self, plan: SweepPlan, sweep_id: str, parts: list[Part]) -> None:
        """Store the last states of SGD runs, each with the key of its run."""
        states = {number: state for part in parts for number, state in part.states.items()}
        if states:
            if sweep_id not in self._sgd_keys:
                self._sgd_keys[sweep_id] = self.folder.keys(sweep_id)["sgd"]
            keys = self._sgd_keys[sweep_id]
            kept = {number: KeptState(keys[number].tobytes(), state) for number, state in states.items()}
            default = KeptList.empty(plan.runs.count("sgd"), int(plan.state_numbers.max()))
            KeptStates(self.folder.objects, sweep_id).write(kept, default)
            fault_point("keep:states")

    def write_runs(
        self, dataset: SweepDataset, sweep_id: str, kind: Kind, numbers: AnyArray, values: dict[str, AnyArray]
    ) -> tuple[AnyArray, AnyArray]:
        """Write the values of runs to all of their copies; return the row and the number of each copy."""
        rows, targets = self.copies(sweep_id)[kind].expand(numbers)
        dataset.write(kind, targets, values, rows)
        return rows, targets

    def _save_failures(self, sweep_id: str, part: Part) -> None:
        """Write a record per failed run: error, trace, numbers of its copies, a command that reruns it."""
        for failure in part.failures:
            name = run_name(failure.kind, failure.number)
            _, runs = self.copies(sweep_id)[failure.kind].expand(np.array([failure.number]))
            command = shlex.join(["sweep", "rerun", sweep_id, name, "--data", self.folder.location])
            record = {**asdict(failure), "runs": runs.tolist(), "command": command}
            self.folder.objects.put(f"{sweep_id}.failures/{name}.json", pack_json(record))

    def _add_timings(self, plan: SweepPlan, part: Part) -> None:
        """Add the measured and predicted seconds of some groups of runs, by class of work."""
        grid, uncalibrated = plan.grid, Calibration()
        last, samples = float(grid.times[-1]), len(grid.times)
        rng = np.random.default_rng(0)  # a sample without a regular pattern
        for kind in part.numbers:
            done = part.values[kind]["status"] == Status.DONE  # other runs end early
            numbers, seconds = part.numbers[kind][done], part.values[kind]["seconds"][done]
            runs = plan.runs.table(kind, numbers)
            groups = runs.point * (len(grid.regimes) + 1) + runs.regime
            for group in rng.permutation(np.unique(groups))[:MAX_TIMED_GROUPS]:
                in_group = groups == group
                run, count = runs[in_group].run(0), int(np.sum(in_group))
                point = grid.point(run.point)
                if kind == "sgd":
                    cost = SgdCost(point, last / point.delta_t, samples)
                    stepping, recording = cost.stepping_seconds(count), cost.recording_seconds(count)
                    run_seconds = stepping + recording
                    work_class = cost.work_class if stepping > recording else RECORDING_WORK_CLASS
                else:
                    regime = grid.regimes[run.regime]
                    work_class = ode_work_class(point, regime)
                    run_seconds = ode_seconds(point, regime, last, samples, uncalibrated, grid.options)
                measured, predicted = self.timings.get(work_class, (0.0, 0.0))
                measured += float(seconds[in_group].sum())
                self.timings[work_class] = (measured, predicted + run_seconds * count)

    def update_calibration(self) -> None:
        """Use the collected timings for later estimates."""
        self.folder.put_calibration(self.folder.calibration().update(self.timings))
        self.timings.clear()


def _sum_by_engine(plan: SweepPlan, part: Part) -> Iterator[tuple[str, int, int, float]]:
    """Yield (simulator or regime, runs, steps, seconds) of a part, which never has two simulators."""
    for kind, numbers in part.numbers.items():
        values, runs = part.values[kind], plan.runs.table(kind, numbers)
        seconds = np.nan_to_num(values["seconds"])
        if kind == "sgd" and len(runs):
            simulator = choose_simulator(plan.grid.point(runs.run(0).point)).name
            yield simulator, len(runs), int(values["steps"].sum()), float(seconds.sum())
        elif kind == "ode":
            for regime in np.unique(runs.regime):
                in_regime = runs.regime == regime
                yield plan.grid.regimes[regime], int(in_regime.sum()), 0, float(seconds[in_regime].sum())
