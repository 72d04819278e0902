"""How far SGD is from a theory, or one theory from another, along whole trajectories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import xarray as xr

from sweep_service.analysis.quantities.interpolation import interpolated
from sweep_service.analysis.runs import has_diverged, initial_risk, kind_of, over_runs, parameter, runs
from sweep_service.analysis.statistics import described
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.numerics.types import Array

FIRST_STEPS = 10  # SGD has taken at least so many, or it is mostly its own discreteness that is seen
KINDS = ("fluctuation", "bias")
OF = ("risk", "overlaps")
MATRICES = (
    "overlap_student_teacher",
    "overlap_student",
    "orthogonal_norm",
)  # the last is all mean fields have
INNER = ("student", "student_other", "teacher")
ENTRY = "entry"


def discrepancy(
    dataset: xr.Dataset,
    /,
    a: str = "sgd",
    b: str = "ode",
    of: str = "risk",
    kind: str = "fluctuation",
    over: str | None = None,
) -> xr.Dataset:
    """The largest distance over time of `a` from `b`, each `sgd`, a regime, or `ode` for every regime.

    `fluctuation` is the mean over runs of max_t |X_s - X°_s|, which falls as √δt; `bias` is max_t of the
    mean difference, which falls faster: the two must not be mixed. `of` is the risk, or the overlaps in
    the largest entry: of a bias, the entry of the largest mean. `over="time"` leaves out the maximum.
    D/R(0) is NaN where t = 0 was not selected.
    """
    for field, value, allowed in (("kind", kind, KINDS), ("of", of, OF), ("over", over, (None, "time"))):
        if value not in allowed:
            raise unknown_name(field, value, [str(one) for one in allowed])
    if kind == "bias":
        mean, error, count = _bias(dataset, a, b, of, over)
    elif over is None:
        mean, error, count = over_runs(largest_differences(dataset, a, b, of))
    else:
        mean, error, count = over_runs(abs(differences(dataset, a, b, of)))
    first = over_runs(initial_risk(dataset, a))[0]
    found = {
        "discrepancy": (mean, f"{kind} of |{a} - {b}|, {of}"),
        "standard_error": (error, "standard error of the discrepancy"),
        "over_sqrt_delta_t": (mean / parameter(dataset, "delta_t") ** 0.5, "discrepancy/√δt"),
        "over_initial_risk": (mean / first, "discrepancy/R(0)"),
        "runs": (count, "runs"),
    }
    dims = [str(dim) for dim in mean.dims]
    plain = {name: (array.transpose(*dims).values, text) for name, (array, text) in found.items()}
    return described(mean, dims, plain)


def largest_differences(
    dataset: xr.Dataset, a: str = "sgd", b: str = "ode", of: str = "risk"
) -> xr.DataArray:
    """max_t |X_s - X°_s| of each run, NaN where one of the two has diverged or is not there."""
    return abs(differences(dataset, a, b, of)).max("time")


def differences(dataset: xr.Dataset, a: str, b: str, of: str = "risk") -> xr.DataArray:
    """X_s - X°_s of each run at t >= 10 δt, the theory taken at the times of the steps really taken.

    Of overlaps it is the largest |entry|: of M and Q, of two mean fields M and q, and of a mean field
    beside what has a Q that of M alone.
    """
    found = list(_apart(dataset, a, b, of))
    if of == "risk":
        return found[0]
    inner = [[dim for dim in one.dims if dim in INNER] for one in found]
    largest = [abs(one).max(dims) for one, dims in zip(found, inner, strict=True)]
    return xr.concat(largest, "matrix").max("matrix")


def _bias(
    dataset: xr.Dataset, a: str, b: str, of: str, over: str | None
) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray]:
    """|mean over runs of X_s - X°_s| where it is largest, with its error there and the number of runs."""
    parts = []
    for one in _apart(dataset, a, b, of):
        inner = [dim for dim in one.dims if dim in INNER]
        flat = one.stack({ENTRY: inner}, create_index=False) if inner else one.expand_dims(ENTRY)
        parts.append([each.drop_vars(INNER, errors="ignore") for each in over_runs(flat)])
    mean, error, count = (xr.concat(each, ENTRY) for each in zip(*parts, strict=True))
    mean = abs(mean)
    within = [ENTRY] if over == "time" else [ENTRY, "time"]
    at = mean.fillna(-1.0).argmax(within)
    mean, error = (each.isel(at) for each in (mean, error))
    if over is None:
        mean, error = mean.drop_vars("time"), error.drop_vars("time")  # when it was, at each point
    return mean, error, count.max(within)


def _apart(dataset: xr.Dataset, a: str, b: str, of: str) -> Iterator[xr.DataArray]:
    """X_s - X°_s of the risk, or of every entry of each matrix; NaN before 10 δt and of what diverged."""
    if kind_of(dataset, b)[0] == "sgd":
        raise InvalidInput("b", b, "must be a theory: the first of the two may be sgd")
    delta_t = parameter(dataset, "delta_t")
    first = int(np.searchsorted(dataset["time"].values, 0.0, side="right"))
    if dataset.sizes["time"] - first < 2:
        raise InvalidInput("time", dataset["time"].values.tolist(), "must have two samples after t = 0")
    dataset = dataset.isel(time=slice(first, None))
    shift = _interpolation(dataset, a, delta_t)
    names: Sequence[str] = ("risk",)
    if of != "risk":
        names = [name for name in MATRICES if all(_has(dataset, source, name) for source in (a, b))]
    if not names:
        raise InvalidInput("of", of, "needs stored overlaps: name overlaps in the observables of a spec")
    settled = ~(has_diverged(dataset, a) | has_diverged(dataset, b))
    counts = settled & (dataset["time"] >= FIRST_STEPS * delta_t * (1.0 - 1e-12))
    for name in names:
        yield (runs(dataset, a, name) - shift(runs(dataset, b, name))).where(counts)


def _has(dataset: xr.Dataset, source: str, observable: str) -> bool:
    return f"{kind_of(dataset, source)[0]}_{observable}" in dataset


def _interpolation(
    dataset: xr.Dataset, a: str, delta_t: xr.DataArray
) -> Callable[[xr.DataArray], xr.DataArray]:
    """At the time of round(t/δt) steps where `a` is SGD; two theories are compared where they stand."""
    if kind_of(dataset, a)[0] != "sgd":
        return lambda array: array
    time = dataset["time"]
    taken = ((time / delta_t).round().clip(min=1.0) * delta_t).transpose(..., "time")

    def shifted(array: xr.DataArray) -> xr.DataArray:
        def of(values: Array, at: Array) -> Array:
            return interpolated(np.log(time.values), values, np.log(at))

        with np.errstate(all="ignore"):  # a theory may overflow just before it diverges
            return xr.apply_ufunc(
                of, array, taken, input_core_dims=[["time"], ["time"]], output_core_dims=[["time"]]
            )

    return shifted
