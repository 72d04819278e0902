"""Whether curves of several sizes are one: as they are, scaled by powers of the size, or shifted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.quantities.line_fit import fit_lines
from sweep_service.analysis.quantities.master_curve import (
    MeanCurves,
    Scaling,
    minimise_quality,
)
from sweep_service.analysis.quantities.overlay import collapse_overlay
from sweep_service.analysis.quantities.specialisation import specialisation_time
from sweep_service.analysis.runs import parse_source, read_runs
from sweep_service.analysis.selection import format_values, require_axis
from sweep_service.analysis.statistics import finite_mean, group_by_draw, point_dims
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.numerics.types import Array
from sweep_service.planning.axes import POINT


def collapse(
    dataset: xr.Dataset, /, kind: str = "overlay", along: str = "d", source: str = "sgd", **options: Any
) -> xr.Dataset:
    """Measure how well the mean risk curves at all values of an axis fall onto one curve.

    Parameters
    ----------
    kind
        `overlay`: the curves as they are. `power`: R L^b against t L^-a, where L is the value of the axis.
        `logshift`: R against t - b ln L.
    along
        The axis. Every other axis must have one value.
    source
        `sgd`, the name of a regime, or `ode` for all regimes.
    **options
        For `overlay`: `largest_chi2`, `spread_above` and `errors`. For `power`: `reach`, the largest |a| and
        |b|. For `power` and `logshift`: `smallest_error`, the smallest relative error of a point, and
        `replicates`, the least number of curves for errors.

    Returns
    -------
    xr.Dataset
        For `overlay` the spread and χ² at each time, the `verdict` (different, collapsed, or not
        distinguishable) and the `detectable_spread`; `collapsed` is false if they differ. For the others the
        exponents or the shift with their errors and 95 % intervals, the `quality` S, and the scaled curves. A
        fit that failed has NaN exponents, and its `reason`, which is empty otherwise.

    Raises
    ------
    InvalidInput
        If a name is unknown or another axis has several values.
    """
    if kind not in KINDS:
        raise unknown_name("kind", kind, KINDS)
    return KINDS[kind](_arrange_along(dataset, read_runs(dataset, source), along), along, source, **options)


def collapse_power(
    dataset: xr.Dataset,
    along: str = "d",
    source: str = "sgd",
    *,
    reach: float = 2.0,
    smallest_error: float = 0.01,
    replicates: int = 32,
) -> xr.Dataset:
    """Fit a and b such that R L^b against t L^-a is one curve for all sizes L, by minimising S.

    ln R is compared over ln t, for |a| and |b| up to `reach`, with equal weights. In the quality S, relative
    errors are at least `smallest_error`, because the lines between samples are no more precise. The errors of
    a and b are the scatter of the minima of `replicates` curves, which scatter like the mean curves, and the
    intervals t-intervals with one degree of freedom fewer than draws.
    """
    curves = MeanCurves(dataset, along, source, smallest_error)
    x, size = np.log(curves.times), curves.log_size

    fit = minimise_quality(curves, Scaling(x, np.ones_like(x), (reach, reach)), replicates)
    numbers = fit.describe(
        {
            "a": (0, f"exponent of {along} in the time, t {along}^-a"),
            "b": (1, f"exponent of 1/{along} in the risk, R {along}^b"),
        }
    )
    a, b = fit.best
    return curves.to_dataset(numbers, np.exp(x - a * size[:, None]), np.exp(b * size))


def collapse_logshift(
    dataset: xr.Dataset,
    along: str = "d",
    source: str = "sgd",
    *,
    smallest_error: float = 0.01,
    replicates: int = 32,
    largest_quality: float = 5.0,
) -> xr.Dataset:
    """Fit b such that R against t - b ln L is one curve, by minimising S.

    Each sample is weighted by its interval of time: a shift moves most of the samples of a logarithmic grid,
    which are early, before the first one. A fit with S above `largest_quality` has failed.

    Where specialisation is stored, also a + b ln L is fitted to the specialisation times: `delay_a` and
    `delay_b`. If the fit to the curves failed, b is `delay_b`, and `method` says so.
    """
    curves = MeanCurves(dataset, along, source, smallest_error)
    size = curves.log_size
    reach = (curves.times[-1] - curves.times[0]) / max(float(np.ptp(size)), 1e-12)
    scaling = Scaling(curves.times, np.gradient(curves.times), (reach, 0.0))
    fit = minimise_quality(curves, scaling, replicates, largest_quality)
    numbers = fit.describe({"b": (0, f"delay for each e-fold of {along}")})
    method = "" if fit.reason else "curves"
    if f"{parse_source(dataset, source)[0]}_specialisation" in dataset:
        delays = fit_delays(
            specialisation_time(dataset, source)["specialisation_time"], along, curves.log_size
        )
        if fit.reason and np.isfinite(delays["delay_b"][0]):
            method = "specialisation times"
            for name in ("b", "b_error", "b_low", "b_high"):
                numbers[name] = (delays[f"delay_{name}"][0], numbers[name][1])
        numbers |= delays
    numbers["method"] = (method, "what b is fitted to, empty if every fit failed")
    b = float(numbers["b"][0])
    return curves.to_dataset(numbers, curves.times - b * size[:, None], np.ones_like(size))


KINDS: dict[str, Callable[..., xr.Dataset]] = {
    "overlay": collapse_overlay,
    "power": collapse_power,
    "logshift": collapse_logshift,
}


def fit_delays(times: xr.DataArray, along: str, x: Array) -> dict[str, tuple[Any, str]]:
    """Fit a + b x to specialisation times: the mean of the lines of the draws, as for `exponent`."""
    fit = fit_lines(x, finite_mean(group_by_draw(times), axis=-1))
    low, high = fit.interval()
    text = f"of the specialisation times a + b ln {along}"
    return {
        "delay_a": (float(fit.intercept), f"a {text}"),
        "delay_a_error": (float(fit.intercept_error), f"standard error of a {text}"),
        "delay_b": (float(fit.slope), f"b, for each e-fold of {along}, {text}"),
        "delay_b_error": (float(fit.error), f"standard error of b {text}"),
        "delay_b_low": (float(low), f"lower end of the 95 % interval of b {text}"),
        "delay_b_high": (float(high), f"upper end of the 95 % interval of b {text}"),
    }


def _arrange_along(dataset: xr.Dataset, array: xr.DataArray, along: str) -> xr.Dataset:
    """The dataset with `along` as its only dimension of points; every other must have one value."""
    dims = point_dims(array)
    on_points = [str(name) for name in array.coords if array[name].dims == (POINT,)]
    axes = on_points if POINT in dims else list(dims)
    require_axis("along", along, axes)
    for dim in dims:
        if dim not in (along, POINT):
            if array.sizes[dim] > 1:
                present = format_values(array[dim].values)
                raise InvalidInput(
                    dim, None, f"must have one value, as it is not {along}: select one of {present}"
                )
            dataset = dataset.isel({dim: 0})
    if POINT in dims:
        values = array[along].values
        if len(np.unique(values)) < len(values):
            others = [name for name in axes if name != along and len(np.unique(array[name].values)) > 1]
            allowed = f"must differ between all points: select one value of {', '.join(others)}"
            raise InvalidInput(along, format_values(values), allowed)
        dataset = dataset.swap_dims({POINT: along})
    return dataset.sortby(along)
