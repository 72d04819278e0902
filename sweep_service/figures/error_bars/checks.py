"""Golden numbers of the error bars: independent numbers, SGD, and the flag at a saddle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sweep_service.figures.error_bars.moments import (
    Moments,
    measure_moments,
    measured_constants,
    predicted_constant,
    read_prediction_without_d,
)
from sweep_service.figures.figure import Check, Datasets

if TYPE_CHECKING:
    import xarray as xr

    from sweep_service.numerics.types import Array

# Of another integration with a fixed step and other Sobol points: sd R at d = 50 and the shift at d = 10.
GOLDEN_TIMES = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
GOLDEN_STD = np.array([1.724, 1.735, 1.242, 0.3414, 0.1671, 0.1609]) * 1e-3 * np.sqrt(100.0)
GOLDEN_SHIFT = np.array([-9.24, -11.70, -9.10, 0.37, 2.32, 1.51]) * 1e-5 * 20.0
GOLDEN_ERROR = 0.015  # of the Sobol points, relative to sd R and to the largest shift
GOLDEN_CONSTANT = (0.506, 0.542)  # 0.524(3), with three errors of both and 1 % for the Sobol points
# Relative errors of the linear theory, beside those of the runs.
STD_TOLERANCE = 0.05  # at d = 10, where √δt = 0.22
SHIFT_TOLERANCE = 0.05  # of the largest shift
SADDLE_TOLERANCE = 0.16  # of sd R on the plateau and in an escape before it is flagged
LARGE_D = 50  # from which the linear theory errs by less than the runs


def check(datasets: Datasets) -> list[Check]:
    """Check the prediction against independent numbers and against SGD, and its flag at the saddle."""
    moments, many = (measure_moments(datasets[name]) for name in ("", "shift"))
    return [
        *_check_prediction(datasets[""]),
        *_check_std(moments, many),
        *_check_shift(many),
        *_check_constant(datasets["theorem"]),
        *_check_saddle(measure_moments(datasets["saddle"])),
    ]


def _check_prediction(dataset: xr.Dataset) -> list[Check]:
    std, shift = (_interpolate(dataset, name) for name in ("ode_risk_std", "ode_risk_shift"))
    shift_error = abs(shift - GOLDEN_SHIFT).max() / abs(GOLDEN_SHIFT).max()
    return [
        Check.at_most(
            "predicted sd of R, largest error relative to golden",
            abs(std / GOLDEN_STD - 1).max(),
            GOLDEN_ERROR,
        ),
        Check.at_most(
            "predicted shift, largest error over the largest golden shift", shift_error, GOLDEN_ERROR
        ),
    ]


def _interpolate(dataset: xr.Dataset, name: str) -> Array:
    """A stored number without d at the golden times."""
    from sweep_service.analysis.quantities.interpolation import interpolate

    values = read_prediction_without_d(dataset, name)
    return interpolate(np.log(values["time"].values), values.values, np.log(GOLDEN_TIMES))


def _check_std(moments: Moments, many: Moments) -> list[Check]:
    from sweep_service.analysis.error_bars.validity import MAX_NONLINEARITY

    excess = [float(((abs(m.ratio - 1.0) - STD_TOLERANCE) / m.ratio_error).max()) for m in (moments, many)]
    large = moments.ratio.sel(d=slice(LARGE_D, None))
    return [
        Check.at_most("|sd of SGD/predicted - 1| beyond 5 % in standard errors, largest", max(excess), 4.0),
        Check.within(f"sd of SGD/predicted, mean over t and d >= {LARGE_D}", large.mean(), 0.97, 1.03),
        Check.at_most(
            "nonlinearity where SGD follows, largest", moments.nonlinearity.max(), MAX_NONLINEARITY
        ),
    ]


def _check_shift(moments: Moments) -> list[Check]:
    largest = abs(moments.predicted_mean - moments.risk).max("time")
    distance = abs(moments.mean - moments.predicted_mean) - SHIFT_TOLERANCE * largest
    offset = abs(moments.mean - moments.risk) / moments.mean_error
    return [
        Check.at_most(
            "|mean of SGD - predicted| beyond 5 % of the shift in standard errors, largest",
            (distance / moments.mean_error).max(),
            4.0,
        ),
        Check.at_least("|mean of SGD - SS| in standard errors, largest", offset.max(), 5.0),
    ]


def _check_constant(dataset: xr.Dataset) -> list[Check]:
    constant, error = predicted_constant(dataset)
    measured, measured_error = measured_constants(dataset)
    distance = abs(measured - constant) / np.hypot(measured_error, error)
    return [
        Check.within("E sup |∇R·ξ|/R(0), predicted", constant, *GOLDEN_CONSTANT),
        Check.at_most("D/(√δt R(0)) of SGD, standard errors from predicted, largest", distance.max(), 3.0),
    ]


def _check_saddle(moments: Moments) -> list[Check]:
    from sweep_service.analysis.error_bars.validity import MAX_NONLINEARITY

    factor = np.exp(abs(np.log(moments.ratio)))
    excess = (abs(moments.ratio - 1.0) - SADDLE_TOLERANCE) / moments.ratio_error
    return [
        Check.at_least("saddle: nonlinearity, largest", moments.nonlinearity.max(), MAX_NONLINEARITY),
        Check.at_least(
            "saddle: sd of SGD and predicted, largest factor where flagged",
            factor.where(moments.is_flagged).max(),
            2.0,
        ),
        Check.at_most(
            "saddle: |sd of SGD/predicted - 1| beyond 16 % in standard errors, largest where not flagged",
            excess.where(~moments.is_flagged).max(),
            4.0,
        ),
    ]
