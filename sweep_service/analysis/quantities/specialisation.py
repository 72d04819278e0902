"""Specialisation: when the neurons of each run align with teacher neurons, and with which."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.quantities.norms import diagonal, neuron_norms, stored_norms
from sweep_service.analysis.runs import parse_source, read_runs, teacher_overlap
from sweep_service.analysis.selection import run_dims
from sweep_service.analysis.statistics import build_dataset
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import Array


def specialisation_time(dataset: xr.Dataset, /, source: str = "sgd", *, level: float = 0.5) -> xr.Dataset:
    """Find the last time at which the order parameter of each run rises through a level, linear in ln t.

    Parameters
    ----------
    source
        `sgd`, the name of a regime, or `ode` for all regimes.
    level
        The level of the order parameter (largest minus second largest |cosine|, averaged over neurons).

    Returns
    -------
    xr.Dataset
        For each run `specialisation_time`, NaN if it never rises through the level (also if it starts above
        it), and `specialised`, whether it ends at the level or above.

    Raises
    ------
    InvalidInput
        If specialisation is not stored, or there are fewer than two samples.
    """
    array = read_runs(dataset, source, "specialisation")
    dims, times = run_dims(array), array["time"].values
    if len(times) < 2:
        raise InvalidInput("time", times.tolist(), "must have at least two samples")
    values = array.transpose(*dims, "time").values
    with np.errstate(all="ignore"):
        rises = (values[..., :-1] < level) & (values[..., 1:] >= level)
        index = rises.shape[-1] - 1 - np.argmax(rises[..., ::-1], axis=-1)
        before, after = (np.take_along_axis(values, (index + i)[..., None], -1)[..., 0] for i in (0, 1))
        crossing = interpolate_time(times[index], times[index + 1], (level - before) / (after - before))
    return build_dataset(
        array,
        dims,
        {
            "specialisation_time": (
                np.where(rises.any(axis=-1), crossing, np.nan),
                f"last time at which specialisation rises through {level:g}",
            ),
            "specialised": (
                _last_value(values) >= level,
                f"whether specialisation ends at {level:g} or above",
            ),
        },
    )


def interpolate_time(start: Array, end: Array, share: Array) -> Array:
    """A time between two samples, linear in ln t, or in t if the first sample is at t = 0."""
    with np.errstate(all="ignore"):
        return np.where(start > 0, start * (end / start) ** share, start + share * (end - start))


def _last_value(values: Array) -> Array:
    """The last value along time that is not NaN."""
    valid = ~np.isnan(values)
    index = values.shape[-1] - 1 - np.argmax(valid[..., ::-1], axis=-1)
    return np.take_along_axis(values, index[..., None], axis=-1)[..., 0]


def cosines(dataset: xr.Dataset, /, source: str = "sgd") -> xr.DataArray:
    """Cosines M_jr/√(Q_jj P_rr) of neurons with teacher neurons, stored or computed from stored overlaps.

    Mean-field regimes have no Q; there, Q_jj = (M P⁻¹ Mᵀ)_jj + q_j. A selection of neurons before the call
    does not change their cosines.

    Parameters
    ----------
    source
        `sgd`, the name of a regime, or `ode` for all regimes.

    Returns
    -------
    xr.DataArray
        (…, time, student, teacher), signed; 0 for a neuron of norm zero.

    Raises
    ------
    InvalidInput
        If neither cosines nor overlaps are stored, or if the selected neurons do not determine the norms.
    """
    kind, _ = parse_source(dataset, source)
    if f"{kind}_cosines" in dataset:
        return read_runs(dataset, source, "cosines").rename("cosine")
    if f"{kind}_overlap_student_teacher" not in dataset or not stored_norms(dataset, kind):
        allowed = "are not stored: add overlaps or cosines to the observables of the sweep"
        raise InvalidInput("overlaps", None, f"of source {source!r} {allowed}")
    M, P = read_runs(dataset, source, "overlap_student_teacher"), teacher_overlap(dataset)
    norms = neuron_norms(dataset, source)
    with np.errstate(all="ignore"):
        teacher_norms = diagonal(P, "teacher").isel(teacher=M["teacher"])  # P has all teachers, by index
        length = norms.clip(min=0.0) ** 0.5 * teacher_norms**0.5
        result = M / length.where(length != 0, np.inf)
    result = result.transpose(*M.dims).rename("cosine")
    return result.assign_attrs(long_name="cosine of a neuron with a teacher's, M_jr/√(Q_jj P_rr)")


def labels(dataset: xr.Dataset, /, source: str = "sgd", *, threshold: float = 0.9) -> xr.Dataset:
    """Assign each neuron to a teacher neuron, at the last time with a value.

    Parameters
    ----------
    source
        `sgd`, the name of a regime, or `ode` for all regimes.
    threshold
        A neuron belongs to teacher neuron r if |c_jr| > `threshold`.

    Returns
    -------
    xr.Dataset
        For each run and neuron `label`, -1 if it belongs to none, and `cosine`, that with the nearest teacher
        neuron; NaN for the padding where p differs.
    """
    all_times = cosines(dataset, source)
    if single := [dim for dim in ("student", "teacher") if dim not in all_times.dims]:
        all_times = all_times.expand_dims(single, [all_times.ndim + at for at in range(len(single))])
    valid = all_times.notnull().any(["student", "teacher"])
    last = valid.sizes["time"] - 1 - valid.isel(time=slice(None, None, -1)).argmax("time")
    final = all_times.isel(time=last.drop_vars("time", errors="ignore"))
    dims = (*run_dims(all_times), "student")
    values = final.transpose(*dims, "teacher").values
    size = np.where(np.isnan(values), -1.0, np.abs(values))
    nearest = np.argmax(size, axis=-1)
    cosine = np.take_along_axis(values, nearest[..., None], axis=-1)[..., 0]
    return build_dataset(
        all_times,
        dims,
        {
            "label": (
                np.where(size.max(axis=-1) > threshold, all_times["teacher"].values[nearest], -1),
                "teacher neuron to which a neuron belongs, -1 for none",
            ),
            "cosine": (cosine, "cosine with the teacher neuron that is nearest"),
        },
    )
