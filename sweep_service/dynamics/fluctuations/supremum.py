"""The law of the largest deviation of the risk over time, from paths of dξ = Jξ dt + √D dB."""

from __future__ import annotations

import numpy as np

from sweep_service.dynamics.fluctuations.linear_noise import LinearNoise
from sweep_service.numerics.types import Array


def sample_suprema(noise: LinearNoise, times: Array, paths: int, seed: int = 0) -> Array:
    """sup_t |∇R·ξ(t)| over `times` of each path; times √δt it is the largest |R_sgd - R|."""
    random = np.random.default_rng(seed)
    xi, largest = np.zeros((paths, noise.size)), np.zeros(paths)
    wanted = set(np.asarray(times, dtype=float).tolist())
    for now in noise.moments(times):
        if now.step is not None:
            values, vectors = np.linalg.eigh(now.step.W)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            xi = xi @ now.step.A.T + random.standard_normal((paths, noise.size)) @ root.T
        if now.time in wanted:
            largest = np.maximum(largest, np.abs(xi @ noise.linear.gradient(noise.states[now.time])))
    return largest
