"""Cautions: where a point, or a regime at a point, should be looked at with care, and the warning there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sweep_service.model.initial import INITS
from sweep_service.model.point import Point

LARGE_DELTA_T = 0.1  # δt, and (1 + ρ) δt of a learned second layer, above which no limit applies
MAX_READOUT_NOISE = 0.1  # ρ/d: relative size of the noise that enters through the second layer
MIN_MEAN_FIELD_WIDTH = 26
MAX_MEAN_FIELD_NOISE_RATE, MAX_GRADIENT_FLOW_NOISE_RATE = 0.1, 0.14


@dataclass(frozen=True)
class Caution:
    """A warning, and where it applies.

    `applies` compares numbers of a point, or columns of them for all points of a grid. `describe` returns
    the text at a point where it applies.
    """

    applies: Callable[[Any], Any]
    describe: Callable[[Point], str]

    def __call__(self, point: Point) -> str:
        """Return the warning at a point, or "" if there is none."""
        return self.describe(point) if self.applies(point) else ""


def describe_noise_rate(point: Point) -> str:
    """γu/(pb) with its value, without the factors that are one."""
    factor = "" if point.schedule.largest_factor == 1.0 else "u"
    width = "p" if point.batch == 1 else "(pb)"
    return f"γ{factor}/{width} = {point.largest_noise_rate:.3g}"


def describe_step(point: Point) -> str:
    """δt with its value, and the largest factor of a schedule."""
    factor = "" if point.schedule.largest_factor == 1.0 else "u"
    return f"{factor}δt = {point.largest_step:.3g}"


# ---- of points, for SGD and every regime

large_step = Caution(
    lambda point: point.largest_step > LARGE_DELTA_T,
    lambda point: f"{describe_step(point)} > {LARGE_DELTA_T}: no guarantee for any of the ODEs",
)
fast_second_layer = Caution(
    lambda point: (
        (point.largest_step <= LARGE_DELTA_T)
        & (point.second_layer_rate > 0.0)
        & ((1.0 + point.second_layer_rate) * point.largest_step > LARGE_DELTA_T)
    ),
    lambda point: (
        f"(1 + ρ) δt = {(1.0 + point.second_layer_rate) * point.largest_step:.3g} > {LARGE_DELTA_T}: the "
        "second layer moves too far in a step for the ODEs"
    ),
)
noisy_second_layer = Caution(
    lambda point: point.second_layer_rate > MAX_READOUT_NOISE * point.d,
    lambda point: (
        f"ρ/d = {point.second_layer_rate / point.d:.3g} > {MAX_READOUT_NOISE}: the ODEs leave out the noise "
        "of the second layer itself"
    ),
)
POINT_CAUTIONS = (large_step, fast_second_layer, noisy_second_layer)

# ---- of regimes

narrow_mean_field = Caution(
    lambda point: point.p < MIN_MEAN_FIELD_WIDTH,
    lambda point: (
        f"mean field at p = {point.p}: errors of 0.04 to 0.12 R(0) were measured below "
        f"p = {MIN_MEAN_FIELD_WIDTH}"
    ),
)
mean_field_without_sampling = Caution(
    lambda point: point.largest_noise_rate > MAX_MEAN_FIELD_NOISE_RATE,
    lambda point: (
        f"{describe_noise_rate(point)} > {MAX_MEAN_FIELD_NOISE_RATE}: mean field neglects the sampling term"
    ),
)
start_without_invariance = Caution(
    lambda point: point.init.kind in INITS and not INITS[point.init.kind].invariant,
    lambda point: (
        f"a {point.init.kind} start is not invariant under rotations orthogonal to the teacher: the overlaps "
        "Q⊥_ij of different neurons are replaced by 0, their mean for invariant starts"
    ),
)
noise_at_infinite_width = Caution(
    lambda point: point.noise > 0,
    lambda point: (
        f"label noise enters as {'γΔ/p' if point.batch == 1 else 'γΔ/(pb)'}, which is zero at p = ∞"
    ),
)
noise_leaves_span = Caution(
    lambda point: point.noise > 0,
    lambda point: "label noise moves neurons out of the teacher's span, which mean_field_projected ignores",
)
fast_gradient_flow = Caution(
    lambda point: point.largest_noise_rate > MAX_GRADIENT_FLOW_NOISE_RATE,
    lambda point: (
        f"{describe_noise_rate(point)} > {MAX_GRADIENT_FLOW_NOISE_RATE}: gradient flow departs from SGD"
    ),
)
