"""A point: one set of physical parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweep_service.errors import InvalidInput
from sweep_service.fields import number, only_known, whole
from sweep_service.model.activations import Activation, activation
from sweep_service.model.initial import Init, Shape, Start

FIELDS = ("d", "p", "k", "gamma", "noise", "activation", "teacher_activation", "init")

# A start holds Q, p by p: 3 GB at the largest p.
LARGEST = {"d": 10**12, "p": 20_000, "k": 1_000}


@dataclass(frozen=True)
class Point:
    """Input dimension d, student width p, teacher width k, learning rate gamma, label noise Δ, …"""

    d: int
    p: int
    k: int
    gamma: float
    noise: float
    activation: Activation
    teacher_activation: Activation
    init: Init

    @classmethod
    def parse(cls, value: Any) -> Point:
        """Read a mapping; anything unusable is an `InvalidInput` that names the field."""
        if isinstance(value, Point):
            return value
        if not isinstance(value, Mapping):
            raise InvalidInput("point", value, f"must be a mapping with {', '.join(FIELDS)}")
        only_known(value, FIELDS, "point")
        for field in ("d", "p", "k", "gamma"):
            if field not in value:
                raise InvalidInput(field, None, "is required")
        d, p, k = (whole(value[name], name, most=most) for name, most in LARGEST.items())
        student, teacher = value.get("activation", "erf"), value.get("teacher_activation")
        return cls(
            d=d,
            p=p,
            k=k,
            gamma=number(value["gamma"], "gamma", above=0.0, most=1e12),
            noise=number(value.get("noise", 0.0), "noise", least=0.0, most=1e12),
            activation=activation(student),
            teacher_activation=activation(student if teacher is None else teacher, "teacher_activation"),
            init=Init.parse(value.get("init", {"kind": "gaussian"}), Shape(d, p, k)),
        )

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
