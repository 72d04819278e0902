"""What one step of one chain takes, in nanoseconds: formulas fitted to measurements of each simulator.

They are those of the machine on which they were fitted; `sweeps.costs` knows how much faster this one is.
"""

from __future__ import annotations

from sweep_service.numerics.simd import padded

PYTHON = 2e4  # of a step whose activation runs in Python


def step_loop(p: int, k: int, d: int, costly: bool, lanes: bool) -> float:
    """`costly` are activations that take an exponential; `lanes` says that chains share vectors."""
    if lanes:
        n = p + k
        return 2.0 + (1.75 if costly else 0.4) * n + 2.0 * d + 0.185 * n * d
    wide = padded(p) + padded(k)
    return 32.0 + (2.2 if costly else 0.4) * wide + 3.1 * d + 0.176 * wide * d


def blocked(p: int, k: int, d: int, compiled: bool) -> float:
    if not compiled:
        return PYTHON + 5.0 * p * d
    return 600.0 + 3.5 * (padded(p) + padded(k)) + 4.2 * d + 0.12 * (p + k) * d


def overlap_process(p: int, k: int, compiled: bool, widest_compiled: int) -> float:
    n, wide = p + k, padded(p) + padded(k)
    if not compiled:
        return PYTHON + 0.2 * n**2
    if n <= widest_compiled:
        return 60.0 + 12.0 * wide + 0.24 * wide * wide
    return 600.0 + 5.0 * n + 0.25 * n * n
