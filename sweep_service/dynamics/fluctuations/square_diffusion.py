"""D in closed form for a square student and teacher.

The change ψ of one sample consists of (x 𝓔 + y 𝓔²) λ_β λ_γ, 𝓔 = λᵀCλ + √Δ z with C = diag c. The weight
exp(θ𝓔) keeps λ Gaussian, with covariance Ω_θ = Σ_j θʲ O_j, O_j = 2ʲ Ω(CΩ)ʲ, so that for any quadratic form
    E[𝓔ᵐ λᵀAλ] = m! [θᵐ] Z tr AΩ_θ    E[𝓔ᵐ λᵀAλ λᵀBλ] = m! [θᵐ] Z (tr AΩ_θ tr BΩ_θ + 2 tr AΩ_θBΩ_θ)
with Z = E[exp(θ𝓔)] = exp(Σ_j 2^{j-1} θʲ tr (ΩC)ʲ/j + θ²Δ/2), where [θᵐ] is the coefficient of θᵐ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sweep_service.dynamics.fluctuations.risk_derivatives import readout_of
from sweep_service.dynamics.overlap_flow import OverlapFlow
from sweep_service.numerics.types import AnyArray, Array

ORDER = 4  # of 𝓔 in E[ψψᵀ]


class SquareMoments:
    """The series in θ at a state: O_j, and the coefficients of Z."""

    def __init__(self, omega: Array, c: Array, noise: float) -> None:
        orders = [omega]
        for _ in range(ORDER):
            orders.append(2.0 * (orders[-1] * c) @ omega)
        self.orders = np.array(orders)  # (ORDER + 1, n, n)
        # tr (ΩC)ʲ 2^{j-1} = tr O_{j-1} C
        logarithm = [0.0, *(float(c @ np.diag(orders[j - 1])) / j for j in range(1, ORDER + 1))]
        logarithm[2] += 0.5 * noise
        weights = [1.0]
        for m in range(1, ORDER + 1):  # Z' = (ln Z)' Z
            weights.append(sum(j * logarithm[j] * weights[m - j] for j in range(1, m + 1)) / m)
        self.weights = weights

    def means(self, traces: Array, power: int) -> Array:
        """E[𝓔ᵐ λᵀAλ] from tr AO_j, shape (ORDER + 1, forms)."""
        weights = np.array(self.weights[power::-1])
        return np.asarray(math.factorial(power) * weights @ traces[: power + 1])

    def products(self, pair: Callable[[int, int], Array], power: int) -> Array:
        """E[𝓔ᵐ λᵀAλ λᵀBλ] from tr AO_i tr BO_j + 2 tr AO_iBO_j for each i, j."""
        orders = [(i, j) for i in range(power + 1) for j in range(power + 1 - i)]
        total = np.sum([self.weights[power - i - j] * pair(i, j) for i, j in orders], axis=0)
        return np.asarray(math.factorial(power) * total)


class SquareDiffusion:
    """D of a square student and teacher."""

    def __init__(self, flow: OverlapFlow) -> None:
        self.flow = flow
        p, k, (rows, columns) = flow.p, flow.k, np.tril_indices(flow.p)
        learned = np.arange(p if flow.system.is_learned else 0)
        # the fields λ_β, λ_γ of each component
        self.first = np.concatenate([np.repeat(np.arange(p), k), rows, learned])
        self.second = np.concatenate([np.tile(np.arange(p, p + k), p), columns, learned])

    def at(self, y: Array, t: float) -> SquareScatter:
        """D at a state."""
        flow, system, p = self.flow, self.flow.system, self.flow.p
        a, u = flow.second_layer(y), system.rate_factor(t)
        moments = SquareMoments(flow.overlaps(y).omega, readout_of(flow, y), system.noise)
        factors = self._factors(np.ones(p) if a is None else a, system.noise_rate * u)
        return SquareScatter(moments, self.first, self.second, *factors, u**2 / system.batch)

    def _factors(self, a: Array, rate: float) -> tuple[Array, Array]:
        """x and y of each component, for the rate γu/(pb)."""
        k, (rows, columns) = self.flow.k, np.tril_indices(len(a))
        once = np.concatenate([2.0 * np.repeat(a, k), 2.0 * (a[rows] + a[columns])])
        twice = np.concatenate([np.zeros(len(a) * k), 4.0 * rate * a[rows] * a[columns]])
        learned = len(self.first) - len(once)
        once = np.append(once, np.full(learned, self.flow.system.second_layer_rate))
        return once, np.append(twice, np.zeros(learned))


class SquareScatter(NamedTuple):
    """D at a state."""

    moments: SquareMoments
    first: AnyArray  # the fields λ_β, λ_γ of each component
    second: AnyArray
    once: Array  # x
    twice: Array  # y
    rate: float  # u²/b

    def matrix(self) -> Array:
        """D (n, n)."""
        i, j, x, y = self.first, self.second, self.once, self.twice
        across = [(O[np.ix_(i, i)], O[np.ix_(j, j)], O[np.ix_(i, j)]) for O in self.moments.orders]
        traces = self.moments.orders[:, i, j]

        def pair(m: int, n: int) -> Array:
            turned = across[m][0] * across[n][1] + across[m][2] * across[n][2].T
            return np.asarray(np.outer(traces[m], traces[n]) + turned)

        E2, E3, E4 = (self.moments.products(pair, power) for power in (2, 3, 4))
        cross = np.outer(x, y) * E3
        second = np.outer(x, x) * E2 + cross + cross.T + np.outer(y, y) * E4
        mean = x * self.moments.means(traces, 1) + y * self.moments.means(traces, 2)
        return self._finish(second, mean)

    def project(self, rows: Array) -> Array:
        """λᵀDλ' of all pairs of rows, without D."""
        count, size = len(rows), self.moments.orders.shape[1]
        # λᵀψ = 𝓔 λᵀAλ + 𝓔² λᵀBλ; the rows of all A, then of all B
        forms = np.zeros((2 * count, size, size))
        weights = 0.5 * np.concatenate([self.once * rows, self.twice * rows])
        np.add.at(forms.reshape(2 * count, -1).T, self.first * size + self.second, weights.T)
        forms += forms.transpose(0, 2, 1).copy()
        turned = np.array([forms @ O for O in self.moments.orders])  # AO_j
        traces = np.trace(turned, axis1=2, axis2=3)
        flat = turned.reshape(*traces.shape, -1)
        flipped = turned.transpose(0, 1, 3, 2).reshape(flat.shape)

        def pair(m: int, n: int) -> Array:
            return np.asarray(np.outer(traces[m], traces[n]) + 2.0 * flat[m] @ flipped[n].T)

        E2, E3, E4 = (self.moments.products(pair, power) for power in (2, 3, 4))
        cross = E3[:count, count:]
        second = E2[:count, :count] + cross + cross.T + E4[count:, count:]
        mean = self.moments.means(traces, 1)[:count] + self.moments.means(traces, 2)[count:]
        return self._finish(second, mean)

    def _finish(self, second: Array, mean: Array) -> Array:
        return self.rate * np.asarray(0.5 * (second + second.T) - np.outer(mean, mean))
