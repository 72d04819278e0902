"""Distances of SGD from a theory in the conventions of the figures' golden numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray as xr


def own_share(dataset: xr.Dataset, regime: str) -> xr.DataArray:
    """max_t |R_s - R°_s| of each run in units of its own R_s(0), mean over runs: starts differ in R(0)."""
    from sweep_service.analysis.quantities.discrepancy import largest_differences
    from sweep_service.analysis.runs import over_runs, runs

    first = runs(dataset, "sgd").isel(time=0, drop=True)
    return over_runs(largest_differences(dataset, "sgd", regime) / first)[0]


def from_one_start(dataset: xr.Dataset, regime: str) -> xr.DataArray:
    """max_t |R̄ - R°|, R̄ the mean over repeats from one start and R° the theory from it; mean over starts.

    Fluctuations of single runs average out over the repeats, differences between starts do not enter.
    """
    from sweep_service.analysis.quantities.discrepancy import differences

    apart = differences(dataset, "sgd", regime).mean("repeat")
    return abs(apart).max("time").mean("seed")


def initial_risk(dataset: xr.Dataset, source: str = "sgd") -> xr.DataArray:
    """R(0), mean over runs."""
    from sweep_service.analysis.runs import over_runs, runs

    return over_runs(runs(dataset, source).isel(time=0, drop=True))[0]


def mean_risk(dataset: xr.Dataset, source: str) -> xr.DataArray:
    """R(t), mean over runs; of an SGD run that diverged, nothing."""
    from sweep_service.analysis.runs import has_diverged, over_runs, runs

    return over_runs(runs(dataset, source).where(~has_diverged(dataset, source)))[0]


def slope(x: xr.DataArray, y: xr.DataArray) -> float:
    """Of ln y on ln x, by plain least squares."""
    return float(np.polyfit(np.log(x.values), np.log(y.values), 1)[0])


def only(array: xr.DataArray, *but: str) -> xr.DataArray:
    """Without the dimensions of one value, except some."""
    return array.squeeze([dim for dim in array.dims if array.sizes[dim] == 1 and dim not in but], drop=True)
