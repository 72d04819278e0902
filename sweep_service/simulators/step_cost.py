"""Nanoseconds per step of one chain: formulas fitted to measurements of each simulator.

They hold for the machine on which they were fitted; `planning/costs.py` applies the calibration of
this machine.
"""

from __future__ import annotations

from sweep_service.numerics.simd import CHAIN_LANES, round_up_to_lanes

PYTHON_STEP_NANOSECONDS = 2e4  # of a step with an activation that is evaluated in Python

LEARNING_NANOSECONDS, LANE_LEARNING_NANOSECONDS = 1.5, 0.5  # of a weight of the second layer, per sample


def learning(p: int, lanes: bool) -> float:
    """Cost of a step of a learned second layer."""
    return p * (LANE_LEARNING_NANOSECONDS if lanes else LEARNING_NANOSECONDS)


# Of S1 by the number of chains in a vector, relative to eight: a factor, and what is spent on waiting.
SHARED_VECTORS = {8: (1.0, 0.0), 4: (1.15, 12.0), 2: (1.2, 24.0)}


def step_loop(p: int, k: int, d: int, costly: bool, chains: int) -> float:
    """Cost of S1; `costly` activations compute an exponential, and `chains` is the number in a vector."""
    if chains > 1:
        size, (factor, waiting) = CHAIN_LANES // chains, SHARED_VECTORS[chains]
        n = round_up_to_lanes(p, size) + round_up_to_lanes(k, size)
        return waiting + factor * (1.6 + (1.4 if costly else 0.32) * n + 1.6 * d + 0.148 * n * d)
    wide = round_up_to_lanes(p) + round_up_to_lanes(k)
    return 32.0 + (2.2 if costly else 0.4) * wide + 3.1 * d + 0.176 * wide * d


def blocked(p: int, k: int, d: int, compiled: bool) -> float:
    if not compiled:
        return PYTHON_STEP_NANOSECONDS + 5.0 * p * d
    return 600.0 + 3.5 * (round_up_to_lanes(p) + round_up_to_lanes(k)) + 4.2 * d + 0.12 * (p + k) * d


def overlap_process(p: int, k: int, compiled: bool, widest_compiled: int) -> float:
    n, wide = p + k, round_up_to_lanes(p) + round_up_to_lanes(k)
    if not compiled:
        return PYTHON_STEP_NANOSECONDS + 0.2 * n**2
    if n <= widest_compiled:
        return 60.0 + 12.0 * wide + 0.24 * wide * wide
    return 600.0 + 5.0 * n + 0.25 * n * n


def overlap_process_of_chains(n: int) -> float:
    """Cost of S3 with n neurons where chains share vectors."""
    return 27.0 + 6.4 * n + 0.046 * n * n


def large_batch(n: int, plain: float, batch: int) -> float:
    """Cost of a step of S3 with a large batch of n neurons, where a step of one sample costs `plain`."""
    return plain * (3.5 + 0.36 * n + (0.3 + 0.006 * n) * batch)
