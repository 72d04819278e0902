"""A task: one bundle, computed where it is told to, its part written.

A run may kill the process that computes it, by its memory or by a fault below Python, and takes its
bundle along each time that is tried again. So a task leaves a crumb while it works. Who finds one goes
carefully: run by run, each named in the crumb before it begins. A run that was named at too many deaths
is given up, and the others are stored without it. Who dies for another reason, on a machine that is taken
away say, takes the innocent along: a run that ended since, or came to a new checkpoint, is not to blame.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field

from sweep_service.errors import NotFound
from sweep_service.execution.compute import compute
from sweep_service.faults import fault, poison
from sweep_service.planning.bundles import Bundle
from sweep_service.planning.jobs import Job, Result, failed_result
from sweep_service.planning.plan import SweepPlan
from sweep_service.store.folder import DataFolder
from sweep_service.store.objects import Objects
from sweep_service.store.parts import Part

MOST_DEATHS = 3  # of processes that were computing a run
DEADLY = f"the process that computed this run died, {MOST_DEATHS} times"


@dataclass(frozen=True)
class Task:
    root: str
    sweep: str
    bundle: Bundle
    name: str = ""  # of the sweep, for people


class ObjectCheckpoint:
    """A checkpoint beside the parts."""

    def __init__(self, objects: Objects, name: str) -> None:
        self.objects, self.name, self.cleared = objects, name, False

    def load(self) -> bytes | None:
        if self.cleared:
            return None
        try:
            return self.objects.get(self.name)
        except NotFound:
            return None

    def mark(self) -> str:
        """A few letters, which are others when it is saved anew."""
        content = self.load()
        return "" if content is None else hashlib.sha256(content).hexdigest()[:16]

    def save(self, content: bytes) -> None:
        self.objects.put(self.name, content)

    def clear(self) -> None:
        """Begin again. The object goes when the part is merged: until then it may be all there is."""
        self.cleared = True


@dataclass
class Crumb:
    """That a bundle is being computed; after a death, which of its runs is, and how many died with each."""

    objects: Objects
    name: str
    deaths: dict[str, int] = field(default_factory=dict)
    careful: bool = False
    last: tuple[str, str] = ("", "")  # the run at the last death, and the checkpoint from which it began

    def begin(self) -> None:
        try:
            found = json.loads(self.objects.get(self.name))
            self.careful, self.deaths = True, found["deaths"]
            self.last = found["at"], found["checkpoint"]
            if found["at"]:
                self.deaths[found["at"]] = self.deaths.get(found["at"], 0) + 1
        except NotFound:
            pass
        except (ValueError, KeyError, TypeError):  # damaged: somebody was here
            self.careful = True
        self.at("")

    def at(self, run: str, checkpoint: str = "") -> None:
        content = {"at": run, "checkpoint": checkpoint, "deaths": self.deaths}
        self.objects.put(self.name, json.dumps(content).encode())

    def blames(self, run: str, checkpoint: str) -> bool:
        if self.last[0] == run and self.last[1] != checkpoint:
            self.acquit(run)
        return self.deaths.get(run, 0) >= MOST_DEATHS

    def acquit(self, run: str) -> None:
        self.deaths.pop(run, None)

    def end(self) -> None:
        """Alive, whether it is done, stopped or in trouble."""
        self.objects.delete(self.name)


# A part for which the disk had no room: what is computed is not computed again.
_unwritten: dict[str, bytes] = {}


def part_name(sweep: str, bundle: str) -> str:
    return f"{sweep}.parts/{bundle}.npz"


def run_task(task: Task, stopped: Callable[[], bool] | None = None) -> None:
    """Compute a bundle and write its part; runs that fail are part of it, `Stopped` passes through."""
    folder = DataFolder(task.root)
    plan, stem = folder.plan(task.sweep), f"{task.sweep}.parts/{task.bundle.key}"
    crumb = Crumb(folder.objects, f"{stem}.crumb")
    crumb.begin()
    content, keep = _unwritten.pop(stem, None), True
    try:
        if content is None:
            jobs, results = list[Job](), list[Result]()
            for job in task.bundle.singly() if crumb.careful else task.bundle.jobs:
                checkpoint = ObjectCheckpoint(folder.objects, f"{stem}.{len(jobs)}.checkpoint")
                jobs.append(job)
                results.append(_computed(plan, job, crumb, stopped, checkpoint))
            part = Part.of(plan, jobs, results)
            content, keep = part.pack(), not part.failures  # which a retry would find again
        fault("task:computed")
        folder.objects.put(f"{stem}.npz", content)
        fault("task:part")
    except OSError:
        if content is not None and keep:
            _unwritten.clear()  # one is enough: who has no room is given the same bundle again
            _unwritten[stem] = content
        raise
    finally:
        crumb.end()


def _computed(
    plan: SweepPlan, job: Job, crumb: Crumb, stopped: Callable[[], bool] | None, checkpoint: ObjectCheckpoint
) -> Result:
    if crumb.careful:
        run, mark = job.names(plan.runs)[0], checkpoint.mark()
        if crumb.blames(run, mark):
            checkpoint.clear()
            return failed_result(plan, job, DEADLY)
        crumb.at(run, mark)
    poison(lambda: job.names(plan.runs))
    result = compute(plan, job, stopped, checkpoint)
    if crumb.careful:
        crumb.acquit(job.names(plan.runs)[0])
    return result
