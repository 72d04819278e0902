"""Values that can be shown over the points of a sweep: a number for each run, or a label for each point."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.auto_regime import find_auto_regimes
from sweep_service.analysis.error_bars.prediction import add_prediction
from sweep_service.analysis.error_bars.validity import describe_validity, validity
from sweep_service.analysis.error_bars.z_score import largest_z_scores
from sweep_service.analysis.floor_law.coefficient import noise_coefficient
from sweep_service.analysis.quantities.classification import phase
from sweep_service.analysis.quantities.discrepancy import largest_differences
from sweep_service.analysis.quantities.specialisation import specialisation_time
from sweep_service.analysis.runs import (
    DRAW_DIMS,
    average_over_time,
    has_ended,
    initial_risk,
    late_means,
    parameter,
    read_runs,
)
from sweep_service.analysis.selection import iterate_blocks, run_dims
from sweep_service.errors import InvalidInput
from sweep_service.planning.runs import KINDS
from sweep_service.planning.schema import KIND_TITLES
from sweep_service.registries import declare_registry
from sweep_service.status import Status

NUMBERS_PER_BLOCK = 1 << 23  # read at once: 64 MB


@dataclass(frozen=True)
class Value:
    """A value: `function` computes it from the variables in `needs`, for each run, or NaN."""

    long_name: str
    needs: tuple[str, ...]
    function: Callable[[xr.Dataset], xr.DataArray]
    units: str = "1"
    late_function: Callable[[xr.Dataset], xr.DataArray] | None = None  # instead, if no times are selected
    is_label: bool = False  # one text for each point, computed from all of its runs

    def dims(self, dataset: xr.Dataset) -> tuple[str, ...]:
        """The dimensions of the runs that it needs."""
        return tuple(dict.fromkeys(dim for name in self.needs for dim in run_dims(dataset[name])))

    def compute(self, dataset: xr.Dataset) -> xr.DataArray:
        """Compute it block by block, as all samples of all runs may not fit in memory."""
        dims = [dim for dim in self.dims(dataset) if not (self.is_label and dim in DRAW_DIMS)]
        sizes = {dim: dataset.sizes[dim] for dim in dims}
        total = sum(dataset[name].size for name in self.needs)
        values = np.empty(tuple(sizes.values()), dtype=object if self.is_label else float)
        for index in iterate_blocks(sizes, max(1, NUMBERS_PER_BLOCK * math.prod(sizes.values()) // total)):
            with np.errstate(all="ignore"):
                values[tuple(index.values())] = self.function(dataset.isel(index)).transpose(*dims).values
        return xr.DataArray(
            values, dims=dims, coords={dim: dataset[dim] for dim in dims if dim in dataset.coords}
        )


def available_values(dataset: xr.Dataset) -> dict[str, Value]:
    """Stored variables that are one number per run or per time, and the VALUES that follow from them.

    They refer to the variables of `add_prediction`, also where these are not in the dataset yet.
    """
    dataset = add_prediction(dataset)
    stored: dict[str, Value] = {}
    for name, array in dataset.data_vars.items():
        kind, trailing = str(name).partition("_")[0], array.dims[len(run_dims(array)) :]
        if kind in KINDS and trailing in ((), ("time",)) and "flag_meanings" not in array.attrs:
            attributes: dict[str, Any] = array.attrs
            stored[str(name)] = Value(
                attributes.get("long_name", str(name)), (str(name),), partial(_stored_mean, kind, str(name)),
                attributes.get("units", "1"), partial(_late_stored_mean, kind, str(name)),
            )  # fmt: skip
    derived = {
        name: value for name, value in VALUES.items() if all(variable in dataset for variable in value.needs)
    }
    return stored | derived


def _stored_mean(kind: str, name: str, dataset: xr.Dataset, start: float | None = None) -> xr.DataArray:
    """The time average of each run from a time on, NaN if one of its samples is missing."""
    array = dataset[name].where(has_ended(dataset, dataset[name], kind))
    return average_over_time(array, start) if "time" in array.dims else array


def _late_stored_mean(kind: str, name: str, dataset: xr.Dataset) -> xr.DataArray:
    """The time average of each run over [t_max/2, t_max]."""
    return _stored_mean(kind, name, dataset, float(dataset["time"][-1]) / 2)


def _diverged(kind: str, dataset: xr.Dataset) -> xr.DataArray:
    status = dataset[f"{kind}_status"]
    return (status == Status.DIVERGED).astype(float).where(has_ended(dataset, status, kind))


def _relative_discrepancy(dataset: xr.Dataset) -> xr.DataArray:
    if (first := float(dataset["time"][0])) != 0.0:
        raise InvalidInput("time", first, "must begin at 0 for a discrepancy in units of R(0)")
    return largest_differences(dataset) / initial_risk(dataset)


def _sgd_over_ode(dataset: xr.Dataset) -> xr.DataArray:
    return late_means(dataset, "sgd") / late_means(dataset, "ode")


def _final_risk(kind: str, dataset: xr.Dataset) -> xr.DataArray:
    return late_means(dataset, kind)


def _over_floor(kind: str, dataset: xr.Dataset) -> xr.DataArray:
    scale = parameter(dataset, "gamma") * parameter(dataset, "noise") / parameter(dataset, "p")
    return late_means(dataset, kind) / (noise_coefficient(dataset, kind) * scale.where(scale > 0.0))


def _bound(kind: str, dataset: xr.Dataset) -> xr.DataArray:
    return read_runs(dataset, kind, "largest_norm").max("time")


def _specialisation_time(kind: str, dataset: xr.Dataset) -> xr.DataArray:
    return specialisation_time(dataset, kind)["specialisation_time"]


def _phase(kind: str, dataset: xr.Dataset) -> xr.DataArray:
    return phase(dataset, kind)["phase"]


def _z_discrepancy(dataset: xr.Dataset) -> xr.DataArray:
    return largest_z_scores(dataset, "ode")


def _validity(dataset: xr.Dataset) -> xr.DataArray:
    codes = validity(dataset, "ode")["overall"]
    return codes.copy(data=describe_validity(codes.values))


BOTH_RISKS = ("ode_risk", "sgd_risk")
PREDICTED_STD = "predicted_std"
VALUES = {
    "discrepancy": Value("max over t of |SGD - theory|, in the risk", BOTH_RISKS, largest_differences),
    "relative_discrepancy": Value(
        "max over t of |SGD - theory|/R(0), in the risk", BOTH_RISKS, _relative_discrepancy
    ),
    "sgd_over_ode": Value("final risk of SGD over that of the theory", BOTH_RISKS, _sgd_over_ode),
    "largest_z_score": Value(
        "max over t of |SGD - predicted mean|/sd, in the risk", ("sgd_risk", PREDICTED_STD), largest_z_scores
    ),
    "z_discrepancy": Value(
        "max over t of |SGD - theory| over the predicted sd, in the risk",
        (*BOTH_RISKS, PREDICTED_STD),
        _z_discrepancy,
    ),
    "validity": Value(
        "whether SGD is within the error bars of the theory",
        (*BOTH_RISKS, PREDICTED_STD),
        _validity,
        is_label=True,
    ),
    "auto_regime": Value(
        "the regime that auto would choose", ("sgd_risk",), find_auto_regimes, is_label=True
    ),
}
for _kind, _title in KIND_TITLES.items():
    VALUES |= {
        f"{_kind}_diverged": Value(
            f"share of ended runs that diverged ({_title})", (f"{_kind}_status",), partial(_diverged, _kind)
        ),
        f"{_kind}_final_risk": Value(
            f"excess risk, mean over the last half of the time ({_title})",
            (f"{_kind}_risk",),
            partial(_final_risk, _kind),
        ),
        f"{_kind}_over_floor": Value(
            f"final risk over the noise floor c γΔ/p ({_title})",
            (f"{_kind}_risk",),
            partial(_over_floor, _kind),
        ),
        f"{_kind}_bound": Value(
            f"largest max_i Q_ii along a run ({_title})",
            (f"{_kind}_largest_norm",),
            partial(_bound, _kind),
        ),
        f"{_kind}_specialisation_time": Value(
            f"time of specialisation ({_title})",
            (f"{_kind}_specialisation",),
            partial(_specialisation_time, _kind),
        ),
        f"{_kind}_phase": Value(
            f"phase ({_title})", (f"{_kind}_risk", f"{_kind}_status"), partial(_phase, _kind), is_label=True
        ),
    }
declare_registry("value", VALUES, affects_runs=False)
