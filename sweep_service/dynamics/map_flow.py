"""The map of the mean state under one step of SGD, for steps too large for an ODE, and large batches.

With h = u δt and s = 1 - κ_w h one step of SGD has exactly the mean change
    M' = s M + h Ψ_M
    Q' = s² Q + s h Ψ_GF + h u (γ/p) [Ψ_Var (with ‖x‖²)/b + (1 - 1/b) G Ω Gᵀ/d]
    a' = a + ρ h E[σ 𝓔]
from a given state. Iterating it neglects the scatter of a step, which is δt/√b.
"""

from __future__ import annotations

import numpy as np

from sweep_service.dynamics.overlap_flow import (
    Moments,
    OverlapFlow,
    System,
    drift,
    label_noise,
    learn_second_layer,
    sampling,
)
from sweep_service.dynamics.state import pack
from sweep_service.model.overlaps import Overlaps
from sweep_service.numerics.types import Array


class MapFlow(OverlapFlow):
    """dy/dt is the change of one step, divided by δt."""

    def __init__(self, system: System, start: Overlaps, delta_t: float) -> None:
        super().__init__(system, (drift, label_noise, sampling), start)
        self.delta_t = self.step = delta_t

    def change(self, y: Array, t: float) -> Array:
        system, now = self.system, self.moments(y, t)
        shrink = system.weight_decay * now.u * self.step
        dM, dQ = drift(system, now)
        dM, dQ = np.asarray(dM), (1.0 - shrink) * np.asarray(dQ)
        for term in (label_noise, sampling):
            dQ = dQ + term(system, now)[1]
        dQ = dQ + _push_of_batch(system, now)
        if shrink:  # s² = 1 - 2 κ_w h + (κ_w h)²
            dQ = dQ + shrink**2 / self.step * now.Q
        return self.append_second_layer(
            pack(dM, dQ), learn_second_layer(system, now) if system.is_learned else None
        )


def square_of_mean(system: System, now: Moments) -> Array:
    """G Ω Gᵀ, the covariance of the mean push of a sample, for any second layers."""
    A, B, B_teacher = now.push
    G = np.hstack([np.diag(A) + B, B_teacher])
    return np.asarray(G @ Overlaps(now.M, now.Q, system.P).omega @ G.T)


def _push_of_batch(system: System, now: Moments) -> Array:
    """(γ/p) u² (1 - 1/b) G Ω Gᵀ/d: the mean push of a batch, squared."""
    if system.batch == 1:
        return np.zeros_like(now.Q)
    assert system.finite_d is not None
    factor = system.gamma_over_p * now.u**2 * (1.0 - 1.0 / system.batch) / system.finite_d
    return np.asarray(factor * square_of_mean(system, now))
