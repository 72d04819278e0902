"""Whether the weights stay bounded: the assumption of every limit, checked after the runs."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import read_runs
from sweep_service.analysis.statistics import build_dataset, finite_mean, group_by_draw, point_dims
from sweep_service.status import Status


def bounded(dataset: xr.Dataset, /, K: float = 10.0, source: str = "sgd") -> xr.Dataset:
    """Check whether max_i Q_ii stays at most `K` in every run that has ended.

    The largest norm of a diverged run is infinite.

    Parameters
    ----------
    K
        The bound.
    source
        `sgd`, the name of a regime, or `ode` for all regimes.

    Returns
    -------
    xr.Dataset
        At each point `largest_norm` (over time and runs), `bounded`, `share` of the bounded runs, and the
        number of `runs`.
    """
    norms = read_runs(dataset, source, "largest_norm")
    dims, values = point_dims(norms), group_by_draw(norms)
    status = group_by_draw(read_runs(dataset, source, "status"))
    largest = np.max(values, axis=-1, where=~np.isnan(values), initial=-np.inf)
    largest = np.where(status == Status.DIVERGED, np.inf, largest)
    available = largest > -np.inf  # neither pending nor without values
    count = available.sum(axis=(-2, -1))
    share = finite_mean(np.where(available, largest <= K, np.nan), (-2, -1))
    return build_dataset(
        norms,
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
