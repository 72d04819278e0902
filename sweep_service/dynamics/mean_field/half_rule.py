"""One half of a symmetric quadrature rule for ξ, for averages over its nodes and their mirror images."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Chebyshev

from sweep_service.dynamics.mean_field.xi import Xi
from sweep_service.numerics.types import Array


class HalfRule(NamedTuple):
    """Nodes of one sign, the outermost first; a node at zero has half its weight.

    With f at ±ξ, of which only the even part counts,
        E f = Σ_x weights_x (f(x) + f(-x))
            = ½ [f(anchor) + f(-anchor) + Σ_x first_x (f'(x) - f'(-x)) + second_x (f''(x) + f''(-x))].
    The second form serves an f that costs more than its derivatives. It is as accurate for f as the first is
    for f', with second derivatives at the inner half of the nodes only.
    """

    nodes: Array
    weights: Array
    anchor: float
    first: Array
    second: Array

    @classmethod
    @lru_cache(maxsize=64)
    def make(cls, D: int | None, order: int) -> HalfRule:
        """The half of `Xi.rule`."""
        xi = Xi.rule(D, order)
        size = (len(xi.nodes) + 1) // 2
        nodes, weights = xi.nodes[:size].copy(), xi.weights[:size].copy()
        weights[len(xi.nodes) // 2 :] *= 0.5
        if len(xi.nodes) <= 2:  # ξ may have these values only, and then f none between them
            return cls(nodes, weights, abs(nodes[0]), np.zeros(size), np.zeros(size))
        first, second = _derivative_weights(D, nodes, order)
        return cls(nodes, weights, 0.0, first, second)


def _derivative_weights(D: int | None, nodes: Array, order: int) -> tuple[Array, Array]:
    """The weights of f' and f'', exact for even polynomials of as many orders as there are weights.

    Chebyshev polynomials on the range of the nodes keep the equations well conditioned.
    """
    finer, top = Xi.rule(D, order + 1), abs(nodes[0])
    slopes, bends = slice(0, order // 2), slice(len(nodes) // 2, None)  # f'(x) - f'(-x) is zero at zero
    count = len(nodes[slopes]) + len(nodes[bends])
    equations, means = np.empty((count, count)), np.empty(count)
    for m in range(count):
        T = Chebyshev.basis(2 * m + 2, domain=[-top, top])
        equations[m] = np.concatenate([T.deriv(1)(nodes[slopes]), T.deriv(2)(nodes[bends])])
        means[m] = finer.weights @ T(finer.nodes) - T(0.0)
    scale = np.abs(equations).max(axis=1)
    solution = np.linalg.solve(equations / scale[:, None], means / scale)
    first, second = np.zeros(len(nodes)), np.zeros(len(nodes))
    first[slopes], second[bends] = np.split(solution, [len(nodes[slopes])])
    return first, second
