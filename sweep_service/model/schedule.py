"""Schedules: the factor u(t) of the learning rate, with time in units of the base rate γ.

Step ν of SGD, at t_ν = ν γ/(pd), uses the rate γ u(t_ν).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.numerics.types import Array
from sweep_service.validation import read_matrix, read_number, reject_unknown_keys

FIELD = "schedule"
MAX_TIME, MAX_FACTOR, MAX_STEPS = 1e15, 1e6, 1000
_TIME: dict[str, float] = {"above": 0.0, "most": MAX_TIME}
# The numbers of each kind with their bounds; they may be axes.
NUMBERS: dict[str, dict[str, dict[str, float]]] = {
    "power": {"t0": _TIME, "alpha": {"least": 0.0, "most": 100.0}},
    "exponential": {"tau": _TIME},
    "warmup": {"until": _TIME},
}
FORMULAS = {
    "constant": "1",
    "power": "(1 + t/t0)^-alpha",
    "exponential": "exp(-t/tau)",
    "warmup": "min(1, t/until)",
    "steps": "1, and from each time on the factor beside it",
}
# Values with which a form begins.
EXAMPLES: dict[str, Any] = {
    "power": {"t0": 10.0, "alpha": 0.5},
    "exponential": {"tau": 100.0},
    "warmup": {"until": 1.0},
    "steps": [[10.0, 0.5], [100.0, 0.1]],
}


@dataclass(frozen=True)
class Schedule:
    """A kind with its numbers; `steps` has pairs (time, factor)."""

    kind: str = "constant"
    numbers: tuple[float, ...] = ()
    steps: tuple[tuple[float, float], ...] = ()

    @classmethod
    def parse(cls, value: Any) -> Schedule:
        """Read `constant`, or one kind with its numbers, such as {power: {t0: 10, alpha: 0.5}}."""
        if value == "constant":
            return cls()
        kinds = tuple(FORMULAS)
        if isinstance(value, str):
            raise unknown_name(FIELD, value, kinds)
        if not isinstance(value, Mapping) or len(value) != 1:
            allowed = "must be constant, or one kind such as {power: {t0: 10, alpha: 0.5}}"
            raise InvalidInput(FIELD, value, allowed)
        ((kind, numbers),) = value.items()
        if kind == "steps":
            return cls("steps", steps=_read_steps(numbers))
        if kind not in NUMBERS:
            raise unknown_name(f"{FIELD} (key)", kind, kinds)
        field, bounds = f"{FIELD}.{kind}", NUMBERS[kind]
        if not isinstance(numbers, Mapping):
            raise InvalidInput(field, numbers, f"must be a mapping with {', '.join(bounds)}")
        reject_unknown_keys(numbers, bounds, field)
        for name in bounds:
            if name not in numbers:
                raise InvalidInput(f"{field}.{name}", None, "is required")
        values = tuple(read_number(numbers[name], f"{field}.{name}", **bounds[name]) for name in bounds)
        return cls(kind, values)

    @property
    def is_default(self) -> bool:
        return self.kind == "constant"

    def content(self) -> Any:
        """The content that identifies it, as plain JSON with one spelling."""
        if self.kind == "constant":
            return "constant"
        if self.kind == "steps":
            return {"steps": [list(step) for step in self.steps]}
        return {self.kind: dict(zip(NUMBERS[self.kind], self.numbers, strict=True))}

    def factor(self, t: Array) -> Array:
        """u(t)."""
        t = np.asarray(t, dtype=float)
        if self.kind == "power":
            t0, alpha = self.numbers
            return np.asarray((1.0 + t / t0) ** -alpha)
        if self.kind == "exponential":
            return np.asarray(np.exp(-t / self.numbers[0]))
        if self.kind == "warmup":
            return np.minimum(1.0, t / self.numbers[0])
        if self.kind == "steps":
            times, factors = zip(*self.steps, strict=True)
            return np.array([1.0, *factors])[np.searchsorted(times, t, side="right")]
        return np.ones_like(t)

    @property
    def breaks(self) -> tuple[float, ...]:
        """Times at which u is not smooth, where an integration begins anew."""
        if self.kind == "steps":
            return tuple(time for time, _ in self.steps if time > 0.0)
        return self.numbers if self.kind == "warmup" else ()

    @property
    def largest_factor(self) -> float:
        return max([1.0, *(factor for _, factor in self.steps)])


def _read_steps(value: Any) -> tuple[tuple[float, float], ...]:
    field = f"{FIELD}.steps"
    allowed = "must be a list of [time, factor], such as [[10, 0.5], [100, 0.1]]"
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)) or not 1 <= len(value) <= MAX_STEPS:
        raise InvalidInput(field, value, f"{allowed}, of 1 to {MAX_STEPS} steps")
    pairs = read_matrix(value, field)
    if pairs.shape[1] != 2:
        raise InvalidInput(field, value, allowed)
    times, factors = pairs.T
    if times[0] < 0.0 or times[-1] > MAX_TIME or np.any(np.diff(times) <= 0.0):
        raise InvalidInput(field, value, f"must have times >= 0 and <= {MAX_TIME:g} that increase")
    if np.any((factors < 0.0) | (factors > MAX_FACTOR)):
        raise InvalidInput(field, value, f"must have factors from 0 to {MAX_FACTOR:g}")
    return tuple((float(time) + 0.0, float(factor) + 0.0) for time, factor in pairs)
