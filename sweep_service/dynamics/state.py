"""The state of a theory: overlaps and the second layer of the student."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sweep_service.numerics.jit import kernel
from sweep_service.numerics.types import Array


class State(NamedTuple):
    """M with Q, or with q = diag Q⊥ in mean field; `second_layer` is None where it stays at its start."""

    M: Array
    Q: Array | None = None
    q: Array | None = None
    second_layer: Array | None = None


@kernel()
def pack(M, Q):
    """M and the lower triangle of Q as one vector."""
    p, k = M.shape
    y = np.empty(p * k + p * (p + 1) // 2)
    at = 0
    for i in range(p):
        for r in range(k):
            y[at] = M[i, r]
            at += 1
    for i in range(p):
        for j in range(i + 1):
            y[at] = Q[i, j]
            at += 1
    return y


@kernel()
def unpack(y, p, k):
    """M and Q."""
    M, Q = np.empty((p, k)), np.empty((p, p))
    at = 0
    for i in range(p):
        for r in range(k):
            M[i, r] = y[at]
            at += 1
    for i in range(p):
        for j in range(i + 1):
            Q[i, j] = Q[j, i] = y[at]
            at += 1
    return M, Q
