"""Notes in the ledger: the schema that had none is migrated."""

import sqlite3
from contextlib import closing

from sweep_service.store.ledger import Ledger
from sweep_service.store.notes import Notes
from tests.store.test_ledger import SWEEP


def test_ledger_of_schema_3_is_migrated(tmp_path):
    path = tmp_path / "ledger"
    with closing(Ledger(path)) as ledger:
        ledger.add(SWEEP, [])
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("ALTER TABLE sweeps DROP COLUMN note")
        raw.execute("UPDATE about SET value = '3' WHERE name = 'schema'")
        raw.commit()
    with closing(Ledger(path)) as ledger:
        assert ledger.sweep(SWEEP.id) == SWEEP
        ledger.set_notes(SWEEP.id, Notes("renamed", "noted"))
        assert (ledger.sweep(SWEEP.id).name, ledger.sweep(SWEEP.id).note) == ("renamed", "noted")
