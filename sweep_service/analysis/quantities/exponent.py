"""Exponents: how a value of the runs grows with a parameter, by a line through the logarithms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.curves import DERIVED, plain_value
from sweep_service.analysis.quantities.discrepancy import largest_differences
from sweep_service.analysis.runs import DRAWN, late_means, parameter
from sweep_service.analysis.statistics import by_run, mean_over, over_draws, resampled
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.model.labels import about
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.grids import CORE, POINT

BOOTSTRAPS = 1000
LEVEL = (2.5, 97.5)  # percent
FEWEST = 2  # values of the parameter
CASE, PLACE = "case", "place"

# By name: a number of each run, and the words that choose of what.
OF: dict[str, tuple[Callable[..., xr.DataArray], tuple[str, ...]]] = {
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
    """The slope of ln(mean over runs) on ln(parameter), with its error and 95 % interval over the draws.

    Weighted least squares with the weights (mean/error)², 1000 bootstraps over the seeds, each with all of
    its repeats, or of a single seed over its repeats. One fit for each
    `case`: each combination of the parameters in `by`, which are all but those that `along` follows from.
    `options` are those of the value: `a` and `b` of a discrepancy, `source` of a final risk.
    """
    if of not in OF:
        raise unknown_name("of", of, OF)
    value, words = OF[of]
    for name, given in options.items():
        if name not in words:
            raise InvalidInput(name, given, f"is no option of {of}, which takes {' and '.join(words)}")
    values = value(dataset, **options)
    stands = [str(dim) for dim in values.dims if dim not in DRAWN]
    table = by_run(values)
    table = table.reshape(-1, *table.shape[-2:])
    columns = {along: _column(dataset, values, along, stands)}
    names = _cases(dataset, values, along, stands) if by is None else list(by)
    columns |= {name: _column(dataset, values, name, stands) for name in names}
    cases: dict[tuple[Any, ...], list[int]] = {}
    for row in range(len(table)):
        cases.setdefault(tuple(plain_value(columns[name][row]) for name in names), []).append(row)
    mean, error, *_ = over_draws(table)
    if columns[along].dtype.kind not in "iuf":
        raise InvalidInput("along", along, "must be a number at each point, of which there is a logarithm")
    x = columns[along].astype(float)
    fits = [fitted(x[rows], table[rows]) for rows in cases.values()]
    longest = max(map(len, cases.values()))
    padded = np.array([[*rows, *[-1] * (longest - len(rows))] for rows in cases.values()])
    found: dict[str, Any] = {name: (CASE, np.array([fit[name] for fit in fits])) for name in TEXTS}
    for name, column in ((along, x), ("mean", mean), ("error", error)):
        found[name] = ((CASE, PLACE), np.where(padded < 0, np.nan, column[padded]))
    coords = {name: (CASE, [case[at] for case in cases], about(name)) for at, name in enumerate(names)}
    result = xr.Dataset(found, coords, {"of": of, "along": along})
    for name, text in {**TEXTS, **POINTS}.items():
        text = text.format(of=of.replace("_", " "), along=along)
        result[name].attrs = {"long_name": text, "units": "1"}
    result[along].attrs = about(along)
    return result


TEXTS = {
    "exponent": "slope of ln {of} on ln {along}",
    "standard_error": "standard error of the slope, by bootstraps over the draws",
    "low": "lower end of the 95 % interval",
    "high": "upper end of the 95 % interval",
    "prefactor": "{of} at {along} = 1 on the line",
    "points": "points of the fit",
}
POINTS = {"mean": "mean over runs of the {of}", "error": "standard error of the mean"}


def fitted(x: Array, table: Array, seed: int = 0) -> dict[str, float]:
    """The line through (ln x, ln of the mean of each row), each row of the table being the draws there.

    A draw may be several runs, which are the last of three axes.
    """
    table = table.reshape(*table.shape[:2], -1)
    mean, error, count, draws = over_draws(table)
    with np.errstate(all="ignore"):
        there = (count > 0) & (mean > 0.0) & (x > 0.0)
    x, table, mean, error, draws = (one[there] for one in (x, table, mean, error, draws))
    if len(np.unique(x)) < FEWEST:
        return dict.fromkeys(TEXTS, float("nan")) | {"points": len(x)}
    several = draws.min() > 1
    weights = (mean / error) ** 2 if several and np.all(error > 0.0) else np.ones(len(x))
    slope, intercept = (float(one) for one in _line(np.log(x), np.log(mean), weights))
    low = high = error_of_slope = float("nan")
    if several:
        places = resampled(np.random.default_rng(seed), table.shape[1], BOOTSTRAPS)
        with np.errstate(all="ignore"):  # the same draws at every point: they may share their starts
            again = np.stack([mean_over(table[:, chosen], (1, 2)) for chosen in places], axis=1)
            slopes = _line(np.log(x)[:, None], np.log(again), weights[:, None])[0]
        slopes = slopes[np.isfinite(slopes)]
        error_of_slope = float(np.std(slopes))
        low, high = (float(one) for one in np.percentile(slopes, LEVEL))
    elif len(x) > FEWEST:
        rest = np.log(mean) - intercept - slope * np.log(x)
        error_of_slope = float(
            np.sqrt(np.sum(rest**2) / (len(x) - 2) / np.sum((np.log(x) - np.log(x).mean()) ** 2))
        )
        low, high = slope - 2.0 * error_of_slope, slope + 2.0 * error_of_slope
    return {
        "exponent": slope, "standard_error": error_of_slope, "low": low, "high": high,
        "prefactor": float(np.exp(intercept)), "points": len(x),
    }  # fmt: skip


def _line(x: Array, y: Array, weights: Array) -> tuple[Array, Array]:
    """Slope and intercept by weighted least squares down the first axis."""
    whole = weights.sum(axis=0)
    x_mean, y_mean = (weights * x).sum(axis=0) / whole, (weights * y).sum(axis=0) / whole
    slope = (weights * (x - x_mean) * (y - y_mean)).sum(axis=0) / (weights * (x - x_mean) ** 2).sum(axis=0)
    return slope, y_mean - slope * x_mean


def _cases(dataset: xr.Dataset, values: xr.DataArray, along: str, stands: Sequence[str]) -> list[str]:
    """What tells one fit from another: the axes that the parameter does not follow from."""
    here = parameter(dataset, along).dims
    names = [dim for dim in stands if dim not in here and dim != POINT and values.sizes[dim] > 1]
    if POINT in stands:
        follows = {along, *DERIVED, *CORE}
        names += [
            str(name) for name, one in dataset.coords.items() if one.dims == (POINT,) and name not in follows
        ]
    return names


def _column(dataset: xr.Dataset, values: xr.DataArray, name: str, stands: Sequence[str]) -> AnyArray:
    """A parameter at every place of the table."""
    if name not in values.coords and name not in dataset.coords:
        raise unknown_name("along", name, (str(one) for one in dataset.coords if one not in DRAWN))
    of = values[name] if name in values.coords else parameter(dataset, name)
    if not set(of.dims) <= set(stands):
        raise InvalidInput("along", name, f"must be a parameter of the points: one of {', '.join(stands)}")
    shape = values.isel({dim: 0 for dim in values.dims if dim in DRAWN}, drop=True)
    return of.broadcast_like(shape).transpose(*stands).values.reshape(-1)
