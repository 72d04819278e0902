"""Estimates of a sweep with a target error, with the intervals that belong to its rule."""

from __future__ import annotations

import json

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import late_means, read_runs, sort_dataset
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import Array
from sweep_service.planning.growth.target_error import estimate_interval
from sweep_service.planning.spec import FINAL_RISK, SweepSpec


def target_estimates(dataset: xr.Dataset, /, confidence: float = 0.95) -> xr.Dataset:
    """Estimate the value of a target error at each point, with its interval.

    The estimate is the geometric mean over seeds (of the means over repeats), and the interval
    mean ± t s/√N in logarithms, with the standard deviation s of the pilot. Because seeds were added until
    the standard error was small, an interval from all seeds would be too narrow; this one covers the mean as
    often as it says.

    Parameters
    ----------
    confidence
        Probability with which the interval covers the mean.

    Returns
    -------
    xr.Dataset
        `estimate`, `low`, `high` and the number of `seeds` at each point; NaN where a value is missing or not
        positive.

    Raises
    ------
    InvalidInput
        If the dataset is not that of a sweep with a target error, or its pilot is not selected.
    """
    if not 0.0 < confidence < 1.0:
        raise InvalidInput("confidence", confidence, "must be > 0 and < 1")
    spec = SweepSpec.parse(json.loads(dataset.attrs["spec"])) if "spec" in dataset.attrs else None
    if spec is None or spec.target_error is None:
        raise InvalidInput("target_error", None, "is not in the spec of this dataset")
    dataset, value = sort_dataset(dataset), spec.target_error.value
    if value == FINAL_RISK:
        draws = late_means(dataset)
    else:
        draws = read_runs(dataset, "sgd", value).isel(time=-1, drop=True)
    draws = draws.mean("repeat", skipna=False) if "repeat" in draws.dims else draws
    pilot = [seed for seed in spec.seeds.init if seed in np.atleast_1d(dataset["seed"].values)]
    if "seed" not in draws.dims or len(pilot) < len(spec.seeds.init):
        raise InvalidInput("seed", pilot, f"must include the pilot, the seeds {spec.seeds.init}")
    others = [seed for seed in draws["seed"].values.tolist() if seed not in pilot]
    draws = draws.sel(seed=[*pilot, *others])

    def estimate(values: Array) -> tuple[Array, Array, Array]:
        rows = values.reshape(-1, values.shape[-1])
        is_undefined = np.any(rows <= 0.0, axis=1) | np.any(np.isnan(rows[:, : len(pilot)]), axis=1)
        rows = np.where(is_undefined[:, None], 1.0, rows)
        intervals = estimate_interval(rows, len(pilot), confidence)
        shape = values.shape[:-1]
        mean, low, high = (np.where(is_undefined, np.nan, part).reshape(shape) for part in intervals)
        return mean, low, high

    mean, low, high = xr.apply_ufunc(
        estimate, draws, input_core_dims=[["seed"]], output_core_dims=[[], [], []]
    )
    counts = draws.notnull().sum("seed")
    text = f"{value}, {100 * confidence:g} % interval"
    return xr.Dataset({
        "estimate": mean.assign_attrs(long_name=f"geometric mean of {value} over seeds"),
        "low": low.assign_attrs(long_name=f"lower end, {text}"),
        "high": high.assign_attrs(long_name=f"upper end, {text}"),
        "seeds": counts.assign_attrs(long_name="number of seeds"),
    })  # fmt: skip
