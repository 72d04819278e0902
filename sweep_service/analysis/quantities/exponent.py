"""Exponents: the slope of a quantity in a parameter, by a line through the logarithms."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from sweep_service.analysis.curves import DERIVED_COORDINATES, plain_value
from sweep_service.analysis.quantities.discrepancy import largest_differences
from sweep_service.analysis.quantities.final_risk import final_risk
from sweep_service.analysis.quantities.line_fit import fit_lines
from sweep_service.analysis.runs import DRAW_DIMS, late_means, parameter
from sweep_service.analysis.selection import require_axis
from sweep_service.analysis.statistics import average_over_draws, finite_mean, group_by_draw
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.model.labels import variable_attributes
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.axes import CORE_AXES, POINT

CASE, PLACE = "case", "place"
UNSETTLED_TRENDS = ("falling", "rising")


class Quantity(NamedTuple):
    """A quantity with an exponent: `compute` gives a number for each run, `trend` that of each point."""

    compute: Callable[..., xr.DataArray]
    options: tuple[str, ...]
    trend: Callable[..., xr.DataArray] | None = None  # if the quantity is a limit of long times


def _trend(dataset: xr.Dataset, **options: Any) -> xr.DataArray:
    return final_risk(dataset, **options)["trend"]


QUANTITIES = {
    "discrepancy": Quantity(largest_differences, ("a", "b")),
    "overlap_discrepancy": Quantity(partial(largest_differences, of="overlaps"), ("a", "b")),
    "final_risk": Quantity(late_means, ("source",), _trend),
}


def exponent(
    dataset: xr.Dataset,
    /,
    of: str = "discrepancy",
    along: str = "delta_t",
    by: Sequence[str] | None = None,
    **options: Any,
) -> xr.Dataset:
    """Fit the slope of ln(quantity) on ln(parameter).

    Each seed has its own slope, by least squares with equal weights through the mean of ln(quantity) over its
    repeats. The exponent is the mean of these slopes, that of the geometric mean over runs; its 95 % interval
    is a t-interval with one degree of freedom fewer than seeds. With a single seed, its repeats take the
    place of the seeds. With a single run, the error follows from the residuals of the line.

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
        `standard_error`, `low`, `high`, `prefactor`, the number of `points`, and how many of them are
        `unsettled`; on (case, place) the fitted parameter, the arithmetic `mean` with its `error`, and the
        `geometric_mean`, through which the line goes, with its `geometric_error`.

    Warns
    -----
    RuntimeWarning
        If a final risk still falls or rises at some points: the slope is then that of a transient.

    Raises
    ------
    InvalidInput
        If a name is unknown, or the parameter is not a number.
    """
    if of not in QUANTITIES:
        raise unknown_name("of", of, QUANTITIES)
    quantity = QUANTITIES[of]
    for name, option in options.items():
        if name not in quantity.options:
            raise InvalidInput(
                name, option, f"is not an option of {of}, which takes {' and '.join(quantity.options)}"
            )
    values = quantity.compute(dataset, **options)
    dims = [str(dim) for dim in values.dims if dim not in DRAW_DIMS]
    if not [dim for dim in dims if dim != "regime"]:
        require_axis("along", along, ())
    table = group_by_draw(values)
    table = table.reshape(-1, *table.shape[-2:])
    columns = {along: _parameter_column(dataset, values, along, dims)}
    names = _case_names(dataset, values, along, dims) if by is None else list(by)
    columns |= {name: _parameter_column(dataset, values, name, dims) for name in names}
    cases: dict[tuple[Any, ...], list[int]] = {}
    for row in range(len(table)):
        cases.setdefault(tuple(plain_value(columns[name][row]) for name in names), []).append(row)
    mean, error, *_ = average_over_draws(table)
    log_mean, log_error, *_ = average_over_draws(_logarithm(table))
    if columns[along].dtype.kind not in "iuf":
        raise InvalidInput("along", along, "must be a number at each point")
    x = columns[along].astype(float)
    fits = [fit_power_law(x[rows], table[rows]) for rows in cases.values()]
    longest = max(map(len, cases.values()))
    padded = np.array([[*rows, *[-1] * (longest - len(rows))] for rows in cases.values()])
    variables: dict[str, Any] = {
        name: (CASE, np.array([fit[name] for fit in fits])) for name in FIT_LONG_NAMES
    }
    unsettled = np.zeros(len(table), dtype=bool)
    if quantity.trend is not None:
        trend = quantity.trend(dataset, **options).transpose(*dims).values.reshape(-1)
        unsettled = np.isin(trend, UNSETTLED_TRENDS)
    variables["unsettled"] = (CASE, np.array([unsettled[rows].sum() for rows in cases.values()]))
    place_columns = {
        along: x, "mean": mean, "error": error,
        "geometric_mean": np.exp(log_mean), "geometric_error": np.exp(log_mean) * log_error,
    }  # fmt: skip
    for name, column in place_columns.items():
        variables[name] = ((CASE, PLACE), np.where(padded < 0, np.nan, column[padded]))
    coords = {
        name: (CASE, [case[at] for case in cases], variable_attributes(name)) for at, name in enumerate(names)
    }
    result = xr.Dataset(variables, coords, {"of": of, "along": along})
    for name, text in {**FIT_LONG_NAMES, **OTHER_LONG_NAMES}.items():
        text = text.format(of=of.replace("_", " "), along=along)
        result[name].attrs = {"long_name": text}
    result[along].attrs = variable_attributes(along)
    if unsettled.any():
        text = (
            f"{unsettled.sum()} of {len(table)} points have not settled: their risk still changes at the end"
        )
        result.attrs["warning"] = text
        warnings.warn(f"exponent of {of} along {along}: {text}", RuntimeWarning, stacklevel=2)
    return result


FIT_LONG_NAMES = {
    "exponent": "slope of ln {of} on ln {along}",
    "standard_error": "standard error of the slope, over the draws",
    "low": "lower end of the 95 % interval",
    "high": "upper end of the 95 % interval",
    "prefactor": "geometric mean of the {of} at {along} = 1 on the line",
    "points": "points of the fit",
}
OTHER_LONG_NAMES = {
    "unsettled": "points at which the {of} still changes at the end",
    "mean": "mean over runs of the {of}",
    "error": "standard error of the mean",
    "geometric_mean": "geometric mean over runs of the {of}",
    "geometric_error": "standard error of the geometric mean",
}


def fit_power_law(x: Array, table: Array) -> dict[str, float]:
    """Fit a power law of x to a table (points, draws[, runs of a draw]); see `exponent`."""
    logarithms = finite_mean(_logarithm(table.reshape(*table.shape[:2], -1)), axis=-1)
    valid = np.isfinite(logarithms).any(axis=1) & (x > 0.0)
    log_x = np.log(x[valid])
    fit = fit_lines(log_x, logarithms[valid])
    low, high = fit.interval()
    return {
        "exponent": float(fit.slope), "standard_error": float(fit.error), "low": float(low),
        "high": float(high), "prefactor": float(np.exp(fit.intercept)), "points": int(valid.sum()),
    }  # fmt: skip


def _logarithm(values: Array) -> Array:
    """ln of positive numbers; NaN for others, such as a risk that is round-off."""
    with np.errstate(all="ignore"):
        return np.where(values > 0.0, np.log(values), np.nan)


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
