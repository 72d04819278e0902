"""Derivatives of the two-point averages of smooth activations with respect to the overlaps.

For Gaussian fields u, v of variances a, b and covariance c, and any f and g,
    ∂_c E[f g] = E[f' g']        ∂_a E[f g] = ½ E[f'' g]        ∂_b E[f g] = ½ E[f g''].
Hence those of E[σσ] are known, and of those of E[σ'σ'] and E[σ''σ] only some need a difference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sweep_service.model.averages.two_point import TwoPoint
from sweep_service.numerics.types import Array


class PairDerivatives(NamedTuple):
    """Averages of pairs (i, β) with their derivatives, each (rows, columns)."""

    slopes: Array  # E[σ'σ']
    curved: Array  # E[σ''σ]
    slopes_by_c: Array  # E[σ''σ'']
    curved_by_c: Array  # E[σ'''σ']
    curved_by_a: Array  # ½ E[σ''''σ]

    @classmethod
    def of(cls, pair: TwoPoint, a: Array, b: Array, C: Array, step: float) -> PairDerivatives:
        """Differences over `step`, one-sided so that the fields keep a covariance: an error of that order."""
        slopes, curved = pair.slopes(a, b, C)
        steps = np.where(C > 0.0, -step, step)
        near_slopes, near_curved = pair.slopes(a, b, C + steps)
        wide_curved = pair.slopes(a + step, b, C)[1]
        by_c = (near_slopes - slopes) / steps, (near_curved - curved) / steps
        return cls(slopes, curved, *by_c, (wide_curved - curved) / step)

    def pull_mixed(self, values: Array | float, slopes: Array, curved: Array) -> tuple[Array, Array]:
        """∂φ/∂C and ∂φ/∂a of φ = ⟨values, E[σσ]⟩ + ⟨slopes, E[σ'σ']⟩ + ⟨curved, E[σ''σ]⟩."""
        by_C = values * self.slopes + slopes * self.slopes_by_c + curved * self.curved_by_c
        by_a = 0.5 * (values * self.curved + slopes * self.curved_by_c) + curved * self.curved_by_a
        return by_C, by_a.sum(1)

    def pull_own(self, values: Array | float, slopes: Array, curved: Array) -> Array:
        """∂φ/∂Q, where Q holds the variances of both fields and their covariances."""
        by_Q, by_a = self.pull_mixed(values, slopes, curved)
        # the pair (j, i) has the other order of fields
        by_b = 0.5 * (values * self.curved.T + slopes * self.curved_by_c.T + curved * self.slopes_by_c)
        by_Q.flat[:: len(by_Q) + 1] += by_a + by_b.sum(0)
        return by_Q
