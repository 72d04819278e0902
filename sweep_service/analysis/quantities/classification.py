"""Phases: the outcome at a point of a sweep, and the trend of the final risk as the dimension grows."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.curves import DERIVED_COORDINATES
from sweep_service.analysis.floor_law.coefficient import noise_coefficient
from sweep_service.analysis.quantities.final_risk import final_risk
from sweep_service.analysis.quantities.line_fit import fit_lines
from sweep_service.analysis.runs import (
    late_means,
    null_risk,
    parameter,
    parse_source,
    read_runs,
)
from sweep_service.analysis.statistics import (
    align_to_points,
    build_dataset,
    finite_mean,
    group_by_draw,
    point_dims,
)
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput
from sweep_service.numerics.time_average import mean_of_last_half
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

    The phase is the first that applies of diverged, plateau (near the noise floor), perfect, unspecialised
    (settled, with a small order parameter), bad (settled or rising) and undecided. A run on its noise floor
    has not learned perfectly, however low the floor is.

    Parameters
    ----------
    source
        `sgd`, the name of a regime, or `ode` for all regimes.
    diverged
        Smallest share of diverged runs for `diverged`.
    perfect
        Largest R_f/R_null for `perfect`.
    plateau
        Largest ratio between R_f and the noise floor c γΔ/p, in either direction, for `plateau`. Regimes
        without label noise have no floor.
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
    coefficient = align_to_points(noise_coefficient(dataset, source), dims)
    floor = np.broadcast_to(coefficient * gamma * noise / p, shape)
    reachable = np.where(_has_label_noise(array, dims, source), floor, np.nan)
    null = np.broadcast_to(align_to_points(null_risk(dataset), dims), shape)
    order = _order_parameter(dataset, source, shape)
    risk, trend = (final[name].transpose(*dims).values for name in ("final_risk", "trend"))
    with np.errstate(all="ignore"):
        rules = {
            "diverged": share >= diverged,
            # Whatever the trend: on a floor it is that of a few fluctuations, and rarely settled.
            "plateau": (reachable > 0) & (risk <= plateau * reachable) & (risk >= reachable / plateau),
            "perfect": risk <= perfect * null,
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


def _has_label_noise(array: xr.DataArray, dims: tuple[str, ...], source: str) -> AnyArray:
    """Whether label noise acts on the runs of a source, as an array that broadcasts over the points."""

    def acts_on(name: str) -> bool:
        regime = REGIMES.get(name)  # None for SGD
        return regime is None or not ("noise" in regime.independent_of or regime.particles)  # none at p = ∞

    if "regime" not in dims:
        return np.asarray(acts_on(source))
    names = [str(name) for name in array["regime"].values]
    return np.reshape([acts_on(name) for name in names], [-1 if dim == "regime" else 1 for dim in dims])


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
    final = late_means(dataset, source).transpose(POINT, ...)
    along_d = ("d", "p", "gamma", *DERIVED_COORDINATES)
    names = [str(name) for name in final.coords if final[name].dims == (POINT,) and name not in along_d]
    names = list(dict.fromkeys([*(name for name in ("kappa", "delta") if name not in names), *names]))
    columns = [np.broadcast_to(final[name].values, final.sizes[POINT]).tolist() for name in names]
    cases: dict[Any, int] = {}
    case = np.array([cases.setdefault(row, len(cases)) for row in zip(*columns, strict=True)])
    log_d = np.log(np.broadcast_to(final["d"].values, case.shape))
    slope, error, count = _fit_slopes(log_d, group_by_draw(final), case)
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
    dims = ("case", *point_dims(final)[1:])
    result = build_dataset(
        final.isel({POINT: 0}, drop=True),
        dims,
        {
            "phase": (phases, "phase as d grows"),
            "slope": (slope, "slope of ln R in ln d at the end"),
            "slope_error": (error, "standard error of the slope"),
            "dimensions": (count, "values of d with a final risk"),
        },
    )
    theory = -(np.array(axes["kappa"]) + np.array(axes["delta"]))
    result["theory"] = ("case", theory, {"long_name": "-(kappa + delta)"})
    regions = predict_region(np.array(axes["kappa"]), np.array(axes["delta"]))
    result["region"] = ("case", regions, {"long_name": "region of the phase plane"})
    return result.drop_vars([name for name in coords if name in result.coords]).assign_coords(coords)


def _fit_slopes(x: Array, values: Array, case: AnyArray) -> tuple[Array, Array, AnyArray]:
    """Slope of ln(values) (points, …, draws, runs) on x (points,) in each case, its error, and the points.

    As for `exponent`, the slopes of the draws are averaged: errors of points, known from a few draws, would
    be poor weights.
    """
    with np.errstate(all="ignore"):
        logarithms = finite_mean(np.where(values > 0, np.log(values), np.nan), axis=-1)
    logarithms = np.moveaxis(logarithms, 0, -2)  # (…, points, draws)
    slopes, errors, counts = [], [], []
    for number in range(case.max() + 1):
        y = logarithms[..., case == number, :]
        fit = fit_lines(x[case == number], y)
        count = np.isfinite(y).any(axis=-1).sum(axis=-1)
        slopes.append(np.where(count >= MIN_DIMENSIONS, fit.slope, np.nan))
        errors.append(np.where(count >= MIN_DIMENSIONS, fit.error, np.nan))
        counts.append(count)
    return np.stack(slopes), np.stack(errors), np.stack(counts)


def predict_region(kappa: Any, delta: Any, tolerance: float = 1e-9) -> AnyArray:
    """Region of the theory for p ~ d^kappa, gamma ~ d^-delta; `tolerance` is half the width of the line."""
    total = np.asarray(kappa, dtype=float) + np.asarray(delta, dtype=float)
    rules = [np.abs(total) <= tolerance, total > 0, total > -0.5]
    return np.select(rules, ["plateau", "perfect", "bad"], "undescribed")
