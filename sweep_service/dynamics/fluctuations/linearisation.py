"""Derivatives of a flow and of its risk with respect to the state, by central differences.

A sampling term by quasi-Monte Carlo is differentiated separately. Its points are fixed, so a difference
over a step h has an error of about 1e-2/√(N h) beside the truncation, and its steps are larger. At states
whose Ω is singular it is differentiated at Ω + h, because samples exist only for a covariance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sweep_service.dynamics.fluctuations.risk_derivatives import differentiate_risk
from sweep_service.dynamics.overlap_flow import OverlapFlow, sampling
from sweep_service.dynamics.sampling.variance import QuasiMonteCarlo
from sweep_service.model.overlaps import Overlaps
from sweep_service.model.risk import risks
from sweep_service.numerics.types import Array

MIN_EIGENVALUE = 1e-13  # of Σ, relative to its largest: smaller ones are rounding


class Steps(NamedTuple):
    """Steps of first and second differences, relative to the size of the state."""

    first: float
    second: float


# Closed forms: truncation 1e-10 and 1e-6, rounding 1e-11 and 1e-10.
EXACT_STEPS = Steps(1e-5, 1e-3)
# Samples: truncation 1e-4 and 1e-2; with a kink the samples between two states are counted, 1 % of them.
SMOOTH_SAMPLE_STEPS, KINK_SAMPLE_STEPS = Steps(1e-2, 5e-2), Steps(5e-2, 2e-1)

Part = tuple[Callable[[Array, float], Array], Steps]


class Linearisation:
    """J = ∂f/∂y, ½ Σ:∂²f, ∇R and ½ tr(∇²R Σ) of a flow of the full state."""

    def __init__(self, flow: OverlapFlow) -> None:
        self.flow, self.size = flow, flow.y0.size
        self.parts = _split(flow)
        self.overlap_count = flow.p * flow.k + flow.p * (flow.p + 1) // 2
        # positions of Q_ii in y
        self.diagonal = flow.p * flow.k + np.cumsum(np.arange(1, flow.p + 1)) - 1

    def jacobian(self, y: Array, t: float) -> Array:
        """∂f_i/∂y_j."""
        J, scales = np.zeros((self.size, self.size)), self._scales(y)
        for function, steps in self.parts:
            base = self._base(y, function, steps.first)
            for j, scale in enumerate(scales):
                h, x = steps.first * scale, base.copy()
                x[j] += h
                forward = function(x, t)
                x[j] -= 2.0 * h
                J[:, j] += (forward - function(x, t)) / (2.0 * h)
        return J

    def contract(self, y: Array, t: float, covariance: Array) -> Array:
        """½ Σ_ab ∂_a∂_b f, along the eigenvectors of Σ."""
        total, scale = np.zeros(self.size), self._scales(y)[0]
        values, vectors = _principal_axes(covariance)
        for function, steps in self.parts:
            h, base = steps.second * scale, self._base(y, function, steps.second)
            centre = function(base, t)
            for value, vector in zip(values, vectors, strict=True):
                ends = function(base + h * vector, t) + function(base - h * vector, t)
                total += 0.5 * value * (ends - 2.0 * centre) / h**2
        return total

    def gradient(self, y: Array) -> Array:
        """∇R."""
        return differentiate_risk(self.flow, y)

    def contract_risk(self, y: Array, covariance: Array) -> float:
        """½ tr(∇²R Σ)."""
        values, vectors = _principal_axes(covariance)
        h = EXACT_STEPS.second * self._scales(y)[0]
        centre, *ends = self._risks(np.vstack([y, y + h * vectors, y - h * vectors]))
        forward, backward = np.split(np.asarray(ends), 2)
        return float(0.5 * values @ (forward + backward - 2.0 * centre) / h**2)

    def _risks(self, states: Array) -> Array:
        flow, system = self.flow, self.flow.system
        overlaps = [flow.overlaps(y) for y in states]
        second_layers = None if system.readout is None else np.array([flow.second_layer(y) for y in states])
        M, Q = np.array([o.M for o in overlaps]), np.array([o.Q for o in overlaps])
        teacher = system.teacher_second_layer
        return risks(M, Q, system.P, system.pairs, flow.p, second_layers, teacher)

    def _scales(self, y: Array) -> Array:
        """The size of each component: the mean norm of neurons, or of second layers."""
        scales = np.full(self.size, float(np.mean(y[self.diagonal])))
        if self.flow.system.is_learned:
            scales[self.overlap_count :] = float(np.mean(np.abs(y[self.overlap_count :])))
        return scales

    def _base(self, y: Array, function: Callable[[Array, float], Array], step: float) -> Array:
        if not isinstance(function, SampledTerm):
            return y
        shift = step * self._scales(y)[0]
        if np.linalg.eigvalsh(self.flow.overlaps(y).omega)[0] >= shift:
            return y
        inside = y.copy()
        inside[self.diagonal] += shift
        return inside


class SampledTerm:
    """The sampling term by quasi-Monte Carlo as the change of the whole state."""

    def __init__(self, flow: OverlapFlow) -> None:
        self.flow = flow

    def __call__(self, y: Array, t: float) -> Array:
        flow, change = self.flow, np.zeros_like(y)
        first, p = flow.p * flow.k, flow.p
        dQ = sampling(flow.system, flow.moments(y, t))[1]
        change[first : first + p * (p + 1) // 2] = dQ[np.tril_indices(p)]
        return change


def _split(flow: OverlapFlow) -> tuple[Part, ...]:
    """The parts of a flow with their steps: averages in closed form, and samples."""
    variance = flow.system.variance
    if not isinstance(variance, QuasiMonteCarlo):
        return ((flow, EXACT_STEPS),)
    M, Q, P = (getattr(flow.overlaps(flow.y0), name) for name in ("M", "Q", "P"))
    terms = tuple(term for term in flow.terms if term is not sampling)
    smooth = variance.student.curvature is not None
    return (
        (type(flow)(flow.system, terms, Overlaps(M, Q, P)), EXACT_STEPS),
        (SampledTerm(flow), SMOOTH_SAMPLE_STEPS if smooth else KINK_SAMPLE_STEPS),
    )


def _principal_axes(covariance: Array) -> tuple[Array, Array]:
    """Eigenvalues of Σ that are not rounding, and their eigenvectors as rows."""
    values, vectors = np.linalg.eigh(covariance)
    keep = np.abs(values) > MIN_EIGENVALUE * np.max(np.abs(values), initial=0.0)
    return values[keep], vectors[:, keep].T
