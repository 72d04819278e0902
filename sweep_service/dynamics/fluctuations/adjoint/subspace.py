"""The adjoint equation of an interval in a small subspace, in which J and D are small matrices.

The rows λ of all times are nearly dependent: they are replaced by a basis W. With λ = cW the equation is
that of c with WJWᵀ and WDWᵀ. W is extended by what Jᵀ leaves outside of it, as in Krylov methods, until this
no longer matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import expm

from sweep_service.dynamics.fluctuations.adjoint.products import Products
from sweep_service.dynamics.fluctuations.mesh import DIFFUSION_TOLERANCE, DRIFT_TOLERANCE, Interval, Node
from sweep_service.numerics.types import Array

# Neglected part of rows of norm one, and of their change over an interval: sd R then errs by 0.1 %, as
# measured against Σ.
ROW_TOLERANCE, CHANGE_TOLERANCE = 1e-5, 3e-4
POSITIONS = 8  # in an interval, at which the change is sampled
NO_STATE = np.empty(0)  # of nodes, which have none in a subspace
MAX_BASIS = 250  # rows of a basis, at which it is used as it is


class Subspace(NamedTuple):
    """An orthonormal basis W (m, n) and the equation in it."""

    basis: Array
    interval: Interval


class Change(NamedTuple):
    """Jᵀ of the rows of a basis at the begin, middle and end of an interval of length h."""

    h: float
    basis: Array
    images: list[Array]

    def jacobians(self) -> list[Array]:
        """WJWᵀ."""
        return [image @ self.basis.T for image in self.images]

    def is_quadratic(self, rows: Array) -> bool:
        """Whether Jᵀλ of each row is close to the parabola of an interval, as in `mesh`."""
        begin, middle, end = self.images
        curved = (rows @ self.basis.T) @ (middle - 0.5 * (begin + end))
        return bool(self.h * np.max(np.linalg.norm(curved, axis=1)) <= DRIFT_TOLERANCE)

    def find_missing(self, rows: Array) -> Array:
        """Directions outside the basis into which Jᵀ carries the rows along the interval, (missing, n)."""
        jacobians, c = self.jacobians(), rows @ self.basis.T
        step = expm(self.h / POSITIONS * (jacobians[0] + 4.0 * jacobians[1] + jacobians[2]) / 6.0)
        visited = np.zeros_like(step)
        for _ in range(POSITIONS + 1):
            visited += c.T @ c
            c = c @ step
        weights = self.h / POSITIONS * _square_root(visited)
        outside = [
            weights @ (image - J @ self.basis) for image, J in zip(self.images, jacobians, strict=True)
        ]
        missing = compress(np.vstack(outside), CHANGE_TOLERANCE)
        for _ in range(2):  # twice against rounding
            missing = missing - (missing @ self.basis.T) @ self.basis
        return np.linalg.qr(missing.T)[0].T


def make_subspace(
    times: Sequence[float], products: Sequence[Products], rows: Array, must: bool
) -> Subspace | None:
    """The subspace of an interval for rows of norm one, or None if J or D are not quadratic in it.

    `times` and `products` are those of its begin, middle and end. `must` accepts any interval.
    """
    basis = compress(rows, ROW_TOLERANCE)
    change = Change(times[-1] - times[0], basis, [product.pull_back(basis) for product in products])
    if must:
        return _extend(change, times, products, rows)
    if not change.is_quadratic(rows) or not _has_quadratic_scatter(products, rows @ basis.T, basis):
        return None
    return _extend(change, times, products, rows)


def _extend(change: Change, times: Sequence[float], products: Sequence[Products], rows: Array) -> Subspace:
    while len(change.basis) < min(MAX_BASIS, change.basis.shape[1]):
        missing = change.find_missing(rows)
        if not len(missing):
            break
        images = [
            np.vstack([image, product.pull_back(missing)])
            for image, product in zip(change.images, products, strict=True)
        ]
        change = Change(change.h, np.vstack([change.basis, missing]), images)
    scatters = [product.scatter(change.basis) for product in products]
    parts = zip(times, change.jacobians(), scatters, strict=True)
    nodes = [Node(t, NO_STATE, J, D) for t, J, D in parts]
    return Subspace(change.basis, Interval(*nodes))


def compress(rows: Array, tolerance: float) -> Array:
    """An orthonormal basis of the rows, without singular vectors of values below a tolerance."""
    values, vectors = np.linalg.eigh(rows @ rows.T)
    keep = values > tolerance**2
    basis = (vectors[:, keep] / np.sqrt(values[keep])).T @ rows
    return np.linalg.qr(basis.T)[0].T


def _has_quadratic_scatter(products: Sequence[Products], c: Array, basis: Array) -> bool:
    begin, middle, end = (np.einsum("li,ij,lj->l", c, product.scatter(basis), c) for product in products)
    largest = np.max([begin, middle, end], axis=0)
    return bool(np.all(np.abs(middle - 0.5 * (begin + end)) <= DIFFUSION_TOLERANCE * largest))


def _square_root(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
