"""The standard deviation of the risk without Σ, for states too large for it.

    dλ/ds = -Jᵀλ,  λ(t) = ∇R(t)            Var R(t) = δt ∫₀ᵗ λᵀDλ ds
λ goes back from all times at once: rows instead of the matrix Σ.
"""

from __future__ import annotations

import math

import numpy as np

from sweep_service.dynamics.fluctuations.linear_noise import LinearNoise
from sweep_service.dynamics.fluctuations.mesh import Interval
from sweep_service.dynamics.fluctuations.transition import (
    MAX_SERIES_NORM,
    SERIES_TERMS,
    make_equation,
    make_step,
)
from sweep_service.numerics.types import Array

MAX_PARTS = 100  # of a step; more would cost as much as its matrices


def integrate_risk_variances(noise: LinearNoise, times: Array) -> Array:
    """Var R/δt at each time, NaN after divergence."""
    intervals = [interval for grid in noise.solve(times) for interval in noise.intervals(grid)]
    end = intervals[-1].end.time if intervals else 0.0
    waiting = [row for row, t in enumerate(times) if t <= end]
    variances = np.full(len(times), np.nan)
    variances[waiting] = 0.0
    active, directions = np.zeros(0, dtype=int), np.zeros((0, noise.size))
    for interval in reversed(intervals):
        inside = [row for row in waiting if times[row] > interval.begin.time]
        waiting = waiting[: len(waiting) - len(inside)]
        stops = interval.stops(times)[::-1]
        for stop, start in zip(stops, [*stops[1:], interval.begin.time], strict=True):
            new = [row for row in inside if times[row] == stop]
            active = np.append(active, new).astype(int)
            gradients = [noise.linear.gradient(noise.states[float(times[row])]) for row in new]
            directions = np.vstack([directions, *gradients])
            if len(active):
                directions, gained = _carry_back(interval, start, stop, directions)
                variances[active] += gained
    return variances


def _carry_back(interval: Interval, start: float, stop: float, directions: Array) -> tuple[Array, Array]:
    """Each row λ at `start`, and what its ∫ λᵀDλ ds gains between `start` and `stop`."""
    J, D = zip(*(interval.at(t) for t in (start, 0.5 * (start + stop), stop)), strict=True)
    equation = make_equation(stop - start, J, D)
    parts = max(1, math.ceil(equation.norm / MAX_SERIES_NORM))
    if parts > MAX_PARTS:
        step = make_step(equation)
        return directions @ step.A, np.sum((directions @ step.W) * directions, axis=1)
    F, E, dE = equation
    # Simpson's rule on each part, which errs by 3e-4 at MAX_SERIES_NORM
    weights = np.tile([2.0, 4.0], parts).astype(float)
    weights = np.append(weights, 1.0) / (6.0 * parts)
    weights[0] = 1.0 / (6.0 * parts)
    gained = np.zeros(len(directions))
    for position, weight in zip(np.linspace(1.0, 0.0, len(weights)), weights, strict=True):
        scatter = E + (position - 0.5) * dE
        gained += weight * np.sum((directions @ scatter) * directions, axis=1)
        if position > 0.0:
            directions = _apply_exponential(directions, F / (2.0 * parts))
    return directions, gained


def _apply_exponential(directions: Array, F: Array) -> Array:
    term = total = directions
    for j in range(1, SERIES_TERMS + 1):
        term = term @ F / j
        total = total + term
    return total
