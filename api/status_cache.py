"""A cache of sweeps and their totals: clients poll the status far more often than it changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from sweep_service.store.ledger import Ledger, State, SweepRecord

MAX_CACHED_SWEEPS = 10_000

Totals = dict[str, Any]


class StatusCache:
    """Sweeps with their totals as last read. `invalidate` must be called when a sweep changes."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._entries: OrderedDict[str, tuple[SweepRecord, Totals]] = OrderedDict()
        # Counts invalidations, so that a value read before one is not cached after it.
        self._generation = 0
        self._lock = threading.Lock()
        self._active_count: int | None = None

    def get_cached(self, sweep_id: str) -> tuple[SweepRecord, Totals] | None:
        return self._entries.get(sweep_id)

    @property
    def has_active_count(self) -> bool:
        """Whether `active_count` is cached."""
        return self._active_count is not None

    def read(self, sweep_id: str) -> tuple[SweepRecord, Totals]:
        generation = self._generation
        return self.get_cached(sweep_id) or self._add_totals([self.ledger.sweep(sweep_id)], generation)[0]

    def query(self, **query: Any) -> list[tuple[SweepRecord, Totals]]:
        """Return the sweeps that a query of the ledger returns, with their totals."""
        generation = self._generation
        return self._add_totals(self.ledger.sweeps(**query), generation)

    def _add_totals(self, sweeps: list[SweepRecord], generation: int) -> list[tuple[SweepRecord, Totals]]:
        """Pair sweeps with their totals, reading only those that are not cached."""
        cached = {
            sweep.id: entry[1]
            for sweep in sweeps
            if (entry := self.get_cached(sweep.id)) and entry[0] == sweep
        }
        fresh = self.ledger.progress_totals([sweep.id for sweep in sweeps if sweep.id not in cached])
        entries = [(sweep, cached.get(sweep.id) or fresh[sweep.id]) for sweep in sweeps]
        with self._lock:
            if generation == self._generation:
                self._entries.update((entry[0].id, entry) for entry in entries)
            while len(self._entries) > MAX_CACHED_SWEEPS:
                self._entries.popitem(last=False)
        return entries

    @property
    def active_count(self) -> int:
        """The number of sweeps that share the workers."""
        generation, count = self._generation, self._active_count
        if count is None:
            count = len(self.ledger.sweeps(states=[State.RUNNING, State.QUEUED]))
            with self._lock:
                self._active_count = count if generation == self._generation else None
        return count

    def invalidate(self, sweep_id: str) -> None:
        with self._lock:
            self._generation += 1
            self._entries.pop(sweep_id, None)
            self._active_count = None
