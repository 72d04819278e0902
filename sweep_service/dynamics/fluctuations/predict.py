"""The fluctuations of the risk at the times of an integration, without the factors √δt and δt."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sweep_service.dynamics.fluctuations.adjoint.backward_sweep import integrate_risk_variances
from sweep_service.dynamics.fluctuations.adjoint.products import choose_products
from sweep_service.dynamics.fluctuations.linear_noise import LinearNoise
from sweep_service.dynamics.fluctuations.requirements import MAX_COVARIANCE_SIZE
from sweep_service.dynamics.overlap_flow import OverlapFlow
from sweep_service.model.activations import Activation
from sweep_service.numerics.types import Array


class Fluctuations(NamedTuple):
    """Numbers without d: the standard deviation of SGD's risk is √δt `std`, its mean is off by δt `shift`."""

    std: Array
    shift: Array  # NaN for states too large for Σ

    @property
    def nonlinearity(self) -> Array:
        """|shift|/std: times √δt above 0.3 the linear theory does not apply."""
        moves = self.std != 0.0  # nothing has moved at t = 0
        ratio = np.abs(self.shift) / np.where(moves, self.std, 1.0)
        return np.where(moves, ratio, 0.0)


def predict_fluctuations(
    flow: OverlapFlow,
    student: Activation,
    teacher: Activation,
    points: int,
    times: Array,
    stopped: Callable[[], bool] | None = None,
) -> Fluctuations:
    """Predict the fluctuations of SGD about the trajectory of a flow; NaN after divergence."""
    std, shift = np.full((2, len(times)), np.nan)
    if flow.y0.size > MAX_COVARIANCE_SIZE:
        products = choose_products(flow, student, teacher, points)
        return Fluctuations(np.sqrt(integrate_risk_variances(flow, products, times, stopped)), shift)
    noise = LinearNoise(flow, student, teacher, points, stopped)
    positions = {float(t): row for row, t in enumerate(times)}
    for now in noise.moments(times):
        row = positions.get(now.time)
        if row is not None:
            y, covariance, linear = noise.states[now.time], now.covariance, noise.linear
            gradient = linear.gradient(y)
            std[row] = np.sqrt(max(float(gradient @ covariance @ gradient), 0.0))
            shift[row] = gradient @ now.mean + linear.contract_risk(y, covariance)
    return Fluctuations(std, shift)
