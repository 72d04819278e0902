"""ξ, the inner product of two uniform unit vectors in R^D: the overlap of orthogonal parts of neurons.

Its density is (1-ξ²)^((D-3)/2), so Gauss-Jacobi quadrature is exact for polynomials. For D = 1 it is a
random sign, and for D = ∞ (the high-dimensional mean field) ξ = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from sweep_service.numerics.types import Array


@dataclass(frozen=True)
class Xi:
    """A quadrature rule for ξ in D dimensions; `D = None` stands for D = ∞."""

    D: int | None
    nodes: Array
    weights: Array

    @classmethod
    def rule(cls, D: int | None, order: int) -> Xi:
        """Gauss-Jacobi rule with `order` nodes; infinite, 0 and 1 dimensions need only one or two nodes."""
        if D is None:
            return cls(None, np.zeros(1), np.ones(1))
        if D == 0:  # no orthogonal space; ξ is multiplied by q = 0
            return cls(0, np.zeros(1), np.ones(1))
        if D == 1:
            return cls(1, np.array([-1.0, 1.0]), np.array([0.5, 0.5]))
        nodes, weights = special.roots_jacobi(order, (D - 3) / 2, (D - 3) / 2)
        return cls(D, nodes, weights / weights.sum())

    def scaled_moments(self, order: int) -> Array:
        """κ_m = E ξ^m / m! for m = 0, 2, …, 2·order; only κ_0 if ξ vanishes."""
        if not self.D:
            return np.ones(1)
        moment, kappa = 1.0, [1.0]
        for m in range(0, 2 * order, 2):
            moment *= (m + 1) / (self.D + m)
            kappa.append(moment / math.factorial(m + 2))
        return np.array(kappa)
