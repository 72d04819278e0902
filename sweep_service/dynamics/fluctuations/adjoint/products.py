"""Products of rows with J and D at a state: with the matrices, or without them for smooth activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from sweep_service.dynamics.fluctuations.adjoint.transposed_jacobian import TransposedJacobian, has_products
from sweep_service.dynamics.fluctuations.diffusion import Diffusion, Scatter, choose_diffusion
from sweep_service.dynamics.fluctuations.linearisation import Linearisation
from sweep_service.dynamics.overlap_flow import OverlapFlow
from sweep_service.model.activations import Activation
from sweep_service.numerics.types import Array


class Products(Protocol):
    """J and D at a state."""

    def pull_back(self, rows: Array) -> Array:
        """Jᵀλ of each row λ."""

    def scatter(self, rows: Array) -> Array:
        """λᵀDλ' of all pairs of rows."""


ProductsAt = Callable[[Array, float], Products]


def choose_products(flow: OverlapFlow, student: Activation, teacher: Activation, points: int) -> ProductsAt:
    """Without matrices where this is possible."""
    diffusion = choose_diffusion(flow, student, teacher, points)
    if has_products(flow, student):
        return lambda y, t: FreeProducts(TransposedJacobian(flow, student, teacher, y, t), diffusion.at(y, t))
    return matrix_products(Linearisation(flow), diffusion)


def matrix_products(linear: Linearisation, diffusion: Diffusion) -> ProductsAt:
    """With the matrices J and D."""
    return lambda y, t: MatrixProducts(linear.jacobian(y, t), diffusion.at(y, t).matrix())


class FreeProducts(NamedTuple):
    """Without J and D."""

    transposed: TransposedJacobian
    diffusion: Scatter

    def pull_back(self, rows: Array) -> Array:
        return self.transposed(rows)

    def scatter(self, rows: Array) -> Array:
        return self.diffusion.project(rows)


class MatrixProducts(NamedTuple):
    """With J and D."""

    J: Array
    D: Array

    def pull_back(self, rows: Array) -> Array:
        return rows @ self.J

    def scatter(self, rows: Array) -> Array:
        return rows @ self.D @ rows.T
