"""The number of seeds by which a mean over runs is known to a given accuracy."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import xarray as xr
from scipy import special

from sweep_service.analysis.error_bars.prediction import add_prediction, has_prediction, read_prediction
from sweep_service.analysis.runs import (
    average_over_runs,
    average_over_time,
    count_draws,
    late_means,
    read_runs,
    select_last_half,
    sort_dataset,
)
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import AnyArray
from sweep_service.validation import read_relative_error

RISK, FINAL_RISK = "risk", "final_risk"  # the values whose scatter is predicted
MIN_DRAWS = 5  # the standard deviation of four draws has an error of 40 %, and the number of seeds of 80 %
CONFIDENCE = 0.95
N = TypeVar("N", xr.DataArray, AnyArray)


def seeds_needed(dataset: xr.Dataset, /, value: str = RISK, relative_error: float = 0.05) -> xr.Dataset:
    """Compute how many seeds make the standard error of a mean a given share of the mean.

    The number is N = (s/(`relative_error` mean))², rounded up, where s is the standard deviation of the
    draws: of runs, or if there are several seeds and repeats of the means over the repeats of a seed, which
    N seeds are assumed to have as well. It is predicted from stored fluctuations, for which no run of SGD is
    needed, and measured from the runs if there are any. The prediction adds the scatter between the starts
    in the dataset; with one seed it is that after this start.

    Parameters
    ----------
    value
        `risk` at each time, `final_risk`, or another stored observable of SGD, which is only measured.
    relative_error
        Standard error of the mean over the mean. For a 95 % interval, about half of its relative half-width.

    Returns
    -------
    xr.Dataset
        At each point, and at each time unless it is the final risk: the number of seeds `predicted` and
        `measured` (with the 95 % interval `measured_low`, `measured_high`; NaN with fewer than five draws),
        and s/mean, `predicted_scatter` and `measured_scatter`. The predicted numbers for the final risk are
        upper bounds. `nonlinearity` is |δt shift|/sd: above 0.3 the prediction is too small.

    Raises
    ------
    InvalidInput
        If the dataset has neither fluctuations nor runs of SGD with this value.
    """
    relative_error = read_relative_error(relative_error)
    dataset = sort_dataset(dataset)
    variables: dict[str, tuple[xr.DataArray, str]] = {}
    is_predicted, is_measured = value in (RISK, FINAL_RISK) and has_prediction(dataset), "sgd_risk" in dataset
    if not is_predicted and not is_measured:
        if value in (RISK, FINAL_RISK):
            read_prediction(dataset)  # raises an error that says how to store fluctuations
        raise InvalidInput("value", value, "is measured, which needs runs of SGD: only the risk is predicted")
    if is_predicted:
        scatter, nonlinearity = _predict_scatter(dataset, value)
        variables |= {
            "predicted": (count_seeds(scatter, relative_error), "predicted number of seeds"),
            "predicted_scatter": (scatter, "predicted standard deviation of a draw over the mean"),
            "nonlinearity": (nonlinearity, "|δt shift|/sd: above 0.3 linear theory fails"),
        }
    if is_measured:
        scatter, degrees = _measure_scatter(dataset, value)
        number = (scatter / relative_error) ** 2
        tails = ((1.0 + CONFIDENCE) / 2.0, (1.0 - CONFIDENCE) / 2.0)  # probabilities below a χ²
        low, high = (number * degrees / xr.apply_ufunc(special.chdtri, degrees, 1.0 - p) for p in tails)
        variables |= {
            "measured": (_round_up(number), "number of seeds from the scatter of the draws"),
            "measured_low": (_round_up(low), "lower end of the 95 % interval of that number"),
            "measured_high": (_round_up(high), "upper end of the 95 % interval of that number"),
            "measured_scatter": (scatter, "standard deviation of the draws over the mean"),
        }
    return xr.Dataset(
        {name: array.assign_attrs(long_name=f"{text}, {value}") for name, (array, text) in variables.items()}
    )


def _predict_scatter(dataset: xr.Dataset, value: str) -> tuple[xr.DataArray, xr.DataArray]:
    """The standard deviation of a draw over the mean, and |δt shift|/sd; for the final risk, upper bounds."""
    dataset = add_prediction(dataset)
    repeats = dataset.sizes.get("repeat", 1)
    dataset = select_last_half(dataset) if value == FINAL_RISK else dataset
    prediction = read_prediction(dataset)
    mean, std, nonlinearity = prediction.centre, prediction.std, prediction.nonlinearity
    if value == FINAL_RISK:  # the sd of an average is at most the average of the sd
        start = float(dataset["time"][-1]) / 2
        mean, std = (average_over_time(array, start) for array in (mean, std))
        nonlinearity = nonlinearity.max("time")
    variance = std**2
    if "seed" in mean.dims:
        several = mean.sizes["seed"] > 1
        variance = variance.mean("seed") / (repeats if several else 1)
        variance = variance + (mean.var("seed", ddof=1) if several else 0.0)
        mean, nonlinearity = mean.mean("seed"), nonlinearity.max("seed")
    return _divide(variance**0.5, mean), nonlinearity


def _measure_scatter(dataset: xr.Dataset, value: str) -> tuple[xr.DataArray, xr.DataArray]:
    """The standard deviation of the draws over the mean, and its degrees of freedom."""
    runs = late_means(dataset) if value == FINAL_RISK else read_runs(dataset, "sgd", value)
    others = [str(dim) for dim in runs.dims if dim in ("student", "student_other", "teacher", "cosine_bin")]
    if others:
        raise InvalidInput("value", value, f"must be one number at each time, without {', '.join(others)}")
    mean, error, _ = average_over_runs(runs)
    draws = count_draws(runs)
    degrees = (draws - 1.0).where(draws >= MIN_DRAWS)
    return _divide(error * draws**0.5, mean).where(draws >= MIN_DRAWS), degrees


def count_seeds(scatter: N, relative_error: float) -> N:
    """The number of draws that make the standard error of a mean this share of it; NaN stays."""
    return _round_up((scatter / relative_error) ** 2)


def _divide(std: xr.DataArray, mean: xr.DataArray) -> xr.DataArray:
    return std / abs(mean).where(mean != 0.0)


def _round_up(number: N) -> N:
    """Whole numbers of at least 1; NaN stays."""
    # A number such as 16.000000000001 is 16 with the rounding of a square.
    return xr.apply_ufunc(np.ceil, number * (1.0 - 1e-9)).clip(min=1.0)
