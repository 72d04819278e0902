"""The automatic choice of a regime for a point, with its reason, and warnings about points and regimes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sweep_service.dynamics.regimes import REGIMES, is_projected
from sweep_service.model.initial import Start
from sweep_service.model.parameters import FIRST_PARAMETERS
from sweep_service.model.point import Point

MAX_NARROW_WIDTH = 64  # p up to which effects of finite p exceed the errors of the other regimes
LARGE_DELTA_T = 0.1  # δt above which no limit applies
SMALL_GAMMA_OVER_P = 0.02  # γ/p up to which gradient flow and SS-ODE agree
MAX_XI_DIMENSIONS = 50  # d - k up to which the law of Ξ matters


@dataclass(frozen=True)
class RegimeChoice:
    regime: str
    reason: str


def compare_with_thresholds(delta_t: Any, p: Any, gamma_over_p: Any, noise: Any) -> tuple[Any, Any, Any, Any]:
    """Compare numbers or arrays with the thresholds of the rule.

    Returns whether the step is large, the student narrow, the rate γ/p high and the labels noisy. Points
    with the same answers and the same start have the same choice; if one of the first two answers is true,
    the start does not matter.
    """
    return delta_t > LARGE_DELTA_T, p <= MAX_NARROW_WIDTH, gamma_over_p > SMALL_GAMMA_OVER_P, noise > 0


def choose_regime(point: Point, start: Start) -> RegimeChoice:
    """Choose the regime by the documented rule, or the first one that supports all parameters."""
    choice = _apply_rule(point, start)
    if not point.find_unsupported(REGIMES[choice.regime].supports):
        return choice
    for name, regime in REGIMES.items():
        if not point.find_unsupported(regime.supports):
            parameters = ", ".join(point.non_default)
            return RegimeChoice(name, f"supports {parameters}, which {choice.regime} does not")
    point.require_support(FIRST_PARAMETERS, "any regime")
    raise AssertionError("every regime supports the first parameters")


def _apply_rule(point: Point, start: Start) -> RegimeChoice:
    """The documented rule; its thresholds come from measured errors."""
    ratio, D = point.gamma_over_p, start.d - point.k
    large, narrow, high, noisy = compare_with_thresholds(point.delta_t, point.p, ratio, point.noise)
    if large:
        return RegimeChoice(
            "high_dimensional",
            f"δt = {point.delta_t:.3g} > {LARGE_DELTA_T}: no guarantee, SS-ODE has the most terms",
        )
    if narrow:
        width = f"p = {point.p} <= {MAX_NARROW_WIDTH}"
        if high:
            return RegimeChoice(
                "high_dimensional",
                f"{width} and γ/p = {ratio:.3g} > {SMALL_GAMMA_OVER_P}: the sampling term matters",
            )
        if noisy:
            return RegimeChoice(
                "classical_noise",
                f"{width}, γ/p = {ratio:.3g} <= {SMALL_GAMMA_OVER_P} and label noise: its plateau matters",
            )
        return RegimeChoice(
            "classical",
            f"{width}, γ/p = {ratio:.3g} <= {SMALL_GAMMA_OVER_P} and no label noise: gradient flow",
        )
    width = f"p = {point.p} > {MAX_NARROW_WIDTH}"
    if is_projected(start):
        return RegimeChoice("mean_field_projected", f"{width} and Q⊥(0) = 0, which is a fixed point")
    if not start.invariant:
        return RegimeChoice(
            "high_dimensional",
            f"{width}, but the start is not known to be orthogonally invariant: no mean field",
        )
    if D <= MAX_XI_DIMENSIONS:
        return RegimeChoice(
            "mean_field", f"{width} and d - k = {D} <= {MAX_XI_DIMENSIONS}: the law of Ξ matters"
        )
    return RegimeChoice(
        "mean_field_high_dimensional", f"{width} and d - k = {D} > {MAX_XI_DIMENSIONS}: Ξ = I"
    )


def collect_point_warnings(point: Point) -> list[str]:
    """Warnings about a point that hold for SGD and every regime."""
    warnings = []
    if point.delta_t > LARGE_DELTA_T:
        warnings.append(f"δt = {point.delta_t:.3g} > {LARGE_DELTA_T}: no guarantee for any of the ODEs")
    if point.p % point.k:
        warnings.append(
            f"p = {point.p} is not a multiple of k = {point.k}, so the teacher is not evenly realisable: "
            "R has a floor independent of gamma"
        )
    for act in {
        point.activation.name: point.activation,
        point.teacher_activation.name: point.teacher_activation,
    }.values():
        if act.assumptions:
            warnings.append(f"{act.name}: {act.assumptions}")
    return warnings


def collect_regime_warnings(point: Point, regime: str) -> list[str]:
    """Warnings about a point, and about the validity of a regime there."""
    cautions = (caution(point) for caution in REGIMES[regime].cautions)
    return [*collect_point_warnings(point), *(text for text in cautions if text)]
