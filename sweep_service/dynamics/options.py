"""`regime_options`: the switches of the theory, and how finely its averages are taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sweep_service.errors import InvalidInput
from sweep_service.validation import only_known, switch, whole


def _option(default: Any, about: str) -> Any:
    """What people are told of it stays with it."""
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True)
class RegimeOptions:
    """Defaults give the equations of the paper, with its errata mended."""

    finite_d_factor: bool = _option(False, "keep ‖x‖² in the noise and sampling terms (erratum 8)")
    self_terms: bool = _option(True, "in mean field, a neuron meets itself exactly and not through ξ")
    qmc_points: int = _option(4096, "points of the sampling term where it has no closed form")
    particles: int = _option(512, "particles of the p = ∞ law")

    @classmethod
    def parse(cls, value: Any) -> RegimeOptions:
        if isinstance(value, RegimeOptions):
            return value
        if value is None:
            return cls()
        if not isinstance(value, Mapping):
            raise InvalidInput("regime_options", value, "must be a mapping")
        only_known(value, (field.name for field in fields(cls)), "regime_options")
        read: dict[str, Any] = {}
        for name in ("finite_d_factor", "self_terms"):
            if name in value:
                read[name] = switch(value[name], f"regime_options.{name}")
        for name in ("qmc_points", "particles"):
            if name in value:
                read[name] = _power_of_two(value[name], f"regime_options.{name}")
        return cls(**read)

    def content(self) -> dict[str, Any]:
        return asdict(self)


def _power_of_two(value: Any, field: str) -> int:
    n = whole(value, field, least=16)
    if n & (n - 1) or n > 1 << 20:
        raise InvalidInput(field, value, "must be a power of two from 16 to 1048576, as Sobol points ask for")
    return n
