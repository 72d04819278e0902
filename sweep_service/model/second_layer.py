"""Second layers: the weights a of f = (1/p) Σ_i a_i σ(λ_i), and a* of the teacher, at t = 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import Array
from sweep_service.validation import read_number, read_vector, reject_unknown_keys

FORMULAS = {
    "ones": "scale",
    "rademacher": "scale times random signs",
    "gaussian": "scale times standard normals",
}
KINDS = tuple(FORMULAS)
MAX_SCALE = 1e8


class Readout(NamedTuple):
    """The second layers a (p,) and a* (k,) of f = (1/p) Σ a_i σ(λ_i) and f* = (1/k) Σ a*_r σ*(λ*_r)."""

    student: Array
    teacher: Array


@dataclass(frozen=True)
class SecondLayer:
    """`scale` times ones, random signs or normals; or given numbers."""

    kind: str = "ones"
    scale: float = 1.0
    values: tuple[float, ...] = ()  # of the kind `explicit`

    @classmethod
    def parse(cls, value: Any, field: str, size: int, size_name: str) -> SecondLayer:
        """Read {init: ones | rademacher | gaussian | [numbers], scale: number} for `size` neurons."""
        if not isinstance(value, Mapping):
            raise InvalidInput(field, value, "must be a mapping, such as {init: rademacher}")
        reject_unknown_keys(value, ("init", "scale"), field)
        kind = value.get("init", "ones")
        if isinstance(kind, str):
            if kind not in KINDS:
                raise InvalidInput(f"{field}.init", kind, f"must be {', '.join(KINDS)}, or a list of numbers")
            scale = read_number(value.get("scale", 1.0), f"{field}.scale", least=-MAX_SCALE, most=MAX_SCALE)
            return cls(kind, scale)
        if "scale" in value:
            raise InvalidInput(f"{field}.scale", value["scale"], "cannot be combined with a list of numbers")
        numbers = read_vector(kind, f"{field}.init")
        if len(numbers) != size:
            raise InvalidInput(
                f"{field}.init",
                f"{len(numbers)} numbers",
                f"must have {size} numbers, as {size_name} = {size}",
            )
        if np.any(np.abs(numbers) > MAX_SCALE):
            allowed = f"must be from -{MAX_SCALE:g} to {MAX_SCALE:g}"
            raise InvalidInput(f"{field}.init", numbers.tolist(), allowed)
        if np.all(numbers == numbers[0]):
            return cls("ones", float(numbers[0]) + 0.0)
        return cls("explicit", values=tuple((numbers + 0.0).tolist()))

    @property
    def is_default(self) -> bool:
        return self == SecondLayer()

    @property
    def is_random(self) -> bool:
        return self.kind in ("rademacher", "gaussian")

    @property
    def magnitude(self) -> float | None:
        """|a_i| if it is the same for all neurons, otherwise None."""
        return abs(self.scale) if self.kind in ("ones", "rademacher") else None

    def content(self) -> dict[str, Any]:
        """The content that identifies it, as plain JSON with one spelling."""
        if self.kind == "explicit":
            return {"init": list(self.values)}
        return {"init": self.kind, "scale": self.scale}

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """The weights of `size` neurons."""
        if self.kind == "explicit":
            return np.array(self.values)
        if self.kind == "rademacher":
            return np.asarray(self.scale * (2.0 * rng.integers(0, 2, size) - 1.0), dtype=float)
        return self.scale * (rng.standard_normal(size) if self.kind == "gaussian" else np.ones(size))

    @property
    def is_constant(self) -> bool:
        """Whether all neurons have the same weight."""
        return self.kind == "ones"

    def law(self, u: Array) -> Array:
        """The weights of random neurons at uniforms u; given numbers are equally probable."""
        if self.kind == "explicit":
            ranks = np.minimum((u * len(self.values)).astype(int), len(self.values) - 1)
            return np.sort(self.values)[ranks]
        if self.kind == "rademacher":
            return np.where(u < 0.5, -self.scale, self.scale)
        return self.scale * (special.ndtri(u) if self.kind == "gaussian" else np.ones_like(u))
