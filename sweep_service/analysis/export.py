"""A stored sweep, or a selection of one, as one file of another kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.selection import blocks, run_dims
from sweep_service.errors import InvalidInput, LimitExceeded, unknown_name
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.runs import KINDS
from sweep_service.text import json_ready

LINES = (2 << 20) // 8  # of a table at once: as many as a chunk has numbers, so that each is read once
NUMBERS = 10_000  # of a text at once
LATE = ("regime", "seed", "repeat")
OF_A_RUN = ("steps", "seconds", "status")
CHOSEN = "regime_chosen"  # by auto: stored as ode_regime, but `regime` is what was asked for
NETCDF_BYTES = (1 << 31) - 4  # of one variable, in the netCDF 3 that SciPy writes


@dataclass(frozen=True)
class Format:
    suffix: str
    media_type: str
    write: Callable[[xr.Dataset, Path], None]


def export(dataset: xr.Dataset, output: str | Path, format: str | None = None) -> None:
    """Write a dataset to a file of another format.

    Parameters
    ----------
    output
        The file. It appears when it is complete.
    format
        `netcdf`, `csv`, `parquet` or `json`; by default the ending of the file's name says which.
    """
    with written(Path(output), format) as (kind, fresh):
        FORMATS[kind].write(dataset, fresh)


@contextmanager
def written(output: Path, format: str | None) -> Iterator[tuple[str, Path]]:
    """The format, and where to write: a file appears under its name when it is complete."""
    if format is not None and format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    endings = {known.suffix: name for name, known in FORMATS.items()}
    if format is None and output.suffix not in endings:
        raise InvalidInput("output", str(output), f"must end in {', '.join(endings)}")
    if not output.parent.is_dir() or output.is_dir():
        raise InvalidInput("output", str(output), "must be a file in a folder that exists")
    fresh = output.with_name(output.name + ".partial")
    try:
        yield format or endings[output.suffix], fresh
        fresh.replace(output)
    finally:
        fresh.unlink(missing_ok=True)


def export_bytes(dataset: xr.Dataset) -> int:
    """What an export would read, uncompressed; as text it is some times more."""
    return int(dataset.nbytes)


def _netcdf(dataset: xr.Dataset, path: Path) -> None:
    """netCDF 3: texts of fixed width, and whole numbers of 64 bits as floats."""
    for name, variable in dataset.variables.items():
        if variable.nbytes > NETCDF_BYTES:
            raise LimitExceeded(
                "variables", name, f"has {variable.nbytes} bytes, netCDF 3 holds {NETCDF_BYTES}: select less"
            )
    plain = dataset.compute()
    for name, variable in dataset.variables.items():
        if variable.dtype.kind in "OT":
            texts = np.array([str(text) for text in plain[name].values.reshape(-1)]).reshape(variable.shape)
            plain = plain.assign_coords({name: (variable.dims, texts, variable.attrs)})
        elif variable.dtype == np.int64:
            plain[name] = plain[name].astype("float64", keep_attrs=True)
    plain.to_netcdf(path, engine="scipy", format="NETCDF3_64BIT")


def _csv(dataset: xr.Dataset, path: Path) -> None:
    columns = list(_columns(dataset))
    with open(path, "w", encoding="utf-8", newline="") as file:
        for number, frame in enumerate(_frames(dataset)):
            frame.reindex(columns=columns).to_csv(file, index=False, header=number == 0)


def _parquet(dataset: xr.Dataset, path: Path) -> None:
    """The table of the CSV: what is missing is null, words are dictionaries, attributes are metadata."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    words = pa.dictionary(pa.int32(), pa.string())
    fields = [
        pa.field(
            name,
            words if _is_word(about) else pa.from_numpy_dtype(about.dtype),
            metadata={key: str(about.attrs[key]) for key in ("long_name", "units") if key in about.attrs},
        )
        for name, about in _columns(dataset).items()
    ]
    schema = pa.schema(fields, {str(name): str(value) for name, value in dataset.attrs.items()})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for frame in _frames(dataset):
            columns = [
                pa.array(frame[field.name], field.type, from_pandas=True)
                if field.name in frame
                else pa.nulls(len(frame), field.type)
                for field in schema
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def _columns(dataset: xr.Dataset) -> dict[str, xr.DataArray]:
    """Of a table with a line for each run and time: where it is from, its coordinates, what was observed,
    how it ended; by name, each with something that knows its type and what it is."""
    kinds = {kind: found for kind in KINDS if (found := _of(dataset, kind))}
    if not kinds:
        raise InvalidInput(
            "variables", sorted(map(str, dataset.data_vars)),
            "have more than one number at each time, and a table has none of them: use netcdf or json",
        )  # fmt: skip
    dims = {dim: None for found in kinds.values() for one in found.values() for dim in run_dims(one)}
    named = [*dims, *(str(name) for name in dataset.coords if name not in dims)]
    there = [name for name in named if name in dataset.coords and set(dataset[name].dims) <= set(dims)]
    measured = {name: one for found in kinds.values() for name, one in found.items()}
    columns = {"source": xr.DataArray("", attrs={"long_name": "SGD or a limiting theory"})}
    # What was chosen first, then what is drawn: SGD has no regime, a theory has no repeat.
    columns |= {name: dataset[name] for name in there if name not in LATE}
    columns |= {name: dataset[name] for name in LATE if name in there}
    if any("time" in one.dims for one in measured.values()):
        columns["time"] = dataset["time"]
    last = (CHOSEN, *OF_A_RUN)
    columns |= {name: one for name, one in measured.items() if name not in last}
    return columns | {name: measured[name] for name in last if name in measured}


def _of(dataset: xr.Dataset, kind: str) -> dict[str, xr.DataArray]:
    """What has one number for each run of a kind, or at each of its times, by the name of its column."""
    prefix = f"{kind}_"
    mine = {
        str(name).removeprefix(prefix): one
        for name, one in dataset.data_vars.items()
        if str(name).startswith(prefix)
    }
    if not mine:
        return {}
    runs = min((run_dims(one) for one in mine.values()), key=len)
    found = {name: one for name, one in mine.items() if one.dims in (runs, (*runs, "time"))}
    return {CHOSEN if name == "regime" else name: one for name, one in found.items()}


def _frames(dataset: xr.Dataset) -> Iterator[Any]:
    for kind in KINDS:
        for block in _blocks(dataset, kind):
            yield block.to_dataframe(dim_order=list(block.sizes)).reset_index()


def _blocks(dataset: xr.Dataset, kind: str) -> Iterator[xr.Dataset]:
    """All runs of a kind in their order, as many at once as memory need hold."""
    columns = _of(dataset, kind)
    if not columns:
        return
    mine = dataset[[one.name for one in columns.values()]]
    mine = mine.rename({one.name: name for name, one in columns.items()}).assign(source=kind)
    longest = max((one.dims for one in columns.values()), key=len)
    sizes = {str(dim): mine.sizes[dim] for dim in longest}
    for where in blocks(sizes, LINES):
        block = mine.isel(where).load()
        for name in columns:
            if _is_word(block[name]):
                block[name] = block[name].dims, _words(block[name])
        yield block.transpose(*sizes)


def _is_word(column: xr.DataArray) -> bool:
    return column.dtype.kind in "OUT" or "flag_meanings" in column.attrs


def _words(flags: xr.DataArray) -> AnyArray:
    """The meanings of CF flags, nothing where there is none."""
    meanings = np.array([*flags.attrs["flag_meanings"].split(), None], dtype=object)
    return meanings[flags.values]


def _json(dataset: xr.Dataset, path: Path) -> None:
    """As `xr.Dataset.from_dict` reads it; a few numbers at once, or the process would do nothing else."""
    with open(path, "w", encoding="utf-8") as file:
        begin = "{"
        for group, some in (("coords", dataset.coords), ("data_vars", dataset.data_vars)):
            file.write(f'{begin}"{group}": {{')
            for number, (name, one) in enumerate(some.items()):
                head = _text({"dims": one.dims, "attrs": one.attrs})
                file.write(f'{", " if number else ""}{_text(name)}: {head[:-1]}, "data": ')
                for piece in _pieces(one.values):
                    file.write(piece)
                file.write("}")
            begin = "}, "
        file.write(f'}}, "attrs": {_text(dataset.attrs)}, "dims": {_text(dict(dataset.sizes))}}}')


def _pieces(values: AnyArray) -> Iterator[str]:
    """A nested list, piece by piece."""
    if values.ndim == 0 or values.size <= NUMBERS:
        yield _text(values.tolist())
        return
    if values.ndim == 1:
        for at in range(0, len(values), NUMBERS):
            yield ("[" if at == 0 else ", ") + _text(values[at : at + NUMBERS].tolist())[1:-1]
    else:
        for number, one in enumerate(values):
            yield ", " if number else "["
            yield from _pieces(one)
    yield "]"


def _text(value: Any) -> str:
    return json.dumps(json_ready(value), allow_nan=False, default=str)


FORMATS = {
    "netcdf": Format(".nc", "application/x-netcdf", _netcdf),
    "csv": Format(".csv", "text/csv", _csv),
    "parquet": Format(".parquet", "application/vnd.apache.parquet", _parquet),
    "json": Format(".json", "application/json", _json),
}
