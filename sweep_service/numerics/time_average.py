"""Weights of samples in a time average, and the samples of the late part of a curve."""

from __future__ import annotations

import numpy as np

from sweep_service.numerics.types import AnyArray, Array


def time_weights(times: Array, start: float | None = None) -> Array:
    """Weights, of sum one, of samples at ascending times in the average over [start, t_max].

    The average is ∫ dt over the lines between the samples, divided by the length: samples that are dense in
    one part, such as the early part of logarithmic times, do not count more. `start` may be between samples.
    The weights of samples that do not contribute are zero.
    """
    first, last = times[0] if start is None else max(start, times[0]), times[-1]
    weights = np.zeros(len(times))
    if last <= first:
        weights[-1] = 1.0
        return weights
    left = np.maximum(times[:-1], first)
    lengths = np.maximum(times[1:] - left, 0.0)
    share = (left - times[:-1]) / np.diff(times)  # position of the left end between its two samples
    weights[:-1] += lengths * (1.0 - share) / 2
    weights[1:] += lengths * (1.0 + share) / 2
    return weights / (last - first)


def mean_of_last_half(values: Array, times: Array) -> Array:
    """Time average over [t_max/2, t_max] along the last axis; NaN if one of the samples is missing."""
    weights = time_weights(times, times[-1] / 2)
    used = weights > 0
    with np.errstate(all="ignore"):  # sums overflow just before a divergence
        mean = np.sum(values[..., used] * weights[used], axis=-1)
    return np.where(np.isfinite(mean), mean, np.nan)


def late_samples(times: Array, share: float) -> AnyArray:
    """Mask of the samples at t >= `share` * t_max, with a tolerance for the rounding of spaced times."""
    return np.asarray(times >= share * times[-1] * (1 - 1e-9))
