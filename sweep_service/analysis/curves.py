"""An observable against time: SGD with a band over its runs, the limiting theories beside it."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import DRAWN, has_ended
from sweep_service.analysis.selection import run_dims, select
from sweep_service.errors import InvalidInput, LimitExceeded, unknown_name
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.grids import POINT, axis_order
from sweep_service.planning.runs import KINDS

MOST_CURVES = 200
MOST_NUMBERS = 1 << 25  # 256 MB, which are read at once
DERIVED = ("delta_t", "gamma_over_p")  # coordinates that follow from others
BAND = (0.16, 0.84)  # one standard deviation on both sides, were the runs Gaussian


def curves(dataset: xr.Dataset, /, observable: str = "risk", **where: Any) -> dict[str, Any]:
    """Mean over runs at each time, with the 16th and the 84th percentile as `low` and `high`.

    SGD is reduced over seed and repeat, a theory over seed. Only runs that are done or have diverged
    count, the latter as far as they have values; where no run has one, there is NaN.
    """
    chosen = select(dataset, where)
    arrays = {kind: chosen[f"{kind}_{observable}"] for kind in _kinds(chosen, observable)}
    _require_few(arrays)
    first = next(iter(arrays.values()))
    return {
        "observable": observable,
        "long_name": first.attrs.get("long_name", observable),
        "units": first.attrs.get("units", "1"),
        "time": first["time"].values.tolist(),
        "curves": [curve for kind, array in arrays.items() for curve in _curves(chosen, kind, array)],
    }


def single_observables(dataset: xr.Dataset) -> list[str]:
    """Those that are one number at each time."""
    return sorted({name for some in _known(dataset).values() for name, one in some.items() if one})


def _known(dataset: xr.Dataset) -> dict[str, dict[str, bool]]:
    """Observables by who has them, and whether each is one number at each time."""
    return {
        kind: {
            str(name).removeprefix(f"{kind}_"): array.dims[-1] == "time"
            for name, array in dataset.data_vars.items()
            if str(name).startswith(f"{kind}_") and "time" in array.dims
        }
        for kind in KINDS
    }


def _kinds(dataset: xr.Dataset, observable: str) -> list[str]:
    """Who has it, if it is one number at each time."""
    known, single = _known(dataset), single_observables(dataset)
    if not isinstance(observable, str) or not any(observable in some for some in known.values()):
        raise unknown_name("observable", observable, single)
    if observable not in single:
        allowed = f"has more than one number at each time; those with one are {', '.join(single)}"
        raise InvalidInput("observable", observable, allowed)
    return [kind for kind, some in known.items() if observable in some]


def _require_few(arrays: dict[str, xr.DataArray]) -> None:
    several = {
        str(dim): array.sizes[dim]
        for array in arrays.values()
        for dim in run_dims(array)
        if dim not in DRAWN and array.sizes[dim] > 1
    }
    count = sum(
        math.prod(array.sizes[dim] for dim in several if dim in array.dims) for array in arrays.values()
    )
    if count > MOST_CURVES:
        names = ", ".join(f"{dim} ({size} values)" for dim, size in several.items())
        raise LimitExceeded("curves", count, f"must be at most {MOST_CURVES}: select some of {names}")
    numbers = sum(array.size for array in arrays.values())
    if numbers > MOST_NUMBERS:
        allowed = f"must be at most {MOST_NUMBERS} to read: select some of seed, repeat or time"
        raise LimitExceeded("curves", numbers, allowed)


def _curves(dataset: xr.Dataset, kind: str, array: xr.DataArray) -> list[dict[str, Any]]:
    drawn = [dim for dim in run_dims(array) if dim in DRAWN]
    dims = [dim for dim in run_dims(array) if dim not in DRAWN]
    counted = has_ended(dataset, array, kind)
    runs = counted.sum(drawn).transpose(*dims).values
    values = array.where(counted).transpose(*dims, "time", *drawn).values
    mean, low, high = _reduced(values.reshape(*values.shape[: len(dims) + 1], -1))
    found = []
    for at in product(*(range(array.sizes[dim]) for dim in dims)):
        place = _place(dataset, dict(zip(dims, at, strict=True)))
        found.append(
            {
                "source": kind,
                **({"regime": place.pop("regime")} if "regime" in place else {}),
                "at": place,
                "runs": int(runs[at]),
                "mean": mean[at].tolist(),
                "low": low[at].tolist(),
                "high": high[at].tolist(),
            }
        )
    return found


def _place(dataset: xr.Dataset, at: dict[str, int]) -> dict[str, Any]:
    """The values of the axes there."""
    names = [
        str(name)
        for dim in at
        for name in dataset.coords
        if dataset[name].dims == (dim,) and (dim != POINT or name not in DERIVED)
    ]
    names.sort(key=axis_order)
    return {name: plain_value(dataset[name].values[at[str(dataset[name].dims[0])]]) for name in names}


def plain_value(value: Any) -> Any:
    """A number or a text that JSON knows."""
    return value.item() if isinstance(value, np.generic) else value


def _reduced(values: Array) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Mean and band over the last axis, of what is there."""
    ordered = np.sort(values, axis=-1)  # NaN last
    count = np.sum(~np.isnan(values), axis=-1)
    with np.errstate(all="ignore"):  # sums overflow just before a divergence
        mean = np.nansum(values, axis=-1) / np.where(count > 0, count, np.nan)
        low, high = (_percentile(ordered, count, share) for share in BAND)
    return mean, low, high


def _percentile(ordered: Array, count: AnyArray, share: float) -> AnyArray:
    """Linear between the neighbours, as np.nanpercentile, but all at once and without its warnings."""
    place = share * np.maximum(count - 1, 0)
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, np.maximum(count - 1, 0))
    lower, upper = (np.take_along_axis(ordered, at[..., None], axis=-1)[..., 0] for at in (below, above))
    return lower + (place - below) * (upper - lower)
