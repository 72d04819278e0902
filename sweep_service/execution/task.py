"""A task computes one bundle and writes its part.

A run may kill the process that computes it, by its use of memory or by a fault below Python, and so lose the
whole bundle at every attempt. Therefore a task keeps a crash marker while it computes. A task that finds one
computes run by run, and records each run in the marker before it starts. A run that was recorded at too many
deaths is given up, and the other runs are stored without it. A process may also die for another reason, for
example with its machine: a run that has since finished, or has reached a new checkpoint, is not blamed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from sweep_service.errors import NotFound
from sweep_service.execution.compute import compute
from sweep_service.execution.continuation import EarlierRuns, read_earlier_runs
from sweep_service.faults import fault_point, run_fault_point
from sweep_service.numerics.jit import elapsed_work_seconds
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.bundles import Bundle
from sweep_service.planning.jobs import Job, Result, failed_result
from sweep_service.planning.plan import SweepPlan
from sweep_service.store.folder import DataFolder
from sweep_service.store.objects import Objects
from sweep_service.store.parts import PartArrays
from sweep_service.store.sealed import pack_json, unpack_json

MAX_DEATHS = 3  # of processes that were computing a run, before the run is given up
DEATH_MESSAGE = f"the process that computed this run died, {MAX_DEATHS} times"


@dataclass(frozen=True)
class Task:
    """The execution of one bundle."""

    root: str
    sweep_id: str
    bundle: Bundle
    sweep_name: str = ""  # for the dashboard


class ObjectCheckpoint:
    """A checkpoint stored beside the parts."""

    def __init__(self, objects: Objects, name: str) -> None:
        self.objects, self.name, self.is_cleared = objects, name, False

    def load(self) -> bytes | None:
        if self.is_cleared:
            return None
        try:
            return self.objects.get(self.name)
        except NotFound:
            return None

    def digest(self) -> str:
        """Return a short digest, which changes whenever the checkpoint is saved; "" without a checkpoint."""
        content = self.load()
        return "" if content is None else hashlib.sha256(content).hexdigest()[:16]

    def save(self, content: bytes) -> None:
        self.objects.put(self.name, content)

    def clear(self) -> None:
        """Ignore the stored checkpoint. It is removed when the part is merged, in case this task dies."""
        self.is_cleared = True


@dataclass
class CrashMarker:
    """An object that exists while a bundle is computed.

    After a death it also names the run being computed, and counts the deaths during each run.
    """

    objects: Objects
    name: str
    deaths: dict[str, int] = field(default_factory=dict)
    is_careful: bool = False  # an earlier attempt died, so runs are computed one by one
    last: tuple[str, str] = ("", "")  # the run at the last death, and the checkpoint from which it started

    def begin(self) -> None:
        """Read the marker of an earlier attempt, and write a new one."""
        try:
            content = unpack_json(self.objects.get(self.name), required=False)
            self.is_careful, self.deaths = True, content["deaths"]
            self.last = content["at"], content["checkpoint"]
            if content["at"]:
                self.deaths[content["at"]] = self.deaths.get(content["at"], 0) + 1
        except NotFound:
            pass
        except (ValueError, KeyError, TypeError):  # damaged, but an earlier attempt did write it
            self.is_careful = True
        self.record("")

    def record(self, run: str, checkpoint: str = "") -> None:
        """Store the run that is about to be computed, and the digest of its checkpoint."""
        content = {"at": run, "checkpoint": checkpoint, "deaths": self.deaths}
        self.objects.put(self.name, pack_json(content))

    def blames(self, run: str, checkpoint: str) -> bool:
        """Return whether to give up a run. New progress since the last death clears it of blame."""
        if self.last[0] == run and self.last[1] != checkpoint:
            self.clear_blame(run)
        return self.deaths.get(run, 0) >= MAX_DEATHS

    def clear_blame(self, run: str) -> None:
        self.deaths.pop(run, None)

    def end(self) -> None:
        """Remove the marker: the process did not die, whether or not the task succeeded."""
        self.objects.delete(self.name)

    def excuse(self) -> None:
        """Take back what the last death says: it was no fault of the run. Earlier deaths still count."""
        try:
            deaths = unpack_json(self.objects.get(self.name), required=False)["deaths"]
        except NotFound:
            return
        except (ValueError, KeyError, TypeError):  # damaged
            deaths = {}
        if deaths:
            self.deaths = deaths
            self.record("")
        else:
            self.end()


# A part that could not be written because the disk was full, kept so that it need not be computed again.
_unwritten: dict[str, bytes] = {}


def part_name(sweep_id: str, bundle_key: str) -> str:
    return f"{sweep_id}.parts/{bundle_key}.npz"


def excuse_interruption(objects: Objects, task: Task) -> None:
    """Blame no run for the end of a process that was killed because the service ends."""
    _crash_marker(objects, task).excuse()


def _crash_marker(objects: Objects, task: Task) -> CrashMarker:
    return CrashMarker(objects, f"{task.sweep_id}.parts/{task.bundle.key}.crumb")


def run_task(task: Task, stopped: Callable[[], bool] | None = None) -> None:
    """Compute a bundle and write its part, which includes failed runs. `Stopped` and `OSError` are raised."""
    folder = DataFolder(task.root)
    plan, stem = folder.plan(task.sweep_id), f"{task.sweep_id}.parts/{task.bundle.key}"
    marker = _crash_marker(folder.objects, task)
    marker.begin()
    content, keep = _unwritten.pop(stem, None), True
    try:
        if content is None:
            began = elapsed_work_seconds()
            jobs = [*task.bundle.split_runs()] if marker.is_careful else task.bundle.jobs
            arrays, earlier = PartArrays(plan, jobs), read_earlier_runs(folder, plan, task.sweep_id, jobs)
            for place, job in enumerate(jobs):
                checkpoint = ObjectCheckpoint(folder.objects, f"{stem}.{place}.checkpoint")
                values = arrays.rows(place)
                arrays.store(place, _compute_job(plan, job, marker, stopped, checkpoint, values, earlier))
            part = arrays.make_part(elapsed_work_seconds() - began)
            content, keep = part.pack(), not part.failures  # a new attempt may cure failures
        fault_point("task:computed")
        folder.objects.put(f"{stem}.npz", content)
        fault_point("task:part")
    except OSError:
        if content is not None and keep:
            _unwritten.clear()  # one part is enough, because this process gets the same bundle again
            _unwritten[stem] = content
        raise
    finally:
        marker.end()


def _compute_job(
    plan: SweepPlan,
    job: Job,
    marker: CrashMarker,
    stopped: Callable[[], bool] | None,
    checkpoint: ObjectCheckpoint,
    values: dict[str, AnyArray],
    earlier: EarlierRuns,
) -> Result:
    if marker.is_careful:
        run, digest = job.names(plan.runs)[0], checkpoint.digest()
        if marker.blames(run, digest):
            checkpoint.clear()
            return failed_result(plan, job, DEATH_MESSAGE)
        marker.record(run, digest)
    run_fault_point(lambda: job.names(plan.runs), stopped)
    result = compute(plan, job, stopped, checkpoint, values, earlier)
    if marker.is_careful:
        marker.clear_blame(job.names(plan.runs)[0])
    return result
