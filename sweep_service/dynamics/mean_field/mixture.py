"""Compiled mean field in O(p) for erf and tanh students, which are mixtures of error functions.

The functions of one neuron are Hermite functions in closed form, and all sums are linear in the components
of the mixture. This is the most used O(p) form and written for speed: inner loops run over blocks of
neurons, so that LLVM vectorises them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sweep_service.dynamics.mean_field.flow import Derivative, MeanFieldFlow, MeanFieldSystem
from sweep_service.dynamics.mean_field.half_rule import HalfRule
from sweep_service.dynamics.mean_field.mixture_sums import erf_averages, erf_push, mixture_self_sums
from sweep_service.dynamics.mean_field.nodes import NodeFlow
from sweep_service.dynamics.mean_field.pairwise import PairwiseFlow
from sweep_service.dynamics.mean_field.xi import Xi
from sweep_service.model.averages.closed_forms import ERF_CODE, MIXTURES, TANH_CODE
from sweep_service.numerics.types import Array

PAIR_NODES = 24  # of ξ, where a sum over pairs replaces nodes of λ*
# Measured seconds for each node, order, component and neuron, and for each node of ξ and pair of neurons.
NODE_SECONDS, PAIR_SECONDS = 1.1e-9, {ERF_CODE: 0.4e-9, TANH_CODE: 5e-9}


class MixtureNodeFlow(NodeFlow):
    """Erf or tanh students with any teacher."""

    def __init__(
        self, system: MeanFieldSystem, M: Array, q: Array, order: int = 32, series: int = 10
    ) -> None:
        super().__init__(system, M, q, order, series)
        assert system.student.code is not None
        self.code = system.student.code
        self.mixture = MIXTURES[self.code]
        nodes = 16 if system.D is None or system.D <= 20 else 8
        dimensions = 0 if system.is_frozen else system.D
        self.xi, self.half_xi = Xi.rule(dimensions, nodes), HalfRule.make(dimensions, nodes)
        self.kappa = self.xi.scaled_moments(series)

    def refine(self) -> MeanFieldFlow | None:
        """The same flow on more nodes, or as a sum over pairs where that is cheaper."""
        finer = super().refine()
        if not isinstance(finer, MixtureNodeFlow):
            return finer
        by_nodes = len(finer.weights) * finer.kappa.size * len(self.mixture[0]) * NODE_SECONDS
        by_pairs = self.p * PAIR_NODES * PAIR_SECONDS[self.code]
        return finer if by_nodes <= by_pairs else PairwiseFlow(self.system, *self.start, PAIR_NODES)

    def components(self, M: Array, q: Array) -> Iterator[tuple[float, tuple[Array, Array, Array]]]:
        """Weights with the arguments of single-neuron functions: Mᵀ, (K²+q)^-½ and √θ = √(q/(K²+q))."""
        MT, root = np.ascontiguousarray(M.T), np.sqrt(q)
        for square, weight in zip(*self.mixture, strict=True):
            shrink = 1.0 / np.sqrt(square + q)
            yield weight, (MT, shrink, root * shrink)

    def average(self, M: Array, q: Array, a: Array | None) -> Array:
        """F_m = (1/p) Σ_j a_j S_jm, S_jm being the functions of order 2m, shape (orders, nodes)."""
        return sum(
            weight * erf_averages(*single, self.y, self.kappa.size, a)
            for weight, single in self.components(M, q)
        )

    def derivative(self, M: Array, q: Array, a: Array | None) -> Derivative:
        F = self.average(M, q, a)
        G = -self.weights * self.kappa[:, None] * F
        G[0] = self.weights * (self.target - F[0])
        dMT, dq, da = np.zeros((self.k, self.p)), np.zeros(self.p), None
        if self.system.is_learned:
            da = np.zeros(self.p)
        for weight, single in self.components(M, q):
            values = None if da is None else np.zeros(self.p)
            push, stretch = erf_push(*single, self.y, self.lam, G, values)
            dMT += weight * push
            dq += weight * stretch
            if da is not None and values is not None:
                da += weight * values
        dM = np.ascontiguousarray(dMT.T)
        if self.system.self_terms:
            norms = self.norms(M, q)
            values = None if da is None else np.zeros(self.p)
            slope, stretch, curved = mixture_self_sums(*self.mixture, q, norms, self.half_xi, values)
            own = (1.0 if a is None else a) / self.p
            dM -= ((curved + slope) * own)[:, None] * M
            dq -= 2.0 * own * (stretch + q * curved)
            if da is not None and values is not None:
                da -= own * values
        return dM, dq, da

    def risk(self, y: Array) -> float:
        (M, q), a = self.unpack(y), self.second_layer(y)
        F = self.average(M, q, a)
        squares = self.kappa[:, None] * F**2
        squares[0] = (self.target - F[0]) ** 2
        total = self.floor + 0.5 * float(np.sum(squares @ self.weights))
        if self.system.self_terms:
            own = np.zeros(self.p)
            mixture_self_sums(*self.mixture, q, self.norms(M, q), self.half_xi, own)
            total += 0.5 * float((own if a is None else a * a * own).sum()) / self.p**2
        return total
