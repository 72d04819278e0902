"""A point: one set of physical parameters with its initial condition."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sweep_service.errors import InvalidInput
from sweep_service.model.activations import ACTIVATIONS, Activation
from sweep_service.model.initial import Init, Shape, Start
from sweep_service.model.parameters import (
    FIRST_PARAMETERS,
    PARAMETERS,
    Scalar,
    later_parameters,
    parameter_names,
)
from sweep_service.validation import reject_unknown_keys

INIT = "init"


@dataclass(frozen=True)
class Point:
    """Input dimension d, student width p, teacher width k, learning rate gamma, label noise Δ, …

    `others` holds the parameters that were added to the registry later. `point["name"]` is the value of
    any parameter.
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
        """Read a mapping; raises `InvalidInput` with the name of the field."""
        if isinstance(value, Point):
            return value
        known = (*parameter_names(), INIT)
        if not isinstance(value, Mapping):
            raise InvalidInput("point", value, f"must be a mapping with {', '.join(known)}")
        reject_unknown_keys(value, known, "point")
        fields: dict[str, Any] = _read_parameters(value)
        for name in ("activation", "teacher_activation"):
            fields[name] = ACTIVATIONS[fields[name]]
        others = {name: fields.pop(name) for name in later_parameters()}
        shape = Shape(fields["d"], fields["p"], fields["k"])
        init = Init.parse(value.get(INIT, {"kind": "gaussian"}), shape)
        return cls(**fields, init=init, others=others)

    def __getitem__(self, name: str) -> Scalar:
        """Value of a parameter; activations are returned by name."""
        if name in self.others:
            return self.others[name]
        value = getattr(self, name)
        return value.name if isinstance(value, Activation) else value

    @cached_property
    def content(self) -> dict[str, Scalar]:
        """The parameters that identify the point, without its initial condition.

        Parameters that were added later are included only where they are not at their defaults, so that
        keys from before they existed do not change.
        """
        return {name: self[name] for name in FIRST_PARAMETERS} | self.non_default

    @cached_property
    def non_default(self) -> dict[str, Scalar]:
        """Values of parameters that were added later and are not at their defaults."""
        later = later_parameters()
        return {name: value for name, value in self.others.items() if value != later[name].default}

    def find_unsupported(self, supports: Collection[str]) -> list[str]:
        """Names of parameters that are not at their defaults and not among `supports`."""
        return [name for name in self.non_default if name not in supports]

    def require_support(self, supports: Collection[str], component: str) -> None:
        """Raise if `component`, which supports these parameters, would ignore one of this point."""
        for name in self.find_unsupported(supports):
            default = PARAMETERS[name].default
            raise InvalidInput(name, self[name], f"is not supported by {component}: leave it at {default}")

    @property
    def shape(self) -> Shape:
        return Shape(self.d, self.p, self.k)

    @property
    def delta_t(self) -> float:
        """Time of one SGD step, γ/(pd)."""
        return self.gamma / (self.p * self.d)

    @property
    def gamma_over_p(self) -> float:
        return self.gamma / self.p

    def start(self, seed: int) -> Start:
        return self.init.start(self.shape, seed)


def _read_parameters(mapping: Mapping[str, Any]) -> dict[str, Scalar]:
    """Read the values of all parameters, with defaults for missing ones."""
    values: dict[str, Scalar] = {}
    for name, parameter in PARAMETERS.items():
        if name in mapping and not (parameter.default_from and mapping[name] is None):
            values[name] = parameter.read(mapping[name], name)
        elif parameter.is_required:
            raise InvalidInput(name, None, "is required")
        else:
            values[name] = values[parameter.default_from] if parameter.default is None else parameter.default
    return values
