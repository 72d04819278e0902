"""Squared norms Q_ii of the neurons of each run, from stored overlaps."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import parse_source, read_runs, teacher_overlap
from sweep_service.errors import InvalidInput
from sweep_service.model.overlaps import invert_gram
from sweep_service.numerics.types import Array


def stored_norms(dataset: xr.Dataset, kind: str) -> list[str]:
    """The stored variables of a kind of runs that contain norms: of all overlaps, and of mean field."""
    return [name for name in ("overlap_student", "orthogonal_norm") if f"{kind}_{name}" in dataset]


def neuron_norms(dataset: xr.Dataset, source: str) -> xr.DataArray:
    """Q_ii (…, time, student) from stored overlaps.

    Mean-field regimes have no Q; there, Q_ii = (M P⁻¹ Mᵀ)_ii + q_i.
    """
    kind, _ = parse_source(dataset, source)
    M, P = read_runs(dataset, source, "overlap_student_teacher"), teacher_overlap(dataset)
    stored = stored_norms(dataset, kind)
    norms = xr.full_like(M.isel(teacher=0, drop=True, missing_dims="ignore"), np.nan)
    if "overlap_student" in stored:
        norms = norms.fillna(diagonal(read_runs(dataset, source, "overlap_student"), "student"))
    if "orthogonal_norm" in stored:
        q = read_runs(dataset, source, "orthogonal_norm")
        if M["teacher"].size == P.sizes["teacher"]:
            norms = norms.fillna(_norms_in_span(M, P) + q)
        elif bool((norms.isnull() & q.notnull()).any()):
            allowed = "must be all teachers, as norms follow from M and q: select from the cosines instead"
            raise InvalidInput("teacher", M["teacher"].values.tolist(), allowed)
    return norms


def diagonal(matrix: xr.DataArray, dim: str) -> xr.DataArray:
    """The diagonal entries by label, as either dimension may be a selection."""
    other = f"{dim}_other"
    matrix = matrix if other in matrix.dims else matrix.expand_dims(other)  # a single neuron was selected
    if missing := np.setdiff1d(matrix[dim].values, matrix[other].values).tolist():
        raise InvalidInput(other, matrix[other].values.tolist(), f"must include all of {dim}: add {missing}")
    return matrix.sel({other: matrix[dim]}).drop_vars(other, errors="ignore")


def _norms_in_span(M: xr.DataArray, P: xr.DataArray) -> xr.DataArray:
    """(M P⁻¹ Mᵀ)_jj; where k differs, the padding contributes nothing."""
    if single := [dim for dim in ("student", "teacher") if dim not in M.dims]:  # a single neuron was selected
        return _norms_in_span(M.expand_dims(single), P).squeeze([dim for dim in single if dim == "student"])

    def diagonal(M: Array, P: Array) -> Array:
        eye = np.eye(P.shape[-1])
        P, M = np.where(np.isnan(P), eye, P), np.nan_to_num(M)
        with np.errstate(all="ignore"):
            return np.sum(M @ invert_gram(P) * M, axis=-1)

    pair = ["teacher", "teacher_other"]
    return xr.apply_ufunc(
        diagonal, M, P, input_core_dims=[["student", "teacher"], pair], output_core_dims=[["student"]]
    )
