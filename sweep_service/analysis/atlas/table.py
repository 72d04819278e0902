"""The selected runs as a table, and as rows of plain data for a page of a list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from sweep_service.analysis.atlas.runs import Runs
from sweep_service.numerics.types import AnyArray
from sweep_service.store.run_index.columns import binary_array, index_schema
from sweep_service.text import replace_nonfinite

BYTES_PER_RUN = 400  # of a table in memory


def make_run_table(runs: Runs, rows: AnyArray) -> pa.Table:
    """A table with the columns of an index, in their order."""
    schema, arrays = index_schema(), []
    for field in schema:
        if field.name in runs.labels:
            array = runs.column(field.name, rows).to_arrow()
        elif field.name == "key":
            array = binary_array(runs.keys[rows])
        else:
            values = runs.number[rows] if field.name == "number" else runs.numbers[field.name][rows]
            array = pa.array(values, from_pandas=True)
        arrays.append(array.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def write_table(table: pa.Table, path: Path, format: str) -> None:
    """Write a table as `csv`, with keys as text, or as `parquet`."""
    if format == "parquet":
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        pq.write_table(table, path, compression="zstd")
        return
    from pyarrow import csv

    plain = hex_keys(table)
    columns = [
        column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        for column in plain.columns
    ]
    csv.write_csv(pa.Table.from_arrays(columns, names=plain.column_names), path)


def hex_keys(table: pa.Table) -> pa.Table:
    """The table with run keys as hexadecimal text, for formats that have no bytes."""
    at = table.schema.get_field_index("key")
    texts = [key.hex() for key in table["key"].to_pylist()]
    return table.set_column(at, "key", pa.array(texts, pa.string()))


def to_records(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as plain data, without missing values."""
    rows = hex_keys(table).to_pylist()
    return [
        {name: value for name, value in replace_nonfinite(row).items() if value is not None} for row in rows
    ]
