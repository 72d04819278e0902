"""The scaling that makes one curve of the mean curves of several sizes, with its errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from sweep_service.analysis.quantities.collapse_quality import (
    Curves,
    collapse_quality,
    refine_minimum,
    search_grid,
)
from sweep_service.analysis.quantities.line_fit import t_quantile
from sweep_service.analysis.runs import MIN_RELATIVE_RISK, null_risk, read_runs
from sweep_service.analysis.selection import format_values
from sweep_service.analysis.statistics import (
    align_to_points,
    average_over_draws,
    build_dataset,
    group_by_draw,
)
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import Array

COARSE_STEPS = {1: 144, 2: 8}  # of the first grid, on both sides of 0, for one and for two free parameters
NEAR_STEPS = {1: 20, 2: 0}  # of this grid, around the minimum, in which that of a replicate is sought
ROUNDS, REPLICATE_ROUNDS = 8, 5  # of refinement, each by a factor of three


class MeanCurves:
    """Logarithms of the mean curves (along, time) at t > 0, and the runs behind them."""

    def __init__(self, dataset: xr.Dataset, along: str, source: str, smallest_error: float) -> None:
        self.array, self.along = read_runs(dataset, source), along
        sizes = dataset[along].values
        if sizes.dtype.kind not in "iuf" or np.any(sizes <= 0) or len(sizes) < 2:
            raise InvalidInput(
                along, format_values(sizes), "must have at least two values, all positive numbers"
            )
        positive = self.array["time"].values > 0
        self.times, self.log_size = self.array["time"].values[positive], np.log(sizes.astype(float))
        if len(self.times) < 2:
            raise InvalidInput("time", self.times.tolist(), "must have at least two samples after t = 0")
        values = group_by_draw(self.array)[..., positive]  # (along, draws, runs of a draw, time)
        has_values = np.isfinite(values).any(axis=(0, 2, 3))  # a missing draw is no degree of freedom
        self.values = values[:, has_values] if has_values.any() else values
        self.smallest = MIN_RELATIVE_RISK * align_to_points(null_risk(dataset), (along,))[:, None]
        mean, error, runs, draws = average_over_draws(self.values, axis=-3)
        finite = np.isfinite(self.values)
        with np.errstate(all="ignore"):
            deviations = np.sum(self.values - mean[:, None, None], axis=2, where=finite)
            scale = np.sqrt(draws / np.where(draws > 1, draws - 1.0, np.nan)) / (runs * mean)
            # (along, draws, time); the root of the sum of their squares over draws is the relative error
            self.contributions = np.nan_to_num(deviations * scale[:, None], posinf=0.0, neginf=0.0)
            relative = np.nan_to_num(error / mean, nan=0.0, posinf=0.0)
            self.error = np.ascontiguousarray(np.fmax(relative, smallest_error))
        self.y = self.take_logarithm(mean)

    def take_logarithm(self, mean: Array) -> Array:
        """ln of a mean risk; NaN where it is round-off."""
        with np.errstate(all="ignore"):
            return np.ascontiguousarray(np.where(mean > self.smallest, np.log(mean), np.nan))

    def replicate(self, number: int) -> Iterator[Array]:
        """Curves whose covariance, over at least `number` of them, is that of the mean curves.

        In each replicate, the contribution of a draw is added or subtracted, at all sizes, because they may
        share their starts. The signs of any two draws are the columns of a Hadamard matrix, so that they are
        uncorrelated (balanced repeated replication).
        """
        signs: Array = np.ones((1, 1))
        while len(signs) < max(number, self.values.shape[1] + 1):
            signs = np.block([[signs, signs], [signs, -signs]])
        for row in signs[:, 1 : self.values.shape[1] + 1]:  # the first column is constant
            yield self.y + np.tensordot(row, self.contributions, axes=(0, 1))

    def to_dataset(self, numbers: dict[str, tuple[Any, str]], time: Array, factor: Array) -> xr.Dataset:
        """The numbers of a fit with the scaled curves."""
        dims = (self.along, "time")
        scaled = {
            "scaled_time": (time, "time on the axis of the common curve"),
            "scaled_risk": (np.exp(self.y) * factor[:, None], "risk on the axis of the common curve"),
            "scaled_error": (np.exp(self.y) * factor[:, None] * self.error, "standard error, as it was used"),
        }
        like = self.array.isel(time=self.array["time"].values > 0)
        return xr.merge([build_dataset(like, (), numbers), build_dataset(like, dims, scaled)])


class QualityFit(NamedTuple):
    """The parameters that minimise S, their errors, the least S, and why the fit failed, if it did."""

    best: Array
    error: Array
    degrees: int
    least: float
    reason: str = ""

    def describe(self, texts: Mapping[str, tuple[int, str]]) -> dict[str, tuple[Any, str]]:
        """Parameters (name: index, long name) with errors and intervals, the quality and the reason."""
        half_width = t_quantile(np.asarray(self.degrees)) * self.error
        numbers: dict[str, tuple[Any, str]] = {}
        for name, (at, text) in texts.items():
            numbers |= {
                name: (float(self.best[at]), text),
                f"{name}_error": (
                    float(self.error[at]),
                    f"standard error of {name}",
                ),
                f"{name}_low": (
                    float(self.best[at] - half_width[at]),
                    f"lower end of the 95 % interval of {name}",
                ),
                f"{name}_high": (
                    float(self.best[at] + half_width[at]),
                    f"upper end of the 95 % interval of {name}",
                ),
            }
        numbers["quality"] = (self.least, "S of Houdayer and Hartmann, about 1 for a collapse")
        numbers["reason"] = (self.reason, "why the fit failed, empty if it did not")
        return numbers


class Scaling(NamedTuple):
    """Scalings to search: of curves over x, with the weights of samples in S and the largest |a| and |b|."""

    x: Array
    weight: Array
    reach: tuple[float, float]  # 0 for a parameter that is fixed at 0


def minimise_quality(
    curves: MeanCurves, scaling: Scaling, replicates: int, largest_quality: float = np.inf
) -> QualityFit:
    """Minimise S over a and b, with errors from replicates of the curves.

    All points have equal weights in the fit. Weights from the scatter of a few draws would favour points
    that agree by chance, and the errors would be too small. The least S is then given with their errors.

    The fit has failed if the curves never overlap, the minimum is at an end of a range, or the least S is
    above `largest_quality`: then the parameters are NaN.
    """
    unknown, degrees = np.full(2, np.nan), curves.values.shape[1] - 1
    reach = np.array(scaling.reach)
    free = int(np.sum(reach > 0))
    step = reach / COARSE_STEPS[free]
    data = Curves(scaling.x, curves.y, np.ones_like(curves.error), scaling.weight, curves.log_size)
    best, _ = search_grid(data, np.zeros(2), step, COARSE_STEPS[free])
    best, least = refine_minimum(data, best, step, ROUNDS)
    if not np.isfinite(least):
        return QualityFit(unknown, unknown, degrees, np.nan, "the curves never overlap")
    least = collapse_quality(data._replace(error=curves.error), *best)
    for value, end in zip(best, reach, strict=True):
        if end > 0 and abs(value) >= end * (1 - 1 / 8 / COARSE_STEPS[free]):
            reason = f"the minimum of S is at an end of the range from {-end:.3g} to {end:.3g}"
            return QualityFit(unknown, unknown, degrees, least, reason)
    if least > largest_quality:
        reason = f"the curves do not collapse: S = {least:.3g} is above {largest_quality:g}"
        return QualityFit(unknown, unknown, degrees, least, reason)
    error = unknown
    if degrees > 0:
        minima = []
        for y in curves.replicate(replicates):
            near, _ = search_grid(data._replace(y=y), best, step, NEAR_STEPS[free])
            minima.append(refine_minimum(data._replace(y=y), near, step, REPLICATE_ROUNDS)[0])
        error = np.std(minima, axis=0)
    return QualityFit(best, error, degrees, least)
