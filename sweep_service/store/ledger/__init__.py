"""The ledger of a data folder: which sweeps there are, and the progress of each of their bundles.

`ledger` reads and writes the database, `tables` defines it and converts older ones, `records` are its rows,
and `guard` notices a file that was replaced or removed. Imports `planning`.
"""

from sweep_service.store.ledger.ledger import Ledger
from sweep_service.store.ledger.records import (
    EMPTY_QUEUE,
    EndedBundle,
    Event,
    Progress,
    Queue,
    Request,
    State,
    SweepRecord,
    WorkTotals,
    utc_now,
)
from sweep_service.store.ledger.tables import SCHEMA_VERSION

__all__ = [
    "EMPTY_QUEUE",
    "SCHEMA_VERSION",
    "EndedBundle",
    "Event",
    "Ledger",
    "Progress",
    "Queue",
    "Request",
    "State",
    "SweepRecord",
    "WorkTotals",
    "utc_now",
]
