"""What every analysis begins with: the runs of SGD or of a theory, and what is known of their points."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from sweep_service.analysis.selection import run_dims
from sweep_service.dynamics.overlap_flow import radial_derivative
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.model.activations import activation
from sweep_service.model.initial import Init, Shape
from sweep_service.model.labels import label_of
from sweep_service.model.parameters import PARAMETERS
from sweep_service.model.risk import teacher_power
from sweep_service.model.two_point import pairs
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.grids import INIT
from sweep_service.planning.runs import KINDS, Kind
from sweep_service.status import Status

DRAWN = ("seed", "repeat")  # dimensions that number random draws
FAR = 10**6  # a dimension in which every start has room
T = TypeVar("T", xr.Dataset, xr.DataArray)
SMALLEST = 1e-14  # of R_null: below it the risk, a difference of sums, is round-off


def runs(dataset: xr.Dataset, source: str = "sgd", observable: str = "risk") -> xr.DataArray:
    """An observable of the runs of `sgd`, of every theory (`ode`), or of one regime.

    NaN where a run has not ended; a diverged run keeps its values up to the divergence.
    """
    kind, regime = kind_of(dataset, source)
    name = f"{kind}_{observable}"
    if name not in dataset:
        there = sorted(str(one).removeprefix(f"{kind}_") for one in dataset if str(one).startswith(kind))
        raise unknown_name("observable", observable, there)
    if regime is not None and "regime" in dataset.dims:
        dataset = _of_regime(dataset, regime)
    return dataset[name].where(has_ended(dataset, dataset[name], kind)).compute()  # Dask may hold it


def kind_of(dataset: xr.Dataset, source: str) -> tuple[Kind, str | None]:
    """`sgd` and `ode` are kinds themselves; anything else is the name of a stored regime."""
    regimes = [str(one) for one in np.atleast_1d(dataset["regime"].values)] if "regime" in dataset else []
    known = [kind for kind in KINDS if f"{kind}_risk" in dataset]
    for kind in known:
        if source == kind:
            return kind, None
    if source in regimes:
        return "ode", source
    raise unknown_name("source", source, (*known, *regimes))


def has_ended(dataset: xr.Dataset, array: xr.DataArray, kind: str) -> xr.DataArray:
    """Of each run, whether its values are results: it is done, or diverged after some of them."""
    if f"{kind}_status" in dataset:
        return dataset[f"{kind}_status"].isin([Status.DONE, Status.DIVERGED])
    sizes = {dim: array.sizes[dim] for dim in run_dims(array)}
    return xr.DataArray(np.ones(tuple(sizes.values()), dtype=bool), dims=tuple(sizes))


def initial_risk(dataset: xr.Dataset, source: str = "sgd") -> xr.DataArray:
    """R(0) of each run; NaN where other times were selected."""
    first = runs(dataset.isel(time=0, drop=True), source)
    return first if float(dataset["time"][0]) == 0.0 else first * np.nan


def late_means(dataset: xr.Dataset, source: str = "sgd", observable: str = "risk") -> xr.DataArray:
    """Of each run the mean over t_max/2 <= t <= t_max, NaN if it diverged before."""
    end = np.flatnonzero(late(dataset["time"].values, 0.5))
    return runs(dataset.isel(time=slice(int(end[0]), None)), source, observable).mean("time", skipna=False)


def late(times: Array, share: float) -> AnyArray:
    """Which samples are at that share of t_max or later, whatever the last bits of a spaced time are."""
    return np.asarray(times >= share * times[-1] * (1 - 1e-9))


def has_diverged(dataset: xr.Dataset, source: str) -> xr.DataArray:
    """Of each run of a source, whether it ended by diverging."""
    kind, regime = kind_of(dataset, source)
    if f"{kind}_status" not in dataset:
        return xr.DataArray(False)
    found = (dataset[f"{kind}_status"] == Status.DIVERGED).compute()
    return found if regime is None or "regime" not in found.dims else _of_regime(found, regime)


def _of_regime(of: T, regime: str) -> T:
    return of.isel(regime=[str(one) for one in of["regime"].values].index(regime))


def draws(array: xr.DataArray) -> tuple[list[str], list[str]]:
    """The dimensions of independent draws, and those of the runs of each.

    The repeats of a seed begin at the same start: they are one draw, over which its runs are averaged.
    Where there is one seed, its repeats are the draws, and errors are of what is random after that start.
    """
    drawn = [str(dim) for dim in array.dims if dim in DRAWN]
    if array.sizes.get("seed", 1) == 1:
        return drawn, []
    return ["seed"], [dim for dim in drawn if dim != "seed"]


def over_runs(array: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray]:
    """Mean over seeds and repeats of what is there, its standard error, and the number of runs."""
    mean, pull, count = pulled(array)
    return mean, error_of(pull), count


def pulled(array: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray]:
    """That mean, how far each draw pulls it, and the number of runs; the pulls are what errors are made of.

    n_s (m_s - m)/n √(S/(S - 1)), for the n_s runs of draw s of mean m_s among the n of S draws: 0 of a draw
    that is not there, NaN of all where fewer than two are. Means over places that share draws have the
    means of the pulls.
    """
    independent, shared = draws(array)
    there = array.notnull()
    with np.errstate(all="ignore"):  # values overflow just before a divergence
        count = there.sum([*independent, *shared])
        mean = array.sum([*independent, *shared], skipna=True) / count.where(count > 0)
        several = there.any(shared).sum(independent)
        scale = (several / (several - 1).where(several > 1)) ** 0.5 / count
        pull = (array - mean).sum(shared, skipna=True) * scale
    return mean, pull, count


def error_of(pull: xr.DataArray) -> xr.DataArray:
    """Where all draws have as many runs, sd/√S of the means of S draws."""
    with np.errstate(all="ignore"):
        return (pull**2).sum([dim for dim in pull.dims if dim in DRAWN], skipna=False) ** 0.5


# ---- parameters


@lru_cache(maxsize=32)
def _spec(text: str) -> dict[str, Any]:
    return json.loads(text)


def spec_of(dataset: xr.Dataset) -> dict[str, Any]:
    """What was asked for, as plain data; empty where a dataset does not say."""
    return _spec(dataset.attrs["spec"]) if "spec" in dataset.attrs else {}


def parameter(dataset: xr.Dataset, name: str) -> xr.DataArray:
    """d, p, k, gamma, noise, … at the points: a coordinate, or what is the same everywhere."""
    if name in dataset.coords:
        return dataset[name].reset_coords(drop=True).compute()
    if name == "delta_t":
        return parameter(dataset, "gamma") / (parameter(dataset, "p") * parameter(dataset, "d"))
    spec = spec_of(dataset)
    registered, label = PARAMETERS.get(name), label_of(name)
    default = {} if registered is None else {name: registered.default}
    for known in (spec.get("fixed", {}), spec.get("axes", {}), dataset.attrs, default):
        if isinstance(value := known.get(name), (int, float, str)):
            return xr.DataArray(value)
    if registered is not None and registered.default_from:
        return parameter(dataset, registered.default_from)
    allowed = f"the dataset does not say it: ds.assign_coords({name}=…)"
    raise InvalidInput(name, None, f"{'a parameter' if label is None else label.long_name}: {allowed}")


def at_points(
    dataset: xr.Dataset,
    names: Sequence[str],
    function: Callable[..., float | Array],
    dims: Sequence[str] = (),
) -> xr.DataArray:
    """A function of some parameters, called once for each combination of their values that there is."""
    columns = xr.broadcast(*(parameter(dataset, name) for name in names))
    shape = columns[0].shape
    rows = list(zip(*(column.values.ravel().tolist() for column in columns), strict=True))
    values = {row: np.asarray(function(**dict(zip(names, row, strict=True)))) for row in dict.fromkeys(rows)}
    found = np.array([values[row] for row in rows]).reshape(*shape, *next(iter(values.values())).shape)
    return xr.DataArray(found, columns[0].coords, (*columns[0].dims, *dims))


def teacher_overlap(dataset: xr.Dataset) -> xr.DataArray:
    """P (…, teacher, teacher_other), with the dimensions it depends on: none for an orthonormal teacher."""
    init = spec_of(dataset).get("init", {"kind": "planted"})  # without a spec, P = I
    largest = int(parameter(dataset, "k").max())
    if "teacher" in dataset.coords:  # a smaller k may have been selected, whose teachers are padded as before
        largest = max(largest, int(dataset["teacher"].max()) + 1)

    def parsed(k: int, d: int = FAR, **numbers: float) -> tuple[Init, Shape]:
        given = {name.removeprefix(INIT): value for name, value in numbers.items()}
        shape = Shape(d, len(init["M"]) if "M" in init else k, k)
        return Init.parse({**init, **given}, shape), shape

    def of(seed: int = 0, **at: Any) -> Array:
        start, shape = parsed(**at)
        P = np.full((largest, largest), np.nan)
        P[: shape.k, : shape.k] = start.teacher_overlap(shape, seed)
        return P

    names, teacher = ["k"], parsed(int(parameter(dataset, "k").max()))[0].teacher
    if teacher is not None and teacher.kind == "random":
        names += ["d", "seed", *(str(name) for name in dataset.coords if str(name).startswith(INIT))]
    return at_points(dataset, names, of, ("teacher", "teacher_other"))


def null_risk(dataset: xr.Dataset) -> xr.DataArray:
    """R_null = ½ E[f*²]: the risk of a student that answers zero."""

    def of(P: Array, name: str) -> float:
        act = activation(name)
        return 0.5 * teacher_power(_present(P), pairs(act, act).teachers)

    return _of_overlaps(dataset, of, parameter(dataset, "teacher_activation"))


def noise_coefficient(dataset: xr.Dataset) -> xr.DataArray:
    """c of the law R∞ = c γΔ/p: ¼ E[σ'(λ)² ‖x‖²] at the solution; NaN where σ is not the teacher's."""

    def square(P: Array, name: str, s: float = 1.0) -> Array:
        act, a = activation(name), s * np.diag(_present(P))
        return 0.25 * np.diag(pairs(act, act).students.slopes(a, a, np.diag(a))[0])

    def flat(P: Array, name: str, teacher: str) -> float:
        return float(np.mean(square(P, name))) if name == teacher else float("nan")

    def curved(P: Array, name: str, teacher: str) -> float:
        """d times what ‖x‖² adds."""
        return float(np.mean(radial_derivative(lambda s: square(P, name, s), 1)))

    names = [parameter(dataset, name) for name in ("activation", "teacher_activation")]
    return _of_overlaps(dataset, flat, *names) + _of_overlaps(dataset, curved, *names) / parameter(
        dataset, "d"
    )


def _present(P: Array) -> Array:
    """Without the padding that a smaller k has."""
    k = int(np.sum(~np.isnan(np.diag(P))))
    return P[:k, :k]


def _of_overlaps(
    dataset: xr.Dataset, function: Callable[..., float], *parameters: xr.DataArray
) -> xr.DataArray:
    known: dict[Any, float] = {}  # teachers are few, points are many

    def of(P: Array, *values: Any) -> float:
        key = (P.tobytes(), *(str(value) for value in values))
        if key not in known:
            known[key] = function(P, *(value.item() if hasattr(value, "item") else value for value in values))
        return known[key]

    pair = ["teacher", "teacher_other"]
    inner = [pair, *([] for _ in parameters)]
    return xr.apply_ufunc(
        of,
        teacher_overlap(dataset),
        *parameters,
        input_core_dims=inner,
        vectorize=True,
        output_dtypes=[float],
    )
