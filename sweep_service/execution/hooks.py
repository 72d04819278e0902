"""Hooks that the conductor calls while sweeps are executed, for example to count for metrics."""

from __future__ import annotations


class ExecutionHooks:
    """Hooks that do nothing; override what is needed.

    They are called by the thread of the conductor, so they must not block or raise.
    """

    def on_computed(self, engine: str, runs: int, steps: int, seconds: float) -> None:
        """Runs of a simulator such as S1, or of a regime (without steps), are now in the dataset."""

    def on_merged(self, parts: int, size: int, seconds: float) -> None:
        """`parts` parts with `size` bytes in total were merged in `seconds` seconds."""

    def on_bundle_ended(self, sweep_id: str, result: str) -> None:
        """A bundle came back: done (and waits to be merged), failed or lost."""

    def on_all_merged(self, sweep_id: str) -> None:
        """No finished bundle of this sweep waits to be merged."""
