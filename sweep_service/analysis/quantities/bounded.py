"""Whether the weights stay bounded: the assumption behind every limit, checked after the runs."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import runs
from sweep_service.analysis.statistics import by_run, described, mean_over, point_dims
from sweep_service.status import Status


def bounded(dataset: xr.Dataset, /, K: float = 10.0, source: str = "sgd") -> xr.Dataset:
    """sup over time of max_i Q_ii, and whether it is at most `K` in every run that has ended.

    A diverged run is unbounded: its supremum is infinite.
    """
    array, ended = runs(dataset, source, "largest_norm"), runs(dataset, source, "status")
    dims, values = point_dims(array), by_run(array)
    status = by_run(ended)
    largest = np.max(values, axis=-1, where=~np.isnan(values), initial=-np.inf)
    largest = np.where(status == Status.DIVERGED, np.inf, largest)
    there = largest > -np.inf  # neither pending nor without a value
    count = there.sum(axis=(-2, -1))
    share = mean_over(np.where(there, largest <= K, np.nan), (-2, -1))
    return described(
        array,
        dims,
        {
            "largest_norm": (
                np.where(count > 0, largest.max(axis=(-2, -1)), np.nan),
                "largest max_i Q_ii over time and runs",
            ),
            "bounded": (share == 1.0, f"whether max_i Q_ii stays at most {K:g} in every run"),
            "share": (share, "share of runs that are bounded"),
            "runs": (count, "runs that have ended"),
        },
    )
