"""What the flows of all states share: the second layers, weight decay and the schedule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sweep_service.model.point import Point
from sweep_service.model.schedule import Schedule
from sweep_service.model.second_layer import Readout
from sweep_service.numerics.types import Array

VANISHED_SHARE = 1e-6  # of its squared norm at t = 0, at which a neuron with a kink counts as vanished
FAR_FROM_VANISHING = 100.0  # at this fraction of it `slow_down` is 1 to the last bit


def slow_down(norms: Array, first_norms: Array) -> Array:
    """A factor of the rate of each neuron, which is 1 but for neurons that have nearly vanished.

    A kink at zero with a weight of the wrong sign pulls a neuron to w = 0 in a finite time and holds it
    there, as the pull has the same strength at any distance. Without the factor it would oscillate
    around w = 0, in steps as small as numbers can be. Both arguments are squared norms.
    """
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + (VANISHED_SHARE * first_norms / np.maximum(norms, 1e-300)) ** 4)


@dataclass(frozen=True, kw_only=True)
class FullModel:
    """Constants of a trajectory that do not depend on how its overlaps are described."""

    readout: Readout | None = None  # second layers at t = 0; None for ones that are not learned
    second_layer_rate: float = 0.0
    weight_decay: float = 0.0
    schedule: Schedule = field(default_factory=Schedule)

    @property
    def is_learned(self) -> bool:
        """Whether the second layer is part of the state."""
        return self.second_layer_rate > 0.0

    @property
    def teacher_second_layer(self) -> Array | None:
        """a*, None for ones."""
        return None if self.readout is None else self.readout.teacher

    def rate_factor(self, t: float) -> float:
        """u(t)."""
        return 1.0 if self.schedule.is_default else float(self.schedule.factor(np.asarray(t)))


def full_model_constants(point: Point, readout: Readout | None) -> dict[str, Any]:
    """The fields of `FullModel` at a point."""
    return {
        "readout": readout,
        "second_layer_rate": point.second_layer_rate,
        "weight_decay": point.weight_decay,
        "schedule": point.schedule,
    }


class FullModelFlow(ABC):
    """A flow whose state ends with the second layer if it is learned."""

    system: FullModel

    @abstractmethod
    def change(self, y: Array, t: float) -> Array:
        """dy/dt without weight decay."""

    @property
    @abstractmethod
    def degrees(self) -> Array:
        """The degree of each entry of the state in the weights of the first layer."""

    def __call__(self, y: Array, t: float = 0.0) -> Array:
        """dy/dt: dw/dt = -u κ_w w changes an entry of degree n at the rate -n u κ_w."""
        dy = self.change(y, t)
        return dy - self.damping(t) * y if self.system.weight_decay else dy

    def damping(self, t: float) -> Array:
        """The rate at which weight decay reduces each entry of the state."""
        return self.system.weight_decay * self.system.rate_factor(t) * self.degrees

    def damp_jacobian(self, jacobian: Array, t: float) -> Array:
        """Add weight decay to the Jacobian of `change`, in place."""
        if self.system.weight_decay:
            jacobian[np.diag_indices_from(jacobian)] -= self.damping(t)
        return jacobian

    @property
    def breaks(self) -> tuple[float, ...]:
        """Times at which the rate is not smooth."""
        return self.system.schedule.breaks

    def second_layer(self, y: Array) -> Array | None:
        """The second layer at a state; None for ones."""
        if self.system.readout is None:
            return None
        size = len(self.system.readout.student)
        return y[-size:] if self.system.is_learned else self.system.readout.student

    def append_second_layer(self, y: Array, second_layer: Array | None) -> Array:
        """The state y, followed by the second layer if it is learned."""
        return np.concatenate([y, second_layer]) if self.system.is_learned and second_layer is not None else y
