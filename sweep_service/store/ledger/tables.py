"""The tables of the ledger, and how those of earlier versions are converted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from sweep_service.status import Status
from sweep_service.store.ledger.records import Progress, utc_now

SCHEMA_VERSION = 6
STORED_KEY = "stored"  # key of the row, among bundles, that counts runs stored before any bundle was merged
# The statuses that are counted, each in a column of `bundles`.
COUNTED_STATUSES = tuple(status for status in Status if status is not Status.PENDING)

schema = sa.MetaData()
about = sa.Table("about", schema, sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text))
sweeps = sa.Table(
    "sweeps",
    schema,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, nullable=False, index=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("updated", sa.Text, nullable=False),
    sa.Column("extends", sa.Text),
    sa.Column("reason", sa.Text, nullable=False, default=""),
    sa.Column("runs", sa.Integer, nullable=False),
    sa.Column("reused", sa.Integer, nullable=False, default=0),
    sa.Column("priority", sa.Integer, nullable=False, default=0),
    # Of simulators and regimes as JSON, and of the package. Sweeps of earlier schemas have neither.
    sa.Column("versions", sa.Text, nullable=False, server_default=""),
    sa.Column("package", sa.Text, nullable=False, server_default=""),
    sa.Column("owner", sa.Text),  # since schema 3
    sa.Column("stored_bytes", sa.Integer),  # since schema 3
    sa.Column("note", sa.Text),  # since schema 4
    sa.Column("fixed", sa.Text),  # as JSON, since schema 4
    sa.Column("tags", sa.Text),  # as JSON, since schema 6
)
bundles = sa.Table(
    "bundles",
    schema,
    sa.Column("sweep", sa.Text, sa.ForeignKey("sweeps.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("place", sa.Integer, nullable=False),  # position in the order of submission
    sa.Column("jobs", sa.Text, nullable=False),
    sa.Column("cost", sa.Float, nullable=False),
    sa.Column("work", sa.Text, nullable=False, default=""),
    sa.Column("progress", sa.Integer, nullable=False, default=0),
    sa.Column("attempts", sa.Integer, nullable=False, default=0),
    sa.Column("seconds", sa.Float, nullable=False, default=0.0),
    sa.Column("elapsed", sa.Float),  # that a worker was busy with it; since schema 4
    sa.Column("ended", sa.Text),  # time at which its result arrived; since schema 5
    sa.Column("error", sa.Text, nullable=False, default=""),
    *(
        sa.Column(status.label, sa.Integer, nullable=False, default=0) for status in COUNTED_STATUSES
    ),  # runs by status
    sa.Index("bundles_by_progress", "sweep", "progress", "place"),
)
events = sa.Table(
    "events",
    schema,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("sweep", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False, default=""),
    sa.Index("events_by_sweep", "sweep", "id"),
    sqlite_autoincrement=True,  # ids are never reused, because readers ask for events after an id
)
requests = sa.Table(
    "requests",
    schema,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("is_new", sa.Boolean, nullable=False),
    sa.Column("sweep", sa.Text, nullable=False),
    sa.Column("time", sa.Text, nullable=False),
)


def put_stored(connection: sa.Connection, sweep_id: str, counts: Mapping[Status, int]) -> None:
    row = {
        "sweep": sweep_id, "key": STORED_KEY, "place": -1, "jobs": "", "cost": 0.0,
        "progress": Progress.MERGED, **status_columns(counts),
    }  # fmt: skip
    connection.execute(bundles.insert().prefix_with("OR REPLACE").values(row))


def add_event(connection: sa.Connection, sweep_id: str, kind: str, state: str, reason: str = "") -> None:
    row = {"sweep": sweep_id, "kind": kind, "time": utc_now(), "state": state, "reason": reason}
    connection.execute(events.insert().values(row))


def remove_events(connection: sa.Connection, sweep_id: str, kind: str) -> None:
    connection.execute(events.delete().where(events.c.sweep == sweep_id, events.c.kind == kind))


def read_schema(connection: sa.Connection) -> int:
    """Return the schema version of a database, 0 if it has no tables yet."""
    if not sa.inspect(connection).has_table(about.name):
        return 0
    return int(connection.scalar(sa.select(about.c.value).where(about.c.name == "schema")) or 0)


def migrate(connection: sa.Connection) -> None:
    """Create the tables, or convert those of an earlier schema."""
    version = read_schema(connection)  # again, because another process may have migrated meanwhile
    if version >= SCHEMA_VERSION:
        return
    schema.create_all(connection)
    columns = {column["name"] for column in sa.inspect(connection).get_columns(sweeps.name)}
    for name in ("versions", "package"):  # new in schema 3
        if name not in columns:
            connection.exec_driver_sql(f"ALTER TABLE sweeps ADD COLUMN {name} TEXT NOT NULL DEFAULT ''")
    _add_missing_columns(connection, sweeps)
    _add_missing_columns(connection, bundles)
    if version == 1:
        _migrate_from_1(connection)
    row = {"name": "schema", "value": str(SCHEMA_VERSION)}
    connection.execute(about.insert().prefix_with("OR REPLACE").values(row))


def _add_missing_columns(connection: sa.Connection, table: sa.Table) -> None:
    """Add the columns that an existing table lacks. They must permit NULL, which old rows then have."""
    existing = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
    for column in table.columns:
        if column.name not in existing:
            kind = column.type.compile(connection.dialect)
            connection.execute(sa.text(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}"))


def _migrate_from_1(connection: sa.Connection) -> None:
    """Add what schema 1 lacked: events, and counts of reused runs."""
    for row in connection.execute(sa.select(sweeps)).mappings().all():
        put_stored(connection, row["id"], {Status.DONE: row["reused"]})
        add_event(connection, row["id"], "state", row["state"], row["reason"])


def status_columns(counts: Mapping[Status, int]) -> dict[str, int]:
    return {status.label: counts.get(status, 0) for status in COUNTED_STATUSES}


def set_pragmas(connection: Any, record: Any) -> None:
    """Configure SQLite so that readers never wait for the writer and commits survive a power failure."""
    for pragma in ("synchronous=FULL", "journal_mode=WAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")
