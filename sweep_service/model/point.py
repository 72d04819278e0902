"""A point: one set of physical parameters, with its start."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sweep_service.errors import InvalidInput
from sweep_service.model.activations import ACTIVATIONS, Activation
from sweep_service.model.initial import Init, Shape, Start
from sweep_service.model.parameters import PARAMETERS, Scalar, added_later, names
from sweep_service.validation import only_known

INIT = "init"


@dataclass(frozen=True)
class Point:
    """Input dimension d, student width p, teacher width k, learning rate gamma, label noise Δ, …

    `others` holds the parameters that were added to the registry later; `point["name"]` is any of them.
    """

    d: int
    p: int
    k: int
    gamma: float
    noise: float
    activation: Activation
    teacher_activation: Activation
    init: Init
    others: Mapping[str, Scalar] = field(default_factory=dict)

    @classmethod
    def parse(cls, value: Any) -> Point:
        """Read a mapping; anything unusable is an `InvalidInput` that names the field."""
        if isinstance(value, Point):
            return value
        known = (*names(), INIT)
        if not isinstance(value, Mapping):
            raise InvalidInput("point", value, f"must be a mapping with {', '.join(known)}")
        only_known(value, known, "point")
        read: dict[str, Any] = _values(value)
        for name in ("activation", "teacher_activation"):
            read[name] = ACTIVATIONS[read[name]]
        others = {name: read.pop(name) for name in added_later()}
        init = Init.parse(value.get(INIT, {"kind": "gaussian"}), Shape(read["d"], read["p"], read["k"]))
        return cls(**read, init=init, others=others)

    def __getitem__(self, name: str) -> Scalar:
        """The value of a parameter; of an activation its name."""
        if name in self.others:
            return self.others[name]
        value = getattr(self, name)
        return value.name if isinstance(value, Activation) else value

    @cached_property
    def content(self) -> dict[str, Scalar]:
        """What identifies it beside its start: a parameter that was added later only if it is not at its
        default, so that keys from before it existed stay as they were."""
        return {name: self[name] for name, one in PARAMETERS.items() if one.in_every_key} | self.unusual

    @cached_property
    def unusual(self) -> dict[str, Scalar]:
        """Parameters that were added later and are not at their defaults."""
        later = added_later()
        return {name: value for name, value in self.others.items() if value != later[name].default}

    def unsupported(self, supports: Collection[str]) -> list[str]:
        """Parameters that are not at their defaults, and that somebody who supports these would ignore."""
        return [name for name in self.unusual if name not in supports]

    def require_support(self, supports: Collection[str], who: str) -> None:
        """Refuse a point rather than ignore one of its parameters."""
        for name in self.unsupported(supports):
            default = PARAMETERS[name].default
            raise InvalidInput(name, self[name], f"is not supported by {who}: leave it at {default}")

    @property
    def shape(self) -> Shape:
        return Shape(self.d, self.p, self.k)

    @property
    def delta_t(self) -> float:
        """The time of one SGD step, γ/(pd)."""
        return self.gamma / (self.p * self.d)

    @property
    def gamma_over_p(self) -> float:
        return self.gamma / self.p

    def start(self, seed: int) -> Start:
        return self.init.start(self.shape, seed)


def _values(given: Mapping[str, Any]) -> dict[str, Scalar]:
    """The values of all parameters, with defaults for those that are not given."""
    found: dict[str, Scalar] = {}
    for name, parameter in PARAMETERS.items():
        if name in given and not (parameter.default_from and given[name] is None):
            found[name] = parameter.read(given[name], name)
        elif parameter.is_required:
            raise InvalidInput(name, None, "is required")
        else:
            found[name] = found[parameter.default_from] if parameter.default is None else parameter.default
    return found
