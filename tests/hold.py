"""Processes that wait at a fault point until a test releases them.

A test that needs a moment in the middle of a sweep holds a bundle there: progress alone may pass the moment
between two looks, on a fast machine as on a busy one.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Hold:
    """A hold at `point`, such as `task:computed#2` (in each process) or `run:sgd-0`; see `faults`."""

    folder: Path
    point: str

    @property
    def environment(self):
        """The environment of the processes that are held."""
        return {"SWEEP_FAULT": self.point, "SWEEP_FAULT_UNTIL": str(self._go)}

    def count(self):
        """Count the processes that wait, including those that were killed meanwhile."""
        return len(list(self.folder.glob(f"{self._go.name}.*")))

    def has(self, pid):
        return self._go.with_name(f"{self._go.name}.{pid}").exists()

    def release(self):
        self._go.touch()

    @property
    def _go(self):
        return self.folder / "go"
