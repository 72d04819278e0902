"""A stored sweep as one file of another kind."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.errors import InvalidInput


def exported(dataset: Path, output: Path) -> None:
    """Write it as the ending of the name says; the file appears when it is complete."""
    writers = {".nc": _netcdf, ".csv": _csv, ".json": _json}
    if output.suffix not in writers:
        raise InvalidInput("output", str(output), f"must end in {', '.join(writers)}")
    if not output.parent.is_dir():
        raise InvalidInput("output", str(output), "must be in a folder that exists")
    fresh = output.with_name(output.name + ".partial")
    try:
        with xr.open_zarr(dataset, chunks=None) as found:
            writers[output.suffix](found, fresh)
        fresh.replace(output)
    finally:
        fresh.unlink(missing_ok=True)


def _netcdf(dataset: xr.Dataset, path: Path) -> None:
    """netCDF 3: texts of fixed width, and whole numbers of 64 bits as floats."""
    plain = dataset.load()
    for name, variable in dataset.variables.items():
        if variable.dtype.kind in "OT":
            texts = np.array([str(text) for text in variable.values.reshape(-1)]).reshape(variable.shape)
            plain = plain.assign_coords({name: (variable.dims, texts, variable.attrs)})
        elif variable.dtype == np.int64:
            plain[name] = plain[name].astype("float64", keep_attrs=True)
    plain.to_netcdf(path, engine="scipy", format="NETCDF3_64BIT")


def _csv(dataset: xr.Dataset, path: Path) -> None:
    """One line for each run and time; only what has no dimensions beyond time."""
    wide = {"student", "teacher", "cosine_bin"}
    narrow = [name for name, found in dataset.data_vars.items() if not wide & set(found.dims)]
    dataset[narrow].to_dataframe().to_csv(path)


def _json(dataset: xr.Dataset, path: Path) -> None:
    path.write_text(json.dumps(plain(dataset.to_dict()), allow_nan=False, default=str), "utf-8")


def plain(value: Any) -> Any:
    """What JSON can say: a number that is not finite is null."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
