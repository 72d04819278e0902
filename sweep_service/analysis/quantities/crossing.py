"""The time at which each run first falls below a risk, in t, in steps and in samples per dimension."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.quantities.specialisation import interpolate_time
from sweep_service.analysis.runs import MIN_RELATIVE_RISK, null_risk, parameter, read_runs
from sweep_service.analysis.selection import run_dims
from sweep_service.analysis.statistics import align_to_points, build_dataset
from sweep_service.validation import read_number


def time_to(dataset: xr.Dataset, /, risk: float, source: str = "sgd") -> xr.Dataset:
    """Find when the risk of each run first falls below a level, interpolated in ln R and ln t.

    Parameters
    ----------
    risk
        The level, a positive number.
    source
        `sgd`, the name of a regime, or `ode` for all regimes.

    Returns
    -------
    xr.Dataset
        For each run `time_to`, `steps_to`, `samples_over_d` (each step uses a batch of samples), and
        `reached`. A run that has not fallen below the level is censored: `reached` is false and its times
        are NaN.
    """
    level = read_number(risk, "risk", above=0.0)
    array = read_runs(dataset, source)
    dims, times = run_dims(array), array["time"].values
    values = array.transpose(*dims, "time").values
    smallest = MIN_RELATIVE_RISK * align_to_points(null_risk(dataset), dims)
    with np.errstate(all="ignore"):
        below = values < level
        reached, after = below.any(axis=-1), below.argmax(axis=-1)
        before = np.maximum(after - 1, 0)
        high, low = (
            np.log(np.maximum(np.take_along_axis(values, index[..., None], -1)[..., 0], smallest))
            for index in (before, after)
        )
        share = np.clip((high - np.log(level)) / (high - low), 0.0, 1.0)
        crossing = np.where(after > 0, interpolate_time(times[before], times[after], share), times[0])
    crossing = np.where(reached, crossing, np.nan)
    steps = crossing / align_to_points(parameter(dataset, "delta_t"), dims)
    batch, d = (align_to_points(parameter(dataset, name), dims) for name in ("batch", "d"))
    samples_over_d = steps * batch / d
    return build_dataset(
        array,
        dims,
        {
            "time_to": (crossing, f"time at which the risk is first below {level:g}"),
            "steps_to": (steps, "steps of SGD until then"),
            "samples_over_d": (samples_over_d, "samples until then, over d"),
            "reached": (reached, "whether the risk was ever below; else the run is censored"),
        },
    )
