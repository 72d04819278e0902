"""Export of a stored sweep, or of a selection, to one file of another format."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.selection import iterate_blocks, run_dims
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.extras import explain_missing_package
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.runs import KINDS
from sweep_service.text import replace_nonfinite

ROWS_PER_BLOCK = (2 << 20) // 8  # of a table: the numbers of a chunk, so that each chunk is read once
NUMBERS_PER_WRITE = 10_000  # of JSON text
RUN_COORDINATES = ("regime", "seed", "repeat")
RUN_RESULTS = ("steps", "seconds", "diverged_quantity", "status")
CHOSEN_REGIME = "regime_chosen"  # chosen by auto: stored as ode_regime, while `regime` is the requested one


@dataclass(frozen=True)
class Format:
    """A file format: the suffix of its files, its media type, and the function that writes a dataset."""

    suffix: str
    media_type: str
    write: Callable[[xr.Dataset, Path], None]


def export(dataset: xr.Dataset, output: str | Path, format: str | None = None) -> None:
    """Write the dataset to a file of another format.

    Parameters
    ----------
    output
        Path of the file. The file appears when it is complete.
    format
        `netcdf`, `csv`, `parquet` or `json`; by default, determined by the suffix of the file.

    Raises
    ------
    InvalidInput
        If the format is unknown or the folder of the file does not exist.
    """
    with open_output(Path(output), format) as (format_name, partial_path):
        FORMATS[format_name].write(dataset, partial_path)


@contextmanager
def open_output(output: Path, format: str | None) -> Iterator[tuple[str, Path]]:
    """The name of the format, and a temporary path whose file is renamed to `output` on success."""
    if format is not None and format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    suffixes = {known.suffix: name for name, known in FORMATS.items()}
    if format is None and output.suffix not in suffixes:
        raise InvalidInput("output", str(output), f"must end in {', '.join(suffixes)}")
    if not output.parent.is_dir() or output.is_dir():
        raise InvalidInput("output", str(output), "must be a file in a folder that exists")
    partial_path = output.with_name(output.name + ".partial")
    try:
        yield format or suffixes[output.suffix], partial_path
        partial_path.replace(output)
    finally:
        partial_path.unlink(missing_ok=True)


def export_bytes(dataset: xr.Dataset) -> int:
    """Uncompressed bytes that an export reads. Text formats are several times larger."""
    return int(dataset.nbytes)


def _write_netcdf(dataset: xr.Dataset, path: Path) -> None:
    """netCDF 4, in which integers keep their type and texts have any length."""
    with explain_missing_package("a netCDF file"):
        import h5netcdf  # type: ignore[import-untyped] # noqa: F401 (the engine named below)

    plain = dataset.compute().drop_encoding()
    for name, variable in dataset.variables.items():
        if variable.dtype.kind in "OT":  # which not every version of xarray writes
            flat = np.array([str(text) for text in plain[name].values.reshape(-1)])
            texts = flat.reshape(variable.shape)
            plain = plain.assign_coords({name: (variable.dims, texts, variable.attrs)})
    plain.to_netcdf(path, engine="h5netcdf", format="NETCDF4")


def _write_csv(dataset: xr.Dataset, path: Path) -> None:
    columns = list(_table_columns(dataset))
    with open(path, "w", encoding="utf-8", newline="") as file:
        for number, frame in enumerate(_read_frames(dataset)):
            frame.reindex(columns=columns).to_csv(file, index=False, header=number == 0)


def _write_parquet(dataset: xr.Dataset, path: Path) -> None:
    """The same table as CSV, with nulls for missing values, dictionaries for text, and metadata."""
    with explain_missing_package("a Parquet file"):
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

    text_type = pa.dictionary(pa.int32(), pa.string())
    fields = [
        pa.field(
            name,
            text_type if _is_text(array) else pa.from_numpy_dtype(array.dtype),
            metadata={key: str(array.attrs[key]) for key in ("long_name", "units") if key in array.attrs},
        )
        for name, array in _table_columns(dataset).items()
    ]
    schema = pa.schema(fields, {str(name): str(value) for name, value in dataset.attrs.items()})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for frame in _read_frames(dataset):
            columns = [
                pa.array(frame[field.name], field.type, from_pandas=True)
                if field.name in frame
                else pa.nulls(len(frame), field.type)
                for field in schema
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def _table_columns(dataset: xr.Dataset) -> dict[str, xr.DataArray]:
    """Columns of a table with one row for each run and time.

    In order: the source, coordinates, observables, and results of the run. Each comes with an array that has
    the type and the attributes of the column.
    """
    by_kind = {kind: columns for kind in KINDS if (columns := _columns_of_kind(dataset, kind))}
    if not by_kind:
        raise InvalidInput(
            "variables", sorted(map(str, dataset.data_vars)),
            "have more than one number at each time, which a table cannot hold: use netcdf or json",
        )  # fmt: skip
    dims = {
        dim: None for columns in by_kind.values() for array in columns.values() for dim in run_dims(array)
    }
    names = [*dims, *(str(name) for name in dataset.coords if name not in dims)]
    coordinates = [name for name in names if name in dataset.coords and set(dataset[name].dims) <= set(dims)]
    measured = {name: array for columns in by_kind.values() for name, array in columns.items()}
    columns = {"source": xr.DataArray("", attrs={"long_name": "SGD or a limiting theory"})}
    # Axes precede the coordinates of runs, because SGD has no regime and a theory has no repeat.
    columns |= {name: dataset[name] for name in coordinates if name not in RUN_COORDINATES}
    columns |= {name: dataset[name] for name in RUN_COORDINATES if name in coordinates}
    if any("time" in array.dims for array in measured.values()):
        columns["time"] = dataset["time"]
    last = (CHOSEN_REGIME, *RUN_RESULTS)
    columns |= {name: array for name, array in measured.items() if name not in last}
    return columns | {name: measured[name] for name in last if name in measured}


def _columns_of_kind(dataset: xr.Dataset, kind: str) -> dict[str, xr.DataArray]:
    """Variables of a kind of run that are one number for each run or each time, by column name."""
    prefix = f"{kind}_"
    variables = {
        str(name).removeprefix(prefix): array
        for name, array in dataset.data_vars.items()
        if str(name).startswith(prefix)
    }
    if not variables:
        return {}
    dims = min((run_dims(array) for array in variables.values()), key=len)
    columns = {name: array for name, array in variables.items() if array.dims in (dims, (*dims, "time"))}
    return {CHOSEN_REGIME if name == "regime" else name: array for name, array in columns.items()}


def _read_frames(dataset: xr.Dataset) -> Iterator[Any]:
    for kind in KINDS:
        for block in _read_blocks(dataset, kind):
            yield block.to_dataframe(dim_order=list(block.sizes)).reset_index()


def _read_blocks(dataset: xr.Dataset, kind: str) -> Iterator[xr.Dataset]:
    """All runs of a kind in order, in blocks of bounded size."""
    columns = _columns_of_kind(dataset, kind)
    if not columns:
        return
    table = dataset[[array.name for array in columns.values()]]
    table = table.rename({array.name: name for name, array in columns.items()}).assign(source=kind)
    longest = max((array.dims for array in columns.values()), key=len)
    sizes = {str(dim): table.sizes[dim] for dim in longest}
    for index in iterate_blocks(sizes, ROWS_PER_BLOCK):
        block = table.isel(index).load()
        for name in columns:
            if _is_text(block[name]):
                block[name] = block[name].dims, _flag_meanings(block[name])
        yield block.transpose(*sizes)


def _is_text(column: xr.DataArray) -> bool:
    return column.dtype.kind in "OUT" or "flag_meanings" in column.attrs


def _flag_meanings(flags: xr.DataArray) -> AnyArray:
    """The meanings of CF flags; None for the flag -1."""
    meanings = np.array([*flags.attrs["flag_meanings"].split(), None], dtype=object)
    return meanings[flags.values]


def _write_json(dataset: xr.Dataset, path: Path) -> None:
    """JSON for `xr.Dataset.from_dict`, in short writes: encoding a large array blocks other threads."""
    with open(path, "w", encoding="utf-8") as file:
        begin = "{"
        for group, arrays in (("coords", dataset.coords), ("data_vars", dataset.data_vars)):
            file.write(f'{begin}"{group}": {{')
            for number, (name, array) in enumerate(arrays.items()):
                head = _to_json({"dims": array.dims, "attrs": array.attrs})
                file.write(f'{", " if number else ""}{_to_json(name)}: {head[:-1]}, "data": ')
                for text in _iterate_json(array.values):
                    file.write(text)
                file.write("}")
            begin = "}, "
        file.write(f'}}, "attrs": {_to_json(dataset.attrs)}, "dims": {_to_json(dict(dataset.sizes))}}}')


def _iterate_json(values: AnyArray) -> Iterator[str]:
    """A nested list as successive pieces of text."""
    if values.ndim == 0 or values.size <= NUMBERS_PER_WRITE:
        yield _to_json(values.tolist())
        return
    if values.ndim == 1:
        for start in range(0, len(values), NUMBERS_PER_WRITE):
            text = _to_json(values[start : start + NUMBERS_PER_WRITE].tolist())[1:-1]
            yield ("[" if start == 0 else ", ") + text
    else:
        for number, row in enumerate(values):
            yield ", " if number else "["
            yield from _iterate_json(row)
    yield "]"


def _to_json(value: Any) -> str:
    return json.dumps(replace_nonfinite(value), allow_nan=False, default=str)


FORMATS = {
    "netcdf": Format(".nc", "application/x-netcdf", _write_netcdf),
    "csv": Format(".csv", "text/csv", _write_csv),
    "parquet": Format(".parquet", "application/vnd.apache.parquet", _write_parquet),
    "json": Format(".json", "application/json", _write_json),
}
