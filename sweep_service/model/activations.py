"""The registry of activations σ.

An entry needs σ and σ' as NumPy functions, and either σ'' or, where σ'' is a distribution (relu), the
exact Hermite coefficients of σ. This is sufficient for every regime; closed forms make it faster.
`docs/extending.md` adds an activation in ten lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from sweep_service.errors import unknown_name
from sweep_service.model.averages.closed_forms import ERF_CODE, RELU_CODE, SQUARE_CODE, TANH_CODE
from sweep_service.numerics.types import Array
from sweep_service.registries import declare_registry

Function = Callable[[Array], Array]


class SmoothedMoments(NamedTuple):
    """Averages of σ(μ + root·z) over z ~ N(0, 1): moments of one neuron at a fixed teacher field."""

    value: Array  # E[σ]
    slope: Array  # E[σ' h_m(z)] for m = 0 .. orders-1, on the last axis
    value_value: Array  # E[σ²]
    value_slope: Array  # E[σ σ']
    value_slope_z: Array  # E[σ σ' z]


class Kink(NamedTuple):
    """A jump of σ' at a position."""

    position: float
    slope_jump: float


@dataclass(frozen=True)
class Activation:
    """An activation σ and the properties that theory and simulators use."""

    name: str
    formula: str
    value: Function
    slope: Function
    curvature: Function | None = None  # σ''; None where it is a distribution
    hermite: Callable[[int, Array], Array] | None = None  # exact E[σ(√C x) h_m(x)], shape (len C, order)
    # (μ, root, orders) -> moments, in closed form where a kink makes quadrature inaccurate
    smoothed: Callable[[Array, Array, int], SmoothedMoments] | None = None
    odd: bool = False
    kinks: tuple[Kink, ...] = ()  # where σ' jumps; `curvature` is σ'' elsewhere
    code: int | None = None  # its branch in model/activate.py; None: by NumPy
    assumptions: str = ""  # the assumption of the theorems that does not hold
    costly: bool = False  # its kernel computes an exponential per step
    collapses: bool = False  # p > d neurons are equivalent to d rows

    def __post_init__(self) -> None:
        if self.curvature is None and self.hermite is None:
            raise ValueError(f"activation {self.name}: give σ'' or the exact Hermite coefficients of σ")


def hermite_at_zero(order: int) -> Array:
    """h_m(0) of the orthonormal Hermite polynomials, m = 0 .. order-1."""
    h = np.zeros(order)
    h[0] = 1.0
    for m in range(2, order, 2):
        h[m] = -math.sqrt((m - 1) / m) * h[m - 2]
    return h


def _erf_hermite(order: int, C: Array) -> Array:
    m = np.arange(1, order)
    theta = (C / (1.0 + C))[:, None]
    out = np.zeros((len(C), order))
    out[:, 1:] = math.sqrt(2.0 / math.pi) * theta ** (m / 2) * hermite_at_zero(order)[m - 1] / np.sqrt(m)
    return out


def _relu_hermite(order: int, C: Array) -> Array:
    shape = np.zeros(order)
    shape[0], shape[1] = 1.0 / math.sqrt(2.0 * math.pi), 0.5
    m = np.arange(2, order)
    shape[2:] = hermite_at_zero(order)[m - 2] / np.sqrt(2.0 * math.pi * m * (m - 1))
    return np.sqrt(C)[:, None] * shape


def _relu_smoothed(mu: Array, root: Array, orders: int) -> SmoothedMoments:
    root = np.maximum(root, 1e-12 + 1e-9 * np.abs(mu))  # avoids 0/0 for a neuron without an orthogonal part
    u = mu / root
    density = np.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi)
    above = special.ndtr(u)
    slope = np.empty((*mu.shape, orders))
    slope[..., 0] = above
    # E[σ' h_m] = (-1)^(m-1) h_{m-1}(u) φ(u)/√m
    low, high = np.zeros_like(u), density
    for m in range(1, orders):
        slope[..., m] = high / math.sqrt(m)
        low, high = high, -(u * high + math.sqrt(m - 1) * low) / math.sqrt(m)
    value = mu * above + root * density
    return SmoothedMoments(
        value, slope, (mu * mu + root * root) * above + mu * root * density, value, root * above
    )


def _square_hermite(order: int, C: Array) -> Array:
    shape = np.zeros(order)
    shape[0], shape[2] = 1.0, math.sqrt(2.0)
    return C[:, None] * shape


ERF = Activation(
    name="erf",
    formula="erf(x/√2)",
    value=lambda x: special.erf(x / math.sqrt(2.0)),
    slope=lambda x: math.sqrt(2.0 / math.pi) * np.exp(-0.5 * x * x),
    curvature=lambda x: -math.sqrt(2.0 / math.pi) * x * np.exp(-0.5 * x * x),
    code=ERF_CODE,
    hermite=_erf_hermite,
    odd=True,
    costly=True,
)
SQUARE = Activation(
    name="square",
    formula="x²",
    value=lambda x: x * x,
    slope=lambda x: 2.0 * x,
    curvature=lambda x: np.full_like(x, 2.0),
    code=SQUARE_CODE,
    hermite=_square_hermite,
    assumptions="unbounded slope (assumption 2 fails): SGD diverges with non-zero probability",
    collapses=True,
)
RELU = Activation(
    name="relu",
    formula="max(x, 0)",
    value=lambda x: np.maximum(x, 0.0),
    slope=lambda x: (x > 0.0).astype(float),
    code=RELU_CODE,
    hermite=_relu_hermite,
    kinks=(Kink(0.0, 1.0),),
    smoothed=_relu_smoothed,
    assumptions="not twice differentiable (assumption 2 fails)",
)
TANH = Activation(
    name="tanh",
    formula="tanh(x)",
    value=np.tanh,
    slope=lambda x: 1.0 - np.tanh(x) ** 2,
    curvature=lambda x: -2.0 * np.tanh(x) * (1.0 - np.tanh(x) ** 2),
    odd=True,
    code=TANH_CODE,
    costly=True,
)

ACTIVATIONS = {act.name: act for act in (ERF, SQUARE, RELU, TANH)}
declare_registry("activation", ACTIVATIONS)


def find_activation(name: str, field: str = "activation") -> Activation:
    """Look up an activation by name; the error for an unknown name suggests the nearest one."""
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise unknown_name(field, name, ACTIVATIONS)
    return ACTIVATIONS[name]
