"""The next bundles of each sweep, read from the ledger as they are needed.

A large cluster has tens of thousands of bundles in flight, which stay in the ledger until they are merged. So
reading goes on behind the last bundle that was read, and begins again only when a bundle has come back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from sweep_service.planning.bundles import Bundle
from sweep_service.store.ledger import Ledger

BUNDLES_PER_QUERY = 16  # bundles that are read from the ledger at once


@dataclass
class SweepQueue:
    """Bundles of a sweep that were read but not submitted."""

    bundles: deque[Bundle] = field(default_factory=deque)
    last_key: str | None = None  # of the last one that was read
    is_read: bool = False  # there are no bundles behind that one


class PendingBundles:
    """The queues of all sweeps that are being dispatched."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._queues: dict[str, SweepQueue] = {}

    def next(self, sweep_id: str, is_known: Callable[[str], bool]) -> Bundle | None:
        """Return the next bundle of a sweep, without those whose key `is_known`; None if there is none."""
        queue = self._queues.setdefault(sweep_id, SweepQueue())
        while queue.bundles or not queue.is_read:
            while queue.bundles:
                bundle = queue.bundles.popleft()
                if not is_known(bundle.key):
                    return bundle
            queue.bundles.extend(self.ledger.pending_bundles(sweep_id, BUNDLES_PER_QUERY, queue.last_key))
            queue.is_read = len(queue.bundles) < BUNDLES_PER_QUERY
            queue.last_key = queue.bundles[-1].key if queue.bundles else None
        return None

    def forget(self, sweep_id: str) -> None:
        """Read a sweep from its beginning again: a bundle came back, or there are new ones."""
        self._queues.pop(sweep_id, None)
