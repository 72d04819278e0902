"""What is worth counting while sweeps go on. Nothing counts here: who wants numbers overrides a method."""

from __future__ import annotations


class Meter:
    """Told by the one thread that conducts, so nothing here may wait or fail."""

    def computed(self, engine: str, runs: int, steps: int, seconds: float) -> None:
        """Runs that are in the dataset now: by a simulator such as S1, or of a regime, which has no steps."""

    def merged(self, parts: int, size: int, seconds: float) -> None:
        """So many parts, of so many bytes, went into a dataset in so many seconds."""

    def ended(self, sweep: str, result: str) -> None:
        """A bundle came back: done (and it waits to be merged), failed or lost."""

    def settled(self, sweep: str) -> None:
        """No finished bundle of this sweep waits to be merged."""
