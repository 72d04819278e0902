"""Whether curves of several sizes are one: as they are, scaled by powers of the size, or shifted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.quantities.line_fit import fit_lines
from sweep_service.analysis.quantities.master_curve import MeanCurves, collapse_quality, minimise_quality
from sweep_service.analysis.quantities.overlay import collapse_overlay
from sweep_service.analysis.quantities.specialisation import specialisation_time
from sweep_service.analysis.runs import parse_source, read_runs
from sweep_service.analysis.selection import format_values
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
        `bootstraps`.

    Returns
    -------
    xr.Dataset
        For `overlay` the spread and χ² at each time, the `verdict` (different, collapsed, or not
        distinguishable) and the `detectable_spread`; `collapsed` is false if they differ. For the others the exponents or the
        shift with their errors, the `quality` S, and the scaled curves.

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
    bootstraps: int = 100,
) -> xr.Dataset:
    """Fit a and b such that R L^b against t L^-a is one curve for all sizes L, by minimising S.

    ln R is compared over ln t, for |a| and |b| up to `reach`. Relative errors are at least `smallest_error`,
    because the lines between samples are no more precise. The errors of a and b are bootstraps over draws.
    """
    curves = MeanCurves(dataset, along, source, smallest_error)
    x, size = np.log(curves.times), curves.log_size

    def cost(y: Array) -> Callable[[Array], float]:
        return lambda ab: collapse_quality(x, ab[0] * size, y + ab[1] * size[:, None], curves.error)

    ranges = ((-reach, reach), (-reach, reach))
    (a, b), (a_error, b_error), least = minimise_quality(curves, cost, ranges, bootstraps)
    numbers = {
        "a": (a, f"exponent of {along} in the time, t {along}^-a"),
        "a_error": (a_error, "standard error of a over resampled draws"),
        "b": (b, f"exponent of 1/{along} in the risk, R {along}^b"),
        "b_error": (b_error, "standard error of b over resampled draws"),
        "quality": (least, "S of Houdayer and Hartmann, about 1 for a collapse"),
    }
    return curves.to_dataset(numbers, np.exp(x - a * size[:, None]), np.exp(b * size))


def collapse_logshift(
    dataset: xr.Dataset,
    along: str = "d",
    source: str = "sgd",
    *,
    smallest_error: float = 0.01,
    bootstraps: int = 100,
) -> xr.Dataset:
    """Fit b such that R against t - b ln L is one curve, by minimising S.

    Where specialisation is stored, also a + b ln L is fitted to the specialisation times.
    """
    curves = MeanCurves(dataset, along, source, smallest_error)
    size = curves.log_size
    reach = (curves.times[-1] - curves.times[0]) / max(float(np.ptp(size)), 1e-12)

    def cost(y: Array) -> Callable[[Array], float]:
        return lambda b: collapse_quality(curves.times, b[0] * size, y, curves.error)

    (b,), (b_error,), least = minimise_quality(curves, cost, ((-reach, reach),), bootstraps)
    numbers = {
        "b": (b, f"delay for each e-fold of {along}"),
        "b_error": (b_error, "standard error of b over resampled draws"),
        "quality": (least, "S of Houdayer and Hartmann, about 1 for a collapse"),
    }
    if f"{parse_source(dataset, source)[0]}_specialisation" in dataset:
        numbers |= fit_delays(
            specialisation_time(dataset, source)["specialisation_time"], along, curves.log_size
        )
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
    if along not in axes:
        raise unknown_name("along", along, axes)
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
