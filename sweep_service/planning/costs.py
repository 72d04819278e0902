"""What a run will cost: seconds on one core, by formulas fitted to measurements of each engine.

The coefficients are nanoseconds on the machine they were measured on; `Calibration` holds how much
faster or slower this one is, from a short test of each engine and from what runs have reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sweep_service.dynamics.compiled_overlap_flow import WIDEST
from sweep_service.dynamics.regimes import REGIMES, Regime
from sweep_service.dynamics.variance import EXACT_ERF, QMC_POINTS
from sweep_service.model.point import Point
from sweep_service.simulators.selection import choose_engine

WORTH_LEARNING = 0.5  # seconds of measured work
LANES = 8  # chains in a vector
LONGEST_OF_LANES = 20.0  # seconds; longer ones go one by one, as then cores are worth more than lanes
CALL = 3e-3  # seconds of a call of simulate or integrate, whatever it does
SAMPLE, SAMPLE_OF_MANY = 3.5e-5, 8e-6  # seconds to record one sample of a chain, alone or with its lanes
PAIR = 1.2e-8  # seconds per two-point function of a recorded risk
RECORDING = "sgd/recording"  # its class of work: of wide students with many samples it is most of it


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


class SgdCost:
    """Predicted seconds of the chains of one point.

    `steps` and `samples` are those of one chain. The simulator is chosen once, because estimates and bundles
    of a large sweep ask many questions about each of its points.
    """

    def __init__(self, point: Point, steps: float, samples: int, known: Calibration | None = None) -> None:
        self.point, self.steps, self.samples = point, steps, samples
        self.known = known or Calibration()
        self.engine = choose_engine(point)

    @property
    def work(self) -> str:
        """The class of work: its simulator."""
        return f"sgd/{self.engine.name}"

    def price(self, chains: int) -> float:
        """Of one of several chains, as they are put into bundles: together or alone."""
        return self.seconds(chains if self.in_lanes(chains) else 1)

    def seconds(self, chains: int) -> float:
        """Of one of several chains that are computed together."""
        stepping = self.known(self.work) * self.stepping(chains)
        return stepping + self.known(RECORDING) * self.recording(chains)

    def stepping(self, chains: int) -> float:
        """The steps, by the formulas alone."""
        return self.steps * self.engine.step_seconds(chains)

    def recording(self, chains: int) -> float:
        """The samples, by the formulas alone."""
        rows = self.engine.rows
        far = min(max(1.0, rows / 120), 2.5)  # from memory, once overlaps do not stay in the cache
        pair = PAIR * far * (5.0 if self.point.activation.closed is None else 1.0)
        sample = SAMPLE_OF_MANY if self._has_lanes(chains) else SAMPLE
        pairs = rows * rows / 2 + rows * self.point.k + 6 * self.point.p
        return self.samples * (sample + pair * pairs)

    def in_lanes(self, chains: int) -> bool:
        """Whether chains are computed eight at a time, so that a few of them take as long as eight."""
        return self._has_lanes(chains) and LANES * self.seconds(LANES) <= LONGEST_OF_LANES

    def _has_lanes(self, chains: int) -> bool:
        return self.engine.simulator(chains).most_chains > 1


def ode_work(point: Point, regime: str) -> str:
    """The class of work of a regime at a point: which kind of flow it will be."""
    entry = _entry(point, regime)
    if entry.mean_field:
        square = point.activation.name == point.teacher_activation.name == "square"
        return f"ode/{'square' if square else 'pairs' if point.k > 2 else 'nodes'}"
    size = "small" if point.p <= WIDEST else "wide"
    return f"ode/{size}{'-sampling' if entry.sampled else ''}"


def _entry(point: Point, regime: str) -> Regime:
    """The regime itself; for auto the one that it usually chooses."""
    if regime in REGIMES:
        return REGIMES[regime]
    return REGIMES["high_dimensional" if point.gamma_over_p > 0.02 and point.p <= 64 else "classical"]


def ode_seconds(
    point: Point, regime: str, last: float, samples: int, known: Calibration, qmc_points: int = QMC_POINTS
) -> float:
    """Of one integration to t = last: what was measured to t = 10, and how it grows with each decade."""
    p, k, work = point.p, point.k, ode_work(point, regime)
    entry = _entry(point, regime)
    simpler = k == 1 or entry.infinite_d
    among = 0.007 + 2.2e-6 * p * min(p, 300) if simpler else 0.015 + 8e-6 * p * min(p, 300)
    if point.activation.name == "erf" and p <= EXACT_ERF:
        sampled = 4e-5 * p * p + 2e-7 * p * p * (p + k) ** 2
    elif point.activation.name == "square":
        sampled = 0.025 + 4e-5 * p * p
    else:
        sampled = (0.5 + 0.024 * p) * qmc_points / QMC_POINTS
    first, growth = {
        "ode/small": (1.6e-3 + 7e-6 * p * p, 1.6 + 2.5e-3 * p * p),
        "ode/small-sampling": (0.005 + sampled, 2.2),
        "ode/wide": (0.012 + 6e-6 * p * p, 2.5),
        "ode/wide-sampling": (0.012 + 1.8e-5 * p * p + sampled, 2.2),
        "ode/nodes": (among, 2.5),
        "ode/pairs": (among, 2.0),
        "ode/square": (0.018 + 4e-5 * p, 4.5),
    }[work]
    if work != "ode/square" and (
        point.activation.closed is None or point.activation is not point.teacher_activation
    ):
        first *= 20.0  # Mehler's sums and quadrature in place of closed forms
    decades = min(max(math.log10(max(last, 1e-3)) - 1.0, -1.0), 4.0)
    recording = 0.0 if entry.mean_field else samples * PAIR * (p * p / 2 + p * k)
    return known(work) * (first * growth**decades + recording) + CALL
