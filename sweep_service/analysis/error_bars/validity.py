"""Where a theory holds within the error bars that are predicted for it."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import xarray as xr
from scipy import special

from sweep_service.analysis.error_bars.prediction import add_prediction, read_prediction
from sweep_service.analysis.error_bars.z_score import require_theory, z_scores
from sweep_service.analysis.quantities.step_times import select_positive_times
from sweep_service.analysis.runs import DRAW_DIMS
from sweep_service.numerics.types import AnyArray
from sweep_service.validation import read_number

MAX_NONLINEARITY = 0.3  # |δt shift|/sd: at a saddle, the predicted sd is wrong by a factor 3 at 2.4


class Validity(IntEnum):
    """How SGD compares with a theory and its error bars."""

    HOLDS = 0  # within the error bars
    OFF = 1  # by more than the error bars
    NONLINEAR = 2  # the error bars do not apply
    UNKNOWN = 3  # no run of SGD, or no prediction

    @property
    def label(self) -> str:
        return self.name.lower()


FLAGS = {
    "flag_values": [status.value for status in Validity],
    "flag_meanings": " ".join(status.label for status in Validity),
}


def validity(
    dataset: xr.Dataset, /, regime: str, level: float = 0.95, *, nonlinearity: float = MAX_NONLINEARITY
) -> xr.Dataset:
    """Classify each point and time by whether a theory holds within its own error bars.

    With n runs of SGD at a distance of z predicted standard deviations from the curve of the regime, the sum
    of z² has the χ² distribution with n degrees of freedom if the theory holds. The theory is `off` where
    the sum exceeds the quantile at `level`: a share 1 - `level` of all times is by chance. A point is `off`
    if this happens at the level 1 - (1 - `level`)/(number of times) at any time (Bonferroni), else
    `nonlinear` if some of its times are, else it `holds`.

    Parameters
    ----------
    regime
        The name of a regime, or `ode` for all regimes.
    level
        Probability that a theory which holds is not called `off`.
    nonlinearity
        Largest |δt shift|/sd, of any start, at which the linear theory of the error bars applies.

    Returns
    -------
    xr.Dataset
        `validity` (0 holds, 1 off, 2 nonlinear, 3 unknown) at each point and time and `overall` at each
        point, with `rms_z` = √(Σ z²/n) and the `limit` that it may have at each time, the largest
        `nonlinearity` of the starts, and the number of `runs`.

    Raises
    ------
    InvalidInput
        If no fluctuations are stored, SGD is missing, the regime is unknown, or a number is out of range.
    """
    require_theory(dataset, regime)
    level = read_number(level, "level", above=0.0, most=1.0)
    nonlinearity = read_number(nonlinearity, "nonlinearity", least=0.0)
    dataset = select_positive_times(add_prediction(dataset))
    squares = z_scores(dataset, regime) ** 2
    draws = [dim for dim in squares.dims if dim in DRAW_DIMS]
    runs, total = squares.notnull().sum(draws), squares.sum(draws)
    ratio = read_prediction(dataset).nonlinearity
    ratio = ratio.max([dim for dim in ratio.dims if dim in DRAW_DIMS])
    is_known = runs > 0
    is_flagged = is_known & (ratio > nonlinearity)
    is_judged = is_known & ~is_flagged
    limit = _limit(runs, level)
    joint_limit = _limit(runs, 1.0 - (1.0 - level) / is_judged.sum("time").clip(min=1))
    at_times = _classify(is_judged & (total > limit), is_flagged, is_known)
    overall = _classify(
        *(mask.any("time") for mask in (is_judged & (total > joint_limit), is_flagged, is_known))
    )
    known_runs = runs.where(is_known)
    variables = {
        "validity": (at_times, f"validity of {regime}"),
        "overall": (overall, f"validity of {regime} over all times"),
        "rms_z": ((total / known_runs) ** 0.5, "root mean square over runs of z"),
        "limit": (
            (limit / known_runs) ** 0.5,
            f"rms_z that a theory which holds exceeds with probability {1 - level:.2g}",
        ),
        "nonlinearity": (ratio, "largest |δt shift|/sd of the starts"),
        "runs": (runs, "runs"),
    }
    return xr.Dataset({name: array.assign_attrs(long_name=text) for name, (array, text) in variables.items()})


def describe_validity(codes: AnyArray) -> AnyArray:
    """The labels of codes of `Validity`."""
    return np.array([status.label for status in Validity], dtype=object)[codes]


def _limit(runs: xr.DataArray, level: float | xr.DataArray) -> xr.DataArray:
    """The quantile of the χ² distribution with as many degrees of freedom as there are runs."""
    return xr.apply_ufunc(special.chdtri, runs.clip(min=1), 1.0 - level)


def _classify(is_off: xr.DataArray, is_flagged: xr.DataArray, is_known: xr.DataArray) -> xr.DataArray:
    codes = xr.where(is_flagged, Validity.NONLINEAR, Validity.HOLDS)
    codes = xr.where(is_off, Validity.OFF, codes)
    return xr.where(is_known, codes, Validity.UNKNOWN).astype("int8").assign_attrs(FLAGS)
