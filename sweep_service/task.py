"""A task: one bundle, computed where it is told to, its part written, a receipt returned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from sweep_service.bundles import Bundle
from sweep_service.compute import compute
from sweep_service.errors import NotFound
from sweep_service.faults import fault
from sweep_service.kernels import working_time
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.objects import Objects
from sweep_service.store.parts import Part


@dataclass(frozen=True)
class Task:
    root: str
    sweep: str
    bundle: Bundle


@dataclass(frozen=True)
class Receipt:
    """That a part is there, or why it is not."""

    sweep: str
    bundle: str
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    error: str = ""


class ObjectCheckpoint:
    """A checkpoint beside the parts."""

    def __init__(self, objects: Objects, name: str) -> None:
        self.objects, self.name = objects, name

    def load(self) -> bytes | None:
        try:
            return self.objects.get(self.name)
        except NotFound:
            return None

    def save(self, content: bytes) -> None:
        self.objects.put(self.name, content)

    def clear(self) -> None:
        self.objects.delete(self.name)


def part_name(sweep: str, bundle: str) -> str:
    return f"{sweep}.parts/{bundle}.npz"


def run_task(task: Task, stopped: Callable[[], bool] | None = None) -> Receipt:
    """Compute a bundle and write its part; runs that fail are part of it, `Stopped` passes through."""
    folder, began = DataFolder(task.root), working_time()
    layout = folder.layout(task.sweep)
    results = []
    for place, job in enumerate(task.bundle.jobs):
        name = f"{task.sweep}.parts/{task.bundle.key}.{place}.checkpoint"
        results.append(compute(layout, job, stopped, ObjectCheckpoint(folder.objects, name)))
    fault("task:computed")
    part = Part.of(layout, task.bundle.jobs, results)
    folder.objects.put(part_name(task.sweep, task.bundle.key), part.pack())
    fault("task:part")
    counts = Counter(
        Status(int(status)).label for values in part.values.values() for status in values["status"]
    )
    return Receipt(task.sweep, task.bundle.key, working_time() - began, dict(counts))
