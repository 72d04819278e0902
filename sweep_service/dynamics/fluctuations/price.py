"""The seconds of the fluctuations of a trajectory: a fit to measurements, within some 30 %."""

from __future__ import annotations

import math

from sweep_service.dynamics.fluctuations.diffusion import POINTS_FACTOR
from sweep_service.dynamics.fluctuations.requirements import MAX_COVARIANCE_SIZE

FIRST_NODES, NODES_PER_DECADE = 10.0, 20.0  # J and D are evaluated at nodes; of time beyond t = 1
STEPS_PER_NODE = 1.5
STEP_FLOPS = 90.0  # of a step of Σ, per n³
SECONDS_PER_FLOP = 5e-11
SAMPLE_SECONDS = 8e-9  # of ψ, per component and point of D
PER_DIFFERENCE = 3e-6  # of a difference, beside its evaluation of the flow


def fluctuation_seconds(size: int, evaluation: float, points: int, last: float, samples: int) -> float:
    """Predict the seconds beside the trajectory; `evaluation` is those of one evaluation of the flow."""
    nodes = FIRST_NODES + NODES_PER_DECADE * math.log10(max(last, 1.0))
    has_covariance = size <= MAX_COVARIANCE_SIZE
    differences = (4.0 if has_covariance else 2.0) * size * (evaluation + PER_DIFFERENCE)
    scatter = POINTS_FACTOR * points * size * (2.0 * SECONDS_PER_FLOP * size + SAMPLE_SECONDS)
    steps = samples + STEPS_PER_NODE * nodes
    step = STEP_FLOPS * SECONDS_PER_FLOP * size**2 * (size if has_covariance else 4.0 * samples)
    return nodes * (differences + scatter) + steps * step
