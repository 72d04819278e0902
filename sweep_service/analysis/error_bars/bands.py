"""The band of curves in which a theory predicts 95 % of the runs of SGD."""

from __future__ import annotations

import xarray as xr

from sweep_service.analysis.error_bars.prediction import has_prediction, read_prediction
from sweep_service.analysis.runs import DRAW_DIMS
from sweep_service.dynamics.fluctuations.requirements import any_with_fluctuations

QUANTILE = 1.959964  # of a normal distribution: 95 % are within so many standard deviations


def compute_bands(dataset: xr.Dataset) -> xr.Dataset | None:
    """The predicted mean of runs of SGD at each point and time, and the ends `low` and `high` of their band.

    The band is that of runs from all starts: its variance is the mean of the predicted ones plus the
    variance of the predicted means between the starts. None without stored fluctuations.
    """
    if not has_prediction(dataset):
        return None
    prediction = read_prediction(dataset)
    starts = [dim for dim in prediction.mean.dims if dim in DRAW_DIMS]
    mean = prediction.mean.mean(starts)
    std = ((prediction.std**2).mean(starts) + prediction.mean.var(starts)) ** 0.5
    return xr.Dataset({"mean": mean, "low": mean - QUANTILE * std, "high": mean + QUANTILE * std})


def has_band(regime: str | None) -> bool:
    """Whether the band belongs to the curve of this regime."""
    return regime is not None and any_with_fluctuations((regime,))
