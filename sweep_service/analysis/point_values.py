"""What can be drawn over the points of a sweep: a number of each run, or a word for each point."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.auto_regime import auto_regimes
from sweep_service.analysis.quantities.classification import phase
from sweep_service.analysis.quantities.discrepancy import largest_differences
from sweep_service.analysis.quantities.specialisation import specialisation_time
from sweep_service.analysis.runs import (
    DRAWN,
    has_ended,
    initial_risk,
    late_means,
    noise_coefficient,
    parameter,
    runs,
)
from sweep_service.analysis.selection import blocks, run_dims
from sweep_service.errors import InvalidInput
from sweep_service.planning.runs import KINDS
from sweep_service.planning.schema import TITLES
from sweep_service.status import Status

ROOM = 1 << 23  # numbers read at once: 64 MB


@dataclass(frozen=True)
class Value:
    """`of` makes it, one for each run that has it and NaN elsewhere, from the variables in `needs`."""

    long_name: str
    needs: tuple[str, ...]
    of: Callable[[xr.Dataset], xr.DataArray]
    units: str = "1"
    late: bool = False  # of the last half of the times, unless others are selected
    words: bool = False  # one for each point, of all its runs together

    def dims(self, dataset: xr.Dataset) -> tuple[str, ...]:
        """The dimensions of the runs that it needs."""
        return tuple(dict.fromkeys(dim for name in self.needs for dim in run_dims(dataset[name])))

    def computed(self, dataset: xr.Dataset) -> xr.DataArray:
        """Block by block, as all samples of all runs may be more than memory holds."""
        dims = [dim for dim in self.dims(dataset) if not (self.words and dim in DRAWN)]
        sizes = {dim: dataset.sizes[dim] for dim in dims}
        whole = sum(dataset[name].size for name in self.needs)
        found = np.empty(tuple(sizes.values()), dtype=object if self.words else float)
        for where in blocks(sizes, max(1, ROOM * math.prod(sizes.values()) // whole)):
            with np.errstate(all="ignore"):
                found[tuple(where.values())] = self.of(dataset.isel(where)).transpose(*dims).values
        return xr.DataArray(
            found, dims=dims, coords={dim: dataset[dim] for dim in dims if dim in dataset.coords}
        )


def values_of(dataset: xr.Dataset) -> dict[str, Value]:
    """What is stored with at most a time beside the runs, and what can be made of what is stored."""
    found: dict[str, Value] = {}
    for name, array in dataset.data_vars.items():
        kind, trailing = str(name).partition("_")[0], array.dims[len(run_dims(array)) :]
        if kind in KINDS and trailing in ((), ("time",)) and "flag_meanings" not in array.attrs:
            about: dict[str, Any] = array.attrs
            found[str(name)] = Value(
                about.get("long_name", str(name)), (str(name),), partial(_stored, kind, str(name)),
                about.get("units", "1"), late=True,
            )  # fmt: skip
    known = {name: value for name, value in VALUES.items() if all(one in dataset for one in value.needs)}
    return found | known


def _stored(kind: str, name: str, dataset: xr.Dataset) -> xr.DataArray:
    """The mean over time, if the run has a value at each of them."""
    array = dataset[name].where(has_ended(dataset, dataset[name], kind))
    return array.mean("time", skipna=False) if "time" in array.dims else array


def _diverged(kind: str, dataset: xr.Dataset) -> xr.DataArray:
    status = dataset[f"{kind}_status"]
    return (status == Status.DIVERGED).astype(float).where(has_ended(dataset, status, kind))


def _relative(dataset: xr.Dataset) -> xr.DataArray:
    if (first := float(dataset["time"][0])) != 0.0:
        raise InvalidInput("time", first, "must begin at 0 for a discrepancy in units of R(0)")
    return largest_differences(dataset) / initial_risk(dataset)


def _ratio(dataset: xr.Dataset) -> xr.DataArray:
    return late_means(dataset, "sgd") / late_means(dataset, "ode")


def _final(kind: str, dataset: xr.Dataset) -> xr.DataArray:
    return late_means(dataset, kind)


def _over_floor(kind: str, dataset: xr.Dataset) -> xr.DataArray:
    noise = parameter(dataset, "gamma") * parameter(dataset, "noise") / parameter(dataset, "p")
    return late_means(dataset, kind) / (noise_coefficient(dataset) * noise.where(noise > 0.0))


def _largest(kind: str, dataset: xr.Dataset) -> xr.DataArray:
    return runs(dataset, kind, "largest_norm").max("time")


def _time(kind: str, dataset: xr.Dataset) -> xr.DataArray:
    return specialisation_time(dataset, kind)["specialisation_time"]


def _phase(kind: str, dataset: xr.Dataset) -> xr.DataArray:
    return phase(dataset, kind)["phase"]


BOTH = ("ode_risk", "sgd_risk")
VALUES = {
    "discrepancy": Value("max over t of |SGD - theory|, in the risk", BOTH, largest_differences),
    "relative_discrepancy": Value("max over t of |SGD - theory|/R(0), in the risk", BOTH, _relative),
    "sgd_over_ode": Value("final risk of SGD over that of the theory", BOTH, _ratio),
    "auto_regime": Value("the regime that auto would choose", ("sgd_risk",), auto_regimes, words=True),
}
for _kind, _title in TITLES.items():
    VALUES |= {
        f"{_kind}_diverged": Value(
            f"share of ended runs that diverged ({_title})", (f"{_kind}_status",), partial(_diverged, _kind)
        ),
        f"{_kind}_final_risk": Value(
            f"excess risk, mean over the last half of the time ({_title})",
            (f"{_kind}_risk",),
            partial(_final, _kind),
        ),
        f"{_kind}_over_floor": Value(
            f"final risk over the noise floor c γΔ/p ({_title})",
            (f"{_kind}_risk",),
            partial(_over_floor, _kind),
        ),
        f"{_kind}_bound": Value(
            f"largest max_i Q_ii along a run ({_title})",
            (f"{_kind}_largest_norm",),
            partial(_largest, _kind),
        ),
        f"{_kind}_specialisation_time": Value(
            f"time of specialisation ({_title})", (f"{_kind}_specialisation",), partial(_time, _kind)
        ),
        f"{_kind}_phase": Value(
            f"phase ({_title})", (f"{_kind}_risk", f"{_kind}_status"), partial(_phase, _kind), words=True
        ),
    }
