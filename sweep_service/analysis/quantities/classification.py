"""Phases: the outcome at a point of a sweep, and the trend of the final risk as the dimension grows."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.curves import DERIVED_COORDINATES
from sweep_service.analysis.quantities.final_risk import final_risk, mean_of_last_half
from sweep_service.analysis.runs import noise_coefficient, null_risk, parameter, parse_source, read_runs
from sweep_service.analysis.statistics import (
    align_to_points,
    build_dataset,
    finite_mean,
    group_by_draw,
    point_dims,
)
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.axes import POINT
from sweep_service.status import Status

NORMAL_QUANTILE = 1.959964  # of a two-sided 95 % interval
MIN_DIMENSIONS = 3  # values of d to fit a slope


def phase(
    dataset: xr.Dataset,
    /,
    source: str = "sgd",
    *,
    diverged: float = 0.5,
    perfect: float = 1e-3,
    plateau: float = 3.0,
    specialised: float = 0.5,
    flat: float = 0.1,
    largest_error: float = 0.1,
) -> xr.Dataset:
    """Classify each point by the outcome of its runs.

    The phase is the first that applies of diverged, perfect, plateau, unspecialised (settled, with a small
    order parameter), bad (settled or rising) and undecided.

    Parameters
    ----------
    source
        `sgd`, the name of a regime, or `ode` for all regimes.
    diverged
        Smallest share of diverged runs for `diverged`.
    perfect
        Largest R_f/R_null for `perfect`.
    plateau
        Largest ratio of R_f to the noise floor c γΔ/p for `plateau`.
    specialised
        Smallest order parameter of a specialised student.
    flat, largest_error
        As for `final_risk`.

    Returns
    -------
    xr.Dataset
        At each point `phase`, the numbers on which it depends, and the results of `final_risk`.
    """
    final = final_risk(dataset, source, flat=flat, largest_error=largest_error)
    array = read_runs(dataset, source, "status")
    dims = point_dims(array)
    status = group_by_draw(array)
    ended, lost = (np.sum(mask, axis=(-2, -1)) for mask in (~np.isnan(status), status == Status.DIVERGED))
    share, low, high = _wilson_interval(lost, ended)
    gamma, p, noise = (align_to_points(parameter(dataset, name), dims) for name in ("gamma", "p", "noise"))
    shape = share.shape
    coefficient = align_to_points(noise_coefficient(dataset), dims)
    floor = np.broadcast_to(coefficient * gamma * noise / p, shape)
    null = np.broadcast_to(align_to_points(null_risk(dataset), dims), shape)
    order = _order_parameter(dataset, source, shape)
    risk, trend = (final[name].transpose(*dims).values for name in ("final_risk", "trend"))
    with np.errstate(all="ignore"):
        rules = {
            "diverged": share >= diverged,
            "perfect": risk <= perfect * null,
            "plateau": (risk <= plateau * floor) & (floor > 0),
            "unspecialised": (trend == "settled") & (order < specialised),
            "bad": (trend == "settled") | (trend == "rising"),
        }
    phases = np.select(list(rules.values()), list(rules), "undecided")
    result = build_dataset(
        array,
        dims,
        {
            "phase": (phases, "phase"),
            "diverged_share": (share, "share of ended runs that diverged"),
            "diverged_low": (low, "lower end of the 95% Wilson interval of that share"),
            "diverged_high": (high, "upper end of the 95% Wilson interval of that share"),
            "null_risk": (null, "risk of a student that answers zero"),
            "law": (floor, "noise floor c γΔ/p of small γ/p"),
            "order_parameter": (order, "specialisation, mean over the last half of the time"),
        },
    )
    return result.assign({str(name): final[name] for name in final if name not in ("low", "high")})


def _wilson_interval(successes: AnyArray, trials: AnyArray) -> tuple[Array, Array, Array]:
    """Share with its 95 % interval, which stays within [0, 1] even if all or none succeed."""
    n = np.where(trials > 0, trials, np.nan)
    share, z = successes / n, NORMAL_QUANTILE
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half_width = z * np.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2) / (1 + z**2 / n)
    return share, np.maximum(middle - half_width, 0.0), np.minimum(middle + half_width, 1.0)


def _order_parameter(dataset: xr.Dataset, source: str, shape: tuple[int, ...]) -> Array:
    if f"{parse_source(dataset, source)[0]}_specialisation" not in dataset:
        return np.full(shape, np.nan)
    array = read_runs(dataset, source, "specialisation")
    return finite_mean(mean_of_last_half(group_by_draw(array), array["time"].values), (-2, -1))


def scaling_phase(
    dataset: xr.Dataset,
    /,
    source: str = "sgd",
    *,
    flat: float = 0.05,
    errors: float = 2.0,
    largest_error: float = np.inf,
) -> xr.Dataset:
    """Classify how the final risk depends on d where p = p0 d^kappa and gamma = gamma0 d^-delta.

    b is the slope of ln R_f in ln d and se its standard error. The phase is perfect if b + `errors` se <
    -`flat`, plateau if |b| <= max(`flat`, `errors` se), bad if b - `errors` se > `flat`, and undecided
    otherwise or with fewer than three values of d. The theory predicts b = -(kappa + delta).

    Parameters
    ----------
    source
        `sgd`, the name of a regime, or `ode` for all regimes.
    flat
        Largest |b| of a flat line.
    errors
        Number of standard errors by which b must differ from `flat`.
    largest_error
        Standard error above which the phase is undecided. By default there is none, and a slope with a
        large error is a plateau.

    Returns
    -------
    xr.Dataset
        On the dimension `case`, one for each combination of kappa, delta and the other axes except d:
        `phase`, `slope`, `slope_error`, `dimensions`, and the predicted `theory` and `region`.

    Raises
    ------
    InvalidInput
        If the dataset is not a scaling sweep.
    """
    for name in ("kappa", "delta", "d"):
        if name not in dataset.coords or POINT not in dataset.dims:
            raise InvalidInput(name, None, "must be a coordinate of the points, as in a scaling sweep")
    final = final_risk(dataset, source).transpose(POINT, ...)
    along_d = ("d", "p", "gamma", *DERIVED_COORDINATES)
    names = [str(name) for name in final.coords if final[name].dims == (POINT,) and name not in along_d]
    names = list(dict.fromkeys([*(name for name in ("kappa", "delta") if name not in names), *names]))
    columns = [np.broadcast_to(final[name].values, final.sizes[POINT]).tolist() for name in names]
    cases: dict[Any, int] = {}
    case = np.array([cases.setdefault(row, len(cases)) for row in zip(*columns, strict=True)])
    slope, error, count = _fit_slopes(
        np.log(np.broadcast_to(final["d"].values, case.shape)),
        final["final_risk"].values,
        final["standard_error"].values,
        case,
    )
    phases = np.select(
        [
            error > largest_error,
            slope + errors * error < -flat,
            np.abs(slope) <= np.fmax(flat, errors * error),
            slope - errors * error > flat,
        ],
        ["undecided", "perfect", "plateau", "bad"],
        "undecided",
    )
    axes = dict(zip(names, zip(*cases, strict=True), strict=True))
    coords = {name: ("case", np.array(values), final[name].attrs) for name, values in axes.items()}
    dims = ("case", *(str(dim) for dim in final["final_risk"].dims[1:]))
    result = build_dataset(
        final["final_risk"].isel({POINT: 0}, drop=True),
        dims,
        {
            "phase": (phases, "phase as d grows"),
            "slope": (slope, "slope of ln R in ln d at the end"),
            "slope_error": (error, "standard error of the slope"),
            "dimensions": (count, "values of d with a final risk"),
        },
    )
    theory = -(np.array(axes["kappa"]) + np.array(axes["delta"]))
    result["theory"] = ("case", theory, {"long_name": "-(kappa + delta)", "units": "1"})
    regions = predict_region(np.array(axes["kappa"]), np.array(axes["delta"]))
    result["region"] = ("case", regions, {"long_name": "region of the phase plane", "units": "1"})
    return result.drop_vars([name for name in coords if name in result.coords]).assign_coords(coords)


def _fit_slopes(x: Array, y: Array, error: Array, case: AnyArray) -> tuple[Array, Array, AnyArray]:
    """Weighted regression of ln y (points, …) on x (points,) within each case: slope, its error, and count.

    The weights are (y/error)², or equal if a point of the case has no error. The error of the slope follows
    from the weights, and is at least what the scatter around the line implies.
    """
    x = x.reshape(-1, *(1 for _ in y.shape[1:]))

    def sum_by_case(values: AnyArray) -> Array:
        total = np.zeros((case.max() + 1, *y.shape[1:]))
        np.add.at(total, case, values)
        return total

    with np.errstate(all="ignore"):
        valid = np.isfinite(y) & (y > 0)
        has_errors = sum_by_case(valid & ~(error > 0)) == 0
        w = np.where(valid, np.where(has_errors[case], (y / error) ** 2, 1.0), 0.0)
        ln_y = np.where(valid, np.log(y), 0.0)
        count, total = sum_by_case(valid).astype(int), sum_by_case(w)
        dx = x - (sum_by_case(w * x) / total)[case]
        sxx = np.where(count >= MIN_DIMENSIONS, sum_by_case(w * dx**2), np.nan)
        slope = sum_by_case(w * dx * ln_y) / sxx
        residual = np.where(valid, ln_y - (sum_by_case(w * ln_y) / total)[case] - slope[case] * dx, 0.0)
        scatter = sum_by_case(w * residual**2) / (count - 2)
        return slope, np.sqrt(np.where(has_errors, np.fmax(scatter, 1.0), scatter) / sxx), count


def predict_region(kappa: Any, delta: Any, tolerance: float = 1e-9) -> AnyArray:
    """Region of the theory for p ~ d^kappa, gamma ~ d^-delta; `tolerance` is half the width of the line."""
    total = np.asarray(kappa, dtype=float) + np.asarray(delta, dtype=float)
    rules = [np.abs(total) <= tolerance, total > 0, total > -0.5]
    return np.select(rules, ["plateau", "perfect", "bad"], "undescribed")
