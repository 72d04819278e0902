"""How long each run takes to a given risk, in time, in steps and in samples per dimension."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.quantities.specialisation import between
from sweep_service.analysis.runs import SMALLEST, null_risk, parameter, runs
from sweep_service.analysis.selection import run_dims
from sweep_service.analysis.statistics import at, described
from sweep_service.validation import number


def time_to(dataset: xr.Dataset, /, risk: float, source: str = "sgd") -> xr.Dataset:
    """Of each run, when its risk is first below `risk`, interpolated in ln R and ln t.

    One sample is seen in each step. A run that never is below, or has not yet been, is censored:
    `reached` is false and its times are NaN.
    """
    level = number(risk, "risk", above=0.0)
    array = runs(dataset, source)
    dims, times = run_dims(array), array["time"].values
    values = array.transpose(*dims, "time").values
    smallest = SMALLEST * at(null_risk(dataset), dims)
    with np.errstate(all="ignore"):
        below = values < level
        reached, place = below.any(axis=-1), below.argmax(axis=-1)
        earlier = np.maximum(place - 1, 0)
        high, low = (
            np.log(np.maximum(np.take_along_axis(values, one[..., None], -1)[..., 0], smallest))
            for one in (earlier, place)
        )
        share = np.clip((high - np.log(level)) / (high - low), 0.0, 1.0)
        when = np.where(place > 0, between(times[earlier], times[place], share), times[0])
    when = np.where(reached, when, np.nan)
    steps = when / at(parameter(dataset, "delta_t"), dims)
    return described(
        array,
        dims,
        {
            "time_to": (when, f"time at which the risk is first below {level:g}"),
            "steps_to": (steps, "steps of SGD until then, one sample in each"),
            "samples_over_d": (steps / at(parameter(dataset, "d"), dims), "samples until then, over d"),
            "reached": (reached, "whether the risk was ever below; else the run is censored"),
        },
    )
