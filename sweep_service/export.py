"""A stored sweep as one file of another kind."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.arrays import AnyArray
from sweep_service.errors import InvalidInput
from sweep_service.runs import KINDS

LINES = (2 << 20) // 8  # of a CSV at once: as many as a chunk has numbers, so that each is read once
LATE = ("regime", "seed", "repeat")
OF_A_RUN = ("steps", "seconds", "status")
CHOSEN = "regime_chosen"  # by auto: stored as ode_regime, but `regime` is what was asked for


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
    """A line for each run and time: where it is from, its coordinates, what was observed, how it ended."""
    kinds = [kind for kind in KINDS if f"{kind}_status" in dataset]
    dims = {dim: None for kind in kinds for dim in dataset[f"{kind}_status"].dims}  # a set with an order
    named = [*dims, *(name for name in dataset.coords if name not in dims)]
    there = [str(name) for name in named if name in dataset.coords and set(dataset[name].dims) <= set(dims)]
    # What was chosen first, then what is drawn: SGD has no regime, a theory has no repeat.
    coordinates = [*(name for name in there if name not in LATE), *(name for name in LATE if name in there)]
    observed = list(dict.fromkeys(name for kind in kinds for name in _observed(dataset, kind)))
    chosen = [CHOSEN] if "ode_regime" in dataset else []
    columns = ["source", *coordinates, "time", *observed, *chosen, *OF_A_RUN]
    with open(path, "w", encoding="utf-8", newline="") as file:
        for number, block in enumerate(block for kind in kinds for block in _blocks(dataset, kind)):
            frame = block.to_dataframe(dim_order=list(block.sizes)).reset_index()
            frame.reindex(columns=columns).to_csv(file, index=False, header=number == 0)


def _observed(dataset: xr.Dataset, kind: str) -> list[str]:
    """What has one number at each time."""
    dims = (*dataset[f"{kind}_status"].dims, "time")
    mine = [str(name) for name in dataset.data_vars if str(name).startswith(f"{kind}_")]
    return [name.removeprefix(f"{kind}_") for name in mine if dataset[name].dims == dims]


def _blocks(dataset: xr.Dataset, kind: str) -> Iterator[xr.Dataset]:
    """All runs of a kind in their order, as many at once as memory need hold."""
    status = dataset[f"{kind}_status"]
    names = [*_observed(dataset, kind), *(name for name in OF_A_RUN if f"{kind}_{name}" in dataset)]
    mine = dataset[[f"{kind}_{name}" for name in names]].rename({f"{kind}_{name}": name for name in names})
    if kind == "ode" and "ode_regime" in dataset:
        mine[CHOSEN] = dataset["ode_regime"]
    mine = mine.assign(source=kind).assign_coords(time=dataset["time"])  # also where nothing is observed
    sizes = {str(dim): mine.sizes[dim] for dim in (*status.dims, "time")}
    room, steps = LINES, dict[str, int]()
    for dim, size in reversed(sizes.items()):
        steps[dim] = max(1, min(size, room))
        room //= size
    for corner in product(*(range(0, size, steps[dim]) for dim, size in sizes.items())):
        where = {dim: slice(at, at + steps[dim]) for dim, at in zip(sizes, corner, strict=True)}
        block = mine.isel(where).load()
        for name in {"status", CHOSEN} & set(block.data_vars):
            block[name] = block[name].dims, _labels(block[name])
        yield block.transpose(*sizes)


def _labels(flags: xr.DataArray) -> AnyArray:
    """The meanings of CF flags, nothing where there is none."""
    meanings = np.array([*flags.attrs["flag_meanings"].split(), ""], dtype=object)
    return meanings[flags.values]


def _json(dataset: xr.Dataset, path: Path) -> None:
    path.write_text(json.dumps(plain(dataset.to_dict()), allow_nan=False, default=str), "utf-8")


def plain(value: Any) -> Any:
    """What JSON can say: a number that is not finite is null."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
