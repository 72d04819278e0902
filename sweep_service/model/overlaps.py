"""The overlap matrices M, Q, P, which are sufficient statistics of the dynamics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import Array

# An eigenvalue below this fraction of the largest counts as zero; overlaps given to ten digits pass.
RANK_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Overlaps:
    """M = W W*ᵀ/d (p, k), Q = W Wᵀ/d (p, p), P = W* W*ᵀ/d (k, k)."""

    M: Array
    Q: Array
    P: Array

    @classmethod
    def of(cls, students: Array, teachers: Array) -> Overlaps:
        """Overlaps of coordinates (p, r) and (k, r) in an orthonormal basis, rows divided by √d."""
        return cls(students @ teachers.T, students @ students.T, teachers @ teachers.T)

    @property
    def omega(self) -> Array:
        """Covariance of the local fields (λ, λ*), shape (p+k, p+k)."""
        return np.block([[self.Q, self.M], [self.M.T, self.P]])

    @property
    def rank(self) -> int:
        """The smallest input dimension in which these overlaps can be realised."""
        w = np.linalg.eigvalsh(self.omega)
        return int(np.sum(w > RANK_TOLERANCE * w[-1]))

    @property
    def orthogonal_norms(self) -> Array:
        """q = diag Q⊥, never negative."""
        return np.maximum(np.diag(self.Q) - inside_norms(self.M, self.P), 0.0)


def coordinates(start: Overlaps, tolerance: float = 1e-13) -> tuple[Array, Array]:
    """Students (p, r) and teachers (k, r) in an orthonormal basis of their span, rows divided by √d."""
    L = factor_gram(start.P)
    used = np.diag(L) > 0.0
    inside = np.linalg.solve(L + np.diag(~used), start.M.T).T[:, used]
    L = L[:, used]
    w, U = np.linalg.eigh(start.Q - inside @ inside.T)
    keep = np.flatnonzero(w > tolerance * np.max(np.diag(start.Q)))[::-1]  # the largest first
    students = np.hstack([inside, U[:, keep] * np.sqrt(w[keep])])
    teachers = np.zeros((len(L), students.shape[1]))
    teachers[:, : L.shape[1]] = L
    return students, teachers


def inside_norms(M: Array, P: Array) -> Array:
    """diag(M P⁻¹ Mᵀ), the squared norms inside the teacher's span; shapes (..., p, k), (k, k)."""
    return np.sum(M * np.swapaxes(_solve_gram(P, np.swapaxes(M, -1, -2)), -1, -2), axis=-1)


def orthogonal_part(M: Array, Q: Array, P: Array) -> Array:
    """Q⊥ = Q - M P⁻¹ Mᵀ; shapes (..., p, k), (..., p, p), (..., k, k)."""
    return Q - M @ _solve_gram(P, np.swapaxes(M, -1, -2))


def gram_rank(P: Array) -> int:
    """The number of independent directions of the teacher."""
    w = np.linalg.eigvalsh(P)
    return int(np.sum(w > RANK_TOLERANCE * w[-1]))


def is_regular(P: Array) -> bool:
    """Whether all of these Gram matrices (..., k, k) are invertible."""
    w = np.linalg.eigvalsh(P)
    return bool(np.all(w[..., 0] > RANK_TOLERANCE * w[..., -1]))


def invert_gram(P: Array) -> Array:
    """P⁻¹, or the pseudo-inverse if some teachers depend on others; shape (..., k, k)."""
    inverse = np.linalg.inv(P) if is_regular(P) else np.linalg.pinv(P, rcond=RANK_TOLERANCE, hermitian=True)
    return np.asarray(inverse, dtype=float)


def _solve_gram(P: Array, X: Array) -> Array:
    return np.asarray(np.linalg.solve(P, X) if is_regular(P) else invert_gram(P) @ X, dtype=float)


def factor_gram(P: Array) -> Array:
    """L (k, k), lower triangular, with P = L Lᵀ; a teacher that depends on earlier ones has a zero column."""
    if is_regular(P):
        return np.asarray(np.linalg.cholesky(P), dtype=float)
    k, rest = len(P), np.array(P, dtype=float)
    L = np.zeros((k, k))
    for r in range(k):
        if rest[r, r] > RANK_TOLERANCE * np.max(np.diag(P)):
            L[r:, r] = rest[r:, r] / np.sqrt(rest[r, r])
            rest -= np.outer(L[:, r], L[:, r])
    return L


def parse_overlaps(M: Array, Q: Array, P: Array, field: str = "init") -> Overlaps:
    """Overlaps from given numbers: shapes agree, symmetric, Ω positive semi-definite."""
    p, k = M.shape
    for name, X, size in (("Q", Q, p), ("P", P, k)):
        if X.shape != (size, size):
            raise InvalidInput(
                f"{field}.{name}", X.shape, f"must have shape {(size, size)}, since M has shape {M.shape}"
            )
        if not np.allclose(X, X.T, rtol=1e-10, atol=1e-12):
            raise InvalidInput(f"{field}.{name}", X.tolist(), "must be symmetric")
    require_semidefinite(P, f"{field}.P")
    overlaps = Overlaps(M, (Q + Q.T) / 2, (P + P.T) / 2)
    w = np.linalg.eigvalsh(overlaps.omega)
    if w[0] < -RANK_TOLERANCE * w[-1]:
        raise InvalidInput(
            f"{field}.Q",
            Q.tolist(),
            f"[[Q, M], [Mᵀ, P]] must be positive semi-definite; its smallest eigenvalue is {w[0]:.3g}",
        )
    return overlaps


def require_semidefinite(P: Array, field: str) -> None:
    """Refuse a matrix that is not the Gram matrix of a teacher; its rank may be below k."""
    w = np.linalg.eigvalsh(P)
    if w[-1] <= 0.0 or w[0] < -RANK_TOLERANCE * w[-1]:
        raise InvalidInput(
            field,
            P.tolist(),
            f"must be positive semi-definite and not zero; the smallest eigenvalue of P is {w[0]:.3g}",
        )
