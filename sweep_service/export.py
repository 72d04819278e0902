"""A stored sweep as one file of another kind."""

from __future__ import annotations

import json
from pathlib import Path

import xarray as xr

from sweep_service.errors import InvalidInput


def exported(dataset: Path, output: Path) -> None:
    """Write it as the ending of the name says; the file appears when it is complete."""
    writers = {".nc": _netcdf, ".csv": _csv, ".json": _json}
    if output.suffix not in writers:
        raise InvalidInput("output", str(output), f"must end in {', '.join(writers)}")
    fresh = output.with_name(output.name + ".partial")
    with xr.open_zarr(dataset, chunks=None) as found:
        writers[output.suffix](found, fresh)
    fresh.replace(output)


def _netcdf(dataset: xr.Dataset, path: Path) -> None:
    plain = dataset.copy()
    for name, variable in plain.variables.items():
        if variable.dtype.kind in "OT":  # netCDF 3 knows fixed-width text only
            plain = plain.assign_coords({name: (variable.dims, variable.values.astype(str), variable.attrs)})
        elif variable.dtype.kind == "i" and variable.dtype.itemsize == 8:
            plain[name] = plain[name].astype("float64", keep_attrs=True)
    plain.to_netcdf(path, engine="scipy", format="NETCDF3_64BIT")


def _csv(dataset: xr.Dataset, path: Path) -> None:
    """One line for each run and time; only what has no dimensions beyond time."""
    lines = dataset[
        [name for name in dataset.data_vars if not {"student", "teacher"} & set(dataset[name].dims)]
    ]
    lines.to_dataframe().to_csv(path)


def _json(dataset: xr.Dataset, path: Path) -> None:
    path.write_text(json.dumps(dataset.to_dict(), default=str).replace("NaN", "null"), "utf-8")
