"""How far a sweep is and how long it will take, from what its own bundles took.

Each class of work (a simulator or a regime) has its own rate: processor seconds of its bundles over their
predicted cost, the ratio of sums, whose error follows from the scatter of the bundles. The stretch, the time
that passes in a processor second, is that of the latest bundles, and contains whatever else the machine does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweep_service.store.ledger import EMPTY_QUEUE, Queue, WorkTotals

PRIOR_BUNDLES = 0.1  # weight of the prediction, in bundles, against what was measured
PRIOR_SPREAD = 0.5  # relative error of a prediction, or of a single bundle, before anything is measured
MIN_SPREAD = 0.05  # the load of a machine changes by this much
RANGE_DEVIATIONS = 1.64  # of a range that holds nine times out of ten
MAX_PROGRESS_LEFT = 0.999  # of a sweep with runs left
# A bundle that takes far longer than predicted will take about a quarter of that time more.
OVERDUE_SHARE = 0.25


@dataclass(frozen=True)
class Clock:
    """Seconds that a sweep has been computing since its last result, and since it was started."""

    since_result: float = 0.0
    since_start: float = math.inf


STOPPED = Clock()


@dataclass(frozen=True)
class Remaining:
    """Progress of a sweep, and the work left: processor seconds, and seconds of one worker thread."""

    progress: float
    core_seconds: float
    seconds: float
    deviation: float
    bundles: int
    rates: Mapping[str, float]

    def on_threads(
        self, threads: float, clock: Clock = STOPPED, queue: Queue = EMPTY_QUEUE
    ) -> tuple[float, float, float]:
        """Return the expected, the least and the largest time left on some threads."""
        share, age = min(threads, max(self.bundles, 1)), clock.since_result
        expected = max(self.seconds / share + self._correct_ends(share, clock, queue), 0.0)
        margin, overdue = RANGE_DEVIATIONS * self.deviation / share, OVERDUE_SHARE * age
        return (
            max(expected - age, overdue),
            max(expected - margin - age, 0.0),
            max(expected + margin - age, overdue / OVERDUE_SHARE),
        )

    def _correct_ends(self, threads: float, clock: Clock, queue: Queue) -> float:
        """Seconds for which threads are idle at the end, minus those already spent on running bundles.

        On average, half of a bundle is done while others end, and half of one is computed while others idle.
        """
        size = math.ceil(threads)
        running = min(0.5 * self._mean_seconds(queue.first[:size]), clock.since_start)
        return (1.0 - 1.0 / size) * (0.5 * self._mean_seconds(queue.last[:size]) - running)

    def _mean_seconds(self, bundles: Sequence[tuple[str, float]]) -> float:
        """Seconds of one of these bundles, given by class of work and predicted cost."""
        return _ratio(sum(self.rates.get(name, 1.0) * cost for name, cost in bundles), len(bundles), 0.0)


def predict_remaining(work: Mapping[str, WorkTotals], stretch: float | None = None) -> Remaining:
    """Predict the rest of a sweep from the sums of its bundles by class of work.

    `stretch` is the time that now passes in a second of processor time; by default, that of the whole sweep.
    """
    elapsed, seconds = (sum(getattr(part, name) for part in work.values()) for name in ("elapsed", "seconds"))
    average = _ratio(elapsed, seconds)
    stretch = average if stretch is None else stretch
    done = left = dropped = core_seconds = variance = 0.0
    rates: dict[str, float] = {}
    for name, part in work.items():
        weight = PRIOR_BUNDLES * _ratio(part.cost_left, part.bundles_left, 0.0)
        core_rate = _ratio(part.seconds + weight, part.cost_done + weight)
        rates[name] = rate = stretch * core_rate
        core_seconds += core_rate * part.cost_left
        done, left = done + rate * part.cost_done, left + rate * part.cost_left
        dropped += rate * part.cost_dropped
        variance += (stretch / average) ** 2 * _prediction_variance(part, average * core_rate)
    total = done + left + dropped
    bundles = sum(part.bundles_left for part in work.values())
    progress = min(done / total if total else 1.0, MAX_PROGRESS_LEFT if bundles else 1.0)
    deviation = math.hypot(math.sqrt(variance), MIN_SPREAD * left)
    return Remaining(progress, core_seconds, left, deviation, bundles, rates)


def _prediction_variance(part: WorkTotals, rate: float) -> float:
    """Variance of the seconds left: that of the remaining bundles, and that of the rate."""
    if not part.cost_left:
        return 0.0
    if not part.bundles or not part.cost_done:
        return (PRIOR_SPREAD * rate * part.cost_left) ** 2
    prior = (PRIOR_SPREAD * rate) ** 2 * part.cost_done / part.bundles
    scatter = max(part.squares - part.elapsed**2 / part.cost_done, 0.0)
    per_cost = (scatter + prior) / part.bundles  # one degree of freedom is that of the prediction
    return per_cost * part.cost_left * (1.0 + part.cost_left / part.cost_done)


def _ratio(value: float, divisor: float, otherwise: float = 1.0) -> float:
    return value / divisor if divisor else otherwise
