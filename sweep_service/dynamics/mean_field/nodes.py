"""Mean field in O(p): each neuron interacts with the average of all others at nodes of λ* ~ N(0, P).

Given λ*, neurons are coupled only through the ξ of their orthogonal parts, and Mehler's formula
turns the average over ξ into a short sum over even orders m of products of single-neuron
functions. A first pass computes the averages F_m over neurons, a second pass applies them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
from scipy import special

from sweep_service.dynamics.mean_field.flow import Derivative, MeanFieldFlow, MeanFieldSystem, average, weigh
from sweep_service.dynamics.mean_field.xi import Xi
from sweep_service.dynamics.sampling.variance import normal_points
from sweep_service.model.activations import Activation, SmoothedMoments
from sweep_service.model.averages.two_point import hermite_rule
from sweep_service.model.overlaps import factor_gram
from sweep_service.model.risk import teacher_power
from sweep_service.numerics.types import Array


def teacher_nodes(P: Array, order: int, half: bool, smooth: bool = True) -> tuple[Array, Array]:
    """Nodes λ* (n, k) and weights of N(0, P); `half` keeps one of each pair ±λ*, for even integrands.

    Uses a tensor of Gauss-Hermite nodes for smooth integrands up to k = 3, otherwise Sobol points: a kink
    makes the former inaccurate, and its size grows exponentially with k.
    """
    k = len(P)
    if k > 3 or not smooth:
        z = normal_points(2 ** round(math.log2(4 * order**2)), k)
        return z @ factor_gram(P).T, np.full(len(z), 1.0 / len(z))
    x, w = special.roots_hermitenorm(order)
    w = w / w.sum()
    z = np.array(list(product(x, repeat=k)))
    weights = np.array([math.prod(combination) for combination in product(w, repeat=k)])
    if half:
        side = np.zeros(len(z))  # the sign of the first coordinate that is not zero
        for column in z.T:
            side = np.where(side == 0.0, np.sign(np.where(np.abs(column) < 1e-13, 0.0, column)), side)
        weights = np.where(side > 0.0, 2.0 * weights, np.where(side < 0.0, 0.0, weights))
    keep = weights > 1e-12 * weights.max()  # the rest, most of the tensor, contributes less than 1e-10
    return z[keep] @ factor_gram(P).T, weights[keep]


class NodeFlow(MeanFieldFlow):
    """Base of both O(p) forms: the nodes and their refinement."""

    def __init__(self, system: MeanFieldSystem, M: Array, q: Array, order: int, series: int) -> None:
        super().__init__(system, M, q)
        self.order, self.series = order, series
        student, teacher, weights = system.student, system.teacher, system.teacher_second_layer
        self.lam, self.weights = teacher_nodes(system.P, order, student.odd, is_smooth(student, teacher))
        self.y = self.lam @ self.inverse
        self.target, self.floor = average(teacher.value(self.lam), weights), 0.0
        if student.odd and not teacher.odd:
            # an odd student learns only the odd part of f*; the rest, which may have a kink, is constant in R
            self.target = 0.5 * (self.target - average(teacher.value(-self.lam), weights))
            power = teacher_power(system.P, system.pairs.teachers, weights)
            self.floor = 0.5 * (power - float(self.weights @ self.target**2))

    def refine(self) -> MeanFieldFlow | None:
        if not is_smooth(self.system.student, self.system.teacher):  # more nodes would hardly help
            return None
        return type(self)(self.system, *self.start, self.order * 3 // 2, self.series + 4)


def is_smooth(student: Activation, teacher: Activation) -> bool:
    """Whether the integrand over λ* is smooth enough for Gauss-Hermite; the odd part of relu is."""
    return student.curvature is not None and (student.odd or teacher.curvature is not None)


class AnyNodeFlow(NodeFlow):
    """Any activation with a slope; the functions of one neuron are its `SmoothedMoments`.

    With h_m orthonormal and e_m = E ξ^m, neurons i ≠ j interact through Σ_m e_m c_m,i c_m,j, where
    c_m = E_z[σ(μ + √q z) h_m(z)] and μ = M_i·P⁻¹λ*.
    """

    def __init__(self, system: MeanFieldSystem, M: Array, q: Array, order: int = 48, series: int = 8) -> None:
        super().__init__(system, M, q, order, series)
        kappa = Xi.rule(0 if system.is_frozen else system.D, 2).scaled_moments(series)
        self.m = 2 * np.arange(kappa.size)
        self.e = kappa * special.factorial(self.m)

    def neurons(self, M: Array, q: Array) -> Iterator[tuple[slice, Array, Array, Array, SmoothedMoments]]:
        """Blocks of neurons with c_m, E[σ' h_m] and E[σ' √q z h_m], shapes (rows, nodes, orders)."""
        rows = max(1, (1 << 20) // (len(self.weights) * self.order))
        smoothed = self.system.student.smoothed or partial(
            integrate_moments, self.system.student, nodes=self.order
        )
        m = self.m
        for at in range(0, self.p, rows):
            cut = slice(at, at + rows)
            root = np.sqrt(q[cut])[:, None]
            now = smoothed(M[cut] @ self.y.T, np.broadcast_to(root, (len(root), len(self.y))), m[-1] + 2)
            slope, root = now.slope, root[:, :, None]
            below = np.concatenate([np.zeros_like(slope[..., :1]), slope[..., m[1:] - 1]], axis=-1)
            c = root * below / np.sqrt(np.maximum(m, 1))
            c[..., 0] = now.value
            yield cut, c, slope[..., m], root * (np.sqrt(m + 1) * slope[..., m + 1] + np.sqrt(m) * below), now

    def average(self, M: Array, q: Array, a: Array | None) -> Array:
        """F_m = (1/p) Σ_i a_i c_m,i, shape (nodes, orders)."""
        blocks = ((cut, c) for cut, c, _, _, _ in self.neurons(M, q))
        return sum(c.sum(0) if a is None else np.tensordot(a[cut], c, 1) for cut, c in blocks) / self.p

    def derivative(self, M: Array, q: Array, a: Array | None) -> Derivative:
        G = -self.e * self.average(M, q, a)
        G[:, 0] += self.target
        dM, dq, da = np.empty_like(M), np.empty_like(q), np.empty_like(q) if self.system.is_learned else None
        # the second pass recomputes the moments: storing them would take gigabytes at p = 1000
        for cut, c, slope, stretch, now in self.neurons(M, q):
            push_M, push_q = np.sum(slope * G, axis=2), np.sum(stretch * G, axis=2)
            own = None if a is None else a[cut]
            if self.system.self_terms:
                push_M += weigh((np.sum(self.e * c * slope, axis=2) - now.value_slope) / self.p, own)
                stretch_z = np.sqrt(q[cut])[:, None] * now.value_slope_z
                push_q += weigh((np.sum(self.e * c * stretch, axis=2) - stretch_z) / self.p, own)
            dM[cut] = push_M * self.weights @ self.lam
            dq[cut] = 2.0 * push_q @ self.weights
            if da is not None:
                push_a = np.tensordot(c, G * self.weights[:, None], 2)
                if self.system.self_terms:
                    push_a += weigh(self.own_values(c, now), own) / -self.p
                da[cut] = push_a
        return dM, dq, da

    def own_values(self, c: Array, now: SmoothedMoments) -> Array:
        """E[σ²] of each neuron minus its average through ξ."""
        return (now.value_value - np.sum(self.e * c**2, axis=2)) @ self.weights

    def risk(self, y: Array) -> float:
        (M, q), a = self.unpack(y), self.second_layer(y)
        F = self.average(M, q, a)
        squares = self.e * F**2
        squares[:, 0] = (self.target - F[:, 0]) ** 2
        total = self.floor + 0.5 * float(self.weights @ squares.sum(1))
        if self.system.self_terms:
            for cut, c, _, _, now in self.neurons(M, q):
                own = self.own_values(c, now)
                weighted = own if a is None else a[cut] ** 2 * own
                total += 0.5 * float(weighted.sum()) / self.p**2
        return total


def integrate_moments(act: Activation, mu: Array, root: Array, orders: int, nodes: int) -> SmoothedMoments:
    """Moments of one neuron by Gauss-Hermite quadrature over its orthogonal field."""
    z, weights = hermite_rule(max(2, orders), nodes)
    field = mu[..., None] + root[..., None] * z
    value, slope = act.value(field), act.slope(field)
    w = weights[0]
    return SmoothedMoments(
        value @ w, slope @ weights[:orders].T, value**2 @ w, (value * slope) @ w, (value * slope) @ (w * z)
    )
