"""The distance of SGD from a theory in units of the scatter that the theory predicts."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.analysis.error_bars.prediction import add_prediction, read_prediction
from sweep_service.analysis.quantities.step_times import (
    has_enough_steps,
    make_evaluation,
    select_positive_times,
)
from sweep_service.analysis.runs import has_diverged, parse_source, read_runs
from sweep_service.errors import InvalidInput
from sweep_service.model.labels import variable_attributes

HIGH_DIMENSIONAL = "high_dimensional"


def z_score(dataset: xr.Dataset, /, regime: str = HIGH_DIMENSIONAL, *, offset: bool = True) -> xr.Dataset:
    """Compute how many predicted standard deviations the risk of each run is away from a theory.

    z = (R_run - R_regime - offset)/sd at t >= 10 δt, with all of the theory evaluated at the exact times of
    the SGD steps. The sd of single runs and the mean R_SS + δt shift about which they scatter follow from
    the fluctuations stored with `high_dimensional`; the predicted offset of a regime is that mean minus
    R_regime. So z tests the prediction and is the same for every regime. Without the offset it tests the
    curve of the regime itself.

    Parameters
    ----------
    regime
        The name of a regime, or `ode` for all regimes.
    offset
        Whether to subtract the predicted offset.

    Returns
    -------
    xr.Dataset
        `z_score` of each run over time, `largest`, the maximum of |z| over time, the predicted `offset` and
        `std` at the times of the steps, and `nonlinearity`, the ratio |δt shift|/sd, which is at most 0.3
        where the prediction applies.

    Raises
    ------
    InvalidInput
        If no fluctuations are stored, SGD is missing, or the regime is unknown.
    """
    require_theory(dataset, regime)
    dataset = select_positive_times(add_prediction(dataset))
    at_steps, predicted = make_evaluation(dataset), read_prediction(dataset)
    arrays = (read_runs(dataset, regime), predicted.mean, predicted.std)
    curve, mean, std = (at_steps(array) for array in arrays)
    scores = z_scores(dataset, None if offset else regime)
    variables = {
        "z_score": (scores, "distance of SGD from the theory in predicted standard deviations"),
        "largest": (abs(scores).max("time"), "max over t of |z|"),
        "offset": (
            (mean - curve).transpose(..., "time"),
            f"predicted mean risk of SGD minus that of {regime}",
        ),
        "std": (std, "predicted standard deviation of the risk of a run"),
        "nonlinearity": (predicted.nonlinearity, "|δt shift|/sd: above 0.3 linear theory fails"),
    }
    return xr.Dataset({name: array.assign_attrs(long_name=text) for name, (array, text) in variables.items()})


def z_scores(dataset: xr.Dataset, regime: str | None = None) -> xr.DataArray:
    """(R_run - centre)/sd of each run over time: from the predicted mean, or from the curve of a regime.

    NaN before 10 δt, if the run or the theory has diverged or is missing, and from the predicted mean where
    the shift is unknown.
    """
    dataset = select_positive_times(add_prediction(dataset))
    at_steps, predicted = make_evaluation(dataset), read_prediction(dataset)
    centre = predicted.mean if regime is None else read_runs(dataset, regime)
    valid = has_enough_steps(dataset) & ~has_diverged(dataset, "sgd")
    if regime is not None:
        valid = valid & ~has_diverged(dataset, regime)
    std = at_steps(predicted.std)
    with np.errstate(all="ignore"):
        scores = (read_runs(dataset) - at_steps(centre)) / std.where(std > 0.0)
    return scores.where(valid).transpose(..., "time")


def theory_z_scores(dataset: xr.Dataset) -> xr.DataArray:
    """(R_regime - predicted mean)/sd of each theory over time: where its curve is in the scale of z.

    The z of a run minus that of a theory is the z of the run about the curve of the theory.
    """
    dataset = select_positive_times(add_prediction(dataset))
    at_steps, predicted = make_evaluation(dataset), read_prediction(dataset)
    theory, mean, std = (
        at_steps(array) for array in (read_runs(dataset, "ode"), predicted.mean, predicted.std)
    )
    with np.errstate(all="ignore"):
        scores = (theory - mean) / std.where(std > 0.0)
    return scores.where(has_enough_steps(dataset)).transpose(..., "time")


def add_z_scores(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset after t = 0 with the z-scores of runs and of theories as observables."""
    dataset = select_positive_times(add_prediction(dataset))
    scores = {"sgd_z_score": z_scores(dataset)}
    if "ode_risk" in dataset:
        scores["ode_z_score"] = theory_z_scores(dataset)
    label = variable_attributes("z_score")
    return dataset.assign({name: array.assign_attrs(label) for name, array in scores.items()})


def largest_z_scores(dataset: xr.Dataset, regime: str | None = None) -> xr.DataArray:
    """max over t of |z| of each run, NaN if it or the theory has diverged or is missing."""
    return abs(z_scores(dataset, regime)).max("time")


def require_theory(dataset: xr.Dataset, regime: str) -> None:
    """Raise unless the dataset has SGD and `regime` is a theory in it."""
    if "sgd_risk" not in dataset:
        allowed = "is missing: merge a single point with a result of ss.simulate by ds.sweep.merge"
        raise InvalidInput("sgd", None, allowed)
    if parse_source(dataset, regime)[0] == "sgd":
        raise InvalidInput("regime", regime, "must be a theory")
