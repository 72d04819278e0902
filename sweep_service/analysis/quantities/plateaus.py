"""Plateaus: intervals in which a curve is flat on logarithmic axes, up to its noise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import MIN_RELATIVE_RISK, draw_dims, null_risk, read_runs
from sweep_service.analysis.statistics import (
    align_to_points,
    average,
    build_dataset,
    finite_mean,
    group_by_draw,
    point_dims,
)
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import AnyArray, Array

ERRORS = 2.0  # of the slope, by which it may exceed the limit before a plateau ends
CERTAIN_ERRORS = 3.5  # of the slope of an interval, to exclude chance
CERTAIN_FACTOR = 1.5  # times the limit, below which the slope is with certainty
SURROUNDING_DECADES = 1.0  # at least, on both sides of an interval
WINDOW_FACTORS = np.geomspace(1.0, 8.0, 10)  # by which the window is widened where the curve is noisy
NOISE_WINDOW_DECADES = 1.5  # on both sides: noise is estimated from more samples than slopes
NORMAL_MEDIAN = 0.6745  # of |z|, z ~ N(0, 1)
# Values of a plateau; each has an error, and values of the draws.
VALUES = {
    "start": "time at which a plateau begins",
    "end": "time at which a plateau ends",
    "height": "geometric mean of the risk on a plateau",
    "exit": "first later time with less than half of the height",
}


class Rule(NamedTuple):
    """The parameters of `plateaus`."""

    window: float
    flat: float
    shortest: float
    initial: float


def plateaus(
    dataset: xr.Dataset,
    /,
    source: str = "sgd",
    *,
    window: float = 0.15,
    flat: float = 0.2,
    shortest: float = 0.3,
    initial: float = 0.9,
) -> xr.Dataset:
    """Find the plateaus of the mean risk curve at each point, and of the curve of each draw.

    s(t) is the least-squares slope of log10 R̄ in log10 t within ± `window` decades, and at least over both
    neighbours; SE is its error from the scatter of the samples, and the window is widened until SE is at most
    half of `flat`. A plateau is a maximal interval with |s| <= `flat` + 2 SE in which |s| <= `flat`
    somewhere, and whose own slope is at most `flat`, up to its error; otherwise its parts with |s| <= `flat`
    are plateaus. Intervals that may look flat by chance, as parts of a noisy slope, are left out. A plateau
    is initial if it begins at the first t > 0 or is as high as `initial` R(0), final if it reaches t_max, and
    otherwise intermediate.

    Parameters
    ----------
    source
        `sgd`, the name of a regime, or `ode` for all regimes.
    window
        Half width of the window of the slope, in decades.
    flat
        Largest |s| of a plateau.
    shortest
        Smallest length of a plateau, in decades.
    initial
        Smallest height of an initial plateau, in units of R(0).

    Returns
    -------
    xr.Dataset
        On the dimension `plateau`, in the order of time: `start`, `end`, `decades`, `height` (geometric mean
        over ln t), `exit` (the first later sample below half the height) and `kind`, which is empty where a
        point has fewer plateaus.

        `draw_start`, `draw_end`, `draw_height` and `draw_exit` are those of the plateau that overlaps most in
        the curve of each draw (of a seed, or of a repeat of a single seed), NaN if there is none; `draws` is
        the number of draws that have it, and `start_error`, … the standard errors of their means.

    Raises
    ------
    InvalidInput
        If there are fewer than two samples after t = 0.
    """
    array = read_runs(dataset, source)
    dims, values = point_dims(array), group_by_draw(array)
    times = array["time"].values
    if np.sum(times > 0) < 2:
        raise InvalidInput("time", times[times > 0].tolist(), "must have at least two samples after t = 0")
    rule = Rule(window, flat, shortest, initial)
    smallest = np.broadcast_to(
        MIN_RELATIVE_RISK * align_to_points(null_risk(dataset), dims), values.shape[: len(dims)]
    )
    mean = _find_plateaus(finite_mean(values, axis=(-3, -2)), times, smallest, rule)
    draws = _find_plateaus(finite_mean(values, axis=-2), times, smallest[..., None], rule)
    matched = _match_draws(mean, draws)
    variables = {name: (mean[name], text) for name, text in VALUES.items()}
    variables["decades"] = (np.log10(mean["end"] / mean["start"]), "length of a plateau in log10 t")
    variables["kind"] = (mean["kind"], "initial, intermediate or final")
    for name, text in VALUES.items():
        error, count = average(matched[name], axis=len(dims))[1:]
        variables[f"{name}_error"] = (error, f"standard error over draws of the {text}")
        if name == "height":
            variables["draws"] = (count, "draws that have the plateau")
    independent, _ = draw_dims(array)
    shape = [array.sizes[dim] for dim in independent]
    by_draw = {
        f"draw_{name}": (
            matched[name].reshape(*mean["start"].shape[:-1], *shape, -1),
            f"{text}, in the curve of a draw",
        )
        for name, text in VALUES.items()
    }
    names = ("start", "end", "decades", "height", "exit", "kind")
    ordered = {name: variables.pop(name) for name in names} | variables
    return xr.merge(
        [
            build_dataset(array, (*dims, "plateau"), ordered),
            build_dataset(array, (*dims, *independent, "plateau"), by_draw),
        ]
    )


def _find_plateaus(curves: Array, all_times: Array, smallest: AnyArray, rule: Rule) -> dict[str, AnyArray]:
    """Values and `kind` of the plateaus (…, plateau) of curves (…, time); NaN and "" beyond the last one."""
    shape, positive = curves.shape[:-1], all_times > 0
    times, risk = all_times[positive], curves[..., positive].reshape(-1, positive.sum())
    start_risk = curves[..., 0].reshape(-1)
    x = np.log10(times)
    with np.errstate(all="ignore"):
        is_valid = (risk > np.broadcast_to(smallest, shape).reshape(-1, 1)) & np.isfinite(risk)
        y = np.where(is_valid, np.log10(risk), np.nan)
        rows, first, last = _find_flat_intervals(x, y, rule)
        is_long = x[last] - x[first] >= rule.shortest * (1 - 1e-12)
        rows, first, last = rows[is_long], first[is_long], last[is_long]
        height = 10 ** _interval_means(x, y, rows, first, last)
        is_exit = (risk[rows] < height[:, None] / 2) & (np.arange(len(x)) > last[:, None])
        exit_time = np.where(is_exit.any(axis=1), times[is_exit.argmax(axis=1)], np.nan)
        is_initial = (first == 0) | (height >= rule.initial * start_risk[rows])
    kind = np.where(is_initial, "initial", np.where(last == len(x) - 1, "final", "intermediate"))
    number = np.arange(len(rows)) - np.searchsorted(rows, rows)  # within each row, as rows are in order
    count = int(number.max(initial=0)) + 1

    def pad(values: AnyArray, fill: float | str) -> AnyArray:
        padded = np.full((len(risk), count), fill, dtype=values.dtype)
        padded[rows, number] = values
        return padded.reshape(*shape, count)

    return {
        "start": pad(times[first], np.nan), "end": pad(times[last], np.nan), "height": pad(height, np.nan),
        "exit": pad(exit_time, np.nan), "kind": pad(kind, ""),
    }  # fmt: skip


def _find_flat_intervals(x: Array, y: Array, rule: Rule) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Row, first and last index of the flat intervals of y (rows, time), ordered by row and time."""
    noise = _estimate_noise(x, y)
    slope, error = _local_slopes(x, y, noise, rule)
    is_flat = np.abs(slope) <= rule.flat
    intervals = []
    for row, first, last in zip(*_find_intervals(np.abs(slope) <= rule.flat + ERRORS * error), strict=True):
        if not is_flat[row, first : last + 1].any():
            continue
        curve = Curve(x, y[row], noise[row], slope[row], error[row])
        overall, overall_error = curve.fit_slope(first, last)
        if abs(overall) <= rule.flat + overall_error:
            parts = [(first, last)]
        else:  # noise joined a plateau with a slope: keep the parts that are flat
            _, starts, ends = _find_intervals(is_flat[row : row + 1, first : last + 1])
            parts = list(zip(first + starts, first + ends, strict=True))
        intervals += [(row, *part) for part in parts if curve.is_certainly_flat(*part, rule)]
    rows, first, last = np.array(intervals, dtype=int).reshape(-1, 3).T
    return rows, first, last


class Curve(NamedTuple):
    """Samples of a curve, y over x, the standard deviations of their noise, and the local slopes."""

    x: Array
    y: Array
    noise: Array
    local_slope: Array
    local_error: Array

    def fit_slope(self, first: int, last: int) -> tuple[float, float]:
        """Slope over an interval, and its error from the noise; 0 for a single sample."""
        valid = np.flatnonzero(np.isfinite(self.y[first : last + 1])) + first
        if len(valid) < 2:
            return 0.0, 0.0
        dx = self.x[valid] - self.x[valid].mean()
        sxx = float(dx @ dx)
        return float(dx @ self.y[valid]) / sxx, float(np.sqrt(np.mean(self.noise[valid] ** 2) / sxx))

    def is_certainly_flat(self, first: int, last: int, rule: Rule) -> bool:
        """Whether an interval is not a part of a steeper line that looks flat by chance.

        Its slope has a small error, or differs from that of its surroundings. The slope is that over the
        interval or, around a short one, the local slope, whose window is wider. Many intervals of a curve
        are candidates, so that two errors would be exceeded by chance.
        """
        middle = (first + last) // 2
        slopes = (self.fit_slope(first, last), (self.local_slope[middle], self.local_error[middle]))
        slope, error = min(slopes, key=lambda pair: pair[1])
        if abs(slope) + CERTAIN_ERRORS * error <= CERTAIN_FACTOR * rule.flat:
            return True
        reach = max(self.x[last] - self.x[first], SURROUNDING_DECADES)
        low = int(np.searchsorted(self.x, self.x[first] - reach))
        high = int(np.searchsorted(self.x, self.x[last] + reach, side="right")) - 1
        surroundings, _ = self.fit_slope(low, high)
        covers_all = not (np.isfinite(self.y[:first]).any() or np.isfinite(self.y[last + 1 :]).any())
        return covers_all or abs(surroundings - slope) > CERTAIN_ERRORS * error


def _estimate_noise(x: Array, y: Array) -> Array:
    """Standard deviation of the noise of samples y (rows, time), from third differences around each of them.

    These vanish for a smooth curve, up to its third derivative. The median is unaffected by a few corners.
    """
    noise = np.zeros_like(y)
    if len(x) < 4:
        return noise
    windows = np.lib.stride_tricks.sliding_window_view(x, 4)
    distances = windows[:, :, None] - windows[:, None, :] + np.eye(4)
    weights = 1.0 / np.prod(distances, axis=-1)  # of a divided difference
    weights /= np.sqrt(np.sum(weights**2, axis=-1, keepdims=True))
    size = np.abs(np.sum(np.lib.stride_tricks.sliding_window_view(y, 4, axis=-1) * weights, axis=-1))
    size = np.ma.masked_invalid(size)
    middle = windows.mean(axis=-1)
    for at, center in enumerate(x):
        near = np.abs(middle - center) <= NOISE_WINDOW_DECADES
        near[np.argsort(np.abs(middle - center), kind="stable")[:4]] = True
        noise[:, at] = np.ma.median(size[:, near], axis=-1).filled(0.0) / NORMAL_MEDIAN
    return noise


def _local_slopes(x: Array, y: Array, noise: Array, rule: Rule) -> tuple[Array, Array]:
    """Least-squares slope of y (rows, time) around each x, and its error; NaN without neighbours."""
    slope, error = np.full(y.shape, np.nan), np.full(y.shape, np.inf)
    for factor in WINDOW_FACTORS:
        wide_slope, sxx = _slopes_in_window(x, y, rule.window * factor)
        wide_error = noise / np.sqrt(sxx)
        better = np.isnan(slope) | (error > rule.flat / 2)
        slope, error = np.where(better, wide_slope, slope), np.where(better, wide_error, error)
        if not np.any(error > rule.flat / 2):
            break
    return slope, error


def _slopes_in_window(x: Array, y: Array, window: float) -> tuple[Array, Array]:
    """Least-squares slope of y (rows, time) around each x, and Σ(x - x̄)²."""
    dx = x[:, None] - x
    near = np.abs(dx) <= window * (1 + 1e-9)
    near |= np.abs(np.subtract.outer(np.arange(len(x)), np.arange(len(x)))) <= 1  # if sparser than the window
    valid, filled = ~np.isnan(y), np.nan_to_num(y)
    weights = (valid[:1] if valid.all() else valid).astype(float)  # usually all rows have the same windows
    n, sx, sxx = (weights @ (near * dx**power) for power in (0, 1, 2))
    sy, sxy = filled @ near.astype(float), filled @ (near * dx)
    squares = sxx - sx**2 / n
    return np.where(valid & (n > 1), (sxy - sx * sy / n) / squares, np.nan), np.broadcast_to(squares, y.shape)


def _find_intervals(mask: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Row, first and last index of every maximal interval of true values along the last axis."""
    edges = np.diff(mask.astype(np.int8), axis=1, prepend=0, append=0)
    rows, first = np.nonzero(edges == 1)
    return rows, first, np.nonzero(edges == -1)[1] - 1


def _interval_means(x: Array, y: Array, rows: AnyArray, first: AnyArray, last: AnyArray) -> Array:
    """Mean of y over x by trapezoids, which does not depend on the density of samples."""
    y = np.nan_to_num(y)
    areas = np.cumsum((y[:, 1:] + y[:, :-1]) / 2 * np.diff(x), axis=1)
    areas = np.concatenate([np.zeros((len(y), 1)), areas], axis=1)
    return (areas[rows, last] - areas[rows, first]) / (x[last] - x[first])


def _match_draws(mean: dict[str, AnyArray], draws: dict[str, AnyArray]) -> dict[str, Array]:
    """Values (…, draw, plateau) of the draws' plateaus that overlap most, in ln t, with those of the mean."""
    with np.errstate(all="ignore"):
        ends = np.fmin(mean["end"][..., None, :, None], draws["end"][..., :, None, :])
        starts = np.fmax(mean["start"][..., None, :, None], draws["start"][..., :, None, :])
        exist = np.isfinite(mean["end"][..., None, :, None] + draws["end"][..., :, None, :])
        overlap = np.where(exist, np.log(ends / starts), -np.inf)
    best = overlap.argmax(axis=-1)
    is_found = overlap.max(axis=-1) > 0
    return {
        name: np.where(is_found, np.take_along_axis(draws[name], best, axis=-1), np.nan) for name in VALUES
    }
