"""Predicted cost of a run in seconds on one core, by formulas fitted to measurements of each simulator.

The coefficients hold for the machine on which they were measured. `Calibration` holds how much slower this
machine is, from a short test of each class of work and from the measured time of finished runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sweep_service.dynamics.auto import MAX_ERROR, SAMPLING_ERROR
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.prices import DEFAULT_OPTIONS, flow_class, price_regime
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.model.averages.pair_prices import pair_price
from sweep_service.model.point import Point
from sweep_service.simulators.selection import choose_simulator

MIN_MEASURED_SECONDS = 0.5  # shorter measurements do not change the calibration
LANES = 8  # chains in a vector
# Longer vectors of chains are computed chain by chain, because cores then help more than lanes.
MAX_VECTOR_SECONDS = 20.0
SAMPLE_SECONDS = 3.5e-5  # to record a sample of a chain that is computed alone
VECTOR_SAMPLE_SECONDS = 8e-6  # to record a sample of a chain that shares a vector
COPY_SECONDS = 8e-9  # per recorded overlap
# Recording has its own class of work: it dominates for wide students with many samples.
RECORDING_WORK_CLASS = "sgd/recording"


@dataclass(frozen=True)
class Calibration:
    """Factors by class of work: `sgd/S1` for a simulator, `ode/small/erf` for a form of flow and a student.

    An activation without measurements has the mean factor of the others, and a class without any has 1.
    """

    factors: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, work_class: str) -> float:
        if work_class in self.factors:
            return self.factors[work_class]
        return self._average_over_activations(work_class.rpartition("/")[0])

    def _average_over_activations(self, form: str) -> float:
        """Return the mean factor of a form of flow, for an activation without measurements."""
        if "/" not in form:  # a simulator, whose factor holds for all activations
            return 1.0
        logarithms = [
            math.log(factor) for name, factor in self.factors.items() if name.rpartition("/")[0] == form
        ]
        return math.exp(sum(logarithms) / len(logarithms)) if logarithms else 1.0

    def update(self, timings: Mapping[str, tuple[float, float]]) -> Calibration:
        """Return a calibration moved half way, in logarithms, to new timings.

        `timings` maps a class of work to seconds (measured, predicted by the formulas alone).
        """
        factors = dict(self.factors)
        for work_class, (measured, predicted) in timings.items():
            if measured > MIN_MEASURED_SECONDS and predicted > 0.0:
                factors[work_class] = round(math.sqrt(self(work_class) * measured / predicted), 4)
        return Calibration(factors)


class SgdCost:
    """Predicted seconds of the chains of one point.

    `steps` and `samples` are those of one chain. The simulator is chosen once, because estimates and bundles
    of a large sweep use the cost of each point many times.
    """

    def __init__(
        self, point: Point, steps: float, samples: int, calibration: Calibration | None = None
    ) -> None:
        self.point, self.steps, self.samples = point, steps, samples
        self.calibration = calibration or Calibration()
        self.simulator = choose_simulator(point)

    @property
    def work_class(self) -> str:
        return f"sgd/{self.simulator.name}"

    def bundled_seconds(self, chains: int) -> float:
        """Seconds of one of `chains` chains as bundles compute them: sharing vectors, or one by one."""
        return self.seconds(chains if self.uses_lanes(chains) else 1)

    def seconds(self, chains: int) -> float:
        """Seconds of one of `chains` chains that are computed together."""
        stepping = self.calibration(self.work_class) * self.stepping_seconds(chains)
        return stepping + self.calibration(RECORDING_WORK_CLASS) * self.recording_seconds(chains)

    def stepping_seconds(self, chains: int) -> float:
        """Seconds of the steps of one chain, without calibration."""
        return self.steps * self.simulator.step_seconds(chains)

    def recording_seconds(self, chains: int) -> float:
        """Seconds to record the samples of one chain, without calibration."""
        rows = self.simulator.rows
        slowdown = min(max(1.0, rows / 120), 2.5)  # overlaps of wide students do not stay in the cache
        student, teacher = self.point.activation, self.point.teacher_activation
        own, mixed = pair_price(student, student), pair_price(student, teacher)
        sample = VECTOR_SAMPLE_SECONDS if self.has_lanes(chains) else SAMPLE_SECONDS
        pairs = rows * rows * own.values + rows * self.point.k * mixed.values + own.call + mixed.call
        copies = COPY_SECONDS * slowdown * (rows * rows / 2 + rows * self.point.k + 6 * self.point.p)
        return self.samples * (sample + pairs + copies)

    def uses_lanes(self, chains: int) -> bool:
        """Return whether chains share vectors, so that a few of them take as long as eight."""
        return self.has_lanes(chains) and LANES * self.seconds(LANES) <= MAX_VECTOR_SECONDS

    def has_lanes(self, chains: int) -> bool:
        return self.simulator.choose_form(chains).max_chains > 1


def ode_work_class(point: Point, regime: str) -> str:
    """Return the class of work of a regime at a point."""
    return flow_class(point, _usual_regime(point, regime))


def _usual_regime(point: Point, regime: str) -> str:
    """Return a regime; for auto, the one that it usually chooses, without drawing a start."""
    if regime in REGIMES:
        return regime
    if SAMPLING_ERROR * point.largest_noise_rate > MAX_ERROR:
        return "high_dimensional"
    return "classical_noise" if point.noise > 0 else "classical"


def ode_seconds(
    point: Point,
    regime: str,
    last: float,
    samples: int,
    calibration: Calibration,
    options: RegimeOptions = DEFAULT_OPTIONS,
) -> float:
    """Predict the seconds of one integration to t = last."""
    price = price_regime(point, _usual_regime(point, regime), options)
    return calibration(price.work_class) * price.seconds(last, samples)
