"""Changes of the tables of an older ledger."""

from __future__ import annotations

import sqlalchemy as sa


def add_missing_columns(connection: sa.Connection, table: sa.Table) -> None:
    """Add the columns that an existing table lacks. They must permit NULL, which old rows then have."""
    existing = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
    for column in table.columns:
        if column.name not in existing:
            kind = column.type.compile(connection.dialect)
            connection.execute(sa.text(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}"))
