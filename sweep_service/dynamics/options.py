"""`regime_options`: switches of the theory and sizes of its quadratures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields
from typing import Any

from sweep_service.errors import InvalidInput
from sweep_service.validation import read_bool, read_integer, reject_unknown_keys


def _option(default: Any, about: str) -> Any:
    """A field with its description for users."""
    return field(default=default, metadata={"about": about})


FLUCTUATIONS_VERSION = 2  # raised if and only if their numbers change, because stored runs are reused


@dataclass(frozen=True)
class RegimeOptions:
    """The defaults give the equations of the paper with its errata corrected."""

    finite_d_factor: bool = _option(False, "keep ‖x‖² in the noise and sampling terms (erratum 8)")
    self_terms: bool = _option(
        True, "in mean field, use a neuron's exact overlap with itself instead of ξ (erratum 9)"
    )
    qmc_points: int = _option(4096, "quasi-Monte Carlo points of a sampling term without closed form")
    particles: int = _option(512, "particles of the p = ∞ law")
    fluctuations: bool = False  # set by the argument and by the field of a spec with this name

    @classmethod
    def parse(cls, value: Any) -> RegimeOptions:
        if isinstance(value, RegimeOptions):
            return value
        if value is None:
            return cls()
        if not isinstance(value, Mapping):
            raise InvalidInput("regime_options", value, "must be a mapping")
        reject_unknown_keys(value, (field.name for field in cls.public_fields()), "regime_options")
        options: dict[str, Any] = {}
        for name in ("finite_d_factor", "self_terms"):
            if name in value:
                options[name] = read_bool(value[name], f"regime_options.{name}")
        for name in ("qmc_points", "particles"):
            if name in value:
                options[name] = _read_power_of_two(value[name], f"regime_options.{name}")
        return cls(**options)

    @classmethod
    def public_fields(cls) -> tuple[Field[Any], ...]:
        """The entries of `regime_options`."""
        return tuple(field for field in fields(cls) if "about" in field.metadata)

    def content(self) -> dict[str, Any]:
        """The content that identifies it; the version of fluctuations only where they are wanted."""
        content = asdict(self)
        del content["fluctuations"]
        return content | {"fluctuations": FLUCTUATIONS_VERSION} if self.fluctuations else content


def _read_power_of_two(value: Any, field: str) -> int:
    n = read_integer(value, field, least=16)
    if n & (n - 1) or n > 1 << 20:
        raise InvalidInput(field, value, "must be a power of two from 16 to 1048576, as Sobol points ask for")
    return n
