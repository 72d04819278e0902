"""Specialisation: when each run's neurons choose among the teacher's, and which they choose."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import kind_of, runs, teacher_overlap
from sweep_service.analysis.selection import run_dims
from sweep_service.analysis.statistics import described
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import Array

HALF = 0.5  # of the order parameter


def specialisation_time(dataset: xr.Dataset, /, source: str = "sgd", *, level: float = HALF) -> xr.Dataset:
    """Of each run, the last time at which the order parameter rises through `level`, linear in ln t.

    NaN if it never does, also where it was above from the start; `specialised` says where it ends.
    """
    array = runs(dataset, source, "specialisation")
    dims, times = run_dims(array), array["time"].values
    if len(times) < 2:
        raise InvalidInput("time", times.tolist(), "must have at least two samples, between which it rises")
    values = array.transpose(*dims, "time").values
    with np.errstate(all="ignore"):
        rises = (values[..., :-1] < level) & (values[..., 1:] >= level)
        place = rises.shape[-1] - 1 - np.argmax(rises[..., ::-1], axis=-1)
        before, after = (np.take_along_axis(values, (place + i)[..., None], -1)[..., 0] for i in (0, 1))
        when = between(times[place], times[place + 1], (level - before) / (after - before))
    return described(
        array,
        dims,
        {
            "specialisation_time": (
                np.where(rises.any(axis=-1), when, np.nan),
                f"last time at which specialisation rises through {level:g}",
            ),
            "specialised": (_last(values) >= level, f"whether specialisation ends at {level:g} or above"),
        },
    )


def between(start: Array, end: Array, share: Array) -> Array:
    """A time between two samples, linear in ln t; in t where the first sample is t = 0."""
    with np.errstate(all="ignore"):
        return np.where(start > 0, start * (end / start) ** share, start + share * (end - start))


def _last(values: Array) -> Array:
    """The last value that is there, along time."""
    there = ~np.isnan(values)
    place = values.shape[-1] - 1 - np.argmax(there[..., ::-1], axis=-1)
    return np.take_along_axis(values, place[..., None], axis=-1)[..., 0]


def cosines(dataset: xr.Dataset, /, source: str = "sgd") -> xr.DataArray:
    """M_jr/√(Q_jj P_rr), signed (…, time, student, teacher); 0 of a neuron of length zero.

    As they were stored, or from stored overlaps. In mean field, which has no Q, Q_jj = (M P⁻¹ Mᵀ)_jj + q_j.
    Neurons that were selected before have the cosines that they have among all.
    """
    kind, _ = kind_of(dataset, source)
    if f"{kind}_cosines" in dataset:
        return runs(dataset, source, "cosines").rename("cosine")
    stored = [name for name in ("overlap_student", "orthogonal_norm") if f"{kind}_{name}" in dataset]
    if f"{kind}_overlap_student_teacher" not in dataset or not stored:
        allowed = "were not stored: add overlaps or cosines to the observables of the sweep"
        raise InvalidInput("overlaps", None, f"of source {source!r} {allowed}")
    M, P = runs(dataset, source, "overlap_student_teacher"), teacher_overlap(dataset)
    norms = xr.full_like(M.isel(teacher=0, drop=True, missing_dims="ignore"), np.nan)
    if "overlap_student" in stored:
        norms = norms.fillna(_diagonal(runs(dataset, source, "overlap_student"), "student"))
    if "orthogonal_norm" in stored:
        q = runs(dataset, source, "orthogonal_norm")
        if M["teacher"].size == P.sizes["teacher"]:
            norms = norms.fillna(_inside(M, P) + q)
        elif bool((norms.isnull() & q.notnull()).any()):
            allowed = "must be all of them where lengths follow from M and q: select among the cosines"
            raise InvalidInput("teacher", M["teacher"].values.tolist(), allowed)
    with np.errstate(all="ignore"):
        square = _diagonal(P, "teacher").isel(teacher=M["teacher"])  # P is of all teachers, by their numbers
        length = norms.clip(min=0.0) ** 0.5 * square**0.5
        found = M / length.where(length != 0, np.inf)
    found = found.transpose(*M.dims).rename("cosine")
    return found.assign_attrs(long_name="cosine of a neuron with a teacher's, M_jr/√(Q_jj P_rr)", units="1")


def _diagonal(matrix: xr.DataArray, dim: str) -> xr.DataArray:
    """The entries of each neuron with itself, by their labels: either dimension may have been selected."""
    other = f"{dim}_other"
    matrix = matrix if other in matrix.dims else matrix.expand_dims(other)  # one of them was selected
    if missing := np.setdiff1d(matrix[dim].values, matrix[other].values).tolist():
        raise InvalidInput(other, matrix[other].values.tolist(), f"must have what {dim} has, also {missing}")
    return matrix.sel({other: matrix[dim]}).drop_vars(other, errors="ignore")


def _inside(M: xr.DataArray, P: xr.DataArray) -> xr.DataArray:
    """(M P⁻¹ Mᵀ)_jj; where k differs, the padding adds nothing."""
    if alone := [dim for dim in ("student", "teacher") if dim not in M.dims]:  # one of them was selected
        return _inside(M.expand_dims(alone), P).squeeze([dim for dim in alone if dim == "student"])

    def of(M: Array, P: Array) -> Array:
        eye = np.eye(P.shape[-1])
        P, M = np.where(np.isnan(P), eye, P), np.nan_to_num(M)
        with np.errstate(all="ignore"):
            return np.sum(M @ np.linalg.inv(P) * M, axis=-1)

    pair = ["teacher", "teacher_other"]
    return xr.apply_ufunc(
        of, M, P, input_core_dims=[["student", "teacher"], pair], output_core_dims=[["student"]]
    )


def labels(dataset: xr.Dataset, /, source: str = "sgd", *, threshold: float = 0.9) -> xr.Dataset:
    """The teacher neuron that each neuron has found at the last time with a value; -1 for none.

    A neuron belongs to r if |c_jr| > `threshold`. Where p differs, the padding has no cosine.
    """
    all_times = cosines(dataset, source)
    if alone := [dim for dim in ("student", "teacher") if dim not in all_times.dims]:
        all_times = all_times.expand_dims(alone, [all_times.ndim + at for at in range(len(alone))])
    there = all_times.notnull().any(["student", "teacher"])
    last = there.sizes["time"] - 1 - there.isel(time=slice(None, None, -1)).argmax("time")
    found = all_times.isel(time=last.drop_vars("time", errors="ignore"))
    dims = (*run_dims(all_times), "student")
    values = found.transpose(*dims, "teacher").values
    size = np.where(np.isnan(values), -1.0, np.abs(values))
    best = np.argmax(size, axis=-1)
    cosine = np.take_along_axis(values, best[..., None], axis=-1)[..., 0]
    return described(
        all_times,
        dims,
        {
            "label": (
                np.where(size.max(axis=-1) > threshold, all_times["teacher"].values[best], -1),
                "teacher neuron to which a neuron belongs, -1 for none",
            ),
            "cosine": (cosine, "cosine with the teacher neuron that is nearest"),
        },
    )
