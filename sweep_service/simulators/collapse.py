"""S4: for the square activation, a student wider than its inputs collapses exactly to d rows.

f(x) = ‖W x‖²/p and W ← W (I + (2γ/p) 𝓔 xxᵀ) act on W only from the right. With W = U R, U having
orthonormal columns, R evolves like the weights of a student with min(p, d) rows that keeps the
factors 1/p. U is constant and maps its overlaps to those of all p neurons.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sweep_service.numerics.types import Array
from sweep_service.simulators.chain import Chain


def collapse_chain(chain: Chain) -> tuple[Chain, Array]:
    """Return the chain of R, and U (p, rows)."""
    U, R = np.linalg.qr(chain.students)
    return replace(chain, students=R), U
