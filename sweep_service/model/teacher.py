"""The teacher's Gram matrix P = L Lᵀ, represented by its factor L."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.model.overlaps import factor_gram, require_semidefinite
from sweep_service.numerics.types import Array
from sweep_service.validation import read_matrix, read_number, read_vector, reject_unknown_keys

FIELD = "init.teacher"
SCALE_BOUNDS = {"least": 1e-12, "most": 1e8}


@dataclass(frozen=True)
class Teacher:
    """`orthonormal` (P = I), `random` (drawn like the students), or a given Gram matrix.

    With a `scale` of its own, the rows of a random W* are iid N(0, scale² I_d), whatever the students are.
    """

    kind: str
    rho: float = 0.0
    norms: tuple[float, ...] = ()
    gram: tuple[tuple[float, ...], ...] = ()
    scale: float | None = None  # of a random teacher; None means drawn like the students

    @classmethod
    def parse(cls, value: Any) -> Teacher:
        if isinstance(value, str):
            return cls._parse_name(value, FIELD)
        if not isinstance(value, Mapping):
            raise InvalidInput(
                FIELD, value, "must be 'orthonormal', 'random', {scale}, {rho, norms} or {gram}"
            )
        reject_unknown_keys(value, ("rho", "norms", "gram", "scale"), FIELD)
        for name in ("gram", "scale"):
            if name in value and len(value) > 1:
                others = " and ".join(key for key in value if key != name)
                raise InvalidInput(FIELD, dict(value), f"{name} must stand alone: leave out {others}")
        if "scale" in value:
            return cls("random", scale=read_number(value["scale"], f"{FIELD}.scale", **SCALE_BOUNDS))
        if isinstance(value.get("gram"), str):
            return cls._parse_name(value["gram"], f"{FIELD}.gram")
        if "gram" in value:
            gram = read_matrix(value["gram"], f"{FIELD}.gram")
            if gram.shape[0] != gram.shape[1] or not np.allclose(gram, gram.T, rtol=1e-10, atol=1e-12):
                raise InvalidInput(f"{FIELD}.gram", gram.tolist(), "must be a symmetric square matrix")
            require_semidefinite(gram, f"{FIELD}.gram")
            return cls("gram", gram=tuple(map(tuple, gram.tolist())))
        rho = read_number(value.get("rho", 0.0), f"{FIELD}.rho")
        norms = read_vector(value["norms"], f"{FIELD}.norms") if "norms" in value else np.empty(0)
        if np.any((norms < 1e-8) | (norms > 1e8)):
            raise InvalidInput(f"{FIELD}.norms", norms.tolist(), "must be from 1e-8 to 1e8")
        return cls("equicorrelated", rho=rho, norms=tuple(norms.tolist()))

    @classmethod
    def _parse_name(cls, name: str, field: str) -> Teacher:
        if name not in ("orthonormal", "random"):
            raise unknown_name(field, name, ("orthonormal", "random"))
        return cls(name)

    def check(self, k: int) -> None:
        """Refuse a Gram matrix that does not fit k teachers."""
        if self.kind in ("gram", "equicorrelated"):
            self._gram(k)

    def content(self) -> Any:
        """The content that identifies it, as plain JSON, the same for all spellings of a teacher."""
        if self.kind == "gram" and not np.array_equal(self.gram, np.eye(len(self.gram))):
            return {"gram": self.gram}
        norms = () if set(self.norms) == {1.0} else self.norms
        if self.kind == "equicorrelated" and (self.rho or norms):
            return {"rho": self.rho, "norms": norms}
        if self.scale is not None:
            return {"scale": self.scale}
        return "random" if self.kind == "random" else "orthonormal"

    def factor(self, k: int, d: int, rng: np.random.Generator) -> Array:
        """L (k, k), lower triangular, with P = L Lᵀ; `random` draws it for rows of W* from N(0, I_d)."""
        if self.kind == "orthonormal":
            return np.eye(k)
        if self.kind == "random":
            return draw_bartlett_factor(rng, k, d) / np.sqrt(d)
        return factor_gram(self._gram(k))

    def _gram(self, k: int) -> Array:
        """P of the kinds `gram` and `equicorrelated`."""
        if self.kind == "gram":
            P = np.array(self.gram)
            if len(P) != k:
                raise InvalidInput(f"{FIELD}.gram", P.shape, f"must be {k} by {k}, as k = {k}")
            return P
        if self.norms and len(self.norms) != k:
            raise InvalidInput(f"{FIELD}.norms", list(self.norms), f"must have {k} entries, as k = {k}")
        if k > 1 and not -1.0 / (k - 1) <= self.rho <= 1.0:
            low = -1.0 / (k - 1)
            raise InvalidInput(
                f"{FIELD}.rho", self.rho, f"must be in [{low:.4g}, 1], or P is not positive semi-definite"
            )
        norms = np.array(self.norms or (1.0,) * k)
        return (self.rho * np.ones((k, k)) + (1.0 - self.rho) * np.eye(k)) * np.outer(norms, norms)


def draw_bartlett_factor(rng: np.random.Generator, n: int, d: int) -> Array:
    """Draw L (n, min(n, d)) with L Lᵀ distributed as G Gᵀ for an n by d matrix G of iid N(0, 1).

    The dynamics depends on weights only through their overlaps (x is isotropic), so no start needs the
    n by d matrix: this costs the same for d = 10 and d = 10⁶.
    """
    r = min(n, d)
    normals = rng.standard_normal((n, r))
    L = np.tril(normals) if n > 1 else normals
    diagonal = np.arange(r)
    L[diagonal, diagonal] = np.sqrt(rng.chisquare(d - diagonal))
    return L
