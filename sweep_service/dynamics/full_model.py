"""What the flows of all states share: the second layers, weight decay and the schedule."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sweep_service.model.schedule import Schedule
from sweep_service.model.second_layer import Readout
from sweep_service.numerics.types import Array

VANISHED_SHARE = 1e-6  # of its squared norm at t = 0, at which a neuron with a kink counts as vanished


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


class FullModelFlow:
    """A flow whose state ends with the second layer if it is learned."""

    system: FullModel

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
