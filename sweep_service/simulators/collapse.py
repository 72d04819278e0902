"""S4: for the square activation, a student wider than its inputs collapses exactly to d rows.

f(x) = ‖W x‖²/p and W ← W (I + (2γ/p) 𝓔 xxᵀ) act on W only from the right. With W = U R, U having
orthonormal columns, R evolves like the weights of a student with min(p, d) rows that keeps the
factors 1/p. U is constant and maps its overlaps to those of all p neurons. Decay, batches and schedules do
not change this. With a fixed second layer it holds for each group of neurons with equal a.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sweep_service.model.second_layer import SecondLayer
from sweep_service.numerics.types import Array
from sweep_service.simulators.chain import Chain


def max_groups(second_layer: SecondLayer, p: int) -> int:
    """The largest number of different values of a, by which neurons are collapsed."""
    groups = {"ones": 1, "rademacher": 2, "explicit": len(set(second_layer.values))}
    return min(groups.get(second_layer.kind, p), p)


def collapse_chain(chain: Chain, groups: int) -> tuple[Chain, Array]:
    """Return the chain of R, and U (p, rows), for at most `groups` different values of a."""
    if chain.second_layer is None:
        U, R = np.linalg.qr(chain.students)
        return replace(chain, students=R), U
    values, group_of = np.unique(chain.second_layer, return_inverse=True)
    p, width = chain.students.shape
    # Groups of random size may need fewer rows. All starts of a point get the same number, by rows of zeros,
    # which stay zero because σ'(0) = 0.
    rows = min(p, groups * width)
    U, R, second_layer, at = np.zeros((p, rows)), np.zeros((rows, width)), np.zeros(rows), 0
    for group, value in enumerate(values):
        members = np.flatnonzero(group_of == group)
        isometry, triangle = np.linalg.qr(chain.students[members])
        of_group = slice(at, at + len(triangle))
        U[members, of_group], R[of_group], second_layer[of_group] = isometry, triangle, value
        at += len(triangle)
    return replace(chain, students=R, second_layer=second_layer), U
