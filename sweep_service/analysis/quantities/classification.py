"""Phases: what happens at a point of a sweep, and what happens as the dimension grows."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.curves import DERIVED
from sweep_service.analysis.quantities.final_risk import final_risk, last_half
from sweep_service.analysis.runs import kind_of, noise_coefficient, null_risk, parameter, runs
from sweep_service.analysis.statistics import at, by_run, described, mean_over, point_dims
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.grids import POINT
from sweep_service.status import Status

NORMAL = 1.959964  # 95 % of a Gaussian
FEWEST = 3  # values of d


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
    """One word for each point, the first that holds of these; the last where nothing has ended.

    diverged: at least that share of runs; perfect: R_f <= `perfect` R_null; plateau: R_f <= `plateau`
    times the noise floor c γΔ/p; unspecialised: settled, with an order parameter below `specialised`;
    bad: settled or rising; undecided.
    """
    found = final_risk(dataset, source, flat=flat, largest_error=largest_error)
    array = runs(dataset, source, "status")
    dims = point_dims(array)
    status = by_run(array)
    ended, lost = (np.sum(one, axis=(-2, -1)) for one in (~np.isnan(status), status == Status.DIVERGED))
    share, low, high = _wilson(lost, ended)
    gamma, p, noise = (at(parameter(dataset, name), dims) for name in ("gamma", "p", "noise"))
    shape = share.shape
    floor = np.broadcast_to(at(noise_coefficient(dataset), dims) * gamma * noise / p, shape)
    null = np.broadcast_to(at(null_risk(dataset), dims), shape)
    order = _order_parameter(dataset, source, shape)
    risk, trend = (found[name].transpose(*dims).values for name in ("final_risk", "trend"))
    with np.errstate(all="ignore"):
        rules = {
            "diverged": share >= diverged,
            "perfect": risk <= perfect * null,
            "plateau": (risk <= plateau * floor) & (floor > 0),
            "unspecialised": (trend == "settled") & (order < specialised),
            "bad": (trend == "settled") | (trend == "rising"),
        }
    word = np.select(list(rules.values()), list(rules), "undecided")
    numbers = described(
        array,
        dims,
        {
            "phase": (word, "phase"),
            "diverged_share": (share, "share of ended runs that diverged"),
            "diverged_low": (low, "lower end of the 95% Wilson interval of that share"),
            "diverged_high": (high, "upper end of the 95% Wilson interval of that share"),
            "null_risk": (null, "risk of a student that answers zero"),
            "law": (floor, "noise floor c γΔ/p of small γ/p"),
            "order_parameter": (order, "specialisation, mean over the last half of the time"),
        },
    )
    return numbers.assign({str(name): found[name] for name in found if name not in ("low", "high")})


def _wilson(successes: AnyArray, trials: AnyArray) -> tuple[Array, Array, Array]:
    """The share with its interval, which is within [0, 1] also when all or none succeed."""
    n = np.where(trials > 0, trials, np.nan)
    share, z = successes / n, NORMAL
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z * np.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2) / (1 + z**2 / n)
    return share, np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)


def _order_parameter(dataset: xr.Dataset, source: str, shape: tuple[int, ...]) -> Array:
    if f"{kind_of(dataset, source)[0]}_specialisation" not in dataset:
        return np.full(shape, np.nan)
    array = runs(dataset, source, "specialisation")
    return mean_over(last_half(by_run(array), array["time"].values), (-2, -1))


def scaling_phase(
    dataset: xr.Dataset,
    /,
    source: str = "sgd",
    *,
    flat: float = 0.05,
    errors: float = 2.0,
    largest_error: float = np.inf,
) -> xr.Dataset:
    """Slopes b of ln R_f in ln d where p = p0 d^kappa and gamma = gamma0 d^-delta, and their phases.

    On the dimension `case`, one for each kappa, delta and whatever else was swept beside d. perfect:
    b + 2se < -`flat`; plateau: |b| <= max(`flat`, 2se); bad: b - 2se > `flat`; else, or with fewer than
    three values of d, undecided. A slope of which little is known is a plateau by this rule, unless
    `largest_error` is an error beyond which it is undecided. The theory says b = -(kappa + delta).
    """
    for name in ("kappa", "delta", "d"):
        if name not in dataset.coords or POINT not in dataset.dims:
            raise InvalidInput(name, None, "is not a coordinate of the points: is it a scaling sweep?")
    found = final_risk(dataset, source).transpose(POINT, ...)
    fixed = ("d", "p", "gamma", *DERIVED)
    names = [str(name) for name in found.coords if found[name].dims == (POINT,) and name not in fixed]
    names = list(dict.fromkeys([*(one for one in ("kappa", "delta") if one not in names), *names]))
    columns = [np.broadcast_to(found[name].values, found.sizes[POINT]).tolist() for name in names]
    cases: dict[Any, int] = {}
    case = np.array([cases.setdefault(row, len(cases)) for row in zip(*columns, strict=True)])
    slope, error, count = _grouped_slope(
        np.log(np.broadcast_to(found["d"].values, case.shape)),
        found["final_risk"].values,
        found["standard_error"].values,
        case,
    )
    word = np.select(
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
    coords = {name: ("case", np.array(values), found[name].attrs) for name, values in axes.items()}
    dims = ("case", *(str(dim) for dim in found["final_risk"].dims[1:]))
    result = described(
        found["final_risk"].isel({POINT: 0}, drop=True),
        dims,
        {
            "phase": (word, "phase as d grows"),
            "slope": (slope, "slope of ln R in ln d at the end"),
            "slope_error": (error, "standard error of the slope"),
            "dimensions": (count, "values of d with a final risk"),
        },
    )
    theory = -(np.array(axes["kappa"]) + np.array(axes["delta"]))
    result["theory"] = ("case", theory, {"long_name": "-(kappa + delta)", "units": "1"})
    words = region(np.array(axes["kappa"]), np.array(axes["delta"]))
    result["region"] = ("case", words, {"long_name": "region of the phase plane", "units": "1"})
    return result.drop_vars([n for n in coords if n in result.coords]).assign_coords(coords)


def _grouped_slope(x: Array, y: Array, error: Array, case: AnyArray) -> tuple[Array, Array, AnyArray]:
    """Weighted regression of ln y (points, …) on x (points,) within each case.

    The weights are (y/error)², or equal where one of the case has no error. The error of the slope is
    that of the weights, and no less than the scatter around the line says.
    """
    x = x.reshape(-1, *(1 for _ in y.shape[1:]))

    def summed(values: AnyArray) -> Array:
        total = np.zeros((case.max() + 1, *y.shape[1:]))
        np.add.at(total, case, values)
        return total

    with np.errstate(all="ignore"):
        there = np.isfinite(y) & (y > 0)
        known = summed(there & ~(error > 0)) == 0
        w = np.where(there, np.where(known[case], (y / error) ** 2, 1.0), 0.0)
        ln = np.where(there, np.log(y), 0.0)
        count, total = summed(there).astype(int), summed(w)
        away = x - (summed(w * x) / total)[case]
        square = np.where(count >= FEWEST, summed(w * away**2), np.nan)
        slope = summed(w * away * ln) / square
        rest = np.where(there, ln - (summed(w * ln) / total)[case] - slope[case] * away, 0.0)
        scatter = summed(w * rest**2) / (count - 2)
        return slope, np.sqrt(np.where(known, np.fmax(scatter, 1.0), scatter) / square), count


def region(kappa: Any, delta: Any, tolerance: float = 1e-9) -> AnyArray:
    """What theory says of p ~ d^kappa, gamma ~ d^-delta; `tolerance` is half the width of the line."""
    total = np.asarray(kappa, dtype=float) + np.asarray(delta, dtype=float)
    rules = [np.abs(total) <= tolerance, total > 0, total > -0.5]
    return np.select(rules, ["plateau", "perfect", "bad"], "undescribed")
