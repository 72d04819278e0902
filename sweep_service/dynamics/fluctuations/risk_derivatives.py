"""The gradient of the risk in closed form, for every activation.

Of R = ½ cᵀE[σσᵀ]c with ∂E[σ_iσ_β]/∂Ω_iβ = E[σ'_iσ'_β] and ∂E[σ_iσ_β]/∂Ω_ii = ½ E[σ''_iσ_β].
"""

from __future__ import annotations

import numpy as np

from sweep_service.dynamics.fluctuations.covectors import join_row
from sweep_service.dynamics.overlap_flow import OverlapFlow
from sweep_service.dynamics.sampling.variance import unit_readout
from sweep_service.numerics.types import Array


def readout_of(flow: OverlapFlow, y: Array) -> Array:
    """c = (-a/p, a*/k) at a state."""
    a, teacher = flow.second_layer(y), flow.system.teacher_second_layer
    if a is None or teacher is None:
        return unit_readout(flow.p, flow.k)
    return np.concatenate([-a / flow.p, teacher / flow.k])


def differentiate_risk(flow: OverlapFlow, y: Array) -> Array:
    """∇R as a row."""
    p, pairs, overlaps, c = flow.p, flow.system.pairs, flow.overlaps(y), readout_of(flow, y)
    norms, teacher_norms = np.diag(overlaps.Q).copy(), np.diag(overlaps.P).copy()
    slopes, curved = pairs.students.slopes(norms, norms, overlaps.Q)
    mixed_slopes, mixed_curved = pairs.mixed.slopes(norms, teacher_norms, overlaps.M)
    own = c[:p]
    by_Q = 0.5 * np.outer(own, own) * slopes
    by_Q.flat[:: p + 1] += 0.5 * own * (curved @ own + mixed_curved @ c[p:])
    by_M = np.outer(own, c[p:]) * mixed_slopes
    if not flow.system.is_learned:
        return join_row(by_M, by_Q)
    inside = pairs.students.values(norms, norms, overlaps.Q) @ own
    target = pairs.mixed.values(norms, teacher_norms, overlaps.M) @ c[p:]
    return join_row(by_M, by_Q, -(inside + target) / p)
