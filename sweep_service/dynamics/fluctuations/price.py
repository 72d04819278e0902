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
# Of the adjoint: nodes and their products, Jᵀλ (pulls) and λᵀDλ (projections).
ADJOINT_NODES, ADJOINT_NODES_PER_DECADE = 36.0, 42.0
PULLS_PER_NODE, PROJECTIONS_PER_NODE = 30.0, 43.0
PULL_SECONDS = 1e-4, 4.5e-6, 1.5e-7  # at all, per p and per p²
PROJECTION_SECONDS = 1.4e-9, 1.8e-11  # per p and per p² of each sample
FIELD_SECONDS = 3e-8  # of the activations, per sample and neuron


def fluctuation_seconds(
    size: int, evaluation: float, points: int, last: float, samples: int, smooth: bool
) -> float:
    """Predict the seconds beside the trajectory.

    `evaluation` is those of one evaluation of the flow; `smooth` students need no matrices in the adjoint.
    """
    if size > MAX_COVARIANCE_SIZE:
        seconds = _adjoint_seconds(size, points, last)
        return seconds if smooth else seconds + _matrix_seconds(size, evaluation, points, last)
    nodes = FIRST_NODES + NODES_PER_DECADE * math.log10(max(last, 1.0))
    differences = 4.0 * size * (evaluation + PER_DIFFERENCE)
    scatter = POINTS_FACTOR * points * size * (2.0 * SECONDS_PER_FLOP * size + SAMPLE_SECONDS)
    steps = samples + STEPS_PER_NODE * nodes
    return nodes * (differences + scatter) + steps * STEP_FLOPS * SECONDS_PER_FLOP * size**3


def _matrix_seconds(size: int, evaluation: float, points: int, last: float) -> float:
    """Those of J and D as matrices at the nodes of the adjoint."""
    nodes = ADJOINT_NODES + ADJOINT_NODES_PER_DECADE * math.log10(max(last, 1.0))
    scatter = POINTS_FACTOR * points * size * (2.0 * SECONDS_PER_FLOP * size + SAMPLE_SECONDS)
    return nodes * (2.0 * size * (evaluation + PER_DIFFERENCE) + scatter)


def _adjoint_seconds(size: int, points: int, last: float) -> float:
    """Those of the adjoint, without its second integration of the trajectory."""
    p, nodes = math.sqrt(2.0 * size), ADJOINT_NODES + ADJOINT_NODES_PER_DECADE * math.log10(max(last, 1.0))
    fixed, linear, square = PULL_SECONDS
    pull = fixed + linear * p + square * p * p
    linear, square = PROJECTION_SECONDS
    projection = POINTS_FACTOR * points * (linear * p + square * p * p)
    fields = POINTS_FACTOR * points * p * FIELD_SECONDS
    return nodes * (PULLS_PER_NODE * pull + PROJECTIONS_PER_NODE * projection + fields)
