"""How far a sweep is and how much work is left, from what its own bundles took.

Each class of work (a simulator or a regime) has its own rate: processor seconds of its bundles over their
predicted cost, the ratio of sums, whose error follows from the scatter of the bundles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sweep_service.store.ledger import WorkTotals

PRIOR_BUNDLES = 0.1  # weight of the prediction, in bundles, against what was measured
PRIOR_SPREAD = 0.5  # relative error of a prediction, or of a single bundle, before anything is measured
MAX_PROGRESS_LEFT = 0.999  # of a sweep with runs left


@dataclass(frozen=True)
class Remaining:
    """Progress of a sweep, and the processor seconds that are left, with their standard deviation.

    `rates` are processor seconds per predicted second by class of work. `stretch` is the mean time that
    passed in a processor second.
    """

    progress: float
    core_seconds: float
    deviation: float
    bundles: int
    rates: Mapping[str, float]
    stretch: float

    def bundle_seconds(self, work_class: str, cost: float) -> float:
        """Return the expected processor seconds of a bundle with this predicted cost."""
        return self.rates.get(work_class, 1.0) * cost


def predict_remaining(work: Mapping[str, WorkTotals]) -> Remaining:
    """Predict the rest of a sweep from the sums of its bundles by class of work."""
    elapsed, seconds = (sum(getattr(part, name) for part in work.values()) for name in ("elapsed", "seconds"))
    done = left = dropped = variance = 0.0
    rates: dict[str, float] = {}
    for name, part in work.items():
        weight = PRIOR_BUNDLES * _ratio(part.cost_left, part.bundles_left, 0.0)
        rates[name] = rate = _ratio(part.seconds + weight, part.cost_done + weight)
        done, left = done + rate * part.cost_done, left + rate * part.cost_left
        dropped += rate * part.cost_dropped
        variance += _prediction_variance(part, rate)
    total = done + left + dropped
    bundles = sum(part.bundles_left for part in work.values())
    progress = min(done / total if total else 1.0, MAX_PROGRESS_LEFT if bundles else 1.0)
    return Remaining(progress, left, math.sqrt(variance), bundles, rates, _ratio(elapsed, seconds))


def _prediction_variance(part: WorkTotals, rate: float) -> float:
    """Variance of the processor seconds left: that of the remaining bundles, and that of the rate."""
    if not part.cost_left:
        return 0.0
    if not part.bundles or not part.cost_done:
        return (PRIOR_SPREAD * rate * part.cost_left) ** 2
    prior = (PRIOR_SPREAD * rate) ** 2 * part.cost_done / part.bundles
    scatter = max(part.squares - part.seconds**2 / part.cost_done, 0.0)
    per_cost = (scatter + prior) / part.bundles  # one degree of freedom is that of the prediction
    return per_cost * part.cost_left * (1.0 + part.cost_left / part.cost_done)


def _ratio(value: float, divisor: float, otherwise: float = 1.0) -> float:
    return value / divisor if divisor else otherwise
