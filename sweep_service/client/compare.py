"""`ss.compare`: two stored or opened sweeps at the points that both have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr


def compare(
    a: xr.Dataset | str | Path,
    b: xr.Dataset | str | Path,
    /,
    value: str = "sgd_risk",
    how: str = "ratio",
    *,
    token: str | None = None,
    **where: Any,
) -> xr.Dataset:
    """Compare a value of two sweeps at the points that both have.

    Parameters
    ----------
    a, b
        Datasets, or what `ss.open` opens: paths of datasets, or URLs of sweeps.
    value
        A number for each run, as in phase diagrams, such as `sgd_final_risk` or `discrepancy`.
    how
        `ratio`, a over b, or `difference`, a minus b.
    token
        Token of the service, if it requires one. By default `SWEEP_TOKEN`.
    **where
        Selections along coordinates, as for `ds.sweep.phase_diagram`.

    Returns
    -------
    xr.Dataset
        At each common point `a`, `b`, the `ratio` or `difference`, its `standard_error`, and whether runs are
        `paired`: they share their starts, or with a single seed their streams, and what they share does not
        add to the error. The attribute `differs` has the parameters whose values differ.

    Raises
    ------
    InvalidInput
        If a name is unknown, or the sweeps have no point in common.
    """
    from sweep_service.analysis.comparison.compare import compare as compare_datasets
    from sweep_service.client.client import open

    first, second = (open(side, token) if isinstance(side, str | Path) else side for side in (a, b))
    return compare_datasets(first, second, value, how, **where)
