"""Exponents: the slope of a quantity in a parameter, by a line through the logarithms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.curves import DERIVED_COORDINATES, plain_value
from sweep_service.analysis.quantities.discrepancy import largest_differences
from sweep_service.analysis.runs import DRAW_DIMS, late_means, parameter
from sweep_service.analysis.statistics import average_over_draws, finite_mean, group_by_draw, resample
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.model.labels import variable_attributes
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.axes import CORE_AXES, POINT

BOOTSTRAPS = 1000
INTERVAL_PERCENTILES = (2.5, 97.5)
MIN_VALUES = 2  # of the parameter
CASE, PLACE = "case", "place"

# By name: the function that computes a number for each run, and its options.
QUANTITIES: dict[str, tuple[Callable[..., xr.DataArray], tuple[str, ...]]] = {
    "discrepancy": (largest_differences, ("a", "b")),
    "overlap_discrepancy": (partial(largest_differences, of="overlaps"), ("a", "b")),
    "final_risk": (late_means, ("source",)),
}


def exponent(
    dataset: xr.Dataset,
    /,
    of: str = "discrepancy",
    along: str = "delta_t",
    by: Sequence[str] | None = None,
    **options: Any,
) -> xr.Dataset:
    """Fit the slope of ln(mean over runs) of a quantity on ln(parameter).

    Weighted least squares with the weights (mean/error)². The error and the 95 % interval come from 1000
    bootstraps over the seeds, each with all of its repeats, or over the repeats of a single seed.

    Parameters
    ----------
    of
        `discrepancy` (of the risk), `overlap_discrepancy` or `final_risk`.
    along
        The parameter.
    by
        Parameters that distinguish the fits; by default all axes on which `along` does not depend.
    **options
        `a` and `b` of a discrepancy, `source` of a final risk.

    Returns
    -------
    xr.Dataset
        On the dimension `case`, one for each combination of the parameters in `by`: `exponent`,
        `standard_error`, `low`, `high`, `prefactor` and the number of `points`; on (case, place) the fitted
        parameter, `mean` and `error`.

    Raises
    ------
    InvalidInput
        If a name is unknown, or the parameter is not a number.
    """
    if of not in QUANTITIES:
        raise unknown_name("of", of, QUANTITIES)
    compute, option_names = QUANTITIES[of]
    for name, option in options.items():
        if name not in option_names:
            raise InvalidInput(
                name, option, f"is not an option of {of}, which takes {' and '.join(option_names)}"
            )
    values = compute(dataset, **options)
    dims = [str(dim) for dim in values.dims if dim not in DRAW_DIMS]
    table = group_by_draw(values)
    table = table.reshape(-1, *table.shape[-2:])
    columns = {along: _parameter_column(dataset, values, along, dims)}
    names = _case_names(dataset, values, along, dims) if by is None else list(by)
    columns |= {name: _parameter_column(dataset, values, name, dims) for name in names}
    cases: dict[tuple[Any, ...], list[int]] = {}
    for row in range(len(table)):
        cases.setdefault(tuple(plain_value(columns[name][row]) for name in names), []).append(row)
    mean, error, *_ = average_over_draws(table)
    if columns[along].dtype.kind not in "iuf":
        raise InvalidInput("along", along, "must be a number at each point")
    x = columns[along].astype(float)
    fits = [fit_power_law(x[rows], table[rows]) for rows in cases.values()]
    longest = max(map(len, cases.values()))
    padded = np.array([[*rows, *[-1] * (longest - len(rows))] for rows in cases.values()])
    variables: dict[str, Any] = {
        name: (CASE, np.array([fit[name] for fit in fits])) for name in FIT_LONG_NAMES
    }
    for name, column in ((along, x), ("mean", mean), ("error", error)):
        variables[name] = ((CASE, PLACE), np.where(padded < 0, np.nan, column[padded]))
    coords = {
        name: (CASE, [case[at] for case in cases], variable_attributes(name)) for at, name in enumerate(names)
    }
    result = xr.Dataset(variables, coords, {"of": of, "along": along})
    for name, text in {**FIT_LONG_NAMES, **POINT_LONG_NAMES}.items():
        text = text.format(of=of.replace("_", " "), along=along)
        result[name].attrs = {"long_name": text, "units": "1"}
    result[along].attrs = variable_attributes(along)
    return result


FIT_LONG_NAMES = {
    "exponent": "slope of ln {of} on ln {along}",
    "standard_error": "standard error of the slope, by bootstraps over the draws",
    "low": "lower end of the 95 % interval",
    "high": "upper end of the 95 % interval",
    "prefactor": "{of} at {along} = 1 on the line",
    "points": "points of the fit",
}
POINT_LONG_NAMES = {"mean": "mean over runs of the {of}", "error": "standard error of the mean"}


def fit_power_law(x: Array, table: Array, seed: int = 0) -> dict[str, float]:
    """Fit a line through (ln x, ln of the mean of each row) of a table (points, draws[, runs of a draw])."""
    table = table.reshape(*table.shape[:2], -1)
    mean, error, count, draws = average_over_draws(table)
    with np.errstate(all="ignore"):
        valid = (count > 0) & (mean > 0.0) & (x > 0.0)
    x, table, mean, error, draws = (array[valid] for array in (x, table, mean, error, draws))
    if len(np.unique(x)) < MIN_VALUES:
        return dict.fromkeys(FIT_LONG_NAMES, float("nan")) | {"points": len(x)}
    has_draws = draws.min() > 1
    weights = (mean / error) ** 2 if has_draws and np.all(error > 0.0) else np.ones(len(x))
    slope, intercept = (float(number) for number in _fit_line(np.log(x), np.log(mean), weights))
    low = high = slope_error = float("nan")
    if has_draws:
        samples = resample(np.random.default_rng(seed), table.shape[1], BOOTSTRAPS)
        with np.errstate(all="ignore"):  # the same draws at every point, which may share their starts
            means = np.stack([finite_mean(table[:, sample], (1, 2)) for sample in samples], axis=1)
            slopes = _fit_line(np.log(x)[:, None], np.log(means), weights[:, None])[0]
        slopes = slopes[np.isfinite(slopes)]
        slope_error = float(np.std(slopes))
        low, high = (float(end) for end in np.percentile(slopes, INTERVAL_PERCENTILES))
    elif len(x) > MIN_VALUES:
        residual = np.log(mean) - intercept - slope * np.log(x)
        slope_error = float(
            np.sqrt(np.sum(residual**2) / (len(x) - 2) / np.sum((np.log(x) - np.log(x).mean()) ** 2))
        )
        low, high = slope - 2.0 * slope_error, slope + 2.0 * slope_error
    return {
        "exponent": slope, "standard_error": slope_error, "low": low, "high": high,
        "prefactor": float(np.exp(intercept)), "points": len(x),
    }  # fmt: skip


def _fit_line(x: Array, y: Array, weights: Array) -> tuple[Array, Array]:
    """Slope and intercept by weighted least squares along the first axis."""
    total = weights.sum(axis=0)
    x_mean, y_mean = (weights * x).sum(axis=0) / total, (weights * y).sum(axis=0) / total
    slope = (weights * (x - x_mean) * (y - y_mean)).sum(axis=0) / (weights * (x - x_mean) ** 2).sum(axis=0)
    return slope, y_mean - slope * x_mean


def _case_names(dataset: xr.Dataset, values: xr.DataArray, along: str, dims: Sequence[str]) -> list[str]:
    """The axes that distinguish the fits: those on which the parameter does not depend."""
    along_dims = parameter(dataset, along).dims
    names = [dim for dim in dims if dim not in along_dims and dim != POINT and values.sizes[dim] > 1]
    if POINT in dims:
        excluded = {along, *DERIVED_COORDINATES, *CORE_AXES}
        names += [
            str(name)
            for name, coord in dataset.coords.items()
            if coord.dims == (POINT,) and name not in excluded
        ]
    return names


def _parameter_column(dataset: xr.Dataset, values: xr.DataArray, name: str, dims: Sequence[str]) -> AnyArray:
    """A parameter at every row of the table."""
    if name not in values.coords and name not in dataset.coords:
        raise unknown_name("along", name, (str(known) for known in dataset.coords if known not in DRAW_DIMS))
    array = values[name] if name in values.coords else parameter(dataset, name)
    if not set(array.dims) <= set(dims):
        raise InvalidInput("along", name, f"must be a parameter of the points: one of {', '.join(dims)}")
    like = values.isel({dim: 0 for dim in values.dims if dim in DRAW_DIMS}, drop=True)
    return array.broadcast_like(like).transpose(*dims).values.reshape(-1)
