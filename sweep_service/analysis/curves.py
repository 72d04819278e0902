"""An observable against time: SGD with a band over its runs, and the limiting theories."""

from __future__ import annotations

import math
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from sweep_service.analysis.error_bars.bands import QUANTILE, compute_bands, has_band
from sweep_service.analysis.error_bars.marks import Marks
from sweep_service.analysis.error_bars.prediction import add_prediction, has_prediction
from sweep_service.analysis.error_bars.z_score import add_z_scores
from sweep_service.analysis.runs import DRAW_DIMS, fixed_parameters, has_ended, parameter, sort_dataset
from sweep_service.analysis.selection import run_dims, select
from sweep_service.errors import InvalidInput, LimitExceeded, unknown_name
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.axes import POINT, axis_sort_key
from sweep_service.planning.runs import KINDS

MAX_CURVES = 200
MAX_STORED_NUMBERS = 1 << 25  # read at once: 256 MB
DERIVED_COORDINATES = ("delta_t", "gamma_over_p")  # follow from other coordinates
RISK, Z_SCORE = "risk", "z_score"  # the z-score is computed from the risk
BAND_QUANTILES = (0.16, 0.84)  # one standard deviation on both sides for Gaussian runs


class TimeAxis(NamedTuple):
    """A unit of time: its long name, title and symbol, and whether it counts samples per dimension."""

    long_name: str
    title: str
    latex: str
    per_dimension: bool = False


DEFAULT_TIME_AXIS = "t"
TIME_AXES = {
    DEFAULT_TIME_AXIS: TimeAxis("time t = ν γ/(p d) after ν steps of SGD", "time", "$t$"),
    "steps": TimeAxis("steps ν of SGD, one sample in each", "steps", r"$\nu$"),
    "samples/d": TimeAxis("samples per dimension ν/d", "samples per dimension", r"$\nu/d$", True),
}


def compute_curves(
    dataset: xr.Dataset, /, observable: str = "risk", time: Any = DEFAULT_TIME_AXIS, **where: Any
) -> dict[str, Any]:
    """Mean over runs at each time, with the 16th and the 84th percentile as `low` and `high`.

    SGD is reduced over seed and repeat, a theory over seed. Only runs that are done or have diverged
    count, the latter up to their divergence. The result is NaN where no run has a value. `time` is one of
    TIME_AXES, or a selection of times; in other units than t, each curve has its own times `x`.

    With stored fluctuations, the risk of their regime has the `predicted` mean of SGD and the band of 95 % of
    its runs, and every theory beside SGD has its `validity` at each time and `overall`. The observable
    `z_score` is then (R - predicted mean)/sd of runs and of theories; 95 % of the runs are in its `band`.
    """
    time_axis, where = _read_time(time, where)
    selected = sort_dataset(select(add_prediction(dataset), where))
    if observable == Z_SCORE and Z_SCORE in scalar_observables(selected):
        selected = add_z_scores(selected)
    arrays = {kind: selected[f"{kind}_{observable}"] for kind in _kinds_with(selected, observable)}
    check_limits(arrays)
    first = next(iter(arrays.values()))
    return {
        "observable": observable,
        "long_name": first.attrs.get("long_name", observable),
        "units": first.attrs.get("units", "1"),
        "fixed": fixed_parameters(selected),
        "time": first["time"].values.tolist(),
        **({} if time_axis == DEFAULT_TIME_AXIS else {"time_axis": _describe_time_axis(time_axis)}),
        **({"band": [-QUANTILE, QUANTILE]} if observable == Z_SCORE else {}),
        "curves": [
            curve
            for kind, array in arrays.items()
            for curve in _reduce_runs(selected, kind, array, time_axis, observable)
        ],
    }


def _read_time(time: Any, where: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The unit of time, and the selection with the times that are given instead of a unit."""
    if isinstance(time, str) and time in TIME_AXES:
        return time, where
    if isinstance(time, str) and time.strip()[:1].isalpha():
        allowed = f"must be one of {', '.join(TIME_AXES)}, or a selection of times such as 10 or 0.1:10"
        raise InvalidInput("time", time, allowed)
    return DEFAULT_TIME_AXIS, {**where, "time": time}


def _describe_time_axis(name: str) -> dict[str, str]:
    return {"name": name, "long_name": TIME_AXES[name].long_name, "units": "1"}


def _count_steps(dataset: xr.Dataset, kind: str, time_axis: str) -> xr.DataArray:
    """Steps or samples per dimension at each time of each point.

    SGD is recorded after whole steps, round(t/δt). A theory has the time t itself.
    """
    steps = dataset["time"] / parameter(dataset, "delta_t")
    steps = steps.round() if kind == "sgd" else steps
    if not TIME_AXES[time_axis].per_dimension:
        return steps
    return steps * parameter(dataset, "batch") / parameter(dataset, "d")


def scalar_observables(dataset: xr.Dataset) -> list[str]:
    """Names of the stored observables that are one number at each time, and of the z-score if it is known."""
    by_kind = _observables_by_kind(dataset).values()
    names = {name for observables in by_kind for name, is_scalar in observables.items() if is_scalar}
    if "sgd_risk" in dataset and has_prediction(dataset):
        names.add(Z_SCORE)
    return sorted(names)


def _observables_by_kind(dataset: xr.Dataset) -> dict[str, dict[str, bool]]:
    """For each kind of run, its stored observables, and whether each is one number at each time."""
    return {
        kind: {
            str(name).removeprefix(f"{kind}_"): array.dims[-1] == "time"
            for name, array in dataset.data_vars.items()
            if str(name).startswith(f"{kind}_") and "time" in array.dims
        }
        for kind in KINDS
    }


def _kinds_with(dataset: xr.Dataset, observable: str) -> list[str]:
    """The kinds of runs that have this observable, which must be one number at each time."""
    by_kind, scalars = _observables_by_kind(dataset), scalar_observables(dataset)
    if not isinstance(observable, str) or not any(observable in names for names in by_kind.values()):
        raise unknown_name("observable", observable, scalars)
    if observable not in scalars:
        allowed = f"must be one number at each time, such as {', '.join(scalars)}"
        raise InvalidInput("observable", observable, allowed)
    return [kind for kind, names in by_kind.items() if observable in names]


def check_limits(arrays: dict[str, xr.DataArray]) -> None:
    """Raise LimitExceeded if there are too many curves, or too many stored numbers behind them."""
    sizes = {
        str(dim): array.sizes[dim]
        for array in arrays.values()
        for dim in run_dims(array)
        if dim not in DRAW_DIMS and array.sizes[dim] > 1
    }
    count = sum(
        math.prod(array.sizes[dim] for dim in sizes if dim in array.dims) for array in arrays.values()
    )
    if count > MAX_CURVES:
        names = ", ".join(f"{dim} ({size} values)" for dim, size in sizes.items())
        raise LimitExceeded("curves", count, f"must be at most {MAX_CURVES}: select some of {names}")
    numbers = sum(array.size for array in arrays.values())
    if numbers > MAX_STORED_NUMBERS:
        allowed = f"must be at most {MAX_STORED_NUMBERS} numbers: select some of seed, repeat or time"
        raise LimitExceeded("curves", numbers, allowed)


def _reduce_runs(
    dataset: xr.Dataset, kind: str, array: xr.DataArray, time_axis: str, observable: str
) -> list[dict[str, Any]]:
    draw_dims = [dim for dim in run_dims(array) if dim in DRAW_DIMS]
    dims = [dim for dim in run_dims(array) if dim not in DRAW_DIMS]
    ended = has_ended(dataset, array, kind)
    runs = ended.sum(draw_dims).transpose(*dims).values
    values = array.where(ended).transpose(*dims, "time", *draw_dims).values
    mean, low, high = _mean_and_band(values.reshape(*values.shape[: len(dims) + 1], -1))
    is_one_regime = kind == "ode" and "regime" in dataset.coords and dataset["regime"].ndim == 0
    selected_regime = dataset["regime"].item() if is_one_regime else None
    times = None if time_axis == DEFAULT_TIME_AXIS else _count_steps(dataset, kind, time_axis)
    bands = compute_bands(dataset) if observable == RISK and kind == "ode" else None
    marks = Marks.of(dataset) if observable in (RISK, Z_SCORE) and kind == "ode" else None
    curves = []
    for index in product(*(range(array.sizes[dim]) for dim in dims)):
        position = dict(zip(dims, index, strict=True))
        coordinates = coordinates_at(dataset, position)
        regime = coordinates.pop("regime", selected_regime)
        curves.append(
            {
                "source": kind,
                **({} if regime is None else {"regime": regime}),
                "at": coordinates,
                "runs": int(runs[index]),
                **({} if times is None else {"x": _values_at(times, position)}),
                "mean": mean[index].tolist(),
                "low": low[index].tolist(),
                "high": high[index].tolist(),
            }
        )
        if bands is not None and has_band(regime):
            curves[-1]["predicted"] = {str(name): _values_at(bands[name], position) for name in bands}
        if marks is not None:
            curves[-1] |= marks.at(position)
    return curves


def _values_at(array: xr.DataArray, position: dict[str, int]) -> list[float]:
    """Values along time at a position, along the dimensions on which the array depends."""
    return array.isel(position, missing_dims="ignore").values.tolist()


def coordinates_at(dataset: xr.Dataset, index: dict[str, int]) -> dict[str, Any]:
    """Values of the axes at an index of the dimensions."""
    names = [
        str(name)
        for dim in index
        for name in dataset.coords
        if dataset[name].dims == (dim,) and (dim != POINT or name not in DERIVED_COORDINATES)
    ]
    names.sort(key=axis_sort_key)
    return {name: plain_value(dataset[name].values[index[str(dataset[name].dims[0])]]) for name in names}


def plain_value(value: Any) -> Any:
    """A NumPy scalar as a Python value, for JSON."""
    return value.item() if isinstance(value, np.generic) else value


def _mean_and_band(values: Array) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Mean, lower and upper percentile along the last axis, ignoring NaN."""
    ordered = np.sort(values, axis=-1)  # NaN last
    count = np.sum(~np.isnan(values), axis=-1)
    with np.errstate(all="ignore"):  # sums overflow just before a divergence
        mean = np.nansum(values, axis=-1) / np.where(count > 0, count, np.nan)
        low, high = (_quantile(ordered, count, share) for share in BAND_QUANTILES)
    return mean, low, high


def _quantile(ordered: Array, count: AnyArray, share: float) -> AnyArray:
    """Linear between neighbours like `np.nanpercentile`, but for all curves at once and without warnings."""
    position = share * np.maximum(count - 1, 0)
    below = np.floor(position).astype(int)
    above = np.minimum(below + 1, np.maximum(count - 1, 0))
    lower, upper = (
        np.take_along_axis(ordered, index[..., None], axis=-1)[..., 0] for index in (below, above)
    )
    return lower + (position - below) * (upper - lower)
