"""Whether curves of several sizes are one: as they are, after powers of the size, or after a delay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.quantities.master_curve import Curves, minimised, quality
from sweep_service.analysis.quantities.overlay import overlay
from sweep_service.analysis.quantities.specialisation import specialisation_time
from sweep_service.analysis.runs import kind_of, runs
from sweep_service.analysis.selection import listed
from sweep_service.analysis.statistics import by_run, over_draws, point_dims
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.numerics.types import Array
from sweep_service.planning.grids import POINT


def collapse(
    dataset: xr.Dataset, /, kind: str = "overlay", along: str = "d", source: str = "sgd", **options: Any
) -> xr.Dataset:
    """How well the mean curves at all values of `along` are one curve; `kind` is one of KINDS."""
    if kind not in KINDS:
        raise unknown_name("kind", kind, KINDS)
    return KINDS[kind](_along(dataset, runs(dataset, source), along), along, source, **options)


def power(
    dataset: xr.Dataset,
    along: str = "d",
    source: str = "sgd",
    *,
    reach: float = 2.0,
    smallest_error: float = 0.01,
    bootstraps: int = 100,
) -> xr.Dataset:
    """a and b such that R L^b against t L^-a are one curve for all sizes L, by the least S.

    Compared as ln R with ln t, |a| and |b| searched up to `reach`. Relative errors below
    `smallest_error` count as such: lines between samples are no better. The errors of a and b are from
    resampled draws.
    """
    curves = Curves(dataset, along, source, smallest_error)
    x, size = np.log(curves.times), curves.log_size

    def cost(y: Array) -> Callable[[Array], float]:
        return lambda ab: quality(x, ab[0] * size, y + ab[1] * size[:, None], curves.error)

    ranges = ((-reach, reach), (-reach, reach))
    (a, b), (a_error, b_error), least = minimised(curves, cost, ranges, bootstraps)
    numbers = {
        "a": (a, f"exponent of {along} in the time, t {along}^-a"),
        "a_error": (a_error, "standard error of a over resampled draws"),
        "b": (b, f"exponent of 1/{along} in the risk, R {along}^b"),
        "b_error": (b_error, "standard error of b over resampled draws"),
        "quality": (least, "S of Houdayer and Hartmann, about 1 for a collapse"),
    }
    return curves.result(numbers, np.exp(x - a * size[:, None]), np.exp(b * size))


def logshift(
    dataset: xr.Dataset,
    along: str = "d",
    source: str = "sgd",
    *,
    smallest_error: float = 0.01,
    bootstraps: int = 100,
) -> xr.Dataset:
    """b such that R against t - b ln L is one curve, by the least S, and a + b ln L of the
    specialisation times, where specialisation is stored.
    """
    curves = Curves(dataset, along, source, smallest_error)
    size = curves.log_size
    reach = (curves.times[-1] - curves.times[0]) / max(float(np.ptp(size)), 1e-12)

    def cost(y: Array) -> Callable[[Array], float]:
        return lambda b: quality(curves.times, b[0] * size, y, curves.error)

    (b,), (b_error,), least = minimised(curves, cost, ((-reach, reach),), bootstraps)
    numbers = {
        "b": (b, f"delay for each e-fold of {along}"),
        "b_error": (b_error, "standard error of b over resampled draws"),
        "quality": (least, "S of Houdayer and Hartmann, about 1 for a collapse"),
    }
    if f"{kind_of(dataset, source)[0]}_specialisation" in dataset:
        numbers |= _delays(
            specialisation_time(dataset, source)["specialisation_time"], along, curves.log_size
        )
    return curves.result(numbers, curves.times - b * size[:, None], np.ones_like(size))


KINDS: dict[str, Callable[..., xr.Dataset]] = {"overlay": overlay, "power": power, "logshift": logshift}


def _delays(times: xr.DataArray, along: str, x: Array) -> dict[str, tuple[Any, str]]:
    """a + b x through the mean specialisation times, weighted where every mean has an error."""
    mean, error, *_ = over_draws(by_run(times))
    there = np.isfinite(mean)
    x, mean, error = x[there], mean[there], error[there]
    found = np.full(4, np.nan)
    if len(x) >= 2:
        weighted = bool(np.all(error > 0))
        sigma = error if weighted else np.ones_like(mean)
        design = np.stack([np.ones_like(x), x], axis=1) / sigma[:, None]
        (a, b), *_ = np.linalg.lstsq(design, mean / sigma)
        rest = mean / sigma - design @ [a, b]
        scatter = rest @ rest / (len(x) - 2) if len(x) > 2 else np.nan
        factor = 1.0 if weighted else scatter
        found[:] = a, b, *np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * factor)
    about = ("a", f"b, for each e-fold of {along},", "a, standard error", "b, standard error")
    names = ("delay_a", "delay_b", "delay_a_error", "delay_b_error")
    return {
        name: (float(value), f"{text} of the specialisation times a + b ln {along}")
        for name, value, text in zip(names, found, about, strict=True)
    }


def _along(dataset: xr.Dataset, array: xr.DataArray, along: str) -> xr.Dataset:
    """The dataset with `along` as its only dimension of points; every other must have one value."""
    dims = point_dims(array)
    axes = [str(one) for one in array.coords if array[one].dims == (POINT,)] if POINT in dims else list(dims)
    if along not in axes:
        raise unknown_name("along", along, axes)
    for dim in dims:
        if dim not in (along, POINT):
            if array.sizes[dim] > 1:
                raise InvalidInput(dim, None, f"is not {along}: select one of {listed(array[dim].values)}")
            dataset = dataset.isel({dim: 0})
    if POINT in dims:
        values = array[along].values
        if len(np.unique(values)) < len(values):
            others = [n for n in axes if n != along and len(np.unique(array[n].values)) > 1]
            allowed = f"several points have the same one: select one value of {', '.join(others)}"
            raise InvalidInput(along, listed(values), allowed)
        dataset = dataset.swap_dims({POINT: along})
    return dataset.sortby(along)
