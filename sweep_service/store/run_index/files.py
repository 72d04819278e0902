"""The file of an index, with a digest of itself and one of what it was computed from.

An index that is missing, damaged, of another layout or of another state of its dataset is never believed: it
is built again. Other tools may read the files like any Parquet file.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from sweep_service.errors import Damaged, NotFound, reading
from sweep_service.model.parameters import PARAMETERS
from sweep_service.planning.runs import KINDS
from sweep_service.store.folder import INDEX_SUFFIX
from sweep_service.store.metadata import CHUNKS
from sweep_service.store.objects import ROOT
from sweep_service.store.run_index.build import build_index
from sweep_service.store.run_index.columns import index_schema, make_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sweep_service.store.folder import DataFolder

INDEX_VERSION = 1  # raised when columns change their meaning
SOURCE, VERSION, SEAL = b"dataset_digest", b"index_version", b"content_sha256"
COLUMNS = b"index_columns"
MAX_METADATA_BYTES = 1 << 20  # at the end of a file
EMPTY_SEAL = b"-" * 64  # in place of the digest while it is computed
ROWS_PER_GROUP = 1 << 20
_SEAL_PATTERN = re.compile(SEAL + rb".{0,4}?([0-9a-f]{64})", re.DOTALL)


def read_index(folder: DataFolder, sweep_id: str) -> bytes | None:
    """Return the content of an index that is intact and belongs to the present dataset, else None."""
    try:
        content = folder.objects.get(f"{sweep_id}{INDEX_SUFFIX}")
        check_index(content, digest_dataset(folder, sweep_id))
    except (Damaged, NotFound):
        return None
    return content


def load_index(folder: DataFolder, sweep_id: str) -> pa.Table | None:
    """Return the stored index as a table if it can be used, else None."""
    content = read_index(folder, sweep_id)
    return None if content is None else decode_index(content)


def save_index(folder: DataFolder, sweep_id: str, content: bytes) -> None:
    folder.objects.put(f"{sweep_id}{INDEX_SUFFIX}", content)


def make_index(folder: DataFolder, sweep_id: str) -> bytes:
    """Build the index of a sweep as the content of its file.

    The dataset is digested before it is read: if it changes meanwhile, the index counts as out of date.
    """
    source = digest_dataset(folder, sweep_id)
    return pack_index(build_index(folder, sweep_id), source)


def digest_dataset(folder: DataFolder, sweep_id: str) -> str:
    """Digest what changes whenever results do: the metadata of a dataset, and the statuses of its runs.

    Values are written before statuses, and never change under a status of the same versions.
    """
    name, objects = f"{sweep_id}.zarr", folder.objects
    digest = hashlib.sha256(objects.get(f"{name}/{ROOT}"))
    for kind in KINDS:
        for key in sorted(objects.list(f"{name}/{kind}_status/{CHUNKS}/")):
            digest.update(f"{key}\n".encode())
            digest.update(objects.get(key))
    return digest.hexdigest()


def pack_index(table: pa.Table, source: str) -> bytes:
    """Write a table as Parquet; the metadata of the file has the digests."""
    file = io.BytesIO()
    labels = [field.name for field in table.schema if not pa.types.is_floating(field.type)]
    with pq.ParquetWriter(
        file, table.schema, compression="zstd", use_dictionary=_low_cardinality(labels)
    ) as writer:
        writer.write_table(table, row_group_size=ROWS_PER_GROUP)
        writer.add_key_value_metadata(
            {
                SOURCE: source.encode(),
                VERSION: str(INDEX_VERSION).encode(),
                COLUMNS: json.dumps(table.schema.names).encode(),
                SEAL: EMPTY_SEAL,
            }
        )
    content = file.getvalue()
    return content.replace(EMPTY_SEAL, hashlib.sha256(content).hexdigest().encode())


def _low_cardinality(names: Sequence[str]) -> list[str]:
    return [name for name in names if name not in ("key", "number")]


def check_index(content: bytes, source: str) -> None:
    """Raise Damaged unless an index is as it was written, from this state of a dataset."""
    with reading("the index"):
        check_seal(content)  # first, because damaged bytes may raise any error
        metadata = pq.ParquetFile(pa.BufferReader(content)).metadata.metadata
        if metadata.get(VERSION) != str(INDEX_VERSION).encode():
            raise ValueError("it has another layout")
        if metadata.get(SOURCE) != source.encode():
            raise ValueError("it belongs to another state of the dataset")
        if unknown := set(json.loads(metadata[COLUMNS])) - set(index_schema().names):
            raise ValueError(f"it has the unknown columns {', '.join(sorted(unknown))}")


def decode_index(content: bytes) -> pa.Table:
    """Return the table of an index that was checked."""
    return _fit_columns(pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False))


def check_seal(content: bytes) -> None:
    """Raise ValueError unless the digest in the metadata is that of the rest of the file."""
    seals = [*_SEAL_PATTERN.finditer(content, max(0, len(content) - MAX_METADATA_BYTES))]
    if not seals:
        raise ValueError("it has no digest")
    start, end = seals[-1].span(1)
    digest = hashlib.sha256(content[:start])
    digest.update(EMPTY_SEAL)
    digest.update(content[end:])
    if digest.hexdigest().encode() != content[start:end]:
        raise ValueError("its checksum is wrong")


def _fit_columns(table: pa.Table) -> pa.Table:
    """Return a table with the columns of this version; new parameters are at their defaults."""
    schema = index_schema()
    if table.schema.equals(schema):
        return table
    columns = []
    for field in schema:
        if field.name in table.schema.names:
            columns.append(table[field.name].cast(field.type))
        else:
            columns.append(_default_column(field, len(table)))
    return pa.Table.from_arrays(columns, schema=schema)


def _default_column(field: pa.Field, rows: int) -> pa.Array:
    default = PARAMETERS[field.name].default if field.name in PARAMETERS else None
    return make_array(default, field.type, rows)
