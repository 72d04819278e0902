"""Which theory fits a point, and what to be wary of, always with the reason in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sweep_service.dynamics.regimes import REGIMES, is_projected
from sweep_service.model.initial import Start
from sweep_service.model.parameters import FIRST_PARAMETERS
from sweep_service.model.point import Point

NARROW = 64  # up to here finite p matters more than anything mean field neglects
LARGE_STEP = 0.1  # δt above which no limit is near
SMALL_RATE = 0.02  # γ/p below which gradient flow and SS agree
FEW_DIMENSIONS = 50  # d - k up to which Ξ matters


@dataclass(frozen=True)
class Choice:
    regime: str
    reason: str


def sides(delta_t: Any, p: Any, gamma_over_p: Any, noise: Any) -> tuple[Any, Any, Any, Any]:
    """Of numbers or arrays, on which side of each border they are: whether the step is large, the student
    narrow, its rate high, the labels noisy. Points on the same sides with the same start have one choice,
    and where one of the first two holds the start does not count.
    """
    return delta_t > LARGE_STEP, p <= NARROW, gamma_over_p > SMALL_RATE, noise > 0


def choose(point: Point, start: Start) -> Choice:
    """The regime of the written rule; if it does not support a parameter, the first one that does."""
    choice = _rule(point, start)
    if not point.unsupported(REGIMES[choice.regime].supports):
        return choice
    for name, regime in REGIMES.items():
        if not point.unsupported(regime.supports):
            return Choice(name, f"supports {', '.join(point.unusual)}, which {choice.regime} does not")
    point.require_support(FIRST_PARAMETERS, "any regime")
    raise AssertionError("every regime supports the first parameters")


def _rule(point: Point, start: Start) -> Choice:
    """Measured errors decide the borders."""
    ratio, D = point.gamma_over_p, start.d - point.k
    large, narrow, high, noisy = sides(point.delta_t, point.p, ratio, point.noise)
    if large:
        return Choice(
            "high_dimensional",
            f"δt = {point.delta_t:.3g} > {LARGE_STEP}: no guarantee, SS-ODE keeps the most terms",
        )
    if narrow:
        here = f"p = {point.p} <= {NARROW}"
        if high:
            return Choice(
                "high_dimensional", f"{here} and γ/p = {ratio:.3g} > {SMALL_RATE}: the sampling term counts"
            )
        if noisy:
            return Choice(
                "classical_noise",
                f"{here}, γ/p = {ratio:.3g} <= {SMALL_RATE} and label noise: its plateau counts",
            )
        return Choice(
            "classical", f"{here}, γ/p = {ratio:.3g} <= {SMALL_RATE} and no label noise: gradient flow"
        )
    here = f"p = {point.p} > {NARROW}"
    if is_projected(start):
        return Choice("mean_field_projected", f"{here} and Q⊥(0) = 0, which is a fixed point")
    if not start.invariant:
        return Choice(
            "high_dimensional",
            f"{here}, but the start is not known to be orthogonally invariant: no mean field",
        )
    if D <= FEW_DIMENSIONS:
        return Choice("mean_field", f"{here} and d - k = {D} <= {FEW_DIMENSIONS}: the law of Ξ counts")
    return Choice("mean_field_high_dimensional", f"{here} and d - k = {D} > {FEW_DIMENSIONS}: Ξ = I")


def point_warnings(point: Point) -> list[str]:
    """What to know about a point whatever is computed there."""
    found = []
    if point.delta_t > LARGE_STEP:
        found.append(f"δt = {point.delta_t:.3g} > {LARGE_STEP}: no guarantee for any of the ODEs")
    if point.p % point.k:
        found.append(
            f"p = {point.p} is no multiple of k = {point.k}: not evenly realisable: "
            "R has a floor independent of gamma"
        )
    for act in {
        point.activation.name: point.activation,
        point.teacher_activation.name: point.teacher_activation,
    }.values():
        if act.assumptions:
            found.append(f"{act.name}: {act.assumptions}")
    return found


def theory_warnings(point: Point, regime: str) -> list[str]:
    """Where the chosen theory is stretched."""
    cautions = (caution(point) for caution in REGIMES[regime].cautions)
    return [*point_warnings(point), *(text for text in cautions if text)]
