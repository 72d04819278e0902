"""The runs of SGD or of a theory as arrays, means over them, and quantities known at their points."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import PurePath
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from sweep_service.analysis.selection import run_dims
from sweep_service.errors import Damaged, InvalidInput, unknown_name
from sweep_service.model.activations import find_activation
from sweep_service.model.averages.two_point import make_pairs
from sweep_service.model.initial import Init, Shape
from sweep_service.model.labels import find_label
from sweep_service.model.parameters import PARAMETERS
from sweep_service.model.point import read_start
from sweep_service.model.risk import teacher_power
from sweep_service.model.structures import (
    SECOND_LAYER,
    STRUCTURES,
    insert_numbers,
    number_names,
    split_name,
    split_teacher,
)
from sweep_service.numerics.time_average import time_weights
from sweep_service.numerics.types import Array
from sweep_service.planning.axes import axis_sort_key
from sweep_service.planning.runs import KINDS, Kind
from sweep_service.status import Status

DRAW_DIMS = ("seed", "repeat")  # dimensions of random draws
LARGE_DIMENSION = 10**6  # a d in which every initial condition is possible
T = TypeVar("T", xr.Dataset, xr.DataArray)
MIN_RELATIVE_RISK = 1e-14  # of R_null: below it, the risk is round-off, as a difference of sums


def sort_dataset(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset in ascending order of time, seed and repeat; unchanged if it is so already.

    Every analysis reads `time` in this order. The order of the draws determines which ones a bootstrap takes.
    """
    for dim in ("time", *DRAW_DIMS):
        if dim not in dataset.dims or dim not in dataset.coords:
            continue
        values = dataset[dim].values
        if dim == "time" and (len(np.unique(values)) < len(values) or np.isnan(values).any()):
            raise InvalidInput("time", values.tolist(), "must be numbers that differ from each other")
        if np.any(values[1:] < values[:-1]):
            dataset = dataset.isel({dim: np.argsort(values, kind="stable")})
    return dataset


def read_runs(dataset: xr.Dataset, source: str = "sgd", observable: str = "risk") -> xr.DataArray:
    """An observable of the runs of a source: `sgd`, a regime, or `ode` for all regimes.

    NaN where a run has not ended; a diverged run keeps its values up to the divergence. Times are ascending.
    """
    dataset = sort_dataset(dataset)
    kind, regime = parse_source(dataset, source)
    name = f"{kind}_{observable}"
    if name not in dataset:
        stored = sorted(
            str(variable).removeprefix(f"{kind}_") for variable in dataset if str(variable).startswith(kind)
        )
        raise unknown_name("observable", observable, stored)
    if regime is not None and "regime" in dataset.dims:
        dataset = _select_regime(dataset, regime)
    runs = dataset[name].where(has_ended(dataset, dataset[name], kind)).compute()  # it may be a Dask array
    if observable == "risk":
        _check_done_runs(dataset, runs, kind)
    return runs


def _check_done_runs(dataset: xr.Dataset, risk: xr.DataArray, kind: str) -> None:
    """Raise Damaged if a done run has no risk at some time: its values were lost, and read as missing."""
    if f"{kind}_status" not in dataset:
        return
    missing = risk.isnull().any([dim for dim in risk.dims if dim == "time"])
    if count := int((missing & (dataset[f"{kind}_status"] == Status.DONE)).sum()):
        sweep_id = PurePath(dataset.encoding.get("source", "")).stem
        raise Damaged(
            f"{sweep_id or 'the sweep'} is damaged: {count} done runs lack values of {kind}_risk; "
            "sweep doctor --repair has them computed again"
        )


def parse_source(dataset: xr.Dataset, source: str) -> tuple[Kind, str | None]:
    """The kind of the runs of a source, and its regime; None for `sgd` and `ode`."""
    regimes = [str(name) for name in np.atleast_1d(dataset["regime"].values)] if "regime" in dataset else []
    kinds = [kind for kind in KINDS if f"{kind}_risk" in dataset]
    for kind in kinds:
        if source == kind:
            return kind, None
    if source in regimes:
        return "ode", source
    raise unknown_name("source", source, (*kinds, *regimes))


def has_ended(dataset: xr.Dataset, array: xr.DataArray, kind: str) -> xr.DataArray:
    """Whether each run has results: it is done, or it diverged."""
    if f"{kind}_status" in dataset:
        return dataset[f"{kind}_status"].isin([Status.DONE, Status.DIVERGED])
    sizes = {dim: array.sizes[dim] for dim in run_dims(array)}
    return xr.DataArray(np.ones(tuple(sizes.values()), dtype=bool), dims=tuple(sizes))


def initial_risk(dataset: xr.Dataset, source: str = "sgd") -> xr.DataArray:
    """R(0) of each run; NaN if t = 0 is not selected."""
    dataset = sort_dataset(dataset)
    first = read_runs(dataset.isel(time=0, drop=True), source)
    return first if float(dataset["time"][0]) == 0.0 else first * np.nan


def late_means(dataset: xr.Dataset, source: str = "sgd", observable: str = "risk") -> xr.DataArray:
    """The time average of each run over [t_max/2, t_max], NaN if it diverged before the end."""
    array = read_runs(select_last_half(sort_dataset(dataset)), source, observable)
    return average_over_time(array, float(array["time"][-1]) / 2)


def select_last_half(dataset: xr.Dataset) -> xr.Dataset:
    """The samples that determine a curve on [t_max/2, t_max]: the last one before t_max/2, and all later."""
    times = dataset["time"].values
    return dataset.isel(time=slice(max(int(np.searchsorted(times, times[-1] / 2, "right")) - 1, 0), None))


def average_over_time(array: xr.DataArray, start: float | None = None) -> xr.DataArray:
    """The time average from `start`, by default the first sample, to the last one; NaN if one is missing."""
    weights = xr.DataArray(time_weights(array["time"].values, start), dims="time")
    return (array * weights).sum("time", skipna=False)


def has_diverged(dataset: xr.Dataset, source: str) -> xr.DataArray:
    """Whether each run of a source diverged."""
    kind, regime = parse_source(dataset, source)
    if f"{kind}_status" not in dataset:
        return xr.DataArray(False)
    diverged = (dataset[f"{kind}_status"] == Status.DIVERGED).compute()
    return diverged if regime is None or "regime" not in diverged.dims else _select_regime(diverged, regime)


def _select_regime(data: T, regime: str) -> T:
    return data.isel(regime=[str(name) for name in data["regime"].values].index(regime))


def draw_dims(array: xr.DataArray) -> tuple[list[str], list[str]]:
    """The dimensions of independent draws, and those of the runs within a draw.

    The repeats of a seed begin at the same start: they are one draw, and its runs are averaged. With a
    single seed its repeats are the draws, and errors measure only the randomness after that start.
    """
    dims = [str(dim) for dim in array.dims if dim in DRAW_DIMS]
    if array.sizes.get("seed", 1) == 1:
        return dims, []
    return ["seed"], [dim for dim in dims if dim != "seed"]


def average_over_runs(array: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray]:
    """Mean over seeds and repeats, ignoring NaN, its standard error, and the number of runs."""
    mean, deviations, count = average_with_deviations(array)
    return mean, error_from_deviations(deviations), count


def count_draws(array: xr.DataArray) -> xr.DataArray:
    """The number of draws that have at least one run."""
    independent, shared = draw_dims(array)
    return array.notnull().any(shared).sum(independent)


def average_with_deviations(array: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray]:
    """The same mean, the scaled deviation of each draw, and the number of runs.

    The deviation of draw s is n_s (m_s - m)/n √(S/(S - 1)), where n_s is the number of its runs, m_s their
    mean, n the number of all runs and S that of the draws. The squares of the deviations sum to the squared
    standard error. The deviation is 0 for a draw without runs, and NaN for all if there are fewer than two.
    A mean over several points that share draws has the mean of their deviations.
    """
    independent, shared = draw_dims(array)
    available = array.notnull()
    with np.errstate(all="ignore"):  # values overflow just before a divergence
        count = available.sum([*independent, *shared])
        mean = array.sum([*independent, *shared], skipna=True) / count.where(count > 0)
        draws = count_draws(array)
        scale = (draws / (draws - 1).where(draws > 1)) ** 0.5 / count
        deviations = (array - mean).where(available, 0.0).sum(shared) * scale
    return mean, deviations, count


def error_from_deviations(deviations: xr.DataArray) -> xr.DataArray:
    """Standard error; sd/√S of the S means if all draws have equally many runs."""
    with np.errstate(all="ignore"):
        dims = [dim for dim in deviations.dims if dim in DRAW_DIMS]
        return (deviations**2).sum(dims, skipna=False) ** 0.5


# ---- parameters


@lru_cache(maxsize=32)
def _parse_spec(text: str) -> dict[str, Any]:
    return json.loads(text)


def read_spec(dataset: xr.Dataset) -> dict[str, Any]:
    """The spec of the sweep as plain data; empty if the dataset does not contain it."""
    return _parse_spec(dataset.attrs["spec"]) if "spec" in dataset.attrs else {}


def read_structures(dataset: xr.Dataset) -> dict[str, Any]:
    """The structured parameters of a spec as they are written, or of a single point; empty without them."""
    spec = read_spec(dataset)
    given = {name: value for name, value in spec.items() if name in STRUCTURES}
    if not spec:
        attributes = {name: dataset.attrs.get(name) for name in STRUCTURES}
        given = {name: _parse_spec(text) for name, text in attributes.items() if isinstance(text, str)}
    return given


def number_coordinates(dataset: xr.Dataset) -> list[str]:
    """Names of coordinates that are numbers of structured parameters, such as `init.scale`."""
    return [name for name in number_names() if name in dataset.coords]


def parameter(dataset: xr.Dataset, name: str) -> xr.DataArray:
    """d, p, k, gamma, noise, … at the points: a coordinate, or a scalar if it is the same everywhere."""
    if name in dataset.coords:
        return dataset[name].reset_coords(drop=True).compute()
    if name == "delta_t":
        return parameter(dataset, "gamma") / (parameter(dataset, "p") * parameter(dataset, "d"))
    spec = read_spec(dataset)
    registered, label = PARAMETERS.get(name), find_label(name)
    default = {} if registered is None else {name: registered.default}
    for known in (spec.get("fixed", {}), spec.get("axes", {}), dataset.attrs, default):
        if isinstance(value := known.get(name), (int, float, str)):
            return xr.DataArray(value)
    if registered is not None and registered.default_from:
        return parameter(dataset, registered.default_from)
    long_name = "a parameter" if label is None else label.long_name
    allowed = f"is not in the dataset: add it ({long_name}) with ds.assign_coords({name}=…)"
    raise InvalidInput(name, None, allowed)


def fixed_parameters(dataset: xr.Dataset) -> dict[str, Any]:
    """Parameters, and what defines the initial condition, with one value in the whole dataset."""
    scalars = {str(name): array.values[()] for name, array in dataset.coords.items() if array.ndim == 0}
    names = [name for name in scalars if name in PARAMETERS or split_name(name) is not None]
    names.sort(key=axis_sort_key)
    return {name: v.item() if isinstance(v := scalars[name], np.generic) else str(v) for name in names}


def evaluate_at_points(
    dataset: xr.Dataset,
    names: Sequence[str],
    function: Callable[..., float | Array],
    dims: Sequence[str] = (),
) -> xr.DataArray:
    """A function of some parameters at all points, called once for each combination of their values."""
    columns = xr.broadcast(*(parameter(dataset, name) for name in names))
    shape = columns[0].shape
    rows = list(zip(*(column.values.ravel().tolist() for column in columns), strict=True))
    by_row = {row: np.asarray(function(**dict(zip(names, row, strict=True)))) for row in dict.fromkeys(rows)}
    values = np.array([by_row[row] for row in rows]).reshape((*shape, *next(iter(by_row.values())).shape))
    return xr.DataArray(values, columns[0].coords, (*columns[0].dims, *dims))


def teacher_overlap(dataset: xr.Dataset) -> xr.DataArray:
    """P (…, teacher, teacher_other), with the dimensions it depends on: none for an orthonormal teacher."""
    stored = dataset.get("overlap_teacher")  # of a single point, unless teachers were selected
    if stored is not None and stored.sizes.get("teacher") == stored.sizes.get("teacher_other"):
        return stored.drop_vars(["teacher", "teacher_other"], errors="ignore").compute()
    structures = {"init": {"kind": "planted"}, **read_structures(dataset)}  # if it is unknown, P = I
    init = structures["init"]
    largest = int(parameter(dataset, "k").max())
    if "teacher" in dataset.coords:  # a smaller k may be selected, whose arrays keep their padding
        largest = max(largest, int(dataset["teacher"].max()) + 1)

    def parse_init(k: int, d: int = LARGE_DIMENSION, **numbers: float) -> tuple[Init, Shape]:
        shape = Shape(d, len(init["M"]) if "M" in init else k, k)
        return read_start(insert_numbers(structures, numbers), shape)[0], shape

    def padded_overlap(seed: int = 0, **point: Any) -> Array:
        start, shape = parse_init(**point)
        P = np.full((largest, largest), np.nan)
        P[: shape.k, : shape.k] = start.teacher_overlap(shape, seed)
        return P

    numbers = number_coordinates(dataset)
    first = {name: parameter(dataset, name).values.flat[0] for name in numbers}
    teacher = parse_init(int(parameter(dataset, "k").max()), **first)[0].teacher
    names = ["k", *(name for name in numbers if name.startswith("teacher."))]
    if teacher is not None and teacher.kind == "random":
        names += ["d", "seed", *(name for name in numbers if name not in names)]
    return evaluate_at_points(dataset, names, padded_overlap, ("teacher", "teacher_other"))


def null_risk(dataset: xr.Dataset) -> xr.DataArray:
    """R_null = ½ E[f*²]: the risk of a student that answers zero."""

    def half_power(P: Array, name: str, weights: Array | None = None) -> float:
        act, P = find_activation(name), drop_padding(P)
        own = None if weights is None else weights[: len(P)]
        return 0.5 * teacher_power(P, make_pairs(act, act).teachers, own)

    weights = teacher_second_layer(dataset)
    activation = parameter(dataset, "teacher_activation")
    if weights is None:
        return evaluate_on_teachers(dataset, half_power, activation)
    return xr.apply_ufunc(
        half_power,
        teacher_overlap(dataset),
        activation,
        weights,
        input_core_dims=[["teacher", "teacher_other"], [], ["teacher"]],
        vectorize=True,
        output_dtypes=[float],
    )


def teacher_second_layer(dataset: xr.Dataset) -> xr.DataArray | None:
    """a* (…, teacher), with the dimensions it depends on; None for ones."""
    structures = {"init": {"kind": "planted"}, **read_structures(dataset)}
    if SECOND_LAYER not in split_teacher(structures.get("teacher", {}))[1]:
        return None
    largest = int(parameter(dataset, "k").max())

    def draw(k: int, d: int, seed: int = 0, **numbers: float) -> Array:
        init = structures["init"]
        shape = Shape(d, len(init["M"]) if "M" in init else k, k)
        start, layer = read_start(insert_numbers(structures, numbers), shape)
        weights = np.full(largest, np.nan)
        weights[:k] = layer.draw(k, start.second_layer_streams(shape, seed)[1])
        return weights

    return evaluate_at_points(dataset, ["k", "d", "seed", *number_coordinates(dataset)], draw, ("teacher",))


def drop_padding(P: Array) -> Array:
    """P of the k teachers that exist, without the NaN of a larger k."""
    k = int(np.sum(~np.isnan(np.diag(P))))
    return P[:k, :k]


def evaluate_on_teachers(
    dataset: xr.Dataset, function: Callable[..., float], *parameters: xr.DataArray
) -> xr.DataArray:
    """A function of P and of some parameters at all points, called once for each distinct teacher."""
    cache: dict[Any, float] = {}  # there are few teachers and many points

    def evaluate(P: Array, *values: Any) -> float:
        key = (P.tobytes(), *(str(value) for value in values))
        if key not in cache:
            cache[key] = function(P, *(value.item() if hasattr(value, "item") else value for value in values))
        return cache[key]

    pair = ["teacher", "teacher_other"]
    core_dims = [pair, *([] for _ in parameters)]
    return xr.apply_ufunc(
        evaluate,
        teacher_overlap(dataset),
        *parameters,
        input_core_dims=core_dims,
        vectorize=True,
        output_dtypes=[float],
    )
