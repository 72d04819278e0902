"""The regime that `auto` chooses is nearly the best one, judged by SGD on a map of (d, p, γ/p)."""

import numpy as np
import pytest

from sweep_service import integrate, simulate
from sweep_service.dynamics.auto import CANDIDATES, choose_regime, is_defined
from sweep_service.model.point import Point
from tests.physics.sgd_reference import GAUSSIAN

SEEDS, REPEATS = 4, 8
MAX_TIME = 20.0


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rate", [0.05, 0.3, 1.0, 3.0])
@pytest.mark.parametrize(("d", "p"), [(30, 4), (200, 4), (30, 16), (200, 16), (200, 80)])
def test_chosen_regime_is_nearly_the_best(d, p, rate, record_property):
    parameters = {"d": d, "p": p, "k": 2, "gamma": rate * p, "init": GAUSSIAN}
    point = Point.parse(parameters)
    times = np.concatenate([[0.0], sample_times(rate / d)])
    seeds = {"seed": range(SEEDS), "observables": ["risk"], "overlaps": False}
    sgd = simulate(parameters, times=times, repeat=range(REPEATS), **seeds).risk.mean(["seed", "repeat"])
    errors = {
        regime: find_error(sgd, integrate(parameters, regime=regime, times=times, **seeds).risk.mean("seed"))
        for regime in CANDIDATES
        if is_defined(point, point.start(0), regime)
    }
    choice = choose_regime(point, point.start(0))
    record_property("errors", {regime: round(error, 4) for regime, error in errors.items()})
    # a factor for predictions that are not exact, and the error that `auto` accepts for a lower price
    assert errors[choice.regime] <= 1.5 * min(errors.values()) + 0.02, (choice, errors)


def sample_times(delta_t):
    """Multiples of δt, so that SGD is compared at the steps it takes."""
    return np.unique(np.round(np.geomspace(max(1.0, 0.05 / delta_t), MAX_TIME / delta_t, 40))) * delta_t


def find_error(sgd, theory):
    """sup_t |R_SGD - R| in units of R(0); both are averages over the same starts."""
    return float(np.max(np.abs(sgd.values - theory.values)) / sgd.values[0])
