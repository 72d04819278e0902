"""What a run will cost: seconds on one core, by formulas fitted to measurements of each engine.

The coefficients are nanoseconds on the machine they were measured on; `Calibration` holds how much
faster or slower this one is, from a short test of each engine and from what runs have reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sweep_service.dynamics.regimes import REGIMES
from sweep_service.dynamics.small_flow import WIDEST
from sweep_service.dynamics.variance import EXACT_ERF, QMC_POINTS
from sweep_service.point import Point
from sweep_service.simd import padded
from sweep_service.simulators.choose import COMPILED, FEW_CHAINS, choose_engine, path_engine

WORTH_LEARNING = 0.5  # seconds of measured work
CALL = 3e-3  # seconds of a call of simulate or integrate, whatever it does
SAMPLE = 2e-5  # seconds to record one sample
PAIR = 1.2e-8  # seconds per two-point function of a recorded risk


@dataclass(frozen=True)
class Calibration:
    """Factors by class of work, one where nothing is known."""

    factors: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, work: str) -> float:
        return self.factors.get(work, 1.0)

    def learned(self, reported: Mapping[str, tuple[float, float]]) -> Calibration:
        """After runs that took (measured, predicted by the formulas alone) seconds: half way to them."""
        found = dict(self.factors)
        for work, (measured, predicted) in reported.items():
            if measured > WORTH_LEARNING and predicted > 0.0:
                found[work] = round(math.sqrt(self(work) * measured / predicted), 4)
        return Calibration(found)


def sgd_work(point: Point) -> str:
    """The class of work of a point's SGD: its engine."""
    return f"sgd/{choose_engine(point).name}"


def sgd_seconds(point: Point, steps: float, samples: int, chains: int, known: Calibration) -> float:
    """Of one chain among so many of the same point."""
    engine = choose_engine(point)
    p, k, d = point.p, point.k, point.d
    rows = min(p, d) if engine.name == "S4" else p
    recording = samples * (SAMPLE + PAIR * (rows * rows / 2 + rows * k + p))
    return known(sgd_work(point)) * (
        steps * 1e-9 * _step(engine.name, rows, k, d, chains, engine.compiled) + recording
    )


def _step(engine: str, p: int, k: int, d: int, chains: int, compiled: bool) -> float:
    """Nanoseconds of a step."""
    if not compiled:
        return 2e4 + 5.0 * p * d if engine != "S3" else 2e4 + 0.2 * (p + k) ** 2
    if engine == "S4":
        engine = path_engine(p, d, compiled)[0]
    n, wide = p + k, padded(p) + padded(k)
    if engine == "S1":
        alone = 40.0 + 3.5 * wide + 4.2 * d + 0.35 * wide * d
        lanes = 0.55 if p <= 10 else 0.8 if p <= 20 or d <= 20 else 1.0
        return alone * (lanes if chains >= FEW_CHAINS else 1.0)
    if engine == "S2":
        return 600.0 + 3.5 * wide + 4.2 * d + 0.115 * n * d
    if n <= COMPILED:
        return 100.0 + 12.0 * n + 0.45 * n * n
    return 1500.0 + 4.0 * n + 0.2 * n * n


def ode_work(point: Point, regime: str) -> str:
    """The class of work of a regime at a point: which kind of flow it will be."""
    if regime == "auto":
        regime = "high_dimensional" if point.gamma_over_p > 0.02 and point.p <= 64 else "classical"
    if REGIMES[regime].mean_field:
        square = point.activation.name == point.teacher_activation.name == "square"
        return f"ode/{'square' if square else 'pairs' if point.k > 2 else 'nodes'}"
    size = "small" if point.p <= WIDEST else "wide"
    return f"ode/{size}{'-sampling' if regime == 'high_dimensional' else ''}"


def ode_seconds(
    point: Point, regime: str, last: float, samples: int, known: Calibration, qmc_points: int = QMC_POINTS
) -> float:
    """Of one integration to t = last: what was measured to t = 10, and how it grows with each decade."""
    p, k, work = point.p, point.k, ode_work(point, regime)
    infinite = regime in ("mean_field_high_dimensional", "mean_field_projected")
    fourth = p * p * (p + k) ** 2
    exact = p <= EXACT_ERF and point.activation.name == "erf"  # its sampling term needs no points
    sampled = 8e-4 * (1.0 if exact else qmc_points / QMC_POINTS)
    first, growth = {
        "ode/small": (0.012 + 4e-4 * p, math.sqrt(1.0 + 0.012 * p * p)),
        "ode/small-sampling": (0.013 + 4e-7 * fourth, 2.2 + 1.8e-6 * fourth),
        "ode/wide": (0.03 + 1.3e-5 * p * p, 2.5),
        "ode/wide-sampling": (0.03 + p * p * (1.3e-5 + sampled), 2.0),
        "ode/nodes": (0.05 + p * (6e-4 if infinite or k == 1 else 1.5e-3), 3.0 if infinite else 4.0),
        "ode/pairs": (0.05 + p * p * (8e-6 if infinite else 2.5e-5), 2.0),
        "ode/square": (0.08 + 3e-4 * p, 3.0),
    }[work]
    if work != "ode/square" and (
        point.activation.closed is None or point.activation is not point.teacher_activation
    ):
        first *= 20.0  # Mehler's sums and quadrature in place of closed forms
    decades = min(max(math.log10(max(last, 1e-3)) - 1.0, -1.0), 4.0)
    recording = (
        0.0 if regime in REGIMES and REGIMES[regime].mean_field else samples * PAIR * (p * p / 2 + p * k)
    )
    return known(work) * (first * growth**decades + recording) + CALL
