"""Distances of SGD from a theory, as defined for the golden numbers of the figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray as xr


def mean_relative_discrepancy(dataset: xr.Dataset, regime: str) -> xr.DataArray:
    """Mean over runs of max_t |R_s - R°_s|/R_s(0), as starts differ in R(0)."""
    from sweep_service.analysis.quantities.discrepancy import largest_differences
    from sweep_service.analysis.runs import average_over_runs, read_runs

    first = read_runs(dataset, "sgd").isel(time=0, drop=True)
    return average_over_runs(largest_differences(dataset, "sgd", regime) / first)[0]


def discrepancy_of_means(dataset: xr.Dataset, regime: str) -> xr.DataArray:
    """Mean over starts of max_t |R̄ - R°|, where R̄ is the mean over the repeats of a start and R° the theory.

    Fluctuations of single runs average out over the repeats; differences between starts do not contribute.
    """
    from sweep_service.analysis.quantities.discrepancy import differences

    means = differences(dataset, "sgd", regime).mean("repeat")
    return abs(means).max("time").mean("seed")


def initial_risk(dataset: xr.Dataset, source: str = "sgd") -> xr.DataArray:
    """Mean over runs of R(0)."""
    from sweep_service.analysis.runs import average_over_runs, read_runs

    return average_over_runs(read_runs(dataset, source).isel(time=0, drop=True))[0]


def mean_risk(dataset: xr.Dataset, source: str) -> xr.DataArray:
    """Mean over runs of R(t), without runs that diverged."""
    from sweep_service.analysis.runs import average_over_runs, has_diverged, read_runs

    return average_over_runs(read_runs(dataset, source).where(~has_diverged(dataset, source)))[0]


def fit_log_slope(x: xr.DataArray, y: xr.DataArray) -> float:
    """Slope of ln y on ln x, by unweighted least squares."""
    return float(np.polyfit(np.log(x.values), np.log(y.values), 1)[0])


def squeeze_except(array: xr.DataArray, *kept: str) -> xr.DataArray:
    """Drop dimensions of size one, except those in `kept`."""
    return array.squeeze([dim for dim in array.dims if array.sizes[dim] == 1 and dim not in kept], drop=True)
