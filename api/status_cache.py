"""Sweeps as they were read last. Most requests ask how far one is, far more often than that changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from sweep_service.store.ledger import Ledger, State, Sweep

MOST = 10_000  # sweeps

Totals = dict[str, Any]


class Board:
    """Who hears that something has happened to a sweep wipes it off."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._known: OrderedDict[str, tuple[Sweep, Totals]] = OrderedDict()
        self._turn = 0  # of wiping: what was read before must not be written down after
        self._lock = threading.Lock()
        self._active: int | None = None

    def known(self, sweep: str) -> tuple[Sweep, Totals] | None:
        return self._known.get(sweep)

    @property
    def is_counted(self) -> bool:
        """Whether `active` needs no look."""
        return self._active is not None

    def read(self, sweep: str) -> tuple[Sweep, Totals]:
        turn = self._turn
        return self.known(sweep) or self._added_up([self.ledger.sweep(sweep)], turn)[0]

    def page(self, **query: Any) -> list[tuple[Sweep, Totals]]:
        """What a query to the ledger finds."""
        turn = self._turn
        return self._added_up(self.ledger.sweeps(**query), turn)

    def _added_up(self, found: list[Sweep], turn: int) -> list[tuple[Sweep, Totals]]:
        """With their totals, of which only those that are not known are read."""
        known = {sweep.id: old[1] for sweep in found if (old := self.known(sweep.id)) and old[0] == sweep}
        fresh = self.ledger.all_totals([sweep.id for sweep in found if sweep.id not in known])
        pairs = [(sweep, known.get(sweep.id) or fresh[sweep.id]) for sweep in found]
        with self._lock:
            if turn == self._turn:
                self._known.update((pair[0].id, pair) for pair in pairs)
            while len(self._known) > MOST:
                self._known.popitem(last=False)
        return pairs

    @property
    def active(self) -> int:
        """How many share the workers."""
        turn, found = self._turn, self._active
        if found is None:
            found = len(self.ledger.sweeps(states=[State.RUNNING, State.QUEUED]))
            with self._lock:
                self._active = found if turn == self._turn else None
        return found

    def wipe(self, sweep: str) -> None:
        with self._lock:
            self._turn += 1
            self._known.pop(sweep, None)
            self._active = None
