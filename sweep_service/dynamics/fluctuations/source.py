"""The source of the mean shift: s = ½ Σ:∂²f - ½ (Jf + ∂_t f) + f₁.

-½ (Jf + ∂_t f) appears because SGD takes Euler's steps. f₁ is what the mean change of one step has beside
f, per δt: 0 in M and a, and in Q
    u² [(2/b) ∂_s Ψ_Var(sΩ)|_{s=1} + (1 - 1/b) G Ω Gᵀ - κ_w (Φ + Φᵀ) + κ_w² Q],
where the first term is the scatter of ‖x‖², and is left out if the flow has it already.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sweep_service.dynamics.fluctuations.linearisation import Linearisation
from sweep_service.dynamics.fluctuations.mesh import Node
from sweep_service.dynamics.map_flow import square_of_mean
from sweep_service.dynamics.overlap_flow import OverlapFlow, drift, label_noise, sampling
from sweep_service.numerics.types import Array

TIME_STEP = 1e-5  # of the difference ∂_t f, relative to t


def mean_source(flow: OverlapFlow, linear: Linearisation, node: Node, covariance: Array) -> Array:
    """s at a node."""
    y, t = node.y, node.time
    euler = node.J @ flow(y, t) + _time_derivative(flow, y, t)
    return linear.contract(y, t, covariance) - 0.5 * euler + _change_beside_flow(flow, y, t)


def _time_derivative(flow: OverlapFlow, y: Array, t: float) -> Array:
    """∂_t f, by a difference that does not cross a time at which the rate is not smooth."""
    if flow.system.schedule.is_default:
        return np.zeros_like(y)
    h = TIME_STEP * max(t, 1.0)
    begin = max((0.0, *(b for b in flow.breaks if b <= t)))
    end = min((np.inf, *(float(np.nextafter(b, 0.0)) for b in flow.breaks if b > t)))
    before, after = max(t - h, begin), min(t + h, end)
    return (flow(y, after) - flow(y, before)) / (after - before)


def _change_beside_flow(flow: OverlapFlow, y: Array, t: float) -> Array:
    """f₁."""
    now, system = flow.moments(y, t), flow.system
    dQ = np.zeros_like(now.Q)
    if system.finite_d is None:
        # at d = 1 the terms are (γ/(pb)) u² (Ψ + 2 ∂_s Ψ)
        for term in (label_noise, sampling):
            dQ += term(replace(system, finite_d=1), now)[1] - term(system, now)[1]
    dQ /= system.gamma_over_p
    if system.batch > 1:
        dQ += now.u**2 * (1.0 - 1.0 / system.batch) * square_of_mean(system, now)
    if system.weight_decay:
        rate = system.weight_decay * now.u
        dQ += rate**2 * now.Q - rate * drift(system, now)[1]
    change = np.zeros_like(y)
    first, p = flow.p * flow.k, flow.p
    change[first : first + p * (p + 1) // 2] = dQ[np.tril_indices(p)]
    return change
