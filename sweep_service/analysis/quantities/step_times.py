"""A theory at the exact times of the steps of SGD, where the two are compared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr

from sweep_service.analysis.quantities.interpolation import interpolate
from sweep_service.analysis.runs import parameter, sort_dataset
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import Array

MIN_STEPS = 10  # of SGD: earlier, the difference is mostly the discreteness of the steps


def select_positive_times(dataset: xr.Dataset) -> xr.Dataset:
    """The samples after t = 0 in ascending order, of which an interpolation in ln t needs two."""
    dataset = sort_dataset(dataset)
    first = int(np.searchsorted(dataset["time"].values, 0.0, side="right"))
    if dataset.sizes["time"] - first < 2:
        raise InvalidInput("time", dataset["time"].values.tolist(), "must have two samples after t = 0")
    return dataset.isel(time=slice(first, None))


def has_enough_steps(dataset: xr.Dataset) -> xr.DataArray:
    """Whether SGD has taken at least `MIN_STEPS` at each time of each point."""
    return dataset["time"] >= MIN_STEPS * parameter(dataset, "delta_t") * (1.0 - 1e-12)


def make_evaluation(dataset: xr.Dataset) -> Callable[[xr.DataArray], xr.DataArray]:
    """Evaluation of a theory at the times of round(t/δt) steps, by interpolation in ln t."""
    time, delta_t = dataset["time"], parameter(dataset, "delta_t")
    step_times = ((time / delta_t).round().clip(min=1.0) * delta_t).transpose(..., "time")

    def evaluate(array: xr.DataArray) -> xr.DataArray:
        def interpolate_in_log_time(values: Array, at: Array) -> Array:
            return interpolate(np.log(time.values), values, np.log(at))

        with np.errstate(all="ignore"):  # a theory may overflow just before it diverges
            return xr.apply_ufunc(
                interpolate_in_log_time,
                array,
                step_times,
                input_core_dims=[["time"], ["time"]],
                output_core_dims=[["time"]],
            )

    return evaluate
