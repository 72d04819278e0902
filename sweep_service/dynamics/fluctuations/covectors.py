"""Linear functions of the state (M, lower triangle of Q, a), as arrays of the shapes of M, Q and a.

A row of n numbers is ⟨M̄, M⟩ + ⟨Q̄, Q⟩ + ⟨ā, a⟩ with a symmetric Q̄ and the sum over both triangles of Q.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from sweep_service.numerics.types import AnyArray, Array


@cache
def lower_triangle(p: int) -> tuple[AnyArray, AnyArray]:
    """Rows and columns of the lower triangle of Q, in the order of the state."""
    return np.tril_indices(p)


class Covector(NamedTuple):
    """A linear function of the state; `second_layer` is None if a is not part of the state."""

    M: Array
    Q: Array
    second_layer: Array | None = None

    @property
    def fields(self) -> Array:
        """Λ = (2Q̄ | M̄), shape (p, n): the function of ψ is Σ_iβ g_i Λ_iβ λ_β, see `diffusion`."""
        return np.hstack([2.0 * self.Q, self.M])


def split_row(row: Array, p: int, k: int) -> Covector:
    """The arrays of a row."""
    first, end = p * k, p * k + p * (p + 1) // 2
    half, lower = np.zeros((p, p)), lower_triangle(p)
    half[lower] = 0.5 * row[first:end]
    return Covector(row[:first].reshape(p, k), half + half.T, row[end:] if len(row) > end else None)


def join_row(M: Array, Q: Array, second_layer: Array | None = None) -> Array:
    """The row of a function, whose Q̄ need not be symmetric."""
    p = len(Q)
    both = Q + Q.T
    both.flat[:: p + 1] *= 0.5
    parts = [M.ravel(), both[lower_triangle(p)]]
    return np.concatenate(parts if second_layer is None else [*parts, second_layer])
